//! Checks whether a NATS server has the features that the engine and the tools need.

/// The oldest supported version.
pub const NATS_WANTED: &str = "2.10";

/// Returns why a version is not supported; `None` if it is supported or cannot be parsed.
pub fn problem(version: &str) -> Option<String> {
    let (found, wanted) = (numbers(version)?, numbers(NATS_WANTED)?);
    (found < wanted)
        .then(|| format!("NATS {version} is too old; {NATS_WANTED} or a newer version is needed"))
}

/// Returns the major and minor version: 2 and 9 for `2.9.10`.
fn numbers(version: &str) -> Option<[u32; 2]> {
    let mut parts = version.trim_start_matches('v').split(['.', '-']);
    let mut number = || parts.next()?.parse().ok();
    Some([number()?, number()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_older_server_is_a_problem() {
        for version in ["2.10.0", "2.10.29-RC.1", "v2.15.1", "3.0", "", "unknown"] {
            assert_eq!(problem(version), None, "{version}");
        }
        for version in ["2.9.10", "1.99.0", "v2.2.6"] {
            let said = problem(version).expect("the version is too old");
            assert!(said.contains(version) && said.contains("2.10"), "{said}");
        }
    }
}
