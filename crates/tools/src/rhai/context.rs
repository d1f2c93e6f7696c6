//! Finds the lexical context of a position in a Rhai script: code, string, character or comment.
//!
//! The scanner reads only the playbook's text, never the values. It handles escapes, doubled quotes, raw strings,
//! nested comments, and interpolations `${ … }`, which contain code again.

use crate::value_placement::is_word_character;

/// Context of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RhaiContext {
    Code,
    /// In double quotes.
    String,
    /// In single quotes.
    Character,
    /// In back-ticks, where nothing is escaped.
    Interpolated,
    /// In a raw string, `#" … "#`.
    Raw,
    LineComment,
    BlockComment,
}

/// An open construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenRhaiConstruct {
    String,
    Character,
    Interpolated,
    /// A raw string, with the number of its hashes.
    Raw(usize),
    /// An interpolation, with the number of open braces inside.
    Interpolation(u32),
    LineComment,
    /// A block comment, with the number of comments around it.
    BlockComment(u32),
}

/// Scans playbook text and tracks the context at its end.
#[derive(Debug, Default)]
pub(crate) struct RhaiReader {
    open: Vec<OpenRhaiConstruct>,
    /// Whether a backslash in quotes escapes the next character.
    is_escaped: bool,
    /// Whether the code ends with a name or a number.
    is_in_word: bool,
}

impl RhaiReader {
    /// Current context.
    pub(crate) fn context(&self) -> RhaiContext {
        match self.open.last() {
            Some(OpenRhaiConstruct::String) => RhaiContext::String,
            Some(OpenRhaiConstruct::Character) => RhaiContext::Character,
            Some(OpenRhaiConstruct::Interpolated) => RhaiContext::Interpolated,
            Some(OpenRhaiConstruct::Raw(_)) => RhaiContext::Raw,
            Some(OpenRhaiConstruct::LineComment) => RhaiContext::LineComment,
            Some(OpenRhaiConstruct::BlockComment(_)) => RhaiContext::BlockComment,
            Some(OpenRhaiConstruct::Interpolation(_)) | None => RhaiContext::Code,
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
    }

    /// Scans playbook text.
    pub(crate) fn read_text(&mut self, text: &str) {
        let text: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < text.len() {
            at += self.read(text[at], &text[at + 1..]);
        }
    }

    /// Scans one token or character and returns its number of characters.
    fn read(&mut self, c: char, ahead: &[char]) -> usize {
        match self.open.last().copied() {
            None => self.read_code(c, ahead),
            Some(OpenRhaiConstruct::Interpolation(depth)) => self.read_interpolation(c, ahead, depth),
            Some(OpenRhaiConstruct::String) => self.read_quoted(c, ahead, '"'),
            Some(OpenRhaiConstruct::Character) => self.read_quoted(c, ahead, '\''),
            Some(OpenRhaiConstruct::Interpolated) => self.read_interpolated(c, ahead),
            Some(OpenRhaiConstruct::Raw(hashes)) => self.read_raw(c, ahead, hashes),
            Some(OpenRhaiConstruct::LineComment) => {
                if c == '\n' {
                    self.open.pop();
                }
                1
            }
            Some(OpenRhaiConstruct::BlockComment(depth)) => self.read_block_comment(c, ahead, depth),
        }
    }

    fn read_code(&mut self, c: char, ahead: &[char]) -> usize {
        self.is_in_word = is_word_character(c) || !c.is_ascii() && c.is_alphanumeric();
        match (c, ahead.first()) {
            ('"', _) => self.open.push(OpenRhaiConstruct::String),
            ('\'', _) => self.open.push(OpenRhaiConstruct::Character),
            ('`', _) => self.open.push(OpenRhaiConstruct::Interpolated),
            ('/', Some('/')) => {
                self.open.push(OpenRhaiConstruct::LineComment);
                return 2;
            }
            ('/', Some('*')) => {
                self.open.push(OpenRhaiConstruct::BlockComment(0));
                return 2;
            }
            ('#', Some('"' | '#')) => {
                let hashes = 1 + ahead.iter().take_while(|c| **c == '#').count();
                if ahead.get(hashes - 1) == Some(&'"') {
                    self.open.push(OpenRhaiConstruct::Raw(hashes));
                    return hashes + 1;
                }
            }
            _ => {}
        }
        1
    }

    fn read_interpolation(&mut self, c: char, ahead: &[char], depth: u32) -> usize {
        let depth = match c {
            '{' => depth + 1,
            '}' if depth == 0 => {
                self.open.pop();
                return 1;
            }
            '}' => depth - 1,
            _ => return self.read_code(c, ahead),
        };
        self.is_in_word = false;
        self.open.pop();
        self.open.push(OpenRhaiConstruct::Interpolation(depth));
        1
    }

    fn read_quoted(&mut self, c: char, ahead: &[char], quote: char) -> usize {
        if std::mem::take(&mut self.is_escaped) {
            return 1;
        }
        if c == '\\' {
            self.is_escaped = true;
        } else if c == quote {
            // Two quotes are an escaped quote.
            if ahead.first() == Some(&quote) {
                return 2;
            }
            self.open.pop();
        }
        1
    }

    fn read_interpolated(&mut self, c: char, ahead: &[char]) -> usize {
        match (c, ahead) {
            ('\\', ['$', '{', ..]) => 3,
            ('$', ['{', ..]) => {
                self.open.push(OpenRhaiConstruct::Interpolation(0));
                self.is_in_word = false;
                2
            }
            ('`', ['`', ..]) => 2,
            ('`', _) => {
                self.open.pop();
                1
            }
            _ => 1,
        }
    }

    fn read_raw(&mut self, c: char, ahead: &[char], hashes: usize) -> usize {
        let following = ahead.iter().take_while(|c| **c == '#').count();
        if c == '"' && following >= hashes {
            self.open.pop();
            return 1 + hashes;
        }
        1
    }

    fn read_block_comment(&mut self, c: char, ahead: &[char], depth: u32) -> usize {
        let depth = match (c, ahead.first()) {
            ('/', Some('*')) => Some(depth + 1),
            ('*', Some('/')) => depth.checked_sub(1),
            _ => return 1,
        };
        self.open.pop();
        if let Some(depth) = depth {
            self.open.push(OpenRhaiConstruct::BlockComment(depth));
        }
        2
    }
}
