//! Edges of a text that was cut: the end of a secret where it begins, the beginning of one where it ends.

use std::collections::{BTreeSet, HashMap};

use crate::secrets::forms::BYTES_MIN;

/// What stands for a letter that was cut in two.
const BROKEN: char = '\u{FFFD}';

/// The forms of an execution's secrets, found by how they begin and end.
pub(super) struct Edges {
    forms: Vec<Vec<u8>>,
    longest: usize,
    first: HashMap<[u8; BYTES_MIN], Vec<usize>>,
    last: HashMap<[u8; BYTES_MIN], Vec<usize>>,
}

impl Edges {
    pub(super) fn of(forms: &BTreeSet<Vec<u8>>) -> Self {
        let mut edges = Self {
            forms: forms.iter().cloned().collect(),
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

    /// How many bytes at the beginning of a text are the end of a secret.
    pub(super) fn before(&self, text: &str) -> usize {
        let whole = text.trim_start_matches(BROKEN).as_bytes();
        let reach = whole.len().min(self.longest);
        let found = (BYTES_MIN..=reach).rev().find(|end| {
            let part = &whole[..*end];
            let known = part.last_chunk().and_then(|last| self.last.get(last));
            known.is_some_and(|forms| forms.iter().any(|at| self.forms[*at].ends_with(part)))
        });
        found.map_or(0, |end| text.len() - whole.len() + end)
    }

    /// Where in a text the beginning of a secret stands that reaches to its end.
    pub(super) fn after(&self, text: &str) -> usize {
        let whole = text.trim_end_matches(BROKEN).as_bytes();
        let from = whole.len().saturating_sub(self.longest);
        let mut places = from..(whole.len() + 1).saturating_sub(BYTES_MIN);
        let found = places.find(|at| {
            let part = &whole[*at..];
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
