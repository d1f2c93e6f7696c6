//! Which NATS servers offer what the engine and its tools ask of them.

/// The oldest server that is known to do.
pub const NATS_WANTED: &str = "2.10";

/// What is wrong with a server of this version; nothing if it will do, or if the version cannot be read.
pub fn problem(version: &str) -> Option<String> {
    let (found, wanted) = (numbers(version)?, numbers(NATS_WANTED)?);
    (found < wanted)
        .then(|| format!("NATS {version} is too old; {NATS_WANTED} or a newer version is needed"))
}

/// The first two numbers of a version: `2.9.10` has 2 and 9.
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
            let said = problem(version).expect("it is too old");
            assert!(said.contains(version) && said.contains("2.10"), "{said}");
        }
    }
}
