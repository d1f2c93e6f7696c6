//! Masking by value: every form of every secret of an execution becomes `***`, found in one pass.

use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use model::outcome::{Facets, Outcome, TaskError};
use model::result_ref::ResultRef;
use serde_json::{Map, Value};

use crate::secrets::edges::Edges;
use crate::secrets::forms::forms;

/// What stands in place of a secret.
const MASK: &[u8] = b"***";
/// What tools cut off is no shorter than this. A short text is whole: what it ends with may begin like a secret, as
/// `https://` does, and stays.
pub(crate) const CUT_BYTES_MIN: usize = 4_000;

/// The secrets of an execution, in all their forms.
pub(crate) struct Masks {
    finder: AhoCorasick,
    edges: Edges,
    longest: usize,
}

impl Masks {
    /// Masks for these texts; none where there are none.
    pub(super) fn of(texts: &BTreeSet<String>) -> Option<Self> {
        let mut all = BTreeSet::new();
        for text in texts {
            forms(text, &mut all);
        }
        let longest = all.iter().map(Vec::len).max()?;
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // Held for every run: small matters more than the last bit of speed.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&all)
            .expect("the secrets of a run are few and short");
        let edges = Edges::of(&all);
        Some(Self {
            finder,
            edges,
            longest,
        })
    }

    /// How long the longest form is.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Masks what begins before `cut`; answers what came out and how much went in.
    pub(super) fn pass(&self, bytes: &[u8], cut: usize) -> (Vec<u8>, usize) {
        let mut out = Vec::with_capacity(cut);
        let mut at = 0;
        for found in self.finder.find_iter(bytes) {
            if found.start() >= cut {
                break;
            }
            out.extend_from_slice(&bytes[at..found.start()]);
            out.extend_from_slice(&mask(&bytes[found.range()]));
            at = found.end();
        }
        if at < cut {
            out.extend_from_slice(&bytes[at..cut]);
            at = cut;
        }
        (out, at)
    }

    /// The text with what must not show masked; none where it may stay as it is.
    pub(crate) fn text(&self, text: &str) -> Option<String> {
        if text.len() >= CUT_BYTES_MIN {
            return self.cut_text(text);
        }
        self.finder.find(text)?;
        let found = self.finder.find_iter(text).map(|found| found.range());
        Some(masked(text, found))
    }

    /// The same for a text that may have been cut off: half a secret at its edges is masked too.
    pub(crate) fn cut_text(&self, text: &str) -> Option<String> {
        let begin = self.edges.before(text);
        let end = self.edges.after(text).max(begin);
        let all = self.finder.find_iter(text).map(|found| found.range());
        let mut found: Vec<Range<usize>> = all.collect();
        found.extend([0..begin, end..text.len()]);
        found.retain(|range| !range.is_empty());
        found.sort_by_key(|range| (range.start, range.end));
        (!found.is_empty()).then(|| masked(text, found.into_iter()))
    }

    /// Masks every text, number and key in a value.
    pub(crate) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(masked) = self.text(text) {
                    *text = masked;
                }
            }
            Value::Number(number) => {
                if self.finder.is_match(&number.to_string()) {
                    *value = "***".into();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => self.map(map),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The same for a map.
    pub(crate) fn map(&self, map: &mut Map<String, Value>) {
        map.values_mut().for_each(|value| self.value(value));
        if map.keys().any(|key| self.finder.is_match(key)) {
            let pairs = std::mem::take(map).into_iter();
            let masked = pairs.map(|(key, value)| (self.text(&key).unwrap_or(key), value));
            *map = masked.collect();
        }
    }

    /// Masks an outcome, what a reference in it shows included.
    pub(crate) fn outcome(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Ok(success) => {
                self.value(&mut success.result);
                if let Some(reference) = &mut success.reference {
                    self.reference(reference);
                }
                self.facets(&mut success.facets);
            }
            Outcome::Error(failure) => {
                self.error(&mut failure.error);
                self.facets(&mut failure.facets);
            }
        }
        self.map(outcome.meta_mut());
    }

    fn facets(&self, facets: &mut Facets) {
        let all = [&mut facets.http, &mut facets.pg, &mut facets.py];
        for facet in all.into_iter().flatten() {
            self.value(facet);
        }
    }

    fn reference(&self, reference: &mut ResultRef) {
        self.map(&mut reference.extracted);
        if let Some(preview) = &mut reference.preview {
            self.value(&mut preview.sample);
        }
    }

    fn error(&self, error: &mut TaskError) {
        if let Some(masked) = self.text(&error.message) {
            error.message = masked;
        }
        self.map(&mut error.details);
    }
}

/// A text with some ranges masked, which come in order and may overlap.
fn masked(text: &str, ranges: impl Iterator<Item = Range<usize>>) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for range in ranges {
        if range.start >= at {
            out.extend_from_slice(&bytes[at..range.start]);
            out.extend_from_slice(MASK);
        }
        at = at.max(range.end);
    }
    out.extend_from_slice(&bytes[at..]);
    String::from_utf8_lossy(&out).into_owned()
}

/// A number stays a number, so that a text of JSON stays one.
fn mask(found: &[u8]) -> Vec<u8> {
    if found.iter().all(u8::is_ascii_digit) {
        return vec![b'9'; found.len()];
    }
    MASK.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masks(texts: &[&str]) -> Masks {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Masks::of(&texts).expect("there are secrets")
    }

    #[test]
    fn a_value_is_masked_in_texts_numbers_and_keys() {
        let mut value = json!({"a canary-1 b": ["xcanary-1", 7_654_321, 765], "b": {"c": "plain"}});
        masks(&["canary-1", "7654321"]).value(&mut value);
        let expected = json!({"a *** b": ["x***", "***", 765], "b": {"c": "plain"}});
        assert_eq!(value, expected);
    }

    #[test]
    fn half_a_secret_at_the_edge_of_a_text_that_was_cut_is_masked() {
        let masks = masks(&["canary-of-a-secret"]);
        let filling = "x".repeat(CUT_BYTES_MIN);
        let cut = format!("a-secret {filling} canary-of-a-secret canary-o");
        let expected = format!("*** {filling} *** ***");
        assert_eq!(masks.text(&cut), Some(expected));
        assert_eq!(masks.text("canary-o"), None);
        assert_eq!(masks.cut_text("canary-o").as_deref(), Some("***"));
        assert_eq!(masks.cut_text("canary-of-a-secret").as_deref(), Some("***"));
        assert_eq!(masks.cut_text("plain"), None);
    }

    #[test]
    fn the_longest_secret_wins_and_clean_text_is_not_copied() {
        let masks = masks(&["canary", "canary-and-more"]);
        assert_eq!(
            masks.text("x canary-and-more y").as_deref(),
            Some("x *** y")
        );
        assert_eq!(masks.text("nothing here"), None);
        assert!(Masks::of(&BTreeSet::new()).is_none());
    }
}
