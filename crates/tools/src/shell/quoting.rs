//! Finds the quoting context of a position in a shell script: unquoted, quoted, arithmetic or here-document.
//!
//! The scanner reads only the playbook's text, not the values. An error in it can at most split or join words, because
//! values reach the script through variables, which the shell never parses again.

/// Context of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuoteContext {
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
enum OpenConstruct {
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
pub(crate) struct ScriptScanner {
    open_constructs: Vec<OpenConstruct>,
    pending: Vec<Heredoc>,
    /// Here-document being read.
    heredoc: Option<Heredoc>,
    /// Whether a value contributed to a here-document's delimiter line.
    is_ended_by_value: bool,
    /// Last character.
    previous: Option<char>,
}

impl ScriptScanner {
    /// Current context.
    pub(crate) fn context(&self) -> QuoteContext {
        if let Some(heredoc) = &self.heredoc {
            return match heredoc.is_raw {
                true => QuoteContext::RawHeredoc,
                false if heredoc.is_in_arithmetic() => QuoteContext::Arithmetic,
                false => QuoteContext::Heredoc,
            };
        }
        match self.open_constructs.last() {
            None | Some(OpenConstruct::Paren | OpenConstruct::Brace | OpenConstruct::Backtick) => QuoteContext::Bare,
            Some(OpenConstruct::Double) => QuoteContext::Double,
            Some(OpenConstruct::Single) => QuoteContext::Single,
            Some(OpenConstruct::Ansi) => QuoteContext::Ansi,
            Some(OpenConstruct::Arithmetic(_)) => QuoteContext::Arithmetic,
            Some(OpenConstruct::Comment) => QuoteContext::Comment,
        }
    }

    /// Whether the position is inside backticks; the shell finds their end before it parses anything else.
    pub(crate) fn is_in_backticks(&self) -> bool {
        self.open_constructs.contains(&OpenConstruct::Backtick)
    }

    /// Whether a value ends a literal here-document, alone or together with the text next to it.
    pub(crate) fn is_ended_by_value(&self) -> bool {
        self.is_ended_by_value || self.heredoc.as_ref().is_some_and(Heredoc::is_spelled_by_value)
    }

    /// Records a value that is expanded: its line is not a delimiter, and its word continues.
    pub(crate) fn skip_value(&mut self) {
        if let Some(heredoc) = &mut self.heredoc {
            heredoc.line.push('\u{fffd}');
        }
        self.previous = Some('\u{fffd}');
    }

