//! Where in a SQL text we are: among tokens, in quotes of some kind, or in a comment.

/// Which SQL is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// What surrounds a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Among tokens.
    Code,
    /// Inside `'…'`; in an `E'…'` a backslash escapes.
    Text { escapes: bool },
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
    /// The place after the character at `at`, and how many characters that takes.
    pub(crate) fn step(&self, text: &[char], at: usize, dialect: Dialect) -> (Self, usize) {
        let (c, next) = (text[at], text.get(at + 1).copied());
        match self {
            Self::Code => Self::from_code(text, at, dialect),
            Self::Text { escapes: true } if c == '\\' => (self.clone(), 2),
            Self::Text { .. } if c == '\'' => (Self::Code, 1),
            Self::Ident(end) if c == *end => (Self::Code, 1),
            Self::Line if c == '\n' => (Self::Code, 1),
            Self::Block(depth) if c == '*' && next == Some('/') => match depth {
                1 => (Self::Code, 2),
                deeper => (Self::Block(deeper - 1), 2),
            },
            Self::Block(depth) if c == '/' && next == Some('*') && dialect == Dialect::Postgres => {
                (Self::Block(depth + 1), 2)
            }
            Self::Dollar(tag) if text[at..].iter().copied().take(tag.len()).eq(tag.chars()) => {
                (Self::Code, tag.len())
            }
            same => (same.clone(), 1),
        }
    }

    fn from_code(text: &[char], at: usize, dialect: Dialect) -> (Self, usize) {
        let (c, next) = (text[at], text.get(at + 1).copied());
        match (c, next) {
            ('\'', _) => {
                let escapes = dialect == Dialect::Postgres && is_escape_string(text, at);
                (Self::Text { escapes }, 1)
            }
            ('"', _) => (Self::Ident('"'), 1),
            ('`', _) if dialect == Dialect::Sqlite => (Self::Ident('`'), 1),
            ('[', _) if dialect == Dialect::Sqlite => (Self::Ident(']'), 1),
            ('-', Some('-')) => (Self::Line, 2),
            ('/', Some('*')) => (Self::Block(1), 2),
            ('$', _) if dialect == Dialect::Postgres => match dollar_tag(text, at) {
                Some(tag) => {
                    let length = tag.len();
                    (Self::Dollar(tag), length)
                }
                None => (Self::Code, 1),
            },
            _ => (Self::Code, 1),
        }
    }
}

/// Whether a character can be part of a name.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_escape_string(text: &[char], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|at| text[at]);
    matches!(before(1), Some('e' | 'E')) && !before(2).is_some_and(is_word)
}

/// `$$` or `$tag$`, where it does not continue a name.
fn dollar_tag(text: &[char], at: usize) -> Option<String> {
    if at > 0 && is_word(text[at - 1]) {
        return None;
    }
    let length = text[at + 1..].iter().position(|c| *c == '$')?;
    let tag = &text[at + 1..=at + length];
    let is_tag = tag.iter().all(|c| c.is_ascii_alphanumeric() || *c == '_')
        && !tag.first().is_some_and(char::is_ascii_digit);
    is_tag.then(|| text[at..=at + length + 1].iter().collect())
}
