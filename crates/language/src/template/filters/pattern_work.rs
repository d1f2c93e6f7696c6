//! How much work a pattern is: to compile it, and to search a text with it.
//!
//! A search goes through a text once, but may be in as many places of the pattern at a time as there are, and after each
//! match some patterns are followed to the end of the text in vain.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// How many places a pattern without groups may have for a search to take one step a character.
const FREE_PLACES_MAX: usize = 64;
/// How many groups double the cost of a step.
const GROUPS_OF_STEP: usize = 16;
/// How many of the places a search passes at the price of one character.
const PLACES_OF_CHARACTER: usize = 2;
/// The same where a search only looks further ahead, which is faster.
const PLACES_AHEAD_OF_CHARACTER: usize = 16;
/// What it costs to compile a state, in characters read.
const STATE_WORK: usize = 32;
/// How many states there are in a compiled pattern of the largest size.
const STATES_MAX: usize = 8 * 1024;
/// What a search remembers for each state and group.
const SLOT_BYTES: usize = 8;

/// What a pattern costs.
#[derive(Clone, Copy, Default)]
pub(crate) struct PatternWork {
    /// How many characters a pattern matches one after the other, with every repetition written out.
    places: usize,
    /// How many states it is compiled to, about: a class of characters has one for each of its ranges.
    states: usize,
    groups: usize,
    /// Whether a search may look far behind a match before it knows that it is one.
    looks_ahead: bool,
}

impl PatternWork {
    /// Of a pattern with these flags. A text that is no pattern costs nothing, because it is not compiled.
    pub(crate) fn of(text: &str, ignore_case: bool, multiline: bool) -> Self {
        let parsed = ParserBuilder::new()
            .case_insensitive(ignore_case)
            .multi_line(multiline)
            .build()
            .parse(text);
        parsed.map_or_else(
            |_| Self::default(),
            |hir| Self {
                places: count(&hir, &|_| 1),
                states: count(&hir, &ranges).min(STATES_MAX),
                groups: hir.properties().explicit_captures_len(),
                looks_ahead: looks_ahead(&hir, false),
            },
        )
    }

    /// How many groups it has.
    pub(crate) fn groups(self) -> usize {
        self.groups
    }

    /// For compiling it.
    pub(crate) fn compiling(self) -> usize {
        self.states * STATE_WORK
    }

    /// What a search remembers, in bytes.
    pub(crate) fn memory(self) -> usize {
        self.states * self.groups * SLOT_BYTES
    }

    /// For going through a text once.
    pub(crate) fn through(self, bytes: usize) -> usize {
        if self.groups == 0 && self.places <= FREE_PLACES_MAX {
            return bytes;
        }
        let places = self
            .places
            .saturating_mul(GROUPS_OF_STEP + self.groups)
            .div_ceil(GROUPS_OF_STEP * PLACES_OF_CHARACTER);
        bytes.saturating_mul(places)
    }

    /// For a match after which so many bytes of the text remain.
    pub(crate) fn ahead(self, bytes: usize) -> usize {
        if !self.looks_ahead {
            return 0;
        }
        bytes.saturating_mul(self.places) / PLACES_AHEAD_OF_CHARACTER
    }
}

/// How many characters and classes a pattern has one after the other, each class counted as `of_class` says.
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

/// How many ranges of characters a class has.
fn ranges(class: &Class) -> usize {
    match class {
        Class::Unicode(class) => class.ranges().len(),
        Class::Bytes(class) => class.ranges().len(),
    }
}

/// Whether a repetition without end stands in an alternative or in another repetition: the search may prefer it to a match
/// that it has found, and follow it in vain.
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
