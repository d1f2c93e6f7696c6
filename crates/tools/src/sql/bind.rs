//! Statements out of pieces: split at semicolons, values placed by where they stand, placeholders renumbered.

use model::template::{Piece, PieceOrigin};
use serde_json::Value;

use crate::sql::body::{Bodies, OpenQuotes};
use crate::sql::duckdb::push_char;
use crate::sql::error::BindError;
use crate::sql::neighbors::{fits_into_name, follows_dot, is_in_list, precedes_dot};
use crate::sql::params::Params;
use crate::sql::place::{Dialect, Place, continues_name, is_word};
use crate::sql::quote::{Sign, escaped, is_typed_literal, literal, quoted_names, text_of};
use crate::sql::statement::{LineMark, Slot, SlotSource, Statement};
use crate::sql::unclear::find_unclear;
use crate::sql::words::{QuotedText, Words};

/// The text of a command, with where its pieces come from as far as that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command<'a> {
    pub(crate) pieces: &'a [Piece],
    pub(crate) origins: &'a [PieceOrigin],
}

/// The statements of a command.
pub(crate) fn bind(
    command: Command<'_>,
    dialect: Dialect,
    params: &Params,
) -> Result<Vec<Statement>, BindError> {
    let mut binder = Binder {
        dialect,
        given: params,
        place: Place::Code,
        ended: None,
        code_start: 0,
        unclear: None,
        bodies: Bodies::default(),
        quotes: OpenQuotes::default(),
        words: Words::new(dialect),
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
                binder.go_to_line(origin);
                let line = binder.line;
                binder.read(text)?;
                binder.line = line;
            }
            Piece::Ident(value) => {
                binder.go_to_line(origin);
                if binder.place == Place::Code {
                    binder.name(value, after)?;
                } else {
                    binder.value(value, after, origin)?;
                }
            }
            Piece::Value(value) => {
                binder.go_to_line(origin);
                binder.value(value, after, origin)?;
            }
        }
        binder.is_behind_value = !matches!(piece, Piece::Text(_) | Piece::Raw(_));
    }
    let is_value = |piece: &Piece| matches!(piece, Piece::Value(_) | Piece::Ident(_));
    let is_open = matches!(binder.place, Place::Dollar(_)) || !binder.bodies.is_empty();
    if is_open && command.pieces.iter().any(is_value) {
        return Err(BindError::Place(
            "in a command whose dollar quotes do not end; it could end them",
        ));
    }
    binder.end_statement()?;
    Ok(binder.statements)
}

struct Binder<'a> {
    dialect: Dialect,
    given: &'a Params,
    place: Place,
    /// The quoted text that has just ended: quotes that follow it go on with it, escapes and all.
    ended: Option<Place>,
    /// Where the tokens begin that are read: no name goes back behind quotes.
    code_start: usize,
    /// Why nobody knows how the rest of the command is read, if that is so.
    unclear: Option<&'static str>,
    /// The bodies of routines that are open.
    bodies: Bodies,
    /// Where the quotes opened that are open.
    quotes: OpenQuotes,
    words: Words,
    text: String,
    slots: Vec<Slot>,
    names: Vec<String>,
    lines: Vec<LineMark>,
    /// Whether the statement has a `$n` that was left to the database.
    has_own_numbers: bool,
    /// Whether the piece before was a value.
    is_behind_value: bool,
    /// The line of the command that is read.
    line: usize,
    /// How many bare `?` have been met, over all statements of the command.
    positional: usize,
    statements: Vec<Statement>,
}

