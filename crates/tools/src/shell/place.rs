//! Finds the quoting context of a position in a shell script: unquoted, quoted, arithmetic or here-document.
//!
//! The scanner reads only the playbook's text, not the values. An error in it can at most split or join words, because
//! values reach the script through variables, which the shell never parses again.

/// Context of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Unquoted.
    Bare,
    /// Inside `"…"`.
    Double,
    /// Inside `'…'`.
    Single,
    /// Inside `$'…'`.
    Ansi,
    /// Inside `$((…))`.
    Arithmetic,
    /// In a comment.
    Comment,
    /// In a here-document that is expanded.
    Heredoc,
    /// In a here-document that is literal.
    RawHeredoc,
}

/// An open nested construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Double,
    Single,
    Ansi,
    /// `$(`, `<(`, `(`.
    Paren,
    /// `${`.
    Brace,
    /// `$((`, with the depth of parentheses inside.
    Arithmetic(u32),
    Backtick,
    Comment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Heredoc {
    delimiter: String,
    is_raw: bool,
    strips_tabs: bool,
    /// Current line so far.
    line: String,
    /// Whether that line contains part of a value.
    has_value: bool,
}

/// Scans playbook text in pieces and tracks the context at its end.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    open: Vec<Open>,
    pending: Vec<Heredoc>,
    /// Here-document being read.
    body: Option<Heredoc>,
    /// Whether a value contributed to a here-document's delimiter line.
    is_ended_by_value: bool,
    /// Last character.
    before: Option<char>,
}

impl Reader {
    /// Current context.
    pub(crate) fn place(&self) -> Place {
        if let Some(heredoc) = &self.body {
            return match heredoc.is_raw {
                true => Place::RawHeredoc,
                false if heredoc.is_in_arithmetic() => Place::Arithmetic,
                false => Place::Heredoc,
            };
        }
        match self.open.last() {
            None | Some(Open::Paren | Open::Brace | Open::Backtick) => Place::Bare,
            Some(Open::Double) => Place::Double,
            Some(Open::Single) => Place::Single,
            Some(Open::Ansi) => Place::Ansi,
            Some(Open::Arithmetic(_)) => Place::Arithmetic,
            Some(Open::Comment) => Place::Comment,
        }
    }

    /// Whether the position is inside backticks; the shell finds their end before it parses anything else.
    pub(crate) fn is_in_backticks(&self) -> bool {
        self.open.contains(&Open::Backtick)
    }

    /// Whether a value ends a literal here-document, alone or together with the text next to it.
    pub(crate) fn is_ended_by_value(&self) -> bool {
        self.is_ended_by_value || self.body.as_ref().is_some_and(Heredoc::is_spelled_by_value)
    }

    /// Records a value that is expanded: its line is not a delimiter, and its word continues.
    pub(crate) fn value(&mut self) {
        if let Some(heredoc) = &mut self.body {
            heredoc.line.push('\u{fffd}');
        }
        self.before = Some('\u{fffd}');
    }

    /// Records a value that is inserted literally in a here-document.
    pub(crate) fn raw_value(&mut self, text: &str) {
        let Some(heredoc) = &mut self.body else {
            return;
        };
        heredoc.has_value = true;
        for c in text.chars() {
            if c == '\n' {
                self.is_ended_by_value |= heredoc.is_spelled_by_value();
                heredoc.line.clear();
            } else {
                heredoc.line.push(c);
            }
        }
    }

    /// Scans playbook text.
    pub(crate) fn text(&mut self, text: &str) {
        let mut rest = text.chars().collect::<Vec<_>>().into_iter().peekable();
        while let Some(c) = rest.next() {
            if self.body.is_some() {
                self.read_body(c);
            } else {
                let ahead: Vec<char> = rest.clone().take(2).collect();
                let taken = self.read(c, &ahead);
                if c == '<' && ahead.first() == Some(&'<') && self.place() == Place::Bare {
                    if ahead.get(1) == Some(&'<') {
                        rest.next();
                        rest.next();
                    } else {
                        rest.next();
                        self.read_heredoc_start(&mut rest);
                    }
                } else {
                    for _ in 0..taken {
                        rest.next();
                    }
                }
            }
            self.before = Some(c);
        }
    }

    /// Scans one character and returns how many following characters belong to it.
    fn read(&mut self, c: char, ahead: &[char]) -> usize {
        match self.open.last().copied() {
            Some(Open::Ansi) if c == '\\' => 1,
            Some(Open::Single | Open::Ansi) => self.close_at('\'', c),
            Some(Open::Comment) => {
                if c == '\n' {
                    self.open.pop();
                    self.begin_body();
                }
                0
            }
            Some(Open::Double) => self.read_double(c, ahead),
            Some(Open::Arithmetic(depth)) => self.read_arithmetic(c, ahead, depth),
            None | Some(Open::Paren | Open::Brace | Open::Backtick) => self.read_bare(c, ahead),
        }
    }

