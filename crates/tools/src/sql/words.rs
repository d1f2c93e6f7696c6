//! The words of a statement, as far as they say where it ends: a trigger's body has semicolons of its own.

use crate::sql::place::is_word;

/// The first words of a statement, and the last token.
#[derive(Debug, Default, Clone)]
pub(crate) struct Words {
    first: Vec<String>,
    word: String,
    last: Last,
    is_empty: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    Other,
    Semicolon,
    EndAfterSemicolon,
}

impl Words {
    pub(crate) fn new() -> Self {
        Self {
            is_empty: true,
            ..Self::default()
        }
    }

    /// Takes one character that stands among tokens.
    pub(crate) fn code(&mut self, c: char) {
        if is_word(c) {
            self.word.push(c.to_ascii_uppercase());
            self.is_empty = false;
            return;
        }
        self.end_word();
        if !c.is_whitespace() && c != ';' {
            self.is_empty = false;
            self.last = Last::Other;
        }
    }

    /// Takes note of a value or of quoted text.
    pub(crate) fn other(&mut self) {
        self.end_word();
        self.is_empty = false;
        self.last = Last::Other;
    }

    /// Whether a semicolon here ends the statement.
    pub(crate) fn ends_at_semicolon(&mut self) -> bool {
        self.end_word();
        if !self.is_trigger() {
            return true;
        }
        let ends = self.last == Last::EndAfterSemicolon;
        self.last = Last::Semicolon;
        ends
    }

    /// Whether nothing but blanks and comments has come so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        self.last = if self.word == "END" && self.last == Last::Semicolon {
            Last::EndAfterSemicolon
        } else {
            Last::Other
        };
        if self.first.len() < 3 {
            self.first.push(std::mem::take(&mut self.word));
        } else {
            self.word.clear();
        }
    }

    fn is_trigger(&self) -> bool {
        let first: Vec<&str> = self.first.iter().map(String::as_str).collect();
        matches!(
            first[..],
            ["CREATE", "TRIGGER", ..] | ["CREATE", "TEMP" | "TEMPORARY", "TRIGGER"]
        )
    }
}