impl Binder<'_> {
    /// Reads the author's text, line by line of the template it comes from.
    fn read_author_text(
        &mut self,
        text: &str,
        origin: Option<&PieceOrigin>,
    ) -> Result<(), BindError> {
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

    fn go_to_line(&mut self, origin: Option<&PieceOrigin>) {
        if let Some(start) = origin.and_then(|origin| origin.lines.first()) {
            self.line = start.line as usize + 1;
        }
        self.mark_line();
    }

    /// Notes the line on which the text goes on.
    fn mark_line(&mut self) {
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
            if let Some(length) = self.end_body(&text[at..]) {
                at += length;
                continue;
            }
            if self.place == Place::Code {
                let is_doubled = self.text.ends_with('\'');
                let ended = self.ended.as_ref().filter(|_| !is_doubled);
                let unclear = find_unclear(text[at], self.code(), ended, self.dialect);
                self.unclear = self.unclear.or(unclear);
                if text[at] == ';' && self.ends_at_semicolon() {
                    self.end_statement()?;
                    at += 1;
                    continue;
                }
                let length = self.placeholder(&text, at)?;
                if length > 0 {
                    at += length;
                    continue;
                }
            }
            let (next, length) = match &self.ended {
                Some(ended) if self.place == Place::Code && text[at] == '\'' => (ended.clone(), 1),
                _ => self.place.step(&text[at..], self.code(), self.dialect),
            };
            let end = (at + length).min(text.len());
            self.step(next, &text[at..end]);
            at = end;
        }
        Ok(())
    }

    /// Takes characters that lead to a place.
    fn step(&mut self, next: Place, taken: &[char]) {
        let opened = match (&self.place, &next) {
            (Place::Code, Place::Code) => {
                self.words.code(taken[0]);
                None
            }
            (Place::Code, Place::Line | Place::Block(_)) => {
                self.words.code(' ');
                None
            }
            (Place::Code, _) => {
                let kind = self.words.quoted_text();
                self.words.other();
                // Quotes that go on with a text are the same text.
                let goes_on = self.ended.is_some() && taken == ['\''];
                (!goes_on).then_some(kind)
            }
            _ => None,
        };
        self.follow(&next, taken[0]);
        if let (Place::Dollar(tag), Place::Code) = (&self.place, &next) {
            // What the quotes hold now may hold their tag.
            let tag = tag.clone();
            self.quotes.close(&tag, &mut self.text, &mut self.lines);
        } else {
            let start = self.text.len();
            match (self.dialect, taken) {
                (Dialect::Duckdb, [c]) => push_char(&mut self.text, &self.place, *c),
                _ => self.text.extend(taken),
            }
            if let Some(kind) = opened {
                self.quotes.open(start, self.text.len(), kind);
            }
        }
        self.count_lines(taken);
        if self.place != Place::Code {
            self.code_start = self.text.len();
        }
        self.place = next;
        if let (Some(QuotedText::Body), Place::Dollar(tag)) = (opened, &self.place) {
            let tag = tag.clone();
            self.begin_body(tag);
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
    fn code(&self) -> &str {
        &self.text[self.code_start..]
    }

    /// Refuses a value where nobody knows how it would be read.
    fn refuse_unclear(&self) -> Result<(), BindError> {
        self.unclear
            .map_or(Ok(()), |why| Err(BindError::Place(why)))
    }

    /// Goes into the body of a routine, which is read as a statement is.
    fn begin_body(&mut self, tag: String) {
        let words = std::mem::replace(&mut self.words, Words::new(self.dialect));
        let quotes = std::mem::take(&mut self.quotes);
        self.bodies.begin(tag, words, quotes);
        self.code_start = self.text.len();
        self.place = Place::Code;
        self.ended = None;
    }

    /// Leaves the body of a routine if its tag stands here, and tells its length: it ends a body also inside quotes.
    fn end_body(&mut self, text: &[char]) -> Option<usize> {
        let body = self.bodies.end(text)?;
        self.words = body.words;
        self.quotes = body.quotes;
        self.quotes
            .close(&body.tag, &mut self.text, &mut self.lines);
        self.code_start = self.text.len();
        self.place = Place::Code;
        self.ended = None;
        Some(body.tag.chars().count())
    }

    /// Whether a semicolon here ends the statement. In the body of a routine it only ends a part of that.
    fn ends_at_semicolon(&mut self) -> bool {
        if self.bodies.is_empty() {
            return self.words.ends_at_semicolon();
        }
        self.words = Words::new(self.dialect);
        false
    }

    /// Remembers the quoted text that has just ended, over blanks and comments of a line.
    fn follow(&mut self, next: &Place, c: char) {
        match (&self.place, next) {
            (ended, Place::Code) if ended.goes_on() => self.ended = Some(ended.clone()),
            (Place::Code, Place::Code) if c.is_whitespace() => {}
            (Place::Code | Place::Line, Place::Line) | (Place::Line, Place::Code) => {}
            _ => self.ended = None,
        }
    }

    /// Puts the author's placeholder at `at` under a number of ours; returns its length, or nothing if there is none.
    fn placeholder(&mut self, text: &[char], at: usize) -> Result<usize, BindError> {
        let before = self.text.chars().next_back();
        let word: String = text[at + 1..].iter().take_while(|c| is_word(**c)).collect();
        let is_number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let sqlite = self.dialect == Dialect::Sqlite;
        let duckdb = self.dialect == Dialect::Duckdb;
        if !self.bodies.is_empty() {
            // The body of a routine has numbers of its own.
            return Ok(0);
        }
        if !sqlite && *self.given == Params::None {
            // So has a `PREPARE`.
            let has_number = text[at] == '$' && is_number && !before.is_some_and(is_word);
            self.has_own_numbers |= has_number || (duckdb && text[at] == '?');
            return Ok(0);
        }
        let value = match text[at] {
            '?' if (sqlite || duckdb) && word.is_empty() => {
                self.positional += 1;
                self.given.by_number(self.positional, "?")
            }
            '?' if (sqlite || duckdb) && is_number => {
                self.given.by_number(word.parse().unwrap_or(0), &word)
            }
            '$' if !sqlite && is_number && !before.is_some_and(is_word) => {
                self.given.by_number(word.parse().unwrap_or(0), &word)
            }
            ':' if !duckdb && is_name && before != Some(':') && !before.is_some_and(is_word) => {
                self.given.by_name(&word)
            }
            '@' | '$' if sqlite && is_name && !before.is_some_and(is_word) => {
                self.given.by_name(&word)
            }
            // A dollar may also open a quoted text, `$tag$ … $tag$`.
            '$' if duckdb
                && is_name
                && !before.is_some_and(is_word)
                && text.get(at + 1 + word.chars().count()) != Some(&'$') =>
            {
                self.given.by_name(&word)
            }
            _ => return Ok(0),
        }?;
        let length = 1 + word.chars().count();
        let name = match (word.is_empty(), text[at]) {
            (true, _) => self.positional.to_string(),
            (false, _) => word,
        };
        self.push(value, SlotSource::Param(name), false);
        Ok(length)
    }

    /// Adds a value that stands among tokens.
    fn push(&mut self, value: Value, source: SlotSource, is_literal: bool) {
        let start = self.text.len();
        self.text.push(' ');
        self.slots.push(Slot {
            range: start..self.text.len(),
            value,
            source,
            is_literal,
        });
        self.mark_line();
        self.other();
    }

    /// Takes note of something that is no word.
    fn other(&mut self) {
        self.words.other();
        self.ended = None;
    }

    fn value(
        &mut self,
        value: &Value,
        after: &str,
        origin: Option<&PieceOrigin>,
    ) -> Result<(), BindError> {
        self.refuse_unclear()?;
        self.refuse_sql_text(value)?;
        if self.place == Place::Code {
            return self.value_in_code(value, after, origin);
        }
        let is_quoted = matches!(self.place, Place::Text { .. } | Place::Dollar(_));
        if is_quoted && self.quotes.kind() == QuotedText::Body {
            return Err(BindError::Place(
                "in the body of a routine that is written in `'…'`; write it in `$$…$$`",
            ));
        }
        if is_quoted && !self.quotes.follow_comma(&self.text) {
            self.refuse_dynamic_sql()?;
        }
        let text = text_of(value)?;
        let escaped = escaped(&self.place, text)?;
        self.bodies.note_value();
        match (self.dialect, &self.place) {
            (Dialect::Duckdb, place @ Place::Block(_)) => escaped
                .chars()
                .for_each(|c| push_char(&mut self.text, place, c)),
            _ => self.text.push_str(&escaped),
        }
        self.mark_line();
        Ok(())
    }

    /// Refuses a text in what an `EXECUTE` runs: there it would be read as SQL once more.
    fn refuse_dynamic_sql(&mut self) -> Result<(), BindError> {
        if !self.bodies.is_empty() && self.words.executes() {
            return Err(BindError::Place(
                "in the text that an `EXECUTE` runs; hand it over with `USING`, or as an argument of `format` with `%L` or `%I`",
            ));
        }
        Ok(())
    }

    /// Refuses a text in what a function runs as SQL: there it would be read as SQL once more.
    fn refuse_sql_text(&mut self, value: &Value) -> Result<(), BindError> {
        let is_comment = matches!(self.place, Place::Line | Place::Block(_));
        let is_harmless = match value {
            Value::Null | Value::Bool(_) => true,
            // A minus could become a comment together with another one.
            Value::Number(number) => !number.to_string().starts_with('-'),
            Value::String(_) | Value::Array(_) | Value::Object(_) => false,
        };
        if is_comment || is_harmless || !self.words.is_in_sql_text() {
            return Ok(());
        }
        Err(BindError::Place(
            "in the text that a function such as `query` runs as SQL; write that statement itself as the command",
        ))
    }

    fn value_in_code(
        &mut self,
        value: &Value,
        after: &str,
        origin: Option<&PieceOrigin>,
    ) -> Result<(), BindError> {
        if self.is_behind_value {
            return Err(BindError::Place(
                "directly behind another value; join them in one template: `{{ a ~ b }}`",
            ));
        }
        let before = self.code().chars().next_back();
        let is_name = |c: char| self.dialect.reads_as_postgres() && continues_name(c, self.dialect);
        if before.is_some_and(|c| is_name(c) && !is_word(c)) {
            return Err(BindError::Place(
                "directly behind a `$` or a sign of a name; a template is written without a `$`",
            ));
        }
        let touches = before.is_some_and(is_word) || after.starts_with(is_word);
        if touches {
            return self.part_of_name(value, after);
        }
        if follows_dot(&self.text) || precedes_dot(after) || self.words.expect_name() {
            return self.name(value, after);
        }
        let source = |item: usize| match origin.and_then(|origin| origin.expression.clone()) {
            Some(text) => SlotSource::Expression { text, item },
            None => SlotSource::Unknown,
        };
        match value {
            Value::Array(items) if is_in_list(&self.text) => {
                if items.is_empty() {
                    self.text.push_str("NULL");
                    self.other();
                }
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.text.push_str(", ");
                    }
                    self.push_value(item, source(at))?;
                }
                Ok(())
            }
            other => self.push_value(other, source(0)),
        }
    }

    /// Adds a value of a template. The body of a routine takes no parameters, so it gets literals.
    fn push_value(&mut self, value: &Value, source: SlotSource) -> Result<(), BindError> {
        let is_literal = is_typed_literal(value, self.dialect);
        if self.bodies.is_empty() {
            self.push(value.clone(), source, is_literal);
            return Ok(());
        }
        if !is_literal {
            self.refuse_dynamic_sql()?;
            text_of(value)?;
        }
        self.bodies.note_value();
        let literal = literal(value, self.dialect, Sign::Parentheses);
        self.text.push_str(&format!(" {literal} "));
        self.mark_line();
        self.other();
        Ok(())
    }

    /// Extends a name: only what cannot end the name may be put in.
    fn part_of_name(&mut self, value: &Value, after: &str) -> Result<(), BindError> {
        let text = text_of(value)?;
        if !fits_into_name(&text, &self.text, after) {
            return Err(BindError::Ident(text));
        }
        text.chars().for_each(|c| self.words.code(c));
        self.bodies.note_value();
        self.text.push_str(&text);
        self.ended = None;
        Ok(())
    }

    /// Writes a name, a dotted one, or a list of them, in quotes.
    fn name(&mut self, value: &Value, after: &str) -> Result<(), BindError> {
        self.refuse_unclear()?;
        let before = self.text.chars().next_back();
        let is_quote = |c: char| "\"`'".contains(c);
        if self.is_behind_value || before.is_some_and(is_quote) || after.starts_with(is_quote) {
            return Err(BindError::Place(
                "as a name directly beside another value or quotes; write a dot or a blank between them",
            ));
        }
        let names = quoted_names(value)?;
        if before.is_some_and(|c| !c.is_whitespace() && !".(,".contains(c)) {
            self.text.push(' ');
        }
        self.bodies.note_value();
        self.text.push_str(&names.text);
        self.names.extend(names.given);
        self.mark_line();
        self.other();
        Ok(())
    }

    fn end_statement(&mut self) -> Result<(), BindError> {
        let text = std::mem::take(&mut self.text);
        self.code_start = 0;
        let slots = std::mem::take(&mut self.slots);
        let names = std::mem::take(&mut self.names);
        let lines = std::mem::take(&mut self.lines);
        let outer = self.bodies.clear();
        let words = std::mem::replace(&mut self.words, Words::new(self.dialect));
        let words = outer.unwrap_or(words);
        self.quotes = OpenQuotes::default();
        self.ended = None;
        self.mark_line();
        if std::mem::take(&mut self.has_own_numbers) && !slots.is_empty() {
            return Err(BindError::Unnumbered);
        }
        if self.bodies.take_has_values() && !words.has_sql_body() {
            return Err(BindError::Place(
                "in the body of a routine unless its `LANGUAGE` is `plpgsql` or `sql`, which is to be said",
            ));
        }
        if words.is_empty() {
            return Ok(());
        }
        if slots.len() == 1 && text.trim().is_empty() {
            return Err(BindError::Whole);
        }
        let skipped = text.len() - text.trim_start().len();
        // A value may be all that stands at an end.
        let skipped = slots
            .first()
            .map_or(skipped, |slot| skipped.min(slot.range.start));
        let end = text.trim_end().len();
        let end = slots.last().map_or(end, |slot| end.max(slot.range.end));
        let (words, verb) = words.read();
        let mut statement = Statement {
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
        statement.skip(skipped);
        self.statements.push(statement);
        Ok(())
    }
}
