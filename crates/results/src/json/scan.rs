//! Checks JSON text while it is streamed, in constant memory.
//!
//! It accepts exactly what `serde_json` parses: the same depth, the same strings, no number out of range.

use super::string_scanner::{StringScanner, StringStep};

/// Maximum nesting depth of the parser of bodies.
const DEPTH_MAX: usize = 127;

/// Maximum length of a number.
const NUMBER_BYTES_MAX: usize = 1024;

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {offset}")]
pub struct JsonScanError {
    /// Offset of the invalid byte, from 0.
    pub offset: u64,
}

/// Checks JSON text while it is streamed.
#[derive(Debug, Clone)]
pub struct JsonScanner {
    /// Open containers; true for objects.
    containers: Vec<bool>,
    depth_max: usize,
    state: ScanState,
    number: Vec<u8>,
    position: u64,
}

/// Effect of one byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ByteStep {
    /// A number ended before this byte.
    pub(super) is_after_number: bool,
    /// A value or key starts with this byte.
    pub(super) value_start: Option<ValueStart>,
    /// A value or key ends with this byte.
    pub(super) is_end: bool,
}

/// What starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueStart {
    Object,
    Array,
    Key,
    Scalar,
}

#[derive(Debug, Clone, Copy)]
enum ScanState {
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
    AfterValue,
    InString {
        scanner: StringScanner,
        is_key: bool,
    },
    Literal {
        remaining: &'static [u8],
    },
    Number,
}

impl Default for JsonScanner {
    fn default() -> Self {
        Self::with_depth(0)
    }
}

impl JsonScanner {
    /// Creates a scanner for text that will be nested this many levels deep in other JSON.
    pub fn with_depth(levels: usize) -> Self {
        Self {
            containers: Vec::new(),
            depth_max: DEPTH_MAX.saturating_sub(levels),
            state: ScanState::Value { may_close: false },
            number: Vec::new(),
            position: 0,
        }
    }

