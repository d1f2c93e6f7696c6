//! Where in Python code a value stands: in code, in a string literal of some form, in a comment.
//!
//! This reads the author's text, never the values. It knows prefixes, triple quotes, escapes, and the fields of
//! f-strings, whose expressions may hold strings again.

/// What surrounds a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Among expressions and statements.
    Code,
    /// In the text of a string literal.
    Text(Literal),
    /// In an f-string's field: its expression, or its format. Before Python 3.12 the quotes around the f-string end it
    /// even here, and no backslash may stand in it.
    Field {
        /// Whether it is the format, or a text inside the expression.
        is_text: bool,
    },
    /// In a comment.
    Comment,
}

/// The form of a string literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the letters of a prefix combine freely"
)]
pub(crate) struct Literal {
    /// The quote it ends with.
    pub(crate) quote: char,
    /// Whether it ends with three of them.
    pub(crate) is_triple: bool,
    /// Whether a backslash means itself.
    pub(crate) is_raw: bool,
    /// Whether it is a literal of bytes.
    pub(crate) is_bytes: bool,
    /// Whether braces hold expressions.
    pub(crate) has_fields: bool,
    /// Its prefix as a template string, which only other template strings continue.
    pub(crate) is_template: bool,
}

impl Literal {
    /// The literal that a prefix and a quote begin; none where the word is no prefix.
    fn begun(prefix: &str, quote: char, is_triple: bool) -> Option<Self> {
        let prefix = prefix.to_ascii_lowercase();
        let known = [
            "", "r", "u", "b", "f", "t", "br", "rb", "fr", "rf", "tr", "rt",
        ];
        known.contains(&prefix.as_str()).then(|| Self {
            quote,
            is_triple,
            is_raw: prefix.contains('r'),
            is_bytes: prefix.contains('b'),
            has_fields: prefix.contains(['f', 't']),
            is_template: prefix.contains('t'),
        })
    }

    /// What ends it.
    pub(crate) fn end(self) -> String {
        self.quote
            .to_string()
            .repeat(if self.is_triple { 3 } else { 1 })
    }

    /// What begins another of its form.
    pub(crate) fn start(self) -> String {
        let raw = if self.is_raw { "r" } else { "" };
        let kind = match self {
            Self { is_bytes: true, .. } => "b",
            Self {
                is_template: true, ..
            } => "t",
            Self {
                has_fields: true, ..
            } => "f",
            _ => "",
        };
        format!("{kind}{raw}{}", self.end())
    }
}

/// A construct that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text(Literal),
    /// An expression in an f-string, with the depth of brackets inside.
    Field(u32),
    /// The format behind such an expression.
    Format,
    Comment,
}

/// Reads author text piece by piece and knows the place after it.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    open: Vec<Open>,
    /// The word that code ends with, which may be a prefix of quotes.
    word: String,
    /// Whether a backslash right before escapes what comes next.
    is_escaped: bool,
    /// How many backslashes and quotes the text of the literal ends with.
    tail: usize,
}

impl Reader {
    /// The place right here.
    pub(crate) fn place(&self) -> Place {
        let in_field = |open: &Open| matches!(open, Open::Field(_) | Open::Format);
        match self.open.last() {
            Some(Open::Comment) => Place::Comment,
            open if self.open.iter().any(in_field) => Place::Field {
                is_text: matches!(open, Some(Open::Text(_) | Open::Format)),
            },
            Some(Open::Text(literal)) => Place::Text(*literal),
            None | Some(Open::Field(_) | Open::Format) => Place::Code,
        }
    }

    /// Whether the author's text ends with a backslash that escapes what comes next.
    pub(crate) fn is_escaped(&self) -> bool {
        self.is_escaped
    }

    /// How many bytes of backslashes and quotes the author's text of this literal ends with. The end of a literal right
    /// behind them would be escaped, or would begin earlier.
    pub(crate) fn tail(&self) -> usize {
        self.tail
    }

    /// Whether a name or a number ends right here, so that a value would become a part of it.
    pub(crate) fn is_in_word(&self) -> bool {
        !self.word.is_empty()
    }

    /// Takes note of a value that was placed.
    pub(crate) fn value(&mut self, ends_word: bool) {
        self.is_escaped = false;
        self.tail = 0;
        self.word.clear();
        if ends_word {
            self.word.push('0');
        }
    }

    /// Reads author text.
    pub(crate) fn text(&mut self, text: &str) {
        let text: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < text.len() {
            at += self.read(text[at], &text[at + 1..]);
        }
    }

    /// Reads one character; returns how many characters that took.
    fn read(&mut self, c: char, ahead: &[char]) -> usize {
        match self.open.last().copied() {
            Some(Open::Comment) => {
                if matches!(c, '\n' | '\r') {
                    self.open.pop();
                }
                1
            }
            Some(Open::Text(literal)) => self.read_text(c, ahead, literal),
            Some(Open::Format) => {
                match c {
                    '{' => self.open.push(Open::Field(0)),
                    '}' => {
                        self.open.pop();
                        self.open.pop();
                    }
                    _ => {}
                }
                1
            }
            None => self.read_code(c, ahead),
            Some(Open::Field(depth)) => self.read_field(c, ahead, depth),
        }
    }

    fn read_text(&mut self, c: char, ahead: &[char], literal: Literal) -> usize {
        self.tail = if c == '\\' || c == literal.quote {
            self.tail + 1
        } else {
            0
        };
        if std::mem::take(&mut self.is_escaped) {
            // `\N{DASH}` names a character, unless the literal is raw or bytes.
            let is_named = c == 'N' && !literal.is_raw && !literal.is_bytes;
            if is_named && ahead.first() == Some(&'{') {
                let end = ahead.iter().position(|c| *c == '}');
                return end.map_or(1, |end| end + 2);
            }
            return 1;
        }
        match c {
            '\\' => self.is_escaped = true,
            c if c == literal.quote => {
                if !literal.is_triple {
                    self.open.pop();
                } else if ahead.starts_with(&[c, c]) {
                    self.open.pop();
                    return 3;
                }
            }
            '{' if literal.has_fields => {
                if ahead.first() == Some(&'{') {
                    return 2;
                }
                self.word.clear();
                self.open.push(Open::Field(0));
            }
            _ => {}
        }
        1
    }

    fn read_field(&mut self, c: char, ahead: &[char], depth: u32) -> usize {
        let deeper = match c {
            '(' | '[' | '{' => depth + 1,
            ')' | ']' => depth.saturating_sub(1),
            '}' if depth > 0 => depth - 1,
            '}' => {
                self.open.pop();
                return 1;
            }
            ':' if depth == 0 && ahead.first() != Some(&'=') => {
                self.open.push(Open::Format);
                return 1;
            }
            _ => return self.read_code(c, ahead),
        };
        self.word.clear();
        self.open.pop();
        self.open.push(Open::Field(deeper));
        1
    }

    fn read_code(&mut self, c: char, ahead: &[char]) -> usize {
        if matches!(c, '\'' | '"') {
            let is_triple = ahead.starts_with(&[c, c]);
            let prefix = std::mem::take(&mut self.word);
            let plain = || Literal::begun("", c, is_triple);
            if let Some(literal) = Literal::begun(&prefix, c, is_triple).or_else(plain) {
                self.open.push(Open::Text(literal));
                self.tail = 0;
            }
            return if is_triple { 3 } else { 1 };
        }
        if c.is_alphanumeric() || c == '_' {
            self.word.push(c);
            return 1;
        }
        self.word.clear();
        if c == '#' {
            self.open.push(Open::Comment);
        }
        1
    }
}
