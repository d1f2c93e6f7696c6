//! Quotes that are open, and the bodies of routines, which are programs in dollar quotes.
//!
//! A body is read as a statement is, so that a value in it is placed by where it stands there. Its tag ends it wherever
//! it stands, as the database reads it.

use crate::sql::quote::choose_tag;
use crate::sql::statement::LineMark;
use crate::sql::statement_words::{QuotedText, StatementWords};

/// The quotes that opened last.
#[derive(Debug, Clone)]
pub(super) struct OpenQuotes {
    /// Where their sign begins.
    start: usize,
    /// Where what they hold begins.
    content: usize,
    kind: QuotedText,
}

impl Default for OpenQuotes {
    fn default() -> Self {
        Self {
            start: 0,
            content: 0,
            kind: QuotedText::Value,
        }
    }
}

impl OpenQuotes {
    pub(super) fn open(&mut self, start: usize, content: usize, kind: QuotedText) {
        *self = Self { start, content, kind };
    }

    /// What the text in them is.
    pub(super) fn kind(&self) -> QuotedText {
        self.kind
    }

    /// Whether a comma stands before them, so that they are an argument of their own.
    pub(super) fn is_after_comma(&self, text: &str) -> bool {
        let before = text.get(..self.start).unwrap_or_default();
        before.trim_end_matches(['e', 'E']).trim_end().ends_with(',')
    }

    /// Closes dollar quotes, with another tag if a value in them holds theirs.
    pub(super) fn close(&self, tag: &str, text: &mut String, lines: &mut [LineMark]) {
        let content = text.get(self.content..).unwrap_or_default();
        let fitting = choose_tag(tag, content);
        if fitting != tag {
            text.replace_range(self.start..self.content, &fitting);
            let grown = fitting.len().saturating_sub(tag.len());
            let shrunk = tag.len().saturating_sub(fitting.len());
            let inside = lines.iter_mut().filter(|mark| mark.offset >= self.content);
            inside.for_each(|mark| mark.offset = mark.offset + grown - shrunk);
        }
        text.push_str(&fitting);
    }
}

/// The bodies that are open, the outermost first.
#[derive(Debug, Default)]
pub(super) struct RoutineBodies {
    open_bodies: Vec<RoutineBody>,
    has_values: bool,
}

/// A body, and what was read of the statement around it.
#[derive(Debug)]
pub(super) struct RoutineBody {
    pub(super) tag: String,
    pub(super) words: StatementWords,
    pub(super) quotes: OpenQuotes,
}

impl RoutineBodies {
    pub(super) fn is_empty(&self) -> bool {
        self.open_bodies.is_empty()
    }

    pub(super) fn enter(&mut self, tag: String, words: StatementWords, quotes: OpenQuotes) {
        self.open_bodies.push(RoutineBody { tag, words, quotes });
    }

    /// Ends the body whose tag stands here, and whatever is open in it.
    pub(super) fn leave(&mut self, text: &[char]) -> Option<RoutineBody> {
        let is_here = |body: &RoutineBody| {
            let tag = body.tag.chars();
            tag.eq(text.iter().copied().take(body.tag.chars().count()))
        };
        let at = self.open_bodies.iter().position(is_here)?;
        self.open_bodies.drain(at..).next()
    }

    /// Takes note of a value in a body.
    pub(super) fn mark_value(&mut self) {
        self.has_values |= !self.is_empty();
    }

    /// Whether a value stands in a body of the statement that ends.
    pub(super) fn take_has_values(&mut self) -> bool {
        std::mem::take(&mut self.has_values)
    }

    /// Gives up all bodies, and returns the words of the statement around them.
    pub(super) fn clear(&mut self) -> Option<StatementWords> {
        self.open_bodies.drain(..).next().map(|body| body.words)
    }
}
