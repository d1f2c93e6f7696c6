//! A statement with its bound values, and the forms in which it can be sent.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use crate::sql::quote::{SignStyle, sql_literal};
use crate::sql::sql_context::{SqlDialect, is_word_character};

/// Statements in which numbers are expressions. Others may accept only a signed number.
const EXPRESSION_VERBS: [&str; 9] = [
    "SELECT", "FROM", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "REPLACE",
];

/// One statement and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlStatement {
    pub(super) dialect: SqlDialect,
    /// Text around the values, with a space for each value.
    pub(super) frame: String,
    pub(super) slots: Vec<ValueSlot>,
    pub(super) lines: Vec<LineMark>,
    /// Names from values, as they were before quoting.
    pub(super) names: Vec<String>,
    /// First words, in upper case.
    pub words: Vec<String>,
    /// Main verb: the first word, or the one after the `WITH` clause.
    pub verb: String,
    /// Line of its start, from 1: in the playbook if known, else in its command.
    pub line: usize,
    /// Index of its command.
    pub command: usize,
}

/// A value between tokens.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValueSlot {
    /// Position of its space in `frame`.
    pub(super) range: Range<usize>,
    pub(super) value: Value,
    pub(super) source: SlotSource,
    /// Whether it becomes a literal of its type.
    pub(super) is_literal: bool,
}

/// Origin of a value. Equal values with the same origin share one parameter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SlotSource {
    /// Unknown.
    Unknown,
    /// An expression of a template. If its value is a list, `item` is the index of the element.
    Expression { text: Arc<str>, item: usize },
    /// An entry of `params`.
    Param(String),
}

/// Line of the command from this byte offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineMark {
    pub(super) offset: usize,
    pub(super) line: usize,
}

/// How to send the values of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    /// Numbers as literals and texts as parameters, one per expression.
    Shared,
    /// Every value as a separate parameter.
    Separate,
    /// Every value as a literal.
    Literals,
}

/// Statement text to send, with its parameters, which are numbered from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementText {
    pub text: String,
    pub params: Vec<Value>,
    lines: Vec<LineMark>,
}

impl StatementText {
    /// Line of a character, counted from 0, in the playbook or command.
    pub fn line_of_char(&self, index: usize) -> usize {
        let offset = self.text.char_indices().nth(index).map(|(at, _)| at);
        self.line_of_byte(offset.unwrap_or(self.text.len()))
    }

    /// Line of a text line, counted from 1, in the playbook or command.
    pub fn line_of_line(&self, number: usize) -> usize {
        let starts = std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1));
        let start = starts.take(number.max(1)).last();
        self.line_of_byte(start.unwrap_or(0))
    }

    /// Line of a byte offset in the playbook or command.
    pub fn line_of_byte(&self, offset: usize) -> usize {
        let marks = self.lines.partition_point(|mark| mark.offset <= offset);
        let mark = marks.checked_sub(1).and_then(|at| self.lines.get(at));
        mark.or(self.lines.first()).map_or(1, |mark| mark.line)
    }
}

impl SqlStatement {
    /// Skips `bytes` at the start and determines the start line.
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

    /// Sets the playbook line of the start of its command.
    pub fn set_start_line(&mut self, line: usize) {
        let shift = line.saturating_sub(1);
        self.line += shift;
        self.lines.iter_mut().for_each(|mark| mark.line += shift);
    }

    /// First word, in upper case.
    pub fn first_word(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Whether the statement begins with a parenthesis, as queries may.
    pub fn is_in_parentheses(&self) -> bool {
        self.frame.starts_with('(')
    }

    /// Whether it has values or names from templates.
    pub fn has_values(&self) -> bool {
        !self.slots.is_empty() || !self.names.is_empty()
    }

    /// Names from values, as they were before quoting.
    pub fn value_names(&self) -> &[String] {
        &self.names
    }

    /// Text with numbers as literals and texts as parameters; equal expressions share a parameter.
    pub fn text(&self) -> StatementText {
        self.write(ValueForm::Shared)
    }

    /// Text with every value as a separate parameter, whose type the server infers from its position. `None` if this is
    /// the same text.
    pub fn text_with_separate_params(&self) -> Option<StatementText> {
        let separate = self.write(ValueForm::Separate);
        (separate.params.len() != self.text().params.len()).then_some(separate)
    }

    /// Text with every value as a literal, for statements without parameters.
    pub fn text_with_literals(&self) -> StatementText {
        self.write(ValueForm::Literals)
    }

    fn write(&self, form: ValueForm) -> StatementText {
        let mut writer = StatementWriter {
            text: String::new(),
            params: Vec::new(),
            sources: Vec::new(),
            lines: Vec::new(),
            marks: &self.lines,
        };
        let mut end = 0;
        for slot in &self.slots {
            writer.copy_frame(&self.frame, end..slot.range.start);
            writer.add_mark(slot.range.start);
            let after = self.frame[slot.range.end..].chars().next();
            if form == ValueForm::Literals || (form == ValueForm::Shared && slot.is_literal) {
                writer.add_literal(&self.to_literal(&slot.value), after);
            } else {
                let number = writer.param_number(slot, form);
                let sign = match self.dialect {
                    SqlDialect::Sqlite => '?',
                    SqlDialect::Postgres | SqlDialect::Duckdb => '$',
                };
                writer.text.push_str(&format!("{sign}{number}"));
            }
            end = slot.range.end;
        }
        writer.copy_frame(&self.frame, end..self.frame.len());
        StatementText {
            text: writer.text,
            params: writer.params,
            lines: writer.lines,
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

/// Builds the text of a statement.
struct StatementWriter<'s> {
    text: String,
    params: Vec<Value>,
    sources: Vec<&'s SlotSource>,
    lines: Vec<LineMark>,
    /// Line marks of the frame that are not copied yet.
    marks: &'s [LineMark],
}

impl<'s> StatementWriter<'s> {
    /// Copies part of the frame.
    fn copy_frame(&mut self, frame: &str, part: Range<usize>) {
        let start = self.text.len();
        while let Some((mark, tail)) = self.marks.split_first()
            && mark.offset < part.end
        {
            self.lines.push(LineMark {
                offset: start + mark.offset.saturating_sub(part.start),
                line: mark.line,
            });
            self.marks = tail;
        }
        self.text.push_str(&frame[part]);
    }

    /// Copies the line marks up to a value.
    fn add_mark(&mut self, start: usize) {
        while let Some((mark, tail)) = self.marks.split_first()
            && mark.offset <= start
        {
            self.lines.push(LineMark {
                offset: self.text.len(),
                line: mark.line,
            });
            self.marks = tail;
        }
    }

    /// Adds a literal, separated from characters that would join its token.
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

    /// Returns the parameter number for a value.
    fn param_number(&mut self, slot: &'s ValueSlot, form: ValueForm) -> usize {
        let is_known_source = form == ValueForm::Shared && slot.source != SlotSource::Unknown;
        let mut bound = self.sources.iter().zip(&self.params);
        let same = bound.position(|(source, value)| **source == slot.source && *value == slot.value);
        if let Some(at) = same.filter(|_| is_known_source) {
            return at + 1;
        }
        self.params.push(slot.value.clone());
        self.sources.push(&slot.source);
        self.params.len()
    }
}
