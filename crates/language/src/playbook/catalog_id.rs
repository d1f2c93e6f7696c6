//! The id of a catalog entry, `path@version`.

/// Splits an id into the path and, if present, the version.
pub fn parse_catalog_id(id: &str) -> (&str, Option<u32>) {
    let parts = id.rsplit_once('@');
    let parts = parts.and_then(|(path, version)| Some((path, version.parse().ok()?)));
    parts.map_or((id, None), |(path, version)| (path, Some(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_path_with_or_without_a_version() {
        assert_eq!(parse_catalog_id("team/load@3"), ("team/load", Some(3)));
        assert_eq!(parse_catalog_id("team/load"), ("team/load", None));
        assert_eq!(parse_catalog_id("a@b"), ("a@b", None));
    }
}