    fn read_bare(&mut self, c: char, ahead: &[char]) -> usize {
        match c {
            '\\' => return 1,
            '\'' => self.open.push(Open::Single),
            '"' => self.open.push(Open::Double),
            '`' => self.backtick(),
            '$' => return self.dollar(ahead, true),
            '(' => self.open.push(Open::Paren),
            ')' if self.open.last() == Some(&Open::Paren) => {
                self.open.pop();
            }
            '}' if self.open.last() == Some(&Open::Brace) => {
                self.open.pop();
            }
            '#' if self.begins_word() && self.open.last() != Some(&Open::Brace) => {
                self.open.push(Open::Comment);
            }
            '\n' => self.begin_body(),
            _ => {}
        }
        0
    }

    fn read_double(&mut self, c: char, ahead: &[char]) -> usize {
        match c {
            '\\' => 1,
            '"' => {
                self.open.pop();
                0
            }
            '`' => {
                self.backtick();
                0
            }
            '$' => self.dollar(ahead, false),
            _ => 0,
        }
    }

    fn read_arithmetic(&mut self, c: char, ahead: &[char], depth: u32) -> usize {
        self.open.pop();
        match c {
            '(' => self.open.push(Open::Arithmetic(depth + 1)),
            ')' if depth > 0 => self.open.push(Open::Arithmetic(depth - 1)),
            ')' if ahead.first() == Some(&')') => return 1,
            '$' => {
                self.open.push(Open::Arithmetic(depth));
                return self.dollar(ahead, false);
            }
            _ => self.open.push(Open::Arithmetic(depth)),
        }
        0
    }

    fn dollar(&mut self, ahead: &[char], is_bare: bool) -> usize {
        match ahead {
            ['(', '(', ..] => {
                self.open.push(Open::Arithmetic(0));
                2
            }
            ['(', ..] => {
                self.open.push(Open::Paren);
                1
            }
            ['{', ..] => {
                self.open.push(Open::Brace);
                1
            }
            ['\'', ..] if is_bare => {
                self.open.push(Open::Ansi);
                1
            }
            _ => 0,
        }
    }

    fn close_at(&mut self, end: char, c: char) -> usize {
        if c == end {
            self.open.pop();
        }
        0
    }

    fn backtick(&mut self) {
        match self.open.iter().rposition(|open| *open == Open::Backtick) {
            Some(at) => self.open.truncate(at),
            None => self.open.push(Open::Backtick),
        }
    }

    fn begins_word(&self) -> bool {
        self.before
            .is_none_or(|c| c.is_whitespace() || ";&|()`".contains(c))
    }

    /// Reads `-`, blanks and the word after `<<`.
    fn read_heredoc_start(&mut self, rest: &mut std::iter::Peekable<std::vec::IntoIter<char>>) {
        let strips_tabs = rest.next_if_eq(&'-').is_some();
        while rest.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let (mut delimiter, mut is_raw, mut quote) = (String::new(), false, None);
        while let Some(c) = rest.peek().copied() {
            match (quote, c) {
                (Some(end), c) if c == end => quote = None,
                (None, '\'' | '"') => {
                    is_raw = true;
                    quote = Some(c);
                }
                (None, '\\') => is_raw = true,
                (None, c) if c.is_whitespace() || ";&|()<>".contains(c) => break,
                (_, c) => delimiter.push(c),
            }
            rest.next();
        }
        self.pending.push(Heredoc {
            delimiter,
            is_raw,
            strips_tabs,
            line: String::new(),
            has_value: false,
        });
    }

    fn begin_body(&mut self) {
        if self.body.is_none() && !self.pending.is_empty() {
            self.body = Some(self.pending.remove(0));
        }
    }

    fn read_body(&mut self, c: char) {
        let Some(heredoc) = &mut self.body else {
            return;
        };
        if c != '\n' {
            heredoc.line.push(c);
            return;
        }
        self.is_ended_by_value |= heredoc.is_spelled_by_value();
        if heredoc.is_ended() {
            self.body = None;
            self.begin_body();
        } else {
            heredoc.line.clear();
            heredoc.has_value = false;
        }
    }
}

impl Heredoc {
    /// Whether the current line is the delimiter.
    fn is_ended(&self) -> bool {
        let line = self.line.as_str();
        let line = if self.strips_tabs {
            line.trim_start_matches('\t')
        } else {
            line
        };
        line == self.delimiter
    }

    /// Whether the current line has an unclosed `$((`.
    fn is_in_arithmetic(&self) -> bool {
        let after = self.line.rsplit_once("$((").map(|(_, after)| after);
        after.is_some_and(|after| !after.contains("))"))
    }

    /// Whether the current line contains a value and could be read as the delimiter; shells differ in what may follow
    /// it.
    fn is_spelled_by_value(&self) -> bool {
        let line = self.line.trim_start_matches('\t').trim_end();
        let rest = line.strip_prefix(self.delimiter.as_str());
        self.has_value && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(')'))
    }
}
