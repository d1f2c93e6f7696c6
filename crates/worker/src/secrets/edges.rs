//! Finds parts of secrets at the edges of truncated text: the end of a secret at its start, the start of one at its
//! end.

use std::collections::{BTreeSet, HashMap};

use crate::secrets::forms::BYTES_MIN;

/// Replacement for a character that was cut in two.
const BROKEN: char = '\u{FFFD}';

/// Forms of an execution's secrets, indexed by their first and last bytes.
pub(super) struct Edges {
    /// Lowercase and sorted.
    forms: Vec<Vec<u8>>,
    longest: usize,
    first: HashMap<[u8; BYTES_MIN], Vec<usize>>,
    last: HashMap<[u8; BYTES_MIN], Vec<usize>>,
}

impl Edges {
    pub(super) fn of(forms: &BTreeSet<Vec<u8>>) -> Self {
        let lower: BTreeSet<Vec<u8>> = forms.iter().map(|form| form.to_ascii_lowercase()).collect();
        let mut edges = Self {
            forms: lower.into_iter().collect(),
            longest: forms.iter().map(Vec::len).max().unwrap_or_default(),
            first: HashMap::new(),
            last: HashMap::new(),
        };
        for (at, form) in edges.forms.iter().enumerate() {
            if let (Some(first), Some(last)) = (form.first_chunk(), form.last_chunk()) {
                edges.first.entry(*first).or_default().push(at);
                edges.last.entry(*last).or_default().push(at);
            }
        }
        edges
    }

    /// Returns the number of bytes at the start of a text that are the end of a secret.
    pub(super) fn before(&self, text: &str) -> usize {
        let whole = text.trim_start_matches(BROKEN).as_bytes();
        let reach = whole.len().min(self.longest);
        let lower = whole[..reach].to_ascii_lowercase();
        let found = (BYTES_MIN..=reach).rev().find(|end| {
            let part = &lower[..*end];
            let known = part.last_chunk().and_then(|last| self.last.get(last));
            known.is_some_and(|forms| forms.iter().any(|at| self.forms[*at].ends_with(part)))
        });
        found.map_or(0, |end| text.len() - whole.len() + end)
    }

    /// Returns the position where a secret may start that continues after the bytes; their length if there is none.
    pub(super) fn open_from(&self, bytes: &[u8]) -> usize {
        let from = bytes.len().saturating_sub(self.longest);
        let tail = bytes[from..].to_ascii_lowercase();
        let is_open = |at: &usize| {
            let part = &tail[*at..];
            // In sorted order, forms that start with the part come directly after it.
            let next = self.forms.partition_point(|form| form.as_slice() <= part);
            let next = self.forms.get(next);
            next.is_some_and(|form| form.starts_with(part))
        };
        let found = (0..tail.len()).find(is_open);
        found.map_or(bytes.len(), |at| from + at)
    }

    /// Returns the position where the start of a secret begins that reaches to the end of the text.
    pub(super) fn after(&self, text: &str) -> usize {
        let whole = text.trim_end_matches(BROKEN).as_bytes();
        let from = whole.len().saturating_sub(self.longest);
        let lower = whole[from..].to_ascii_lowercase();
        let mut places = from..(whole.len() + 1).saturating_sub(BYTES_MIN);
        let found = places.find(|at| {
            let part = &lower[*at - from..];
            let known = part.first_chunk().and_then(|first| self.first.get(first));
            known.is_some_and(|forms| forms.iter().any(|at| self.forms[*at].starts_with(part)))
        });
        found.unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_secret_are_found_at_the_edges_and_nowhere_else() {
        let edges = Edges::of(&BTreeSet::from([b"canary-of-a-secret".to_vec()]));
        assert_eq!(edges.before("-secret and more"), "-secret".len());
        assert_eq!(edges.before("\u{FFFD}secret and more"), 9);
        assert_eq!(edges.before("ecret and more"), 0);
        assert_eq!(edges.before("a -secret"), 0);
        assert_eq!(edges.after("more canary-of"), 5);
        assert_eq!(edges.after("more canar"), 10);
        assert_eq!(edges.after("canary-of no"), 12);
        assert_eq!((edges.before(""), edges.after("")), (0, 0));
    }
}
