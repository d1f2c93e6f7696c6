//! Masks secrets by value: replaces every form of every secret of an execution by `***`, in one pass.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use model::outcome::{Facets, Failure, Outcome, TaskError};
use model::result_ref::ResultRef;
use serde_json::{Map, Value};

use crate::secrets::edges::SecretEdges;
use crate::secrets::forms::{SECRET_BYTES_MIN, add_derived_forms, add_forms};

/// Replacement for a secret.
const MASK: &[u8] = b"***";
/// Tools never truncate text to less than this. Shorter texts are complete, so an end that looks like the start of a
/// secret, such as `https://`, is not masked.
pub(crate) const CUT_BYTES_MIN: usize = 4_000;

/// All forms of the secrets of an execution.
pub(crate) struct SecretMasker {
    finder: AhoCorasick,
    edges: SecretEdges,
    longest_bytes: usize,
}

impl SecretMasker {
    /// Creates masks for these texts; `None` if there are none.
    #[cfg(test)]
    pub(super) fn new(texts: &BTreeSet<String>) -> Option<Self> {
        Self::with_derived(texts, &VecDeque::new())
    }

    /// Creates masks for secrets and for texts derived from them; `None` if there is nothing to mask.
    pub(super) fn with_derived(texts: &BTreeSet<String>, derived: &VecDeque<String>) -> Option<Self> {
        let mut all_texts = BTreeSet::new();
        for text in texts {
            add_forms(text, &mut all_texts);
        }
        for text in derived {
            add_derived_forms(text, &mut all_texts);
        }
        let longest = all_texts.iter().map(Vec::len).max()?;
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // The host of a URL is lowercase, whatever the case of the secret.
            .ascii_case_insensitive(true)
            // There is one automaton per execution, so memory matters more than speed.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&all_texts)
            .expect("the secrets of an execution are few and short");
        let edges = SecretEdges::new(&all_texts);
        Some(Self {
            finder,
            edges,
            longest_bytes: longest,
        })
    }

    /// Length of the longest form.
    pub(super) fn longest_bytes(&self) -> usize {
        self.longest_bytes
    }

    /// Masks matches that start before `end_max`; returns the masked bytes and the number of bytes consumed.
    pub(super) fn mask_bytes(&self, bytes: &[u8], end_max: usize) -> (Vec<u8>, usize) {
        self.mask_bytes_with(bytes, end_max, mask_match)
    }

    fn mask_bytes_with(&self, bytes: &[u8], end_max: usize, mask: fn(&[u8]) -> Vec<u8>) -> (Vec<u8>, usize) {
        let mut out = Vec::with_capacity(end_max);
        let mut at = 0;
        for hit in self.finder.find_iter(bytes) {
            if hit.start() >= end_max {
                break;
            }
            out.extend_from_slice(&bytes[at..hit.start()]);
            out.extend_from_slice(&mask(&bytes[hit.range()]));
            at = hit.end();
        }
        if at < end_max {
            out.extend_from_slice(&bytes[at..end_max]);
            at = end_max;
        }
        (out, at)
    }

    /// Returns the masked text; `None` if there is nothing to mask.
    pub(crate) fn mask_text(&self, text: &str) -> Option<String> {
        if text.len() >= CUT_BYTES_MIN {
            return self.mask_cut_text(text);
        }
        self.finder.find(text)?;
        let hit = self.finder.find_iter(text).map(|hit| hit.range());
        Some(mask_ranges(text, hit))
    }

