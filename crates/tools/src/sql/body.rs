//! Open quotes, and routine bodies, which are programs in dollar quotes.
//!
//! A body is read like a statement, so that a value in it is inserted by its context there. The tag of the body ends it
//! in every context, as in the database.

use crate::sql::quote::choose_tag;
use crate::sql::statement::LineMark;
use crate::sql::statement_words::{QuotedText, StatementWords};

/// The quotes that were opened last.
#[derive(Debug, Clone)]
pub(super) struct OpenQuotes {
    /// Position of the opening quote.
    start: usize,
    /// Position of the content.
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

    /// Role of the quoted text.
    pub(super) fn kind(&self) -> QuotedText {
        self.kind
    }

    /// Whether a comma precedes them, so that they are a separate argument.
    pub(super) fn is_after_comma(&self, text: &str) -> bool {
        let before = text.get(..self.start).unwrap_or_default();
        before.trim_end_matches(['e', 'E']).trim_end().ends_with(',')
    }

    /// Closes dollar quotes; replaces their tag if a value inside contains it.
    pub(super) fn close(&self, tag: &str, text: &mut String, lines: &mut [LineMark]) {
        let content = text.get(self.content..).unwrap_or_default();
        let new_tag = choose_tag(tag, content);
        if new_tag != tag {
            text.replace_range(self.start..self.content, &new_tag);
            let added = new_tag.len().saturating_sub(tag.len());
            let removed = tag.len().saturating_sub(new_tag.len());
            let moved = lines.iter_mut().filter(|mark| mark.offset >= self.content);
            moved.for_each(|mark| mark.offset = mark.offset + added - removed);
        }
        text.push_str(&new_tag);
    }
}

/// Open bodies, outermost first.
#[derive(Debug, Default)]
pub(super) struct RoutineBodies {
    open_bodies: Vec<RoutineBody>,
    has_values: bool,
}

/// An open body, with the state of the statement around it.
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

    /// Ends the body whose tag is next, with everything that is open in it.
    pub(super) fn exit(&mut self, text: &[char]) -> Option<RoutineBody> {
        let ends_here = |body: &RoutineBody| {
            let tag = body.tag.chars();
            tag.eq(text.iter().copied().take(body.tag.chars().count()))
        };
        let index = self.open_bodies.iter().position(ends_here)?;
        self.open_bodies.drain(index..).next()
    }

    /// Records a value in a body.
    pub(super) fn mark_value(&mut self) {
        self.has_values |= !self.is_empty();
    }

    /// Whether a body of the statement contains a value; resets the flag.
    pub(super) fn take_has_values(&mut self) -> bool {
        std::mem::take(&mut self.has_values)
    }

    /// Drops all bodies and returns the words of the statement around them.
    pub(super) fn clear(&mut self) -> Option<StatementWords> {
        self.open_bodies.drain(..).next().map(|body| body.words)
    }
}
