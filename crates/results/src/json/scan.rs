//! Checks JSON text while it is streamed, in constant memory.
//!
//! It accepts exactly what `serde_json` parses: the same depth, the same strings, no number out of range.

use super::text::{Inside, Text};

/// Maximum nesting depth of the parser of bodies.
const DEPTH_MAX: usize = 127;

/// Maximum length of a number.
const NUMBER_BYTES_MAX: usize = 1024;

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {at}")]
pub struct NotJson {
    /// Offset of the invalid byte, from 0.
    pub at: u64,
}

/// Checks JSON text while it is streamed.
#[derive(Debug, Clone)]
pub struct Scanner {
    /// Open containers; true for objects.
    open: Vec<bool>,
    depth_max: usize,
    state: State,
    number: Vec<u8>,
    at: u64,
}

/// Effect of one byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// A number ended before this byte.
    pub(super) ended_before: bool,
    /// A value or key starts with this byte.
    pub(super) begins: Option<Begin>,
    /// A value or key ends with this byte.
    pub(super) ends: bool,
}

/// What starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Object,
    Array,
    Key,
    Scalar,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// A value is expected; a list that was just opened may also be closed.
    Value {
        may_close: bool,
    },
    /// A key is expected; an object that was just opened may also be closed.
    Key {
        may_close: bool,
    },
    Colon,
    /// After a value.
    After,
    Text {
        text: Text,
        is_key: bool,
    },
    Word {
        rest: &'static [u8],
    },
    Number,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::nested(0)
    }
}

impl Scanner {
    /// Creates a scanner for text that will be nested this many levels deep in other JSON.
    pub fn nested(levels: usize) -> Self {
        Self {
            open: Vec::new(),
            depth_max: DEPTH_MAX.saturating_sub(levels),
            state: State::Value { may_close: false },
            number: Vec::new(),
            at: 0,
        }
    }

    /// Scans the next part of the text.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), NotJson> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let plain = self.plain_run(rest);
            rest = &rest[plain..];
            if let Some((byte, after)) = rest.split_first() {
                self.step(*byte)?;
                rest = after;
            }
        }
        Ok(())
    }

    /// Checks that the text is complete.
    pub fn finish(&self) -> Result<(), NotJson> {
        let at = self.at;
        self.is_whole().then_some(()).ok_or(NotJson { at })
    }

    /// Whether the text is complete here.
    pub(super) fn is_whole(&self) -> bool {
        let is_ended = match self.state {
            State::After => true,
            State::Number => is_number(&self.number),
            _ => false,
        };
        is_ended && self.open.is_empty()
    }

    /// Skips plain characters of a string and returns their number.
    pub(super) fn plain_run(&mut self, bytes: &[u8]) -> usize {
        let State::Text { text, .. } = self.state else {
            return 0;
        };
        if !text.is_between() {
            return 0;
        }
        let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7f if *byte != b'"' && *byte != b'\\');
        let run = bytes.iter().take_while(|byte| is_plain(byte)).count();
        self.at += run as u64;
        run
    }

    /// Number of open containers.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether a string value can be cut here.
    pub(super) fn is_in_text(&self) -> bool {
        matches!(self.state, State::Text { text, is_key: false } if text.is_between())
    }

    /// Returns the brackets that close all open containers.
    pub(super) fn closers(&self) -> Vec<u8> {
        let close = |is_object: &bool| if *is_object { b'}' } else { b']' };
        self.open.iter().rev().map(close).collect()
    }

    pub(super) fn step(&mut self, byte: u8) -> Result<Step, NotJson> {
        let step = self.next(byte).ok_or(NotJson { at: self.at })?;
        self.at += 1;
        Ok(step)
    }

    fn next(&mut self, byte: u8) -> Option<Step> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match &mut self.state {
            State::Text { text, is_key } => {
                let is_key = *is_key;
                match text.step(byte) {
                    Inside::More => Some(Step::default()),
                    Inside::Wrong => None,
                    Inside::Closed => {
                        self.state = if is_key { State::Colon } else { State::After };
                        Some(ENDS)
                    }
                }
            }
            State::Word { rest } => {
                let (due, after) = rest.split_first()?;
                if *due != byte {
                    return None;
                }
                *rest = after;
                if !after.is_empty() {
                    return Some(Step::default());
                }
                self.state = State::After;
                Some(ENDS)
            }
            State::Number if matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') => {
                self.number.push(byte);
                (self.number.len() <= NUMBER_BYTES_MAX).then(Step::default)
            }
            State::Number => {
                if !is_number(&self.number) {
                    return None;
                }
                self.state = State::After;
                let step = self.next(byte)?;
                Some(Step {
                    ended_before: true,
                    ..step
                })
            }
            _ if is_space => Some(Step::default()),
            State::Value { may_close: true } if byte == b']' => self.close(false),
            State::Value { .. } => self.begin(byte),
            State::Key { may_close: true } if byte == b'}' => self.close(true),
            State::Key { .. } => (byte == b'"').then(|| self.begin_text(true)),
            State::Colon => (byte == b':').then(|| {
                self.state = State::Value { may_close: false };
                Step::default()
            }),
            State::After => self.after(byte),
        }
    }

    fn begin(&mut self, byte: u8) -> Option<Step> {
        let rest: &'static [u8] = match byte {
            b'{' | b'[' => return self.begin_container(byte == b'{'),
            b'"' => return Some(self.begin_text(false)),
            b'-' | b'0'..=b'9' => {
                self.number.clear();
                self.number.push(byte);
                self.state = State::Number;
                return Some(begins(Begin::Scalar));
            }
            b't' => b"rue",
            b'f' => b"alse",
            b'n' => b"ull",
            _ => return None,
        };
        self.state = State::Word { rest };
        Some(begins(Begin::Scalar))
    }

    fn begin_container(&mut self, is_object: bool) -> Option<Step> {
        if self.open.len() == self.depth_max {
            return None;
        }
        self.open.push(is_object);
        if is_object {
            self.state = State::Key { may_close: true };
            return Some(begins(Begin::Object));
        }
        self.state = State::Value { may_close: true };
        Some(begins(Begin::Array))
    }

    fn begin_text(&mut self, is_key: bool) -> Step {
        let text = Text::default();
        self.state = State::Text { text, is_key };
        begins(if is_key { Begin::Key } else { Begin::Scalar })
    }

    fn after(&mut self, byte: u8) -> Option<Step> {
        let is_object = *self.open.last()?;
        match byte {
            b',' if is_object => self.state = State::Key { may_close: false },
            b',' => self.state = State::Value { may_close: false },
            b'}' | b']' => return self.close(byte == b'}'),
            _ => return None,
        }
        Some(Step::default())
    }

    fn close(&mut self, is_object: bool) -> Option<Step> {
        if self.open.pop()? != is_object {
            return None;
        }
        self.state = State::After;
        Some(ENDS)
    }
}

const ENDS: Step = Step {
    ended_before: false,
    begins: None,
    ends: true,
};

fn begins(begin: Begin) -> Step {
    Step {
        begins: Some(begin),
        ..Step::default()
    }
}

/// Uses the parser itself, so that both accept the same numbers.
fn is_number(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Number>(text).is_ok()
}
