//! Finds the lexical context of a position in a jq program: code, string or comment.
//!
//! The scanner reads only the playbook's text, never the values. It handles escapes, interpolations `\( … )`, which
//! contain code again, and comments, which a backslash at the end of a line continues.

use crate::value_placement::is_word_character;

/// Context of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JqContext {
    Code,
    String,
    Comment,
}

/// An open construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenJqConstruct {
    String,
    /// An interpolation, with the number of open parentheses inside.
    Interpolation(u32),
    Comment,
}

/// Scans playbook text and tracks the context at its end.
#[derive(Debug, Default)]
pub(crate) struct JqReader {
    open: Vec<OpenJqConstruct>,
    /// Whether a backslash in a string escapes the next character.
    is_escaped: bool,
    /// The backslashes at the end of the comment so far.
    backslashes: usize,
    /// Whether the code ends with a name, a number, or a character that begins a name.
    is_in_word: bool,
}

impl JqReader {
    /// Current context.
    pub(crate) fn context(&self) -> JqContext {
        match self.open.last() {
            Some(OpenJqConstruct::String) => JqContext::String,
            Some(OpenJqConstruct::Comment) => JqContext::Comment,
            Some(OpenJqConstruct::Interpolation(_)) | None => JqContext::Code,
        }
    }

    /// Whether a backslash in the playbook would escape the first character of a value.
    pub(crate) fn is_escaped(&self) -> bool {
        self.is_escaped
    }

    /// Whether a value would continue a name or a number.
    pub(crate) fn is_in_word(&self) -> bool {
        self.is_in_word
    }

    /// Records an inserted value.
    pub(crate) fn skip_value(&mut self) {
        self.is_escaped = false;
        self.is_in_word = false;
        self.backslashes = 0;
    }

    /// Scans playbook text.
    pub(crate) fn read_text(&mut self, text: &str) {
        let mut previous = None;
        for c in text.chars() {
            match self.open.last().copied() {
                Some(OpenJqConstruct::String) => self.read_string(c),
                Some(OpenJqConstruct::Comment) => self.read_comment(c, previous),
                Some(OpenJqConstruct::Interpolation(depth)) => self.read_interpolation(c, depth),
                None => self.read_code(c),
            }
            previous = Some(c);
        }
    }

    fn read_string(&mut self, c: char) {
        if std::mem::take(&mut self.is_escaped) {
            if c == '(' {
                self.open.push(OpenJqConstruct::Interpolation(0));
                self.is_in_word = false;
            }
            return;
        }
        match c {
            '\\' => self.is_escaped = true,
            '"' => {
                self.open.pop();
            }
            _ => {}
        }
    }

    fn read_comment(&mut self, c: char, previous: Option<char>) {
        match c {
            '\n' if self.backslashes.is_multiple_of(2) => {
                self.open.pop();
                self.backslashes = 0;
            }
            // A carriage return before a line feed is part of the line ending.
            '\r' if previous != Some('\r') => {}
            '\\' if previous != Some('\r') => self.backslashes += 1,
            '\\' => self.backslashes = 1,
            _ => self.backslashes = 0,
        }
    }

    fn read_interpolation(&mut self, c: char, depth: u32) {
        let depth = match c {
            '(' => depth + 1,
            ')' if depth == 0 => {
                self.open.pop();
                return;
            }
            ')' => depth - 1,
            _ => return self.read_code(c),
        };
        self.is_in_word = false;
        self.open.pop();
        self.open.push(OpenJqConstruct::Interpolation(depth));
    }

    fn read_code(&mut self, c: char) {
        match c {
            '"' => self.open.push(OpenJqConstruct::String),
            '#' => self.open.push(OpenJqConstruct::Comment),
            _ => {}
        }
        self.is_in_word = is_word_character(c) || matches!(c, '$' | '@');
    }
}
