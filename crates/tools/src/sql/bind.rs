//! Binds a command: splits it at semicolons, inserts values by their lexical context and renumbers placeholders.

use language::template::{Piece, PieceOrigin};
use serde_json::Value;

use crate::sql::ambiguity::find_ambiguity;
use crate::sql::body::{OpenQuotes, RoutineBodies};
use crate::sql::duckdb::push_char;
use crate::sql::error::BindError;
use crate::sql::params::Params;
use crate::sql::sql_context::{SqlContext, SqlDialect, is_word_character};
use crate::sql::statement::{LineMark, SlotSource, SqlStatement, ValueSlot};
use crate::sql::statement_words::{QuotedText, StatementWords};

/// Text of a command, with the origins of its pieces if they are known.
#[derive(Debug, Clone, Copy)]
pub struct CommandText<'a> {
    pub pieces: &'a [Piece],
    pub origins: &'a [PieceOrigin],
}

/// Splits a command into statements and binds its values.
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
        ambiguity: None,
        routine_bodies: RoutineBodies::default(),
        quotes: OpenQuotes::default(),
        words: StatementWords::new(dialect),
        text: String::new(),
        slots: Vec::new(),
        names: Vec::new(),
        lines: Vec::new(),
        has_own_numbers: false,
        is_after_value: false,
        line: 1,
        positional: 0,
        statements: Vec::new(),
    };
    for (index, piece) in command.pieces.iter().enumerate() {
        let origin = command.origins.get(index);
        let after = match command.pieces.get(index + 1) {
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
        binder.is_after_value = !matches!(piece, Piece::Text(_) | Piece::Raw(_));
    }
    let is_value = |piece: &Piece| matches!(piece, Piece::Value(_) | Piece::Ident(_));
    let is_open = matches!(binder.context, SqlContext::DollarQuoted(_)) || !binder.routine_bodies.is_empty();
    if is_open && command.pieces.iter().any(is_value) {
        return Err(BindError::NotAllowed(
            "in a command with unclosed dollar quotes, because it could close them",
        ));
    }
    binder.end_statement()?;
    Ok(binder.statements)
}

pub(super) struct StatementBinder<'a> {
    pub(super) dialect: SqlDialect,
    pub(super) params: &'a Params,
    pub(super) context: SqlContext,
    /// Context of the literal that just ended. A quote after it continues the literal, with the same escapes.
    pub(super) ended_context: Option<SqlContext>,
    /// Start of the current tokens: a name never continues across quotes or a comment.
    pub(super) code_start: usize,
    /// Why the context of the following text is ambiguous; `None` if it is not.
    pub(super) ambiguity: Option<&'static str>,
    /// Open routine bodies.
    pub(super) routine_bodies: RoutineBodies,
    /// Position of the open quotes.
    pub(super) quotes: OpenQuotes,
    pub(super) words: StatementWords,
    pub(super) text: String,
    pub(super) slots: Vec<ValueSlot>,
    pub(super) names: Vec<String>,
    pub(super) lines: Vec<LineMark>,
    /// Whether the statement has `$n` placeholders that are not ours.
    pub(super) has_own_numbers: bool,
    /// Whether the previous piece was a value.
    pub(super) is_after_value: bool,
    /// Current line of the command.
    pub(super) line: usize,
    /// Number of bare `?` so far, in all statements of the command.
    pub(super) positional: usize,
    pub(super) statements: Vec<SqlStatement>,
}

