//! Statements out of pieces: split at semicolons, values bound or escaped by their place, placeholders renumbered.

use std::ops::Range;

use model::template::Piece;
use serde_json::{Map, Value};

use crate::sql::place::{Dialect, Place, is_word};
use crate::sql::words::Words;

/// One statement with its parameters, bound by number from 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) params: Vec<Value>,
    /// Where in the text each placeholder stands, in the order of `params`.
    pub(crate) slots: Vec<Range<usize>>,
    /// The first words, in capitals.
    pub(crate) words: Vec<String>,
    /// What it does: its first word, or what follows its `WITH`.
    pub(crate) verb: String,
    /// The line of the command on which it begins, from 1.
    pub(crate) line: usize,
}

impl Statement {
    /// Its first word, in capitals.
    pub(crate) fn first_word(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The text with each value in place of its placeholder, as a literal; for statements that take no parameters.
    pub(crate) fn with_literals(&self) -> String {
        let mut text = String::new();
        let mut end = 0;
        for (slot, value) in self.slots.iter().zip(&self.params) {
            text.push_str(&self.text[end..slot.start]);
            text.push_str(&literal(value));
            end = slot.end;
        }
        text + &self.text[end..]
    }
}

/// The task's own `params`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Params {
    #[default]
    None,
    List(Vec<Value>),
    Map(Map<String, Value>),
}

/// A command that cannot be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BindError {
    #[error("the command has a placeholder `{0}`, but `params` has no value for it")]
    Missing(String),
    #[error("a value cannot stand {0}")]
    Place(&'static str),
    #[error("`{0}` cannot be an identifier")]
    Ident(String),
    #[error("a value holds a NUL character, which SQL cannot take")]
    Nul,
    #[error("`$n` needs `params`; it cannot stand beside `{{{{ … }}}}` without them")]
    Unnumbered,
}

/// The statements of a command.
pub(crate) fn bind(
    pieces: &[Piece],
    dialect: Dialect,
    params: &Params,
) -> Result<Vec<Statement>, BindError> {
    let mut binder = Binder {
        dialect,
        given: params,
        place: Place::Code,
        ended: None,
        words: Words::new(dialect),
        text: String::new(),
        params: Vec::new(),
        slots: Vec::new(),
        has_own_numbers: false,
        line: 1,
        positional: 0,
        statements: Vec::new(),
    };
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) | Piece::Raw(text) => binder.read(text)?,
            Piece::Ident(value) if binder.place == Place::Code => binder.ident(value)?,
            Piece::Value(value) | Piece::Ident(value) => {
                let after = match pieces.get(at + 1) {
                    Some(Piece::Text(text) | Piece::Raw(text)) => text.chars().next(),
                    _ => None,
                };
                binder.value(value, after)?;
            }
        }
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
    words: Words,
    text: String,
    params: Vec<Value>,
    slots: Vec<Range<usize>>,
    /// Whether the statement has a `$n` that was left to the database.
    has_own_numbers: bool,
    /// The line on which `text` begins.
    line: usize,
    /// How many bare `?` have been met, over all statements of the command.
    positional: usize,
    statements: Vec<Statement>,
}

