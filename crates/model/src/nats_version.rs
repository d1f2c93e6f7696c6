//! Checks whether a NATS server has the features that the engine and the tools need.

/// The oldest supported version.
pub const NATS_VERSION_MIN: &str = "2.10";

/// Returns why a version is not supported; `None` if it is supported or cannot be parsed.
pub fn check_version(version: &str) -> Option<String> {
    let (version_numbers, minimum) = (major_minor(version)?, major_minor(NATS_VERSION_MIN)?);
    (version_numbers < minimum)
        .then(|| format!("NATS {version} is too old; {NATS_VERSION_MIN} or a newer version is needed"))
}

/// Returns the major and minor version: 2 and 9 for `2.9.10`.
fn major_minor(version: &str) -> Option<[u32; 2]> {
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
            assert_eq!(check_version(version), None, "{version}");
        }
        for version in ["2.9.10", "1.99.0", "v2.2.6"] {
            let message = check_version(version).expect("the version is too old");
            assert!(message.contains(version) && message.contains("2.10"), "{message}");
        }
    }
}
