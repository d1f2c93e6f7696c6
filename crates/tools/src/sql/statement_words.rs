//! Tracks the words of a statement: where it ends, what it does, and where routine bodies are.

use crate::sql::clauses::StatementClauses;
use crate::sql::sql_context::{SqlDialect, is_word_character};

/// Number of first words to store.
const FIRST_WORDS_MAX: usize = 4;
/// Main verbs of statements that begin with `WITH`.
const VERBS: [&str; 7] = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE"];

/// First words of a statement and the state of the scan.
#[derive(Debug, Clone)]
pub(crate) struct StatementWords {
    dialect: SqlDialect,
    first: Vec<String>,
    verb: Option<String>,
    word: String,
    previous: String,
    /// Number of open parentheses.
    depth: u32,
    /// Number of `END`s that close the `BEGIN ATOMIC` body.
    pending_ends: u32,
    last: LastWordToken,
    is_empty: bool,
    clauses: StatementClauses,
    /// Language of the routine, in upper case; empty if it is quoted.
    language: Option<String>,
    /// Whether an `EXECUTE` in a routine body is open, whose text is dynamic SQL.
    is_in_execute: bool,
}

/// Role of quoted text in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotedText {
    /// A value.
    Value,
    /// A routine body.
    Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastWordToken {
    Other,
    Semicolon,
    EndAfterSemicolon,
}

impl StatementWords {
    pub(crate) fn new(dialect: SqlDialect) -> Self {
        Self {
            dialect,
            first: Vec::new(),
            verb: None,
            word: String::new(),
            previous: String::new(),
            depth: 0,
            pending_ends: 0,
            last: LastWordToken::Other,
            is_empty: true,
            clauses: StatementClauses::new(),
            language: None,
            is_in_execute: false,
        }
    }

    /// First words in upper case, and the main verb: the first word, or the one after the `WITH` clause.
    pub(crate) fn into_words(mut self) -> (Vec<String>, String) {
        self.end_word();
        let first = self.first.first().cloned().unwrap_or_default();
        (self.first, self.verb.unwrap_or(first))
    }

    /// Reads one character between tokens.
    pub(crate) fn read_char(&mut self, c: char) {
        if is_word_character(c) {
            self.word.push(c.to_ascii_uppercase());
            self.is_empty = false;
            return;
        }
        self.end_word();
        match c {
            '(' => self.depth += 1,
            ')' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if !c.is_whitespace() && c != ';' {
            self.is_empty = false;
            self.last = LastWordToken::Other;
            self.clauses.add_sign(c);
            self.previous.clear();
        }
    }

    /// Records a value or quoted text.
    pub(crate) fn add_other(&mut self) {
        self.end_word();
        self.is_empty = false;
        self.last = LastWordToken::Other;
        self.clauses.add_other();
        if self.previous == "LANGUAGE" {
            // A quoted language, an obsolete form.
            self.language = Some(String::new());
        }
        self.previous.clear();
    }

    /// Whether the next token can only be a name.
    pub(crate) fn needs_name(&mut self) -> bool {
        self.end_word();
        self.clauses.needs_name()
    }

    /// Role of quoted text that opens here.
    pub(crate) fn quoted_text(&mut self) -> QuotedText {
        self.end_word();
        let is_do = self.first.first().is_some_and(|word| word == "DO");
        let is_body = is_do || (self.is_routine() && self.previous == "AS");
        if self.dialect == SqlDialect::Postgres && is_body {
            QuotedText::Body
        } else {
            QuotedText::Value
        }
    }

    /// Whether the routine body has SQL syntax.
    pub(crate) fn has_sql_body(&self) -> bool {
        let is_do = self.first.first().is_some_and(|word| word == "DO");
        match self.language.as_deref() {
            None => is_do,
            Some(language) => matches!(language, "SQL" | "PLPGSQL"),
        }
    }

    /// Whether the next token is part of the dynamic SQL of `EXECUTE`; its `USING` clause is not.
    pub(crate) fn is_executed(&mut self) -> bool {
        self.end_word();
        self.is_in_execute
    }

    /// Whether the next token is part of text that a function runs as SQL.
    pub(crate) fn is_in_sql_text(&self) -> bool {
        self.dialect == SqlDialect::Duckdb && self.clauses.is_in_sql_text()
    }

    /// Whether a semicolon ends the statement here.
    pub(crate) fn ends_at_semicolon(&mut self) -> bool {
        self.end_word();
        if self.dialect == SqlDialect::Postgres {
            return self.pending_ends == 0;
        }
        if !self.is_trigger() {
            return true;
        }
        let ends = self.last == LastWordToken::EndAfterSemicolon;
        self.last = LastWordToken::Semicolon;
        ends
    }

    /// Whether there is only white space and comments so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        self.last = if self.word == "END" && self.last == LastWordToken::Semicolon {
            LastWordToken::EndAfterSemicolon
        } else {
            LastWordToken::Other
        };
        let word = std::mem::take(&mut self.word);
        self.follow_routine(&word);
        self.clauses.add_word(&word);
        match word.as_str() {
            "EXECUTE" => self.is_in_execute = true,
            "USING" | "THEN" | "ELSE" | "LOOP" | "BEGIN" => self.is_in_execute = false,
            _ => {}
        }
        if self.previous == "LANGUAGE" {
            self.language = Some(word.clone());
        }
        let is_verb = self.depth == 0 && VERBS.contains(&word.as_str());
        if is_verb && self.verb.is_none() && self.first.first().is_some_and(|w| w == "WITH") {
            self.verb = Some(word.clone());
        }
        if self.first.len() < FIRST_WORDS_MAX {
            self.first.push(word.clone());
        }
        self.previous = word;
    }

    /// Tracks `BEGIN ATOMIC … END`, the body of a standard SQL routine.
    fn follow_routine(&mut self, word: &str) {
        if self.dialect != SqlDialect::Postgres {
            return;
        }
        match word {
            "CASE" if self.pending_ends > 0 => self.pending_ends += 1,
            "END" => self.pending_ends = self.pending_ends.saturating_sub(1),
            "ATOMIC" if self.previous == "BEGIN" && self.is_routine() => self.pending_ends = 1,
            _ => {}
        }
    }

    fn is_routine(&self) -> bool {
        let first: Vec<&str> = self.first.iter().map(String::as_str).collect();
        matches!(
            first[..],
            ["CREATE", "FUNCTION" | "PROCEDURE", ..] | ["CREATE", "OR", "REPLACE", "FUNCTION" | "PROCEDURE"]
        )
    }

    fn is_trigger(&self) -> bool {
        let first: Vec<&str> = self.first.iter().map(String::as_str).collect();
        matches!(
            first[..],
            ["CREATE", "TRIGGER", ..] | ["CREATE", "TEMP" | "TEMPORARY", "TRIGGER", ..]
        )
    }
}