    /// Scans the next part of the text.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), JsonScanError> {
        let mut remaining = bytes;
        while !remaining.is_empty() {
            let plain = self.skip_plain(remaining);
            remaining = &remaining[plain..];
            if let Some((byte, after)) = remaining.split_first() {
                self.step(*byte)?;
                remaining = after;
            }
        }
        Ok(())
    }

    /// Checks that the text is complete.
    pub fn finish(&self) -> Result<(), JsonScanError> {
        let offset = self.position;
        self.is_complete().then_some(()).ok_or(JsonScanError { offset })
    }

    /// Whether the text is complete here.
    pub(super) fn is_complete(&self) -> bool {
        let is_ended = match self.state {
            ScanState::AfterValue => true,
            ScanState::Number => is_number(&self.number),
            _ => false,
        };
        is_ended && self.containers.is_empty()
    }

    /// Skips plain characters of a string and returns their number.
    pub(super) fn skip_plain(&mut self, bytes: &[u8]) -> usize {
        let ScanState::InString { scanner: text, .. } = self.state else {
            return 0;
        };
        if !text.is_between_characters() {
            return 0;
        }
        let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7f if *byte != b'"' && *byte != b'\\');
        let run = bytes.iter().take_while(|byte| is_plain(byte)).count();
        self.position += run as u64;
        run
    }

    /// Number of open containers.
    pub(super) fn depth(&self) -> usize {
        self.containers.len()
    }

    /// Whether a string value can be cut here.
    pub(super) fn is_in_string(&self) -> bool {
        matches!(self.state, ScanState::InString { scanner, is_key: false } if scanner.is_between_characters())
    }

    /// Returns the brackets that close all open containers.
    pub(super) fn closing_brackets(&self) -> Vec<u8> {
        let close = |is_object: &bool| if *is_object { b'}' } else { b']' };
        self.containers.iter().rev().map(close).collect()
    }

    pub(super) fn step(&mut self, byte: u8) -> Result<ByteStep, JsonScanError> {
        let step = self.apply_byte(byte).ok_or(JsonScanError { offset: self.position })?;
        self.position += 1;
        Ok(step)
    }

    fn apply_byte(&mut self, byte: u8) -> Option<ByteStep> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match &mut self.state {
            ScanState::InString { scanner: text, is_key } => {
                let is_key = *is_key;
                match text.step(byte) {
                    StringStep::Continues => Some(ByteStep::default()),
                    StringStep::Invalid => None,
                    StringStep::Closed => {
                        self.state = if is_key {
                            ScanState::Colon
                        } else {
                            ScanState::AfterValue
                        };
                        Some(END_STEP)
                    }
                }
            }
            ScanState::Literal { remaining } => {
                let (due, after) = remaining.split_first()?;
                if *due != byte {
                    return None;
                }
                *remaining = after;
                if !after.is_empty() {
                    return Some(ByteStep::default());
                }
                self.state = ScanState::AfterValue;
                Some(END_STEP)
            }
            ScanState::Number if matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') => {
                self.number.push(byte);
                (self.number.len() <= NUMBER_BYTES_MAX).then(ByteStep::default)
            }
            ScanState::Number => {
                if !is_number(&self.number) {
                    return None;
                }
                self.state = ScanState::AfterValue;
                let step = self.apply_byte(byte)?;
                Some(ByteStep {
                    is_after_number: true,
                    ..step
                })
            }
            _ if is_space => Some(ByteStep::default()),
            ScanState::Value { may_close: true } if byte == b']' => self.close_container(false),
            ScanState::Value { .. } => self.start_value(byte),
            ScanState::Key { may_close: true } if byte == b'}' => self.close_container(true),
            ScanState::Key { .. } => (byte == b'"').then(|| self.start_string(true)),
            ScanState::Colon => (byte == b':').then(|| {
                self.state = ScanState::Value { may_close: false };
                ByteStep::default()
            }),
            ScanState::AfterValue => self.step_after_value(byte),
        }
    }

    fn start_value(&mut self, byte: u8) -> Option<ByteStep> {
        let tail: &'static [u8] = match byte {
            b'{' | b'[' => return self.open_container(byte == b'{'),
            b'"' => return Some(self.start_string(false)),
            b'-' | b'0'..=b'9' => {
                self.number.clear();
                self.number.push(byte);
                self.state = ScanState::Number;
                return Some(start_step(ValueStart::Scalar));
            }
            b't' => b"rue",
            b'f' => b"alse",
            b'n' => b"ull",
            _ => return None,
        };
        self.state = ScanState::Literal { remaining: tail };
        Some(start_step(ValueStart::Scalar))
    }

    fn open_container(&mut self, is_object: bool) -> Option<ByteStep> {
        if self.containers.len() == self.depth_max {
            return None;
        }
        self.containers.push(is_object);
        if is_object {
            self.state = ScanState::Key { may_close: true };
            return Some(start_step(ValueStart::Object));
        }
        self.state = ScanState::Value { may_close: true };
        Some(start_step(ValueStart::Array))
    }

    fn start_string(&mut self, is_key: bool) -> ByteStep {
        let text = StringScanner::default();
        self.state = ScanState::InString { scanner: text, is_key };
        start_step(if is_key { ValueStart::Key } else { ValueStart::Scalar })
    }

    fn step_after_value(&mut self, byte: u8) -> Option<ByteStep> {
        let is_object = *self.containers.last()?;
        match byte {
            b',' if is_object => self.state = ScanState::Key { may_close: false },
            b',' => self.state = ScanState::Value { may_close: false },
            b'}' | b']' => return self.close_container(byte == b'}'),
            _ => return None,
        }
        Some(ByteStep::default())
    }

    fn close_container(&mut self, is_object: bool) -> Option<ByteStep> {
        if self.containers.pop()? != is_object {
            return None;
        }
        self.state = ScanState::AfterValue;
        Some(END_STEP)
    }
}

const END_STEP: ByteStep = ByteStep {
    is_after_number: false,
    value_start: None,
    is_end: true,
};

fn start_step(start: ValueStart) -> ByteStep {
    ByteStep {
        value_start: Some(start),
        ..ByteStep::default()
    }
}

/// Uses the parser itself, so that both accept the same numbers.
fn is_number(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Number>(text).is_ok()
}
