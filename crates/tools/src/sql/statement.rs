//! A statement with the values that were put in, and the texts in which it can be sent.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use crate::sql::quote::{SignStyle, sql_literal};
use crate::sql::sql_context::{SqlDialect, is_word_character};

/// Statements in which a number is an expression. Others may take nothing but a signed number.
const EXPRESSION_VERBS: [&str; 9] = [
    "SELECT", "FROM", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "REPLACE",
];

/// One statement and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlStatement {
    pub(super) dialect: SqlDialect,
    /// The text around the values; each has a blank in its place.
    pub(super) frame: String,
    pub(super) slots: Vec<ValueSlot>,
    pub(super) lines: Vec<LineMark>,
    /// Names that were given as values and stand in quotes, before they were split at their dots.
    pub(super) names: Vec<String>,
    /// The first words, in capitals.
    pub words: Vec<String>,
    /// What it does: its first word, or what follows its `WITH`.
    pub verb: String,
    /// The line on which it begins, from 1: of the playbook where that is known, else of its command.
    pub line: usize,
    /// The index of the command it is part of.
    pub command: usize,
}

/// A value among tokens.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValueSlot {
    /// The blank in the frame that stands for it.
    pub(super) range: Range<usize>,
    pub(super) value: Value,
    pub(super) source: SlotSource,
    /// Whether it is written as a literal of its type.
    pub(super) is_literal: bool,
}

/// Where a value comes from. Equal values of one source are one parameter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SlotSource {
    /// Nobody knows.
    Unknown,
    /// An expression of a template; of a list that it gave, the item with this index.
    Expression { text: Arc<str>, item: usize },
    /// An entry of `params`.
    Param(String),
}

/// From a byte of the frame on, a line of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineMark {
    pub(super) offset: usize,
    pub(super) line: usize,
}

/// How the values of a statement are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    /// Numbers as literals; texts as parameters, one for each expression.
    Shared,
    /// Every value as a parameter of its own.
    Separate,
    /// Every value as a literal.
    Literals,
}

/// A statement as it is sent, with its parameters, which are numbered from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementText {
    pub text: String,
    pub params: Vec<Value>,
    lines: Vec<LineMark>,
}

impl StatementText {
    /// The line of the command on which a character of the text stands; characters are counted from 0.
    pub fn line_of_char(&self, index: usize) -> usize {
        let offset = self.text.char_indices().nth(index).map(|(at, _)| at);
        self.line_of_byte(offset.unwrap_or(self.text.len()))
    }

    /// The line on which a line of the text stands; lines of the text are counted from 1.
    pub fn line_of_line(&self, number: usize) -> usize {
        let starts = std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1));
        let start = starts.take(number.max(1)).last();
        self.line_of_byte(start.unwrap_or(0))
    }

    /// The line of the command on which a byte of the text stands.
    pub fn line_of_byte(&self, offset: usize) -> usize {
        let marks = self.lines.partition_point(|mark| mark.offset <= offset);
        let mark = marks.checked_sub(1).and_then(|at| self.lines.get(at));
        mark.or(self.lines.first()).map_or(1, |mark| mark.line)
    }
}

impl SqlStatement {
    /// Leaves out so many bytes at the beginning, and finds the line on which it begins.
    pub(super) fn skip_bytes(&mut self, bytes: usize) {
        for slot in &mut self.slots {
            slot.range = slot.range.start - bytes..slot.range.end - bytes;
        }
        let before = self.lines.partition_point(|mark| mark.offset <= bytes);
        self.lines.drain(..before.saturating_sub(1));
        for mark in &mut self.lines {
            mark.offset = mark.offset.saturating_sub(bytes);
        }
        self.line = self.lines.first().map_or(1, |mark| mark.line);
    }

    /// Says on which line of the playbook its command begins.
    pub fn set_start_line(&mut self, line: usize) {
        let moved = line.saturating_sub(1);
        self.line += moved;
        self.lines.iter_mut().for_each(|mark| mark.line += moved);
    }

