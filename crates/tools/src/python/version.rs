//! `requires-python`: matches Python versions against PEP 440 specifiers for releases.

/// Specifiers that must all match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionSpecifiers(Vec<VersionSpecifier>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct VersionSpecifier {
    operator: VersionOperator,
    release: Vec<u32>,
    /// Whether it ends in `.*`.
    is_prefix: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionOperator {
    Compatible,
    Equal,
    NotEqual,
    AtLeast,
    AtMost,
    Above,
    Below,
}

/// Longer operators first, because `>` is a prefix of `>=`.
const OPERATORS: [(&str, VersionOperator); 8] = [
    ("===", VersionOperator::Equal),
    ("~=", VersionOperator::Compatible),
    ("==", VersionOperator::Equal),
    ("!=", VersionOperator::NotEqual),
    (">=", VersionOperator::AtLeast),
    ("<=", VersionOperator::AtMost),
    (">", VersionOperator::Above),
    ("<", VersionOperator::Below),
];

impl VersionSpecifiers {
    /// Parses `>=3.9,<3.13`; `None` if invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        parts
            .map(VersionSpecifier::parse)
            .collect::<Option<Vec<_>>>()
            .map(Self)
    }

    /// Whether a version matches.
    pub(crate) fn matches(&self, version: [u32; 3]) -> bool {
        self.0.iter().all(|specifier| specifier.matches(version))
    }
}

impl VersionSpecifier {
    fn parse(text: &str) -> Option<Self> {
        let (spelling, operator) = OPERATORS
            .iter()
            .find(|(spelling, _)| text.starts_with(spelling))?;
        let rest = text[spelling.len()..].trim();
        let (rest, is_prefix) = match rest.strip_suffix(".*") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let release = rest.split('.').map(|part| part.parse().ok());
        let release = release.collect::<Option<Vec<u32>>>()?;
        let takes_prefix = matches!(operator, VersionOperator::Equal | VersionOperator::NotEqual);
        let is_short = *operator == VersionOperator::Compatible && release.len() < 2;
        (!is_short && (takes_prefix || !is_prefix)).then_some(Self {
            operator: *operator,
            release,
            is_prefix,
        })
    }

    fn matches(&self, version: [u32; 3]) -> bool {
        let mut wanted = [0; 3];
        for (place, part) in wanted.iter_mut().zip(&self.release) {
            *place = *part;
        }
        let begins = |length: usize| {
            let length = length.min(3);
            version[..length] == wanted[..length]
        };
        let length = if self.is_prefix {
            self.release.len()
        } else {
            3
        };
        match self.operator {
            VersionOperator::Compatible => version >= wanted && begins(self.release.len() - 1),
            VersionOperator::Equal => begins(length),
            VersionOperator::NotEqual => !begins(length),
            VersionOperator::AtLeast => version >= wanted,
            VersionOperator::AtMost => version <= wanted,
            VersionOperator::Above => version > wanted,
            VersionOperator::Below => version < wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_means_what_pep_440_says() {
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
    fn what_cannot_be_read_is_not_guessed() {
        for text in ["3.9", ">=three", "~=3", ">=3.*"] {
            assert_eq!(VersionSpecifiers::parse(text), None, "{text}");
        }
    }
}