impl StatementBinder<'_> {
    /// Reads playbook text, line by line of the template that it comes from.
    fn read_author_text(&mut self, text: &str, origin: Option<&PieceOrigin>) -> Result<(), BindError> {
        let starts = origin.map_or(&[][..], |origin| &origin.lines);
        let mut tail = text;
        let mut read = 0;
        for (index, start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).map_or(text.len(), |next| next.offset);
            let (part, after) = tail.split_at_checked(end - read).unwrap_or((tail, ""));
            self.line = start.line as usize + 1;
            self.mark_line();
            self.read(part)?;
            (tail, read) = (after, end);
        }
        self.mark_line();
        self.read(tail)
    }

    fn set_line(&mut self, origin: Option<&PieceOrigin>) {
        if let Some(start) = origin.and_then(|origin| origin.lines.first()) {
            self.line = start.line as usize + 1;
        }
        self.mark_line();
    }

    /// Records the line of the following text.
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
            if let Some(length) = self.exit_body(&text[at..]) {
                at += length;
                continue;
            }
            if self.context == SqlContext::Code {
                let is_doubled = self.text.ends_with('\'');
                let ended = self.ended_context.as_ref().filter(|_| !is_doubled);
                let ambiguity = find_ambiguity(text[at], self.code(), ended, self.dialect);
                self.ambiguity = self.ambiguity.or(ambiguity);
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

    /// Appends characters and switches to the context that follows them.
    pub(super) fn advance(&mut self, next: SqlContext, consumed: &[char]) {
        let opened = match (&self.context, &next) {
            (SqlContext::Code, SqlContext::Code) => {
                self.words.read_char(consumed[0]);
                None
            }
            (SqlContext::Code, SqlContext::LineComment | SqlContext::BlockComment(_)) => {
                self.words.read_char(' ');
                None
            }
            (SqlContext::Code, _) => {
                let kind = self.words.quoted_text();
                self.words.add_other();
                // A quote that continues a literal does not open another one.
                let continues = self.ended_context.is_some() && consumed == ['\''];
                (!continues).then_some(kind)
            }
            _ => None,
        };
        self.track_ended_text(&next, consumed[0]);
        if let (SqlContext::DollarQuoted(tag), SqlContext::Code) = (&self.context, &next) {
            // A value inside the quotes may contain their tag.
            let tag = tag.clone();
            self.quotes.close(&tag, &mut self.text, &mut self.lines);
        } else {
            let start = self.text.len();
            match (self.dialect, consumed) {
                (SqlDialect::Duckdb, [c]) => push_char(&mut self.text, &self.context, *c),
                _ => self.text.extend(consumed),
            }
            if let Some(kind) = opened {
                self.quotes.open(start, self.text.len(), kind);
            }
        }
        self.count_lines(consumed);
        if self.context != SqlContext::Code {
            self.code_start = self.text.len();
        }
        self.context = next;
        if let (Some(QuotedText::Body), SqlContext::DollarQuoted(tag)) = (opened, &self.context) {
            let tag = tag.clone();
            self.enter_body(tag);
        }
    }

    fn count_lines(&mut self, consumed: &[char]) {
        let newlines = consumed.iter().filter(|c| **c == '\n').count();
        if newlines > 0 {
            self.line += newlines;
            self.mark_line();
        }
    }

    /// Tokens since the last quotes or comment.
    pub(super) fn code(&self) -> &str {
        &self.text[self.code_start..]
    }

    /// Rejects a value if its context is ambiguous.
    pub(super) fn check_unambiguous(&self) -> Result<(), BindError> {
        self.ambiguity.map_or(Ok(()), |why| Err(BindError::NotAllowed(why)))
    }

    /// Enters a routine body, which is read like a statement.
    fn enter_body(&mut self, tag: String) {
        let words = std::mem::replace(&mut self.words, StatementWords::new(self.dialect));
        let quotes = std::mem::take(&mut self.quotes);
        self.routine_bodies.enter(tag, words, quotes);
        self.code_start = self.text.len();
        self.context = SqlContext::Code;
        self.ended_context = None;
    }

    /// Leaves a routine body if its tag is next, and returns the tag's length. The tag ends the body even inside other
    /// quotes.
    fn exit_body(&mut self, text: &[char]) -> Option<usize> {
        let body = self.routine_bodies.exit(text)?;
        self.words = body.words;
        self.quotes = body.quotes;
        self.quotes.close(&body.tag, &mut self.text, &mut self.lines);
        self.code_start = self.text.len();
        self.context = SqlContext::Code;
        self.ended_context = None;
        Some(body.tag.chars().count())
    }

    /// Whether a semicolon ends the statement here. In a routine body it only separates statements of the body.
    fn ends_at_semicolon(&mut self) -> bool {
        if self.routine_bodies.is_empty() {
            return self.words.ends_at_semicolon();
        }
        self.words = StatementWords::new(self.dialect);
        false
    }

    /// Remembers the literal that just ended, across white space and line comments.
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

    /// Binds the playbook's own placeholder at `at` under a new number and returns its length; 0 if there is none.
    fn bind_placeholder(&mut self, text: &[char], at: usize) -> Result<usize, BindError> {
        let before = self.text.chars().next_back();
        let word: String = text[at + 1..].iter().take_while(|c| is_word_character(**c)).collect();
        let is_number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let sqlite = self.dialect == SqlDialect::Sqlite;
        let duckdb = self.dialect == SqlDialect::Duckdb;
        if !self.routine_bodies.is_empty() {
            // Placeholders in a routine body belong to the routine.
            return Ok(0);
        }
        if !sqlite && *self.params == Params::None {
            // They belong to a `PREPARE` statement.
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
            // A dollar may also open dollar quotes, `$tag$ … $tag$`.
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

    /// Adds a value between tokens.
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

    /// Records a token that is not a word.
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
            return Err(BindError::NotAllowed(
                "in the body of a routine unless the statement declares `LANGUAGE plpgsql` or `LANGUAGE sql`",
            ));
        }
        if words.is_empty() {
            return Ok(());
        }
        if slots.len() == 1 && text.trim().is_empty() {
            return Err(BindError::TemplateStatement);
        }
        let skipped = text.len() - text.trim_start().len();
        // The statement may start or end with a value.
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
