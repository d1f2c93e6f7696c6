//! Finds parts of secrets at the edges of truncated text: the end of a secret at its start, the start of one at its
//! end.

use std::collections::{BTreeSet, HashMap};

use crate::secrets::forms::SECRET_BYTES_MIN;

/// Replacement for a character that was cut in two.
const REPLACEMENT_CHAR: char = '\u{FFFD}';

/// Forms of an execution's secrets, indexed by their first and last bytes.
pub(super) struct SecretEdges {
    /// Lowercase and sorted.
    forms: Vec<Vec<u8>>,
    longest_bytes: usize,
    by_prefix: HashMap<[u8; SECRET_BYTES_MIN], Vec<usize>>,
    by_suffix: HashMap<[u8; SECRET_BYTES_MIN], Vec<usize>>,
}

impl SecretEdges {
    pub(super) fn new(forms: &BTreeSet<Vec<u8>>) -> Self {
        let lower: BTreeSet<Vec<u8>> = forms.iter().map(|form| form.to_ascii_lowercase()).collect();
        let mut edges = Self {
            forms: lower.into_iter().collect(),
            longest_bytes: forms.iter().map(Vec::len).max().unwrap_or_default(),
            by_prefix: HashMap::new(),
            by_suffix: HashMap::new(),
        };
        for (index, form) in edges.forms.iter().enumerate() {
            if let (Some(first), Some(last)) = (form.first_chunk(), form.last_chunk()) {
                edges.by_prefix.entry(*first).or_default().push(index);
                edges.by_suffix.entry(*last).or_default().push(index);
            }
        }
        edges
    }

    /// Returns the number of bytes at the start of a text that are the end of a secret.
    pub(super) fn leading_suffix_len(&self, text: &str) -> usize {
        let bytes = text.trim_start_matches(REPLACEMENT_CHAR).as_bytes();
        let reach = bytes.len().min(self.longest_bytes);
        let lower = bytes[..reach].to_ascii_lowercase();
        let len = (SECRET_BYTES_MIN..=reach).rev().find(|end| {
            let part = &lower[..*end];
            let candidates = part.last_chunk().and_then(|last| self.by_suffix.get(last));
            candidates.is_some_and(|forms| forms.iter().any(|index| self.forms[*index].ends_with(part)))
        });
        len.map_or(0, |end| text.len() - bytes.len() + end)
    }

    /// Returns the position where a secret may start that continues after the bytes; their length if there is none.
    pub(super) fn open_secret_start(&self, bytes: &[u8]) -> usize {
        let from = bytes.len().saturating_sub(self.longest_bytes);
        let tail = bytes[from..].to_ascii_lowercase();
        let is_open = |at: &usize| {
            let part = &tail[*at..];
            // In sorted order, forms that start with the part come directly after it.
            let next = self.forms.partition_point(|form| form.as_slice() <= part);
            let next = self.forms.get(next);
            next.is_some_and(|form| form.starts_with(part))
        };
        let start = (0..tail.len()).find(is_open);
        start.map_or(bytes.len(), |at| from + at)
    }

    /// Returns the position where the start of a secret begins that reaches to the end of the text.
    pub(super) fn trailing_prefix_start(&self, text: &str) -> usize {
        let bytes = text.trim_end_matches(REPLACEMENT_CHAR).as_bytes();
        let from = bytes.len().saturating_sub(self.longest_bytes);
        let lower = bytes[from..].to_ascii_lowercase();
        let mut positions = from..(bytes.len() + 1).saturating_sub(SECRET_BYTES_MIN);
        let start = positions.find(|at| {
            let part = &lower[*at - from..];
            let candidates = part.first_chunk().and_then(|first| self.by_prefix.get(first));
            candidates.is_some_and(|forms| forms.iter().any(|at| self.forms[*at].starts_with(part)))
        });
        start.unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_secret_are_detected_only_at_the_edges() {
        let edges = SecretEdges::new(&BTreeSet::from([b"canary-of-a-secret".to_vec()]));
        assert_eq!(edges.leading_suffix_len("-secret and more"), "-secret".len());
        assert_eq!(edges.leading_suffix_len("\u{FFFD}secret and more"), 9);
        assert_eq!(edges.leading_suffix_len("ecret and more"), 0);
        assert_eq!(edges.leading_suffix_len("a -secret"), 0);
        assert_eq!(edges.trailing_prefix_start("more canary-of"), 5);
        assert_eq!(edges.trailing_prefix_start("more canar"), 10);
        assert_eq!(edges.trailing_prefix_start("canary-of no"), 12);
        assert_eq!((edges.leading_suffix_len(""), edges.trailing_prefix_start("")), (0, 0));
    }
}
