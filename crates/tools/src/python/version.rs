//! `requires-python`: matches Python versions against PEP 440 specifiers.

use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifier};

/// Specifiers that must all match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionSpecifiers(pep440_rs::VersionSpecifiers);

impl VersionSpecifiers {
    /// Parses `>=3.9,<3.13`; `None` if invalid. Empty parts are skipped, so a trailing comma is allowed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        let specifiers: Result<_, _> = parts.map(VersionSpecifier::from_str).collect();
        specifiers.ok().map(Self)
    }

    /// Whether a version matches.
    pub(crate) fn matches(&self, version: [u32; 3]) -> bool {
        self.0.contains(&Version::new(version.map(u64::from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_follow_pep_440() {
        for (text, version, admits) in [
            (">=3.9,<3.13", [3, 11, 7], true),
            (">=3.9,<3.13", [3, 13, 0], false),
            ("~=3.10", [3, 12, 1], true),
            ("~=3.10", [4, 0, 0], false),
            ("~=3.11.2", [3, 12, 0], false),
            ("==3.11.*", [3, 11, 9], true),
            ("==3.11", [3, 11, 9], false),
            ("!=3.11.*", [3, 11, 9], false),
            (">3.11", [3, 11, 1], true),
            ("<= 3.11", [3, 11, 0], true),
            ("", [3, 8, 0], true),
        ] {
            assert_eq!(
                VersionSpecifiers::parse(text).unwrap().matches(version),
                admits,
                "{text} {version:?}"
            );
        }
    }

    #[test]
    fn invalid_specifiers_are_rejected() {
        for text in ["3.9", ">=three", "~=3", ">=3.*"] {
            assert_eq!(VersionSpecifiers::parse(text), None, "{text}");
        }
    }
}