    /// Records a value that is inserted literally in a here-document.
    pub(crate) fn read_raw_value(&mut self, text: &str) {
        let Some(heredoc) = &mut self.heredoc else {
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
    pub(crate) fn read_text(&mut self, text: &str) {
        let mut chars = text.chars().collect::<Vec<_>>().into_iter().peekable();
        while let Some(c) = chars.next() {
            if self.heredoc.is_some() {
                self.read_heredoc(c);
            } else {
                let ahead: Vec<char> = chars.clone().take(2).collect();
                let consumed = self.read(c, &ahead);
                if c == '<' && ahead.first() == Some(&'<') && self.context() == QuoteContext::Bare {
                    if ahead.get(1) == Some(&'<') {
                        chars.next();
                        chars.next();
                    } else {
                        chars.next();
                        self.read_heredoc_start(&mut chars);
                    }
                } else {
                    for _ in 0..consumed {
                        chars.next();
                    }
                }
            }
            self.previous = Some(c);
        }
    }

    /// Scans one character and returns how many following characters belong to it.
    fn read(&mut self, c: char, ahead: &[char]) -> usize {
        match self.open_constructs.last().copied() {
            Some(OpenConstruct::Ansi) if c == '\\' => 1,
            Some(OpenConstruct::Single | OpenConstruct::Ansi) => self.close_at('\'', c),
            Some(OpenConstruct::Comment) => {
                if c == '\n' {
                    self.open_constructs.pop();
                    self.start_heredoc();
                }
                0
            }
            Some(OpenConstruct::Double) => self.read_double(c, ahead),
            Some(OpenConstruct::Arithmetic(depth)) => self.read_arithmetic(c, ahead, depth),
            None | Some(OpenConstruct::Paren | OpenConstruct::Brace | OpenConstruct::Backtick) => {
                self.read_bare(c, ahead)
            }
        }
    }

    fn read_bare(&mut self, c: char, ahead: &[char]) -> usize {
        match c {
            '\\' => return 1,
            '\'' => self.open_constructs.push(OpenConstruct::Single),
            '"' => self.open_constructs.push(OpenConstruct::Double),
            '`' => self.read_backtick(),
            '$' => return self.read_dollar(ahead, true),
            '(' => self.open_constructs.push(OpenConstruct::Paren),
            ')' if self.open_constructs.last() == Some(&OpenConstruct::Paren) => {
                self.open_constructs.pop();
            }
            '}' if self.open_constructs.last() == Some(&OpenConstruct::Brace) => {
                self.open_constructs.pop();
            }
            '#' if self.is_word_start() && self.open_constructs.last() != Some(&OpenConstruct::Brace) => {
                self.open_constructs.push(OpenConstruct::Comment);
            }
            '\n' => self.start_heredoc(),
            _ => {}
        }
        0
    }

    fn read_double(&mut self, c: char, ahead: &[char]) -> usize {
        match c {
            '\\' => 1,
            '"' => {
                self.open_constructs.pop();
                0
            }
            '`' => {
                self.read_backtick();
                0
            }
            '$' => self.read_dollar(ahead, false),
            _ => 0,
        }
    }

    fn read_arithmetic(&mut self, c: char, ahead: &[char], depth: u32) -> usize {
        self.open_constructs.pop();
        match c {
            '(' => self.open_constructs.push(OpenConstruct::Arithmetic(depth + 1)),
            ')' if depth > 0 => self.open_constructs.push(OpenConstruct::Arithmetic(depth - 1)),
            ')' if ahead.first() == Some(&')') => return 1,
            '$' => {
                self.open_constructs.push(OpenConstruct::Arithmetic(depth));
                return self.read_dollar(ahead, false);
            }
            _ => self.open_constructs.push(OpenConstruct::Arithmetic(depth)),
        }
        0
    }

    fn read_dollar(&mut self, ahead: &[char], is_bare: bool) -> usize {
        match ahead {
            ['(', '(', ..] => {
                self.open_constructs.push(OpenConstruct::Arithmetic(0));
                2
            }
            ['(', ..] => {
                self.open_constructs.push(OpenConstruct::Paren);
                1
            }
            ['{', ..] => {
                self.open_constructs.push(OpenConstruct::Brace);
                1
            }
            ['\'', ..] if is_bare => {
                self.open_constructs.push(OpenConstruct::Ansi);
                1
            }
            _ => 0,
        }
    }

    fn close_at(&mut self, end: char, c: char) -> usize {
        if c == end {
            self.open_constructs.pop();
        }
        0
    }

    fn read_backtick(&mut self) {
        match self
            .open_constructs
            .iter()
            .rposition(|open| *open == OpenConstruct::Backtick)
        {
            Some(at) => self.open_constructs.truncate(at),
            None => self.open_constructs.push(OpenConstruct::Backtick),
        }
    }

    fn is_word_start(&self) -> bool {
        self.previous.is_none_or(|c| c.is_whitespace() || ";&|()`".contains(c))
    }

    /// Reads `-`, blanks and the word after `<<`.
    fn read_heredoc_start(&mut self, chars: &mut std::iter::Peekable<std::vec::IntoIter<char>>) {
        let strips_tabs = chars.next_if_eq(&'-').is_some();
        while chars.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let (mut delimiter, mut is_raw, mut quote) = (String::new(), false, None);
        while let Some(c) = chars.peek().copied() {
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
            chars.next();
        }
        self.pending.push(Heredoc {
            delimiter,
            is_raw,
            strips_tabs,
            line: String::new(),
            has_value: false,
        });
    }

    fn start_heredoc(&mut self) {
        if self.heredoc.is_none() && !self.pending.is_empty() {
            self.heredoc = Some(self.pending.remove(0));
        }
    }

    fn read_heredoc(&mut self, c: char) {
        let Some(heredoc) = &mut self.heredoc else {
            return;
        };
        if c != '\n' {
            heredoc.line.push(c);
            return;
        }
        self.is_ended_by_value |= heredoc.is_spelled_by_value();
        if heredoc.is_ended() {
            self.heredoc = None;
            self.start_heredoc();
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
        let tail = line.strip_prefix(self.delimiter.as_str());
        self.has_value && tail.is_some_and(|tail| tail.is_empty() || tail.starts_with(')'))
    }
}
