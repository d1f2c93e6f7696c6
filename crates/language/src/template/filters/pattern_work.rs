//! Estimates the work of compiling a pattern and of searching a text with it.
//!
//! A search reads a text once, but may be at many positions of the pattern at a time. After each match, some patterns
//! are tried up to the end of the text without a longer match.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Maximum number of positions of a pattern without groups for which a search takes one step per character.
const FREE_PLACES_MAX: usize = 64;
/// Number of groups that double the cost of a step.
const GROUPS_OF_STEP: usize = 16;
/// Number of positions that a search checks at the cost of one character.
const PLACES_OF_CHARACTER: usize = 2;
/// The same for a search that only looks further ahead, which is faster.
const PLACES_AHEAD_OF_CHARACTER: usize = 16;
/// Cost of compiling a state, in characters read.
const STATE_WORK: usize = 32;
/// Number of states of a compiled pattern of the maximum size.
const STATES_MAX: usize = 8 * 1024;
/// Bytes that a search stores for each state and group.
const SLOT_BYTES: usize = 8;

/// Estimated cost of a pattern.
#[derive(Clone, Copy, Default)]
pub(crate) struct PatternWork {
    /// Number of characters that a pattern matches in sequence, with every repetition expanded.
    characters: usize,
    /// Approximate number of states after compilation: a character class has one for each of its ranges.
    states: usize,
    groups: usize,
    /// Whether a search may read far beyond a match before it accepts the match.
    looks_ahead: bool,
}

impl PatternWork {
    /// Estimates a pattern with these flags. An invalid pattern costs nothing, because it is not compiled.
    pub(crate) fn estimate(text: &str, ignore_case: bool, multiline: bool) -> Self {
        let parsed = ParserBuilder::new()
            .case_insensitive(ignore_case)
            .multi_line(multiline)
            .build()
            .parse(text);
        parsed.map_or_else(
            |_| Self::default(),
            |hir| Self {
                characters: count(&hir, &|_| 1),
                states: count(&hir, &ranges).min(STATES_MAX),
                groups: hir.properties().explicit_captures_len(),
                looks_ahead: looks_ahead(&hir, false),
            },
        )
    }

    /// Number of groups.
    pub(crate) fn groups(self) -> usize {
        self.groups
    }

    /// Cost of compiling the pattern.
    pub(crate) fn compile_cost(self) -> usize {
        self.states * STATE_WORK
    }

    /// Bytes that a search stores.
    pub(crate) fn search_memory_bytes(self) -> usize {
        self.states * self.groups * SLOT_BYTES
    }

    /// Cost of searching a text once.
    pub(crate) fn search_cost(self, bytes: usize) -> usize {
        if self.groups == 0 && self.characters <= FREE_PLACES_MAX {
            return bytes;
        }
        let characters = self
            .characters
            .saturating_mul(GROUPS_OF_STEP + self.groups)
            .div_ceil(GROUPS_OF_STEP * PLACES_OF_CHARACTER);
        bytes.saturating_mul(characters)
    }

    /// Cost of a match with this many bytes of text after it.
    pub(crate) fn look_ahead_cost(self, bytes: usize) -> usize {
        if !self.looks_ahead {
            return 0;
        }
        bytes.saturating_mul(self.characters) / PLACES_AHEAD_OF_CHARACTER
    }
}

/// Number of characters and classes that a pattern has in sequence; `of_class` returns the count of a class.
fn count(hir: &Hir, of_class: &impl Fn(&Class) -> usize) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(class) => of_class(class),
        HirKind::Capture(capture) => count(&capture.sub, of_class),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.max(1));
            count(&repetition.sub, of_class).saturating_mul(times as usize)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts
            .iter()
            .fold(0, |sum, part| sum.saturating_add(count(part, of_class))),
    }
}

/// Number of character ranges of a class.
fn ranges(class: &Class) -> usize {
    match class {
        Class::Unicode(class) => class.ranges().len(),
        Class::Bytes(class) => class.ranges().len(),
    }
}

/// Whether an unbounded repetition is inside an alternative or another repetition: the search may then try it up to the
/// end of the text after it has found a match.
fn looks_ahead(hir: &Hir, is_inside: bool) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Literal(_) | HirKind::Class(_) => false,
        HirKind::Capture(capture) => looks_ahead(&capture.sub, is_inside),
        HirKind::Repetition(repetition) => {
            (is_inside && repetition.max.is_none()) || looks_ahead(&repetition.sub, true)
        }
        HirKind::Concat(parts) => parts.iter().any(|part| looks_ahead(part, is_inside)),
        HirKind::Alternation(parts) => parts.iter().any(|part| looks_ahead(part, true)),
    }
}