    /// Its first word, in capitals.
    pub fn first_word(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Whether it begins with a parenthesis, as a query may.
    pub fn is_in_parentheses(&self) -> bool {
        self.frame.starts_with('(')
    }

    /// Whether values were put in among its tokens.
    pub fn has_values(&self) -> bool {
        !self.slots.is_empty() || !self.names.is_empty()
    }

    /// Names that were given as values, as they were given.
    pub fn given_names(&self) -> &[String] {
        &self.names
    }

    /// The text with numbers as literals and texts as parameters; an expression that occurs twice is one parameter.
    pub fn text(&self) -> StatementText {
        self.write(ValueForm::Shared)
    }

    /// The text in which every value is a parameter of its own, whose type follows from its place; none if that is no
    /// other text.
    pub fn text_with_separate_params(&self) -> Option<StatementText> {
        let separate = self.write(ValueForm::Separate);
        (separate.params.len() != self.text().params.len()).then_some(separate)
    }

    /// The text with every value as a literal, for statements that take no parameters.
    pub fn text_with_literals(&self) -> StatementText {
        self.write(ValueForm::Literals)
    }

    fn write(&self, form: ValueForm) -> StatementText {
        let mut written = StatementWriter {
            text: String::new(),
            params: Vec::new(),
            sources: Vec::new(),
            lines: Vec::new(),
            marks: &self.lines,
        };
        let mut end = 0;
        for slot in &self.slots {
            written.copy_frame(&self.frame, end..slot.range.start);
            written.add_mark(slot.range.start);
            let after = self.frame[slot.range.end..].chars().next();
            if form == ValueForm::Literals || (form == ValueForm::Shared && slot.is_literal) {
                written.add_literal(&self.to_literal(&slot.value), after);
            } else {
                let number = written.param_number(slot, form);
                let sign = match self.dialect {
                    SqlDialect::Sqlite => '?',
                    SqlDialect::Postgres | SqlDialect::Duckdb => '$',
                };
                written.text.push_str(&format!("{sign}{number}"));
            }
            end = slot.range.end;
        }
        written.copy_frame(&self.frame, end..self.frame.len());
        StatementText {
            text: written.text,
            params: written.params,
            lines: written.lines,
        }
    }

    fn to_literal(&self, value: &Value) -> String {
        let is_expression = EXPRESSION_VERBS.contains(&self.first_word()) || self.is_in_parentheses();
        let sign = if is_expression {
            SignStyle::Parentheses
        } else {
            SignStyle::Bare
        };
        sql_literal(value, self.dialect, sign)
    }
}

/// A text under way.
struct StatementWriter<'s> {
    text: String,
    params: Vec<Value>,
    sources: Vec<&'s SlotSource>,
    lines: Vec<LineMark>,
    /// The marks of the frame that were not passed yet.
    marks: &'s [LineMark],
}

impl<'s> StatementWriter<'s> {
    /// Copies a part of the frame.
    fn copy_frame(&mut self, frame: &str, part: Range<usize>) {
        let start = self.text.len();
        while let Some((mark, rest)) = self.marks.split_first()
            && mark.offset < part.end
        {
            self.lines.push(LineMark {
                offset: start + mark.offset.saturating_sub(part.start),
                line: mark.line,
            });
            self.marks = rest;
        }
        self.text.push_str(&frame[part]);
    }

    /// Passes the marks of a value's place.
    fn add_mark(&mut self, start: usize) {
        while let Some((mark, rest)) = self.marks.split_first()
            && mark.offset <= start
        {
            self.lines.push(LineMark {
                offset: self.text.len(),
                line: mark.line,
            });
            self.marks = rest;
        }
    }

    /// Adds a literal, apart from what it would otherwise become one token with.
    fn add_literal(&mut self, literal: &str, after: Option<char>) {
        let is_apart = |c: char| c.is_ascii_whitespace() || "(),;".contains(c);
        let before = self.text.chars().next_back();
        if before.is_some_and(|c| !is_apart(c)) {
            self.text.push(' ');
        }
        self.text.push_str(literal);
        if after.is_some_and(|c| !is_apart(c) && c != ':' && !is_word_character(c)) {
            self.text.push(' ');
        }
    }

    /// The number of the parameter for a value.
    fn param_number(&mut self, slot: &'s ValueSlot, form: ValueForm) -> usize {
        let is_known = form == ValueForm::Shared && slot.source != SlotSource::Unknown;
        let mut known = self.sources.iter().zip(&self.params);
        let same = known.position(|(source, value)| **source == slot.source && *value == slot.value);
        if let Some(at) = same.filter(|_| is_known) {
            return at + 1;
        }
        self.params.push(slot.value.clone());
        self.sources.push(&slot.source);
        self.params.len()
    }
}