    /// Like `text`, for a text that may be truncated: also masks parts of secrets at its edges.
    pub(crate) fn mask_cut_text(&self, text: &str) -> Option<String> {
        let start = self.edges.leading_suffix_len(text);
        let end = self.edges.trailing_prefix_start(text).max(start);
        let hits = self.finder.find_iter(text).map(|ranges| ranges.range());
        let mut ranges: Vec<Range<usize>> = hits.collect();
        ranges.extend([0..start, end..text.len()]);
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| (range.start, range.end));
        (!ranges.is_empty()).then(|| mask_ranges(text, ranges.into_iter()))
    }

    /// Masks parts of derived texts in an error, from 6 bytes on: programs quote the part that they could not parse.
    pub(crate) fn mask_parts_in_failure(secrets: &[String], failure: &mut Failure) {
        if secrets.is_empty() {
            return;
        }
        let parts = SecretParts::new(secrets);
        parts.mask_text(&mut failure.error.message);
        let details = failure.error.details.values_mut();
        details.for_each(|value| parts.mask_value(value));
        let Facets { http, pg, py } = &mut failure.facets;
        let facets = [http, pg, py].into_iter().flatten();
        facets.for_each(|value| parts.mask_value(value));
    }

    /// Masks every string, number and key in a value.
    pub(crate) fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(masked) = self.mask_text(text) {
                    *text = masked;
                }
            }
            Value::Number(number) => {
                if self.finder.is_match(&number.to_string()) {
                    *value = "***".into();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(map) => self.mask_map(map),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Masks every string, number and key in a map.
    pub(crate) fn mask_map(&self, map: &mut Map<String, Value>) {
        map.values_mut().for_each(|value| self.mask_value(value));
        if map.keys().any(|key| self.finder.is_match(key)) {
            let pairs = std::mem::take(map).into_iter();
            let masked = pairs.map(|(key, value)| (self.mask_text(&key).unwrap_or(key), value));
            *map = masked.collect();
        }
    }

    /// Masks an outcome, including the extracted fields and the preview of its reference.
    pub(crate) fn mask_outcome(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Ok(success) => {
                self.mask_value(&mut success.result);
                if let Some(reference) = &mut success.reference {
                    self.mask_reference(reference);
                }
                self.mask_facets(&mut success.facets);
            }
            Outcome::Error(failure) => {
                self.mask_error(&mut failure.error);
                self.mask_facets(&mut failure.facets);
            }
        }
        self.mask_map(outcome.meta_mut());
    }

    fn mask_facets(&self, facets: &mut Facets) {
        let all_facets = [&mut facets.http, &mut facets.pg, &mut facets.py];
        for facet in all_facets.into_iter().flatten() {
            self.mask_value(facet);
        }
    }

    fn mask_reference(&self, reference: &mut ResultRef) {
        self.mask_map(&mut reference.extracted);
        if let Some(preview) = &mut reference.preview {
            self.mask_value(&mut preview.sample);
        }
    }

    fn mask_error(&self, error: &mut TaskError) {
        if let Some(masked) = self.mask_text(&error.message) {
            error.message = masked;
        }
        self.mask_map(&mut error.details);
    }
}

impl tools::OutputMask for SecretMasker {
    fn mask(&self, bytes: &[u8], is_end: bool) -> (Vec<u8>, usize) {
        let end_max = if is_end {
            bytes.len()
        } else {
            self.edges.open_secret_start(bytes)
        };
        self.mask_bytes_with(bytes, end_max, |_| MASK.to_vec())
    }
}

/// Lowercase parts of some texts.
#[derive(Default)]
struct SecretParts {
    /// Every sequence of 6 bytes.
    byte_runs: HashSet<[u8; SECRET_BYTES_MIN]>,
    /// Every word: databases quote the word at which parsing stopped.
    words: HashSet<String>,
}

/// Shorter words are too common.
const WORD_BYTES_MIN: usize = 3;

/// Longer texts are not split.
const SPLIT_BYTES_MAX: usize = 64 * 1024;

impl SecretParts {
    fn new(texts: &[String]) -> Self {
        let short = texts.iter().filter(|text| text.len() <= SPLIT_BYTES_MAX);
        let mut parts = Self::default();
        for text in short {
            let lower = text.to_ascii_lowercase();
            let runs = lower.as_bytes().windows(SECRET_BYTES_MIN);
            let runs = runs.filter_map(|run| <[u8; SECRET_BYTES_MIN]>::try_from(run).ok());
            parts.byte_runs.extend(runs);
            let words = word_ranges(&lower).map(|range| lower[range].to_owned());
            parts.words.extend(words);
        }
        parts
    }

    fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.mask_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(map) => map.values_mut().for_each(|value| self.mask_value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn mask_text(&self, text: &mut String) {
        let lower = text.to_ascii_lowercase();
        let runs = lower.as_bytes().windows(SECRET_BYTES_MIN).enumerate();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (at, _) in runs.filter(|(_, run)| self.byte_runs.contains(*run)) {
            let end = at + SECRET_BYTES_MIN;
            match ranges.last_mut() {
                Some(last) if last.end >= at => last.end = end,
                _ => ranges.push(at..end),
            }
        }
        ranges.extend(word_ranges(&lower).filter(|word| self.words.contains(&lower[word.clone()])));
        if ranges.is_empty() {
            return;
        }
        ranges.sort_by_key(|range| (range.start, range.end));
        for range in &mut ranges {
            while !text.is_char_boundary(range.start) {
                range.start -= 1;
            }
            while !text.is_char_boundary(range.end) {
                range.end += 1;
            }
        }
        *text = mask_ranges(text, ranges.into_iter());
    }
}

/// Returns the ranges of the words of a text, except short ones.
fn word_ranges(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut from = 0;
    let parts = text.split_inclusive(move |c: char| !is_part(c));
    let ranges = parts.map(move |part| {
        let start = from;
        from += part.len();
        start..start + part.trim_end_matches(move |c: char| !is_part(c)).len()
    });
    ranges.filter(|range| range.len() >= WORD_BYTES_MIN)
}

/// Masks ranges of a text; the ranges are sorted and may overlap.
fn mask_ranges(text: &str, ranges: impl Iterator<Item = Range<usize>>) -> String {
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

/// Replaces digits by digits, so that JSON text stays valid.
fn mask_match(text: &[u8]) -> Vec<u8> {
    if text.iter().all(u8::is_ascii_digit) {
        return vec![b'9'; text.len()];
    }
    MASK.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn build_masker(texts: &[&str]) -> SecretMasker {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        SecretMasker::new(&texts).expect("there are secrets")
    }

    #[test]
    fn a_value_is_masked_in_texts_numbers_and_keys() {
        let mut value = json!({"a canary-1 b": ["xcanary-1", 7_654_321, 765], "b": {"c": "plain"}});
        build_masker(&["canary-1", "7654321"]).mask_value(&mut value);
        let expected = json!({"a *** b": ["x***", "***", 765], "b": {"c": "plain"}});
        assert_eq!(value, expected);
    }

    #[test]
    fn part_of_a_secret_at_the_end_of_a_cut_text_is_masked() {
        let build_masker = build_masker(&["canary-of-a-secret"]);
        let filling = "x".repeat(CUT_BYTES_MIN);
        let text = format!("a-secret {filling} canary-of-a-secret canary-o");
        let expected = format!("*** {filling} *** ***");
        assert_eq!(build_masker.mask_text(&text), Some(expected));
        assert_eq!(build_masker.mask_text("canary-o"), None);
        assert_eq!(build_masker.mask_cut_text("canary-o").as_deref(), Some("***"));
        assert_eq!(build_masker.mask_cut_text("canary-of-a-secret").as_deref(), Some("***"));
        assert_eq!(build_masker.mask_cut_text("plain"), None);
    }

    #[test]
    fn a_secret_is_detected_in_any_case_and_in_parts_quoted_by_errors() {
        let build_masker = build_masker(&["Canary-7F3a"]);
        assert_eq!(
            build_masker.mask_text("at canary-7f3a.org").as_deref(),
            Some("at ***.org")
        );
        let mut error = TaskError::new(
            model::outcome::ErrorKind::ClientError,
            "X",
            "near \"canary\": no such ä-column: -7f3a or 7f3ab",
        );
        error = error.with_detail("statement", json!(["select canary from plain"]));
        let Outcome::Error(mut failure) = Outcome::error(error) else {
            panic!("`Outcome::error` builds an error");
        };
        failure.facets.py = Some(json!({"traceback": "at canary"}));
        let secrets = ["Canary-7F3a".to_owned(), "xä-column".to_owned()];
        SecretMasker::mask_parts_in_failure(&secrets, &mut failure);
        assert_eq!(failure.facets.py, Some(json!({"traceback": "at ***"})));
        let error = failure.error;
        assert_eq!(error.message, "near \"***\": no such ***: -*** or 7f3ab");
        assert_eq!(error.details["statement"], json!(["select *** from plain"]));
    }

    #[test]
    fn output_is_released_up_to_a_possible_start_of_a_secret() {
        use tools::OutputMask as _;
        let build_masker = build_masker(&["canary-of-a-secret", "1234567"]);
        let clean = |bytes: &str, is_end| {
            let (clean, consumed) = build_masker.mask(bytes.as_bytes(), is_end);
            (String::from_utf8(clean).unwrap(), consumed)
        };
        assert_eq!(clean("one line\n", false), ("one line\n".to_owned(), 9));
        assert_eq!(clean("a Canary-of", false), ("a ".to_owned(), 2));
        assert_eq!(clean("a c", false), ("a ".to_owned(), 2));
        assert_eq!(clean("a c", true), ("a c".to_owned(), 3));
        assert_eq!(clean("canary-of-a-secret 1234567", false), ("*** ***".to_owned(), 26));
    }

    #[test]
    fn the_longest_secret_wins_and_clean_text_is_not_copied() {
        let build_masker = build_masker(&["canary", "canary-and-more"]);
        assert_eq!(
            build_masker.mask_text("x canary-and-more y").as_deref(),
            Some("x *** y")
        );
        assert_eq!(build_masker.mask_text("nothing here"), None);
        assert!(SecretMasker::new(&BTreeSet::new()).is_none());
    }
}
