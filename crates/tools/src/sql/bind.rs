//! Statements out of pieces: split at semicolons, values placed by where they stand, placeholders renumbered.

use language::template::{Piece, PieceOrigin};
use serde_json::Value;

use crate::sql::body::{OpenQuotes, RoutineBodies};
use crate::sql::duckdb::push_char;
use crate::sql::error::BindError;
use crate::sql::params::Params;
use crate::sql::sql_context::{SqlContext, SqlDialect, is_word_character};
use crate::sql::statement::{LineMark, SlotSource, SqlStatement, ValueSlot};
use crate::sql::statement_words::{QuotedText, StatementWords};
use crate::sql::unclear::find_unclear;

/// The text of a command, with where its pieces come from as far as that is known.
#[derive(Debug, Clone, Copy)]
pub struct CommandText<'a> {
    pub pieces: &'a [Piece],
    pub origins: &'a [PieceOrigin],
}

/// The statements of a command.
pub fn bind_command(
    command: CommandText<'_>,
    dialect: SqlDialect,
    params: &Params,
) -> Result<Vec<SqlStatement>, BindError> {
    let mut binder = StatementBinder {
        dialect,
        params,
        context: SqlContext::Code,
        ended_context: None,
        code_start: 0,
        unclear: None,
        routine_bodies: RoutineBodies::default(),
        quotes: OpenQuotes::default(),
        words: StatementWords::new(dialect),
        text: String::new(),
        slots: Vec::new(),
        names: Vec::new(),
        lines: Vec::new(),
        has_own_numbers: false,
        is_behind_value: false,
        line: 1,
        positional: 0,
        statements: Vec::new(),
    };
    for (at, piece) in command.pieces.iter().enumerate() {
        let origin = command.origins.get(at);
        let after = match command.pieces.get(at + 1) {
            Some(Piece::Text(text) | Piece::Raw(text)) => text.as_str(),
            _ => "",
        };
        match piece {
            Piece::Text(text) => binder.read_author_text(text, origin)?,
            Piece::Raw(text) => {
                binder.set_line(origin);
                let line = binder.line;
                binder.read(text)?;
                binder.line = line;
            }
            Piece::Ident(value) => {
                binder.set_line(origin);
                if binder.context == SqlContext::Code {
                    binder.place_name(value, after)?;
                } else {
                    binder.place_value(value, after, origin)?;
                }
            }
            Piece::Value(value) => {
                binder.set_line(origin);
                binder.place_value(value, after, origin)?;
            }
        }
        binder.is_behind_value = !matches!(piece, Piece::Text(_) | Piece::Raw(_));
    }
    let is_value = |piece: &Piece| matches!(piece, Piece::Value(_) | Piece::Ident(_));
    let is_open = matches!(binder.context, SqlContext::DollarQuoted(_)) || !binder.routine_bodies.is_empty();
    if is_open && command.pieces.iter().any(is_value) {
        return Err(BindError::Place(
            "in a command whose dollar quotes do not end; it could end them",
        ));
    }
    binder.end_statement()?;
    Ok(binder.statements)
}

pub(super) struct StatementBinder<'a> {
    pub(super) dialect: SqlDialect,
    pub(super) params: &'a Params,
    pub(super) context: SqlContext,
    /// The quoted text that has just ended: quotes that follow it go on with it, escapes and all.
    pub(super) ended_context: Option<SqlContext>,
    /// Where the tokens begin that are read: no name goes back behind quotes.
    pub(super) code_start: usize,
    /// Why nobody knows how the rest of the command is read, if that is so.
    pub(super) unclear: Option<&'static str>,
    /// The bodies of routines that are open.
    pub(super) routine_bodies: RoutineBodies,
    /// Where the quotes opened that are open.
    pub(super) quotes: OpenQuotes,
    pub(super) words: StatementWords,
    pub(super) text: String,
    pub(super) slots: Vec<ValueSlot>,
    pub(super) names: Vec<String>,
    pub(super) lines: Vec<LineMark>,
    /// Whether the statement has a `$n` that was left to the database.
    pub(super) has_own_numbers: bool,
    /// Whether the piece before was a value.
    pub(super) is_behind_value: bool,
    /// The line of the command that is read.
    pub(super) line: usize,
    /// How many bare `?` have been met, over all statements of the command.
    pub(super) positional: usize,
    pub(super) statements: Vec<SqlStatement>,
}

