//! Scans a JSON string byte by byte; as strict about UTF-8 and escapes as the parser.

/// Result of one byte inside a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringStep {
    /// The string continues.
    Continues,
    /// The closing quote.
    Closed,
    /// The byte is invalid here.
    Invalid,
}

/// A string being scanned.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StringScanner {
    state: StringState,
    /// The first half of a surrogate pair was read; the second must follow.
    needs_low_surrogate: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StringState {
    /// Between characters.
    #[default]
    BetweenCharacters,
    /// `due` continuation bytes of a character are missing; the next one must be in `low..=high`.
    InCharacter { due: u8, low: u8, high: u8 },
    /// After a backslash.
    Escape,
    /// In the digits of `\u`.
    Hex { due: u8, code: u16 },
}

impl StringScanner {
    /// Whether the text can be cut here.
    pub(super) fn is_between_characters(self) -> bool {
        self.state == StringState::BetweenCharacters && !self.needs_low_surrogate
    }

    pub(super) fn step(&mut self, byte: u8) -> StringStep {
        let next = match self.state {
            StringState::BetweenCharacters => return self.step_between(byte),
            StringState::InCharacter { due, low, high } => (low..=high).contains(&byte).then_some(if due == 1 {
                StringState::BetweenCharacters
            } else {
                continuation(due - 1)
            }),
            StringState::Escape => self.step_escape(byte),
            StringState::Hex { due, code } => self.step_hex(byte, due, code),
        };
        match next {
            Some(state) => {
                self.state = state;
                StringStep::Continues
            }
            None => StringStep::Invalid,
        }
    }

    fn step_between(&mut self, byte: u8) -> StringStep {
        if self.needs_low_surrogate && byte != b'\\' {
            return StringStep::Invalid;
        }
        self.state = match byte {
            b'"' => return StringStep::Closed,
            b'\\' => StringState::Escape,
            0x20..=0x7f => StringState::BetweenCharacters,
            0xc2..=0xdf => continuation(1),
            0xe0 => bounded_continuation(2, 0xa0, 0xbf),
            0xed => bounded_continuation(2, 0x80, 0x9f),
            0xe1..=0xef => continuation(2),
            0xf0 => bounded_continuation(3, 0x90, 0xbf),
            0xf4 => bounded_continuation(3, 0x80, 0x8f),
            0xf1..=0xf3 => continuation(3),
            _ => return StringStep::Invalid,
        };
        StringStep::Continues
    }

    fn step_escape(self, byte: u8) -> Option<StringState> {
        match byte {
            b'u' => Some(StringState::Hex { due: 4, code: 0 }),
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' if !self.needs_low_surrogate => {
                Some(StringState::BetweenCharacters)
            }
            _ => None,
        }
    }

    fn step_hex(&mut self, byte: u8, due: u8, code: u16) -> Option<StringState> {
        let digit = char::from(byte).to_digit(16)?;
        let code = code << 4 | u16::try_from(digit).ok()?;
        if due > 1 {
            return Some(StringState::Hex { due: due - 1, code });
        }
        let is_low = (0xdc00..=0xdfff).contains(&code);
        if is_low != self.needs_low_surrogate {
            return None;
        }
        self.needs_low_surrogate = (0xd800..=0xdbff).contains(&code);
        Some(StringState::BetweenCharacters)
    }
}

fn continuation(due: u8) -> StringState {
    bounded_continuation(due, 0x80, 0xbf)
}

fn bounded_continuation(due: u8, low: u8, high: u8) -> StringState {
    StringState::InCharacter { due, low, high }
}
