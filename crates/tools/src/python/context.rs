//! Finds the lexical context of a position in Python code: code, string literal, f-string field or comment.
//!
//! The scanner reads only the playbook's text, never the values. It handles prefixes, triple quotes, escapes, and the
//! fields of f-strings, whose expressions may contain strings again.

/// Context of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PythonContext {
    /// In an expression or a statement.
    Code,
    /// In the text of a string literal.
    Text(StringLiteral),
    /// In a field of an f-string: its expression or its format. Before Python 3.12, the quotes of the f-string end it
    /// even here, and a backslash is not allowed.
    Field {
        /// Whether it is the format, or a string inside the expression.
        is_text: bool,
    },
    /// In a comment.
    Comment,
}

/// Form of a string literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the letters of a prefix combine freely")]
pub(crate) struct StringLiteral {
    /// Its quote character.
    pub(crate) quote: char,
    /// Whether it is triple-quoted.
    pub(crate) is_triple: bool,
    /// Whether it is raw.
    pub(crate) is_raw: bool,
    /// Whether it is a bytes literal.
    pub(crate) is_bytes: bool,
    /// Whether braces contain expressions.
    pub(crate) has_fields: bool,
    /// Whether it is a template string, which only joins with other template strings.
    pub(crate) is_template: bool,
}

impl StringLiteral {
    /// The literal that a prefix and a quote open; `None` if the word is not a prefix.
    fn from_prefix(prefix: &str, quote: char, is_triple: bool) -> Option<Self> {
        let prefix = prefix.to_ascii_lowercase();
        let prefixes = ["", "r", "u", "b", "f", "t", "br", "rb", "fr", "rf", "tr", "rt"];
        prefixes.contains(&prefix.as_str()).then(|| Self {
            quote,
            is_triple,
            is_raw: prefix.contains('r'),
            is_bytes: prefix.contains('b'),
            has_fields: prefix.contains(['f', 't']),
            is_template: prefix.contains('t'),
        })
    }

    /// Closing quotes.
    pub(crate) fn closing_quote(self) -> String {
        self.quote.to_string().repeat(if self.is_triple { 3 } else { 1 })
    }

    /// Prefix and opening quotes of another literal of this form.
    pub(crate) fn opening_quote(self) -> String {
        let raw = if self.is_raw { "r" } else { "" };
        let kind = match self {
            Self { is_bytes: true, .. } => "b",
            Self { is_template: true, .. } => "t",
            Self { has_fields: true, .. } => "f",
            _ => "",
        };
        format!("{kind}{raw}{}", self.closing_quote())
    }
}

/// An open construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenPythonConstruct {
    Text(StringLiteral),
    /// An expression in an f-string, with the bracket depth inside.
    Field(u32),
    /// The format after such an expression.
    Format,
    Comment,
}

/// Scans playbook text in pieces and tracks the context at its end.
#[derive(Debug, Default)]
pub(crate) struct PythonReader {
    open_constructs: Vec<OpenPythonConstruct>,
    /// Word at the end of the code, which may be a literal prefix.
    word: String,
    /// Whether the last backslash escapes the next character.
    is_escaped: bool,
    /// Number of backslashes and quotes at the end of the literal's text.
    tail: usize,
}

impl PythonReader {
    /// Current context.
    pub(crate) fn context(&self) -> PythonContext {
        let in_field =
            |open: &OpenPythonConstruct| matches!(open, OpenPythonConstruct::Field(_) | OpenPythonConstruct::Format);
        match self.open_constructs.last() {
            Some(OpenPythonConstruct::Comment) => PythonContext::Comment,
            open if self.open_constructs.iter().any(in_field) => PythonContext::Field {
                is_text: matches!(open, Some(OpenPythonConstruct::Text(_) | OpenPythonConstruct::Format)),
            },
            Some(OpenPythonConstruct::Text(literal)) => PythonContext::Text(*literal),
            None | Some(OpenPythonConstruct::Field(_) | OpenPythonConstruct::Format) => PythonContext::Code,
        }
    }

    /// Whether the playbook's text ends with a backslash that escapes the next character.
    pub(crate) fn is_escaped(&self) -> bool {
        self.is_escaped
    }

    /// Number of backslash and quote bytes at the end of the literal's text. Closing quotes directly after them would
    /// be escaped, or would match too early.
    pub(crate) fn tail(&self) -> usize {
        self.tail
    }

    /// Whether a name or a number ends here, so that a value would become part of it.
    pub(crate) fn is_in_word(&self) -> bool {
        !self.word.is_empty()
    }

    /// Records an inserted value.
    pub(crate) fn skip_value(&mut self, ends_word: bool) {
        self.is_escaped = false;
        self.tail = 0;
        self.word.clear();
        if ends_word {
            self.word.push('0');
        }
    }

    /// Scans playbook text.
    pub(crate) fn read_author_text(&mut self, text: &str) {
        let text: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < text.len() {
            at += self.read(text[at], &text[at + 1..]);
        }
    }

    /// Scans one character and returns how many characters were consumed.
    fn read(&mut self, c: char, ahead: &[char]) -> usize {
        match self.open_constructs.last().copied() {
            Some(OpenPythonConstruct::Comment) => {
                if matches!(c, '\n' | '\r') {
                    self.open_constructs.pop();
                }
                1
            }
            Some(OpenPythonConstruct::Text(literal)) => self.read_text(c, ahead, literal),
            Some(OpenPythonConstruct::Format) => {
                match c {
                    '{' => self.open_constructs.push(OpenPythonConstruct::Field(0)),
                    '}' => {
                        self.open_constructs.pop();
                        self.open_constructs.pop();
                    }
                    _ => {}
                }
                1
            }
            None => self.read_code(c, ahead),
            Some(OpenPythonConstruct::Field(depth)) => self.read_field(c, ahead, depth),
        }
    }

    fn read_text(&mut self, c: char, ahead: &[char], literal: StringLiteral) -> usize {
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
                    self.open_constructs.pop();
                } else if ahead.starts_with(&[c, c]) {
                    self.open_constructs.pop();
                    return 3;
                }
            }
            '{' if literal.has_fields => {
                if ahead.first() == Some(&'{') {
                    return 2;
                }
                self.word.clear();
                self.open_constructs.push(OpenPythonConstruct::Field(0));
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
                self.open_constructs.pop();
                return 1;
            }
            ':' if depth == 0 && ahead.first() != Some(&'=') => {
                self.open_constructs.push(OpenPythonConstruct::Format);
                return 1;
            }
            _ => return self.read_code(c, ahead),
        };
        self.word.clear();
        self.open_constructs.pop();
        self.open_constructs.push(OpenPythonConstruct::Field(deeper));
        1
    }

    fn read_code(&mut self, c: char, ahead: &[char]) -> usize {
        if matches!(c, '\'' | '"') {
            let is_triple = ahead.starts_with(&[c, c]);
            let prefix = std::mem::take(&mut self.word);
            let plain = || StringLiteral::from_prefix("", c, is_triple);
            if let Some(literal) = StringLiteral::from_prefix(&prefix, c, is_triple).or_else(plain) {
                self.open_constructs.push(OpenPythonConstruct::Text(literal));
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
            self.open_constructs.push(OpenPythonConstruct::Comment);
        }
        1
    }
}