impl StatementBinder<'_> {
    /// Reads the author's text, line by line of the template it comes from.
    fn read_author_text(&mut self, text: &str, origin: Option<&PieceOrigin>) -> Result<(), BindError> {
        let starts = origin.map_or(&[][..], |origin| &origin.lines);
        let mut rest = text;
        let mut read = 0;
        for (at, start) in starts.iter().enumerate() {
            let end = starts.get(at + 1).map_or(text.len(), |next| next.offset);
            let (part, behind) = rest.split_at_checked(end - read).unwrap_or((rest, ""));
            self.line = start.line as usize + 1;
            self.mark_line();
            self.read(part)?;
            (rest, read) = (behind, end);
        }
        self.mark_line();
        self.read(rest)
    }

    fn set_line(&mut self, origin: Option<&PieceOrigin>) {
        if let Some(start) = origin.and_then(|origin| origin.lines.first()) {
            self.line = start.line as usize + 1;
        }
        self.mark_line();
    }

    /// Notes the line on which the text goes on.
    pub(super) fn mark_line(&mut self) {
        let mark = LineMark {
            offset: self.text.len(),
            line: self.line,
        };
        if self.lines.last() != Some(&mark) {
            self.lines.push(mark);
        }
    }

    fn read(&mut self, text: &str) -> Result<(), BindError> {
        let text: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < text.len() {
            if let Some(length) = self.leave_body(&text[at..]) {
                at += length;
                continue;
            }
            if self.context == SqlContext::Code {
                let is_doubled = self.text.ends_with('\'');
                let ended = self.ended_context.as_ref().filter(|_| !is_doubled);
                let unclear = find_unclear(text[at], self.code(), ended, self.dialect);
                self.unclear = self.unclear.or(unclear);
                if text[at] == ';' && self.ends_at_semicolon() {
                    self.end_statement()?;
                    at += 1;
                    continue;
                }
                let length = self.bind_placeholder(&text, at)?;
                if length > 0 {
                    at += length;
                    continue;
                }
            }
            let (next, length) = match &self.ended_context {
                Some(ended) if self.context == SqlContext::Code && text[at] == '\'' => (ended.clone(), 1),
                _ => self.context.advance(&text[at..], self.code(), self.dialect),
            };
            let end = (at + length).min(text.len());
            self.advance(next, &text[at..end]);
            at = end;
        }
        Ok(())
    }

    /// Takes characters that lead to a place.
    pub(super) fn advance(&mut self, next: SqlContext, taken: &[char]) {
        let opened = match (&self.context, &next) {
            (SqlContext::Code, SqlContext::Code) => {
                self.words.read_char(taken[0]);
                None
            }
            (SqlContext::Code, SqlContext::LineComment | SqlContext::BlockComment(_)) => {
                self.words.read_char(' ');
                None
            }
            (SqlContext::Code, _) => {
                let kind = self.words.quoted_text();
                self.words.add_other();
                // Quotes that go on with a text are the same text.
                let goes_on = self.ended_context.is_some() && taken == ['\''];
                (!goes_on).then_some(kind)
            }
            _ => None,
        };
        self.track_ended_text(&next, taken[0]);
        if let (SqlContext::DollarQuoted(tag), SqlContext::Code) = (&self.context, &next) {
            // What the quotes hold now may hold their tag.
            let tag = tag.clone();
            self.quotes.close(&tag, &mut self.text, &mut self.lines);
        } else {
            let start = self.text.len();
            match (self.dialect, taken) {
                (SqlDialect::Duckdb, [c]) => push_char(&mut self.text, &self.context, *c),
                _ => self.text.extend(taken),
            }
            if let Some(kind) = opened {
                self.quotes.open(start, self.text.len(), kind);
            }
        }
        self.count_lines(taken);
        if self.context != SqlContext::Code {
            self.code_start = self.text.len();
        }
        self.context = next;
        if let (Some(QuotedText::Body), SqlContext::DollarQuoted(tag)) = (opened, &self.context) {
            let tag = tag.clone();
            self.enter_body(tag);
        }
    }

    fn count_lines(&mut self, taken: &[char]) {
        let newlines = taken.iter().filter(|c| **c == '\n').count();
        if newlines > 0 {
            self.line += newlines;
            self.mark_line();
        }
    }

    /// The tokens since the last quotes or comment.
    pub(super) fn code(&self) -> &str {
        &self.text[self.code_start..]
    }

    /// Refuses a value where nobody knows how it would be read.
    pub(super) fn refuse_unclear(&self) -> Result<(), BindError> {
        self.unclear.map_or(Ok(()), |why| Err(BindError::Place(why)))
    }

    /// Goes into the body of a routine, which is read as a statement is.
    fn enter_body(&mut self, tag: String) {
        let words = std::mem::replace(&mut self.words, StatementWords::new(self.dialect));
        let quotes = std::mem::take(&mut self.quotes);
        self.routine_bodies.enter(tag, words, quotes);
        self.code_start = self.text.len();
        self.context = SqlContext::Code;
        self.ended_context = None;
    }

    /// Leaves the body of a routine if its tag stands here, and tells its length: it ends a body also inside quotes.
    fn leave_body(&mut self, text: &[char]) -> Option<usize> {
        let body = self.routine_bodies.leave(text)?;
        self.words = body.words;
        self.quotes = body.quotes;
        self.quotes.close(&body.tag, &mut self.text, &mut self.lines);
        self.code_start = self.text.len();
        self.context = SqlContext::Code;
        self.ended_context = None;
        Some(body.tag.chars().count())
    }

    /// Whether a semicolon here ends the statement. In the body of a routine it only ends a part of that.
    fn ends_at_semicolon(&mut self) -> bool {
        if self.routine_bodies.is_empty() {
            return self.words.ends_at_semicolon();
        }
        self.words = StatementWords::new(self.dialect);
        false
    }

    /// Remembers the quoted text that has just ended, over blanks and comments of a line.
    fn track_ended_text(&mut self, next: &SqlContext, c: char) {
        match (&self.context, next) {
            (ended, SqlContext::Code) if ended.is_continued() => {
                self.ended_context = Some(ended.clone());
            }
            (SqlContext::Code, SqlContext::Code) if c.is_whitespace() => {}
            (SqlContext::Code | SqlContext::LineComment, SqlContext::LineComment)
            | (SqlContext::LineComment, SqlContext::Code) => {}
            _ => self.ended_context = None,
        }
    }

    /// Puts the author's placeholder at `at` under a number of ours; returns its length, or nothing if there is none.
    fn bind_placeholder(&mut self, text: &[char], at: usize) -> Result<usize, BindError> {
        let before = self.text.chars().next_back();
        let word: String = text[at + 1..].iter().take_while(|c| is_word_character(**c)).collect();
        let is_number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let sqlite = self.dialect == SqlDialect::Sqlite;
        let duckdb = self.dialect == SqlDialect::Duckdb;
        if !self.routine_bodies.is_empty() {
            // The body of a routine has numbers of its own.
            return Ok(0);
        }
        if !sqlite && *self.params == Params::None {
            // So has a `PREPARE`.
            let has_number = text[at] == '$' && is_number && !before.is_some_and(is_word_character);
            self.has_own_numbers |= has_number || (duckdb && text[at] == '?');
            return Ok(0);
        }
        let value = match text[at] {
            '?' if (sqlite || duckdb) && word.is_empty() => {
                self.positional += 1;
                self.params.by_number(self.positional, "?")
            }
            '?' if (sqlite || duckdb) && is_number => self.params.by_number(word.parse().unwrap_or(0), &word),
            '$' if !sqlite && is_number && !before.is_some_and(is_word_character) => {
                self.params.by_number(word.parse().unwrap_or(0), &word)
            }
            ':' if !duckdb && is_name && before != Some(':') && !before.is_some_and(is_word_character) => {
                self.params.by_name(&word)
            }
            '@' | '$' if sqlite && is_name && !before.is_some_and(is_word_character) => self.params.by_name(&word),
            // A dollar may also open a quoted text, `$tag$ … $tag$`.
            '$' if duckdb
                && is_name
                && !before.is_some_and(is_word_character)
                && text.get(at + 1 + word.chars().count()) != Some(&'$') =>
            {
                self.params.by_name(&word)
            }
            _ => return Ok(0),
        }?;
        let length = 1 + word.chars().count();
        let name = match (word.is_empty(), text[at]) {
            (true, _) => self.positional.to_string(),
            (false, _) => word,
        };
        self.push_slot(value, SlotSource::Param(name), false);
        Ok(length)
    }

    /// Adds a value that stands among tokens.
    pub(super) fn push_slot(&mut self, value: Value, source: SlotSource, is_literal: bool) {
        let start = self.text.len();
        self.text.push(' ');
        self.slots.push(ValueSlot {
            range: start..self.text.len(),
            value,
            source,
            is_literal,
        });
        self.mark_line();
        self.add_other();
    }

    /// Takes note of something that is no word.
    pub(super) fn add_other(&mut self) {
        self.words.add_other();
        self.ended_context = None;
    }

    fn end_statement(&mut self) -> Result<(), BindError> {
        let text = std::mem::take(&mut self.text);
        self.code_start = 0;
        let slots = std::mem::take(&mut self.slots);
        let names = std::mem::take(&mut self.names);
        let lines = std::mem::take(&mut self.lines);
        let outer = self.routine_bodies.clear();
        let words = std::mem::replace(&mut self.words, StatementWords::new(self.dialect));
        let words = outer.unwrap_or(words);
        self.quotes = OpenQuotes::default();
        self.ended_context = None;
        self.mark_line();
        if std::mem::take(&mut self.has_own_numbers) && !slots.is_empty() {
            return Err(BindError::UnnumberedParam);
        }
        if self.routine_bodies.take_has_values() && !words.has_sql_body() {
            return Err(BindError::Place(
                "in the body of a routine unless its `LANGUAGE` is `plpgsql` or `sql`, which is to be said",
            ));
        }
        if words.is_empty() {
            return Ok(());
        }
        if slots.len() == 1 && text.trim().is_empty() {
            return Err(BindError::TemplateStatement);
        }
        let skipped = text.len() - text.trim_start().len();
        // A value may be all that stands at an end.
        let skipped = slots.first().map_or(skipped, |slot| skipped.min(slot.range.start));
        let end = text.trim_end().len();
        let end = slots.last().map_or(end, |slot| end.max(slot.range.end));
        let (words, verb) = words.into_words();
        let mut statement = SqlStatement {
            dialect: self.dialect,
            frame: text[skipped..end.max(skipped)].to_owned(),
            slots,
            lines,
            names,
            words,
            verb,
            line: 0,
            command: 0,
        };
        statement.skip_bytes(skipped);
        self.statements.push(statement);
        Ok(())
    }
}
