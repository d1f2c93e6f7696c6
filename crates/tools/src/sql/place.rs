//! Where in a SQL text we are: among tokens, in quotes of some kind, or in a comment.

use crate::sql::duckdb::is_wide_blank;

/// Which SQL is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    Duckdb,
}

impl Dialect {
    /// Whether texts, names and comments are read as Postgres reads them.
    pub(crate) fn reads_as_postgres(self) -> bool {
        self != Self::Sqlite
    }
}

/// What surrounds a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Among tokens.
    Code,
    /// Inside `'…'`; in an `E'…'` a backslash escapes.
    Text { escapes: bool },
    /// Inside `E'…'`, right after a backslash: what comes next is escaped by it.
    Escape,
    /// Inside `U&'…'` or `U&"…"`, which ends with this character.
    Unicode(char),
    /// Inside a quoted identifier, which ends with this character.
    Ident(char),
    /// In a comment that ends with the line.
    Line,
    /// In a comment in `/* … */`, with its depth.
    Block(u32),
    /// Inside `$tag$ … $tag$`.
    Dollar(String),
}

impl Place {
    /// The place after the first of these characters, and how many characters that takes; `before` is all that came
    /// since the last quotes or comment.
    pub(crate) fn step(&self, text: &[char], before: &str, dialect: Dialect) -> (Self, usize) {
        let (c, next) = (text[0], text.get(1).copied());
        match self {
            Self::Code => Self::from_code(text, before, dialect),
            Self::Text { escapes: true } if c == '\\' => (Self::Escape, 1),
            Self::Escape => (Self::Text { escapes: true }, 1),
            Self::Text { .. } if c == '\'' => (Self::Code, 1),
            Self::Ident(end) | Self::Unicode(end) if c == *end => (Self::Code, 1),
            Self::Line if c == '\n' => (Self::Code, 1),
            Self::Line if c == '\r' && dialect.reads_as_postgres() => (Self::Code, 1),
            Self::Block(depth) if c == '*' && next == Some('/') => match depth {
                1 => (Self::Code, 2),
                deeper => (Self::Block(deeper - 1), 2),
            },
            Self::Block(depth) if c == '/' && next == Some('*') && dialect.reads_as_postgres() => {
                (Self::Block(depth + 1), 2)
            }
            Self::Dollar(tag)
                if tag
                    .chars()
                    .eq(text.iter().copied().take(tag.chars().count())) =>
            {
                (Self::Code, tag.chars().count())
            }
            same => (same.clone(), 1),
        }
    }

    /// Whether quotes that open right after such a text go on with it, as they do after `''` and after a new line.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::Unicode('\''))
    }

    fn from_code(text: &[char], before: &str, dialect: Dialect) -> (Self, usize) {
        let postgres = dialect.reads_as_postgres();
        match (text[0], text.get(1)) {
            ('\'', _) if postgres && is_prefixed(before, "u&", dialect) => (Self::Unicode('\''), 1),
            ('\'', _) => {
                let escapes = postgres && is_prefixed(before, "e", dialect);
                (Self::Text { escapes }, 1)
            }
            ('"', _) if postgres && is_prefixed(before, "u&", dialect) => (Self::Unicode('"'), 1),
            ('"', _) => (Self::Ident('"'), 1),
            ('`', _) if !postgres => (Self::Ident('`'), 1),
            ('[', _) if !postgres => (Self::Ident(']'), 1),
            ('-', Some('-')) => (Self::Line, 2),
            ('/', Some('*')) => (Self::Block(1), 2),
            ('$', _) if postgres => match dollar_tag(text, before, dialect) {
                Some(tag) => {
                    let length = tag.chars().count();
                    (Self::Dollar(tag), length)
                }
                None => (Self::Code, 1),
            },
            _ => (Self::Code, 1),
        }
    }
}

/// Whether a character can be part of a name. Of those beyond ASCII only letters and digits: some are blanks to a database.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a character continues a name where a database of these reads it: also a dollar, and all beyond ASCII that is
/// no blank.
pub(super) fn continues_name(c: char, dialect: Dialect) -> bool {
    let is_blank = dialect == Dialect::Duckdb && is_wide_blank(c);
    is_word(c) || c == '$' || (!c.is_ascii() && !is_blank)
}

/// Whether the text ends with such a prefix of quotes, which is no part of a longer name.
fn is_prefixed(before: &str, prefix: &str, dialect: Dialect) -> bool {
    let Some(at) = before.len().checked_sub(prefix.len()) else {
        return false;
    };
    let found = before.get(at..);
    let is_name = |c: char| continues_name(c, dialect);
    found.is_some_and(|found| found.eq_ignore_ascii_case(prefix))
        && !before[..at].chars().next_back().is_some_and(is_name)
}

/// `$$` or `$tag$`, where it does not continue a name; a name may hold dollars.
fn dollar_tag(text: &[char], before: &str, dialect: Dialect) -> Option<String> {
    let of_name = |c: &char| continues_name(*c, dialect);
    let first = before.chars().rev().take_while(of_name).last();
    if first.is_some_and(|c| c != '$' && !c.is_ascii_digit()) {
        return None;
    }
    let length = text[1..].iter().position(|c| *c == '$')?;
    let tag = &text[1..=length];
    let is_tag = tag.iter().all(of_name) && !tag.first().is_some_and(char::is_ascii_digit);
    is_tag.then(|| text[..=length + 1].iter().collect())
}