impl Binder<'_> {
    fn read(&mut self, text: &str) -> Result<(), BindError> {
        let text: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < text.len() {
            if self.place == Place::Code {
                if text[at] == ';' && self.words.ends_at_semicolon() {
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
                Some(ended) if text[at] == '\'' => (ended.clone(), 1),
                _ => self.place.step(&text[at..], &self.text, self.dialect),
            };
            let end = (at + length).min(text.len());
            match (&self.place, &next) {
                (Place::Code, Place::Code) => self.words.code(text[at]),
                (Place::Code, Place::Line | Place::Block(_)) => self.words.code(' '),
                (Place::Code, _) => self.words.other(),
                _ => {}
            }
            self.follow(&next, text[at]);
            self.text.extend(&text[at..end]);
            self.place = next;
            at = end;
        }
        Ok(())
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
        if !sqlite && *self.given == Params::None {
            // The body of a `PREPARE` or a routine has numbers of its own.
            self.has_own_numbers |= text[at] == '$' && is_number && !before.is_some_and(is_word);
            return Ok(0);
        }
        let value = match text[at] {
            '?' if (sqlite || duckdb) && word.is_empty() => {
                self.positional += 1;
                self.by_number(self.positional, "?")
            }
            '?' if sqlite && is_number => self.by_number(word.parse().unwrap_or(0), &word),
            '$' if !sqlite && is_number && !before.is_some_and(is_word) => {
                self.by_number(word.parse().unwrap_or(0), &word)
            }
            ':' if !duckdb && is_name && before != Some(':') && !before.is_some_and(is_word) => {
                self.by_name(&word)
            }
            '@' | '$' if sqlite && is_name && !before.is_some_and(is_word) => self.by_name(&word),
            // A dollar may also open a quoted text, `$tag$ … $tag$`.
            '$' if duckdb
                && is_name
                && !before.is_some_and(is_word)
                && text.get(at + 1 + word.chars().count()) != Some(&'$') =>
            {
                self.by_name(&word)
            }
            _ => return Ok(0),
        }?;
        let length = 1 + word.chars().count();
        self.push(value);
        Ok(length)
    }

    fn by_number(&self, number: usize, shown: &str) -> Result<Value, BindError> {
        let found = match self.given {
            Params::List(list) => number.checked_sub(1).and_then(|at| list.get(at)),
            Params::None | Params::Map(_) => None,
        };
        let missing = || BindError::Missing(format!("{shown} (number {number})"));
        found.cloned().ok_or_else(missing)
    }

    fn by_name(&self, name: &str) -> Result<Value, BindError> {
        let found = match self.given {
            Params::Map(map) => map.get(name),
            Params::None | Params::List(_) => None,
        };
        found
            .cloned()
            .ok_or_else(|| BindError::Missing(name.to_owned()))
    }

    /// Adds a parameter and its placeholder.
    fn push(&mut self, value: Value) {
        self.params.push(value);
        let sign = match self.dialect {
            Dialect::Sqlite => '?',
            Dialect::Postgres | Dialect::Duckdb => '$',
        };
        let start = self.text.len();
        self.text.push_str(&format!("{sign}{}", self.params.len()));
        self.slots.push(start..self.text.len());
        self.other();
    }

    /// Takes note of something that is no word.
    fn other(&mut self) {
        self.words.other();
        self.ended = None;
    }

    fn value(&mut self, value: &Value, after: Option<char>) -> Result<(), BindError> {
        if self.place == Place::Code {
            return self.value_in_code(value, after);
        }
        if matches!(self.place, Place::Text { .. } | Place::Dollar(_)) && self.words.holds_program()
        {
            return Err(BindError::Place(
                "in the body of a routine, where it would be read as a program; hand it over as an argument",
            ));
        }
        let text = text_of(value)?;
        let escaped = match &self.place {
            Place::Code => unreachable!("values among tokens are bound above"),
            Place::Text { escapes: true } => text.replace('\\', "\\\\").replace('\'', "''"),
            Place::Text { .. } if is_escaped_already(&text) => text,
            Place::Text { .. } => text.replace('\'', "''"),
            Place::Escape => {
                return Err(BindError::Place(
                    "right after a backslash in `E'…'`; write a backslash of the text as `\\\\`",
                ));
            }
            Place::Unicode(_) => {
                return Err(BindError::Place("inside `U&` quotes; use plain quotes"));
            }
            Place::Ident(']') if text.contains(']') => return Err(BindError::Ident(text)),
            Place::Ident(']') => text,
            Place::Ident(end) => text.replace(*end, &end.to_string().repeat(2)),
            Place::Line | Place::Block(_) => text.replace(['\n', '\r', '*', '/'], " "),
            Place::Dollar(_) if text.contains('$') => {
                return Err(BindError::Place("inside `$…$` quotes if it holds a `$`"));
            }
            Place::Dollar(_) => text,
        };
        self.text.push_str(&escaped);
        Ok(())
    }

    fn value_in_code(&mut self, value: &Value, after: Option<char>) -> Result<(), BindError> {
        let touches =
            self.text.chars().next_back().is_some_and(is_word) || after.is_some_and(is_word);
        if touches {
            // Part of a name: only what cannot end the name may be put in.
            let text = text_of(value)?;
            if text.is_empty() || !text.chars().all(is_word) {
                return Err(BindError::Ident(text));
            }
            text.chars().for_each(|c| self.words.code(c));
            self.text.push_str(&text);
            self.ended = None;
            return Ok(());
        }
        match value {
            Value::Array(items) if self.is_in_list() => {
                if items.is_empty() {
                    self.text.push_str("NULL");
                    self.other();
                }
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.text.push_str(", ");
                    }
                    self.push(item.clone());
                }
            }
            other => self.push(other.clone()),
        }
        Ok(())
    }

    /// Whether the text so far ends in `IN (`.
    fn is_in_list(&self) -> bool {
        let Some(head) = self.text.trim_end().strip_suffix('(') else {
            return false;
        };
        let mut back = head.trim_end().chars().rev();
        matches!(
            (back.next(), back.next(), back.next()),
            (Some('n' | 'N'), Some('i' | 'I'), third) if !third.is_some_and(is_word)
        )
    }

    /// Writes an identifier, a dotted one, or a list of them, in quotes.
    fn ident(&mut self, value: &Value) -> Result<(), BindError> {
        let names = match value {
            Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for (at, name) in names.iter().enumerate() {
            let Value::String(name) = name else {
                return Err(BindError::Ident(name.to_string()));
            };
            if name.contains('\0') || name.split('.').any(str::is_empty) {
                return Err(BindError::Ident(name.clone()));
            }
            if at > 0 {
                self.text.push_str(", ");
            }
            let quoted = name
                .split('.')
                .map(|part| format!("\"{}\"", part.replace('"', "\"\"")));
            self.text.push_str(&quoted.collect::<Vec<_>>().join("."));
        }
        self.other();
        Ok(())
    }

    fn end_statement(&mut self) -> Result<(), BindError> {
        let text = std::mem::take(&mut self.text);
        let params = std::mem::take(&mut self.params);
        let slots = std::mem::take(&mut self.slots);
        let words = std::mem::replace(&mut self.words, Words::new(self.dialect));
        self.ended = None;
        if std::mem::take(&mut self.has_own_numbers) && !params.is_empty() {
            return Err(BindError::Unnumbered);
        }
        let skipped = text.len() - text.trim_start().len();
        let line = self.line + lines(&text[..skipped]);
        self.line += lines(&text);
        if words.is_empty() {
            return Ok(());
        }
        let (words, verb) = words.read();
        let moved = |slot: Range<usize>| slot.start - skipped..slot.end - skipped;
        self.statements.push(Statement {
            text: text.trim().to_owned(),
            params,
            slots: slots.into_iter().map(moved).collect(),
            words,
            verb,
            line,
        });
        Ok(())
    }
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// A value as a literal that means the same whatever the session says about backslashes.
fn literal(value: &Value) -> String {
    let text = match value {
        Value::Null => return "NULL".to_owned(),
        Value::Bool(flag) => return flag.to_string(),
        // Apart from what stands before it: two signs would begin a comment.
        Value::Number(number) => return format!(" {number}"),
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') {
        format!(" E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// Whether every quote in a text is doubled, so that it can stand in a literal and not end it.
fn is_escaped_already(text: &str) -> bool {
    text.contains('\'')
        && text
            .split(|c| c != '\'')
            .all(|quotes| quotes.len().is_multiple_of(2))
}

fn text_of(value: &Value) -> Result<String, BindError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    if text.contains('\0') {
        return Err(BindError::Nul);
    }
    Ok(text)
}
