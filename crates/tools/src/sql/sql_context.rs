//! Finds the lexical context of a position in SQL text: tokens, quotes or a comment.

use crate::sql::duckdb::is_wide_space;

/// SQL dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlDialect {
    Sqlite,
    Postgres,
    Duckdb,
}

impl SqlDialect {
    /// Whether literals, names and comments have the syntax of Postgres.
    pub fn is_postgres_like(self) -> bool {
        self != Self::Sqlite
    }
}

/// Lexical context of a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SqlContext {
    /// Between tokens.
    Code,
    /// Inside `'…'`; in `E'…'`, a backslash escapes the next character.
    Text { has_escapes: bool },
    /// Inside `E'…'`, directly after a backslash.
    Escape,
    /// Inside `U&'…'` or `U&"…"`, which ends with this character.
    Unicode(char),
    /// Inside a quoted identifier, which ends with this character.
    Ident(char),
    /// In a comment that ends with the line.
    LineComment,
    /// In a block comment `/* … */`, with its nesting depth.
    BlockComment(u32),
    /// Inside `$tag$ … $tag$`.
    DollarQuoted(String),
}

impl SqlContext {
    /// Context after the first token or character of `text`, and the number of its characters. `before` is the text
    /// since the last quotes or comment.
    pub(crate) fn advance(&self, text: &[char], before: &str, dialect: SqlDialect) -> (Self, usize) {
        let (c, next) = (text[0], text.get(1).copied());
        match self {
            Self::Code => Self::advance_from_code(text, before, dialect),
            Self::Text { has_escapes: true } if c == '\\' => (Self::Escape, 1),
            Self::Escape => (Self::Text { has_escapes: true }, 1),
            Self::Text { .. } if c == '\'' => (Self::Code, 1),
            Self::Ident(end) | Self::Unicode(end) if c == *end => (Self::Code, 1),
            Self::LineComment if c == '\n' => (Self::Code, 1),
            Self::LineComment if c == '\r' && dialect.is_postgres_like() => (Self::Code, 1),
            Self::BlockComment(depth) if c == '*' && next == Some('/') => match depth {
                1 => (Self::Code, 2),
                deeper => (Self::BlockComment(deeper - 1), 2),
            },
            Self::BlockComment(depth) if c == '/' && next == Some('*') && dialect.is_postgres_like() => {
                (Self::BlockComment(depth + 1), 2)
            }
            Self::DollarQuoted(tag) if tag.chars().eq(text.iter().copied().take(tag.chars().count())) => {
                (Self::Code, tag.chars().count())
            }
            same => (same.clone(), 1),
        }
    }

    /// Whether a quote directly after such a literal continues it, as in `''` or on the next line.
    pub(crate) fn is_continued(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::Unicode('\''))
    }

    fn advance_from_code(text: &[char], before: &str, dialect: SqlDialect) -> (Self, usize) {
        let postgres = dialect.is_postgres_like();
        match (text[0], text.get(1)) {
            ('\'', _) if postgres && is_prefixed(before, "u&", dialect) => (Self::Unicode('\''), 1),
            ('\'', _) => {
                let has_escapes = postgres && is_prefixed(before, "e", dialect);
                (Self::Text { has_escapes }, 1)
            }
            ('"', _) if postgres && is_prefixed(before, "u&", dialect) => (Self::Unicode('"'), 1),
            ('"', _) => (Self::Ident('"'), 1),
            ('`', _) if !postgres => (Self::Ident('`'), 1),
            ('[', _) if !postgres => (Self::Ident(']'), 1),
            ('-', Some('-')) => (Self::LineComment, 2),
            ('/', Some('*')) => (Self::BlockComment(1), 2),
            ('$', _) if postgres => match dollar_tag(text, before, dialect) {
                Some(tag) => {
                    let length = tag.chars().count();
                    (Self::DollarQuoted(tag), length)
                }
                None => (Self::Code, 1),
            },
            _ => (Self::Code, 1),
        }
    }
}

/// Whether a character can be part of a name. Non-ASCII characters count only if they are alphanumeric, because
/// databases treat some others as white space.
pub(crate) fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether these databases read the character as part of a name: also `$`, and any non-ASCII character that is not
/// white space.
pub(super) fn continues_name(c: char, dialect: SqlDialect) -> bool {
    let is_space = dialect == SqlDialect::Duckdb && is_wide_space(c);
    is_word_character(c) || c == '$' || (!c.is_ascii() && !is_space)
}

/// Whether the text ends with this literal prefix, and not with a longer name.
fn is_prefixed(before: &str, prefix: &str, dialect: SqlDialect) -> bool {
    let Some(at) = before.len().checked_sub(prefix.len()) else {
        return false;
    };
    let tail = before.get(at..);
    let is_name = |c: char| continues_name(c, dialect);
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(prefix)) && !before[..at].chars().next_back().is_some_and(is_name)
}

/// Returns the tag, `$$` or `$tag$`, unless the dollar continues a name: names may contain dollars.
fn dollar_tag(text: &[char], before: &str, dialect: SqlDialect) -> Option<String> {
    let is_name = |c: &char| continues_name(*c, dialect);
    let first = before.chars().rev().take_while(is_name).last();
    if first.is_some_and(|c| c != '$' && !c.is_ascii_digit()) {
        return None;
    }
    let length = text[1..].iter().position(|c| *c == '$')?;
    let tag = &text[1..=length];
    let is_tag = tag.iter().all(is_name) && !tag.first().is_some_and(char::is_ascii_digit);
    is_tag.then(|| text[..=length + 1].iter().collect())
}
