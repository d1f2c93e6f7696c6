//! Scans a JSON string byte by byte; as strict about UTF-8 and escapes as the parser.

/// Result of one byte inside a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// The string continues.
    More,
    /// The closing quote.
    Closed,
    /// The byte is invalid here.
    Wrong,
}

/// A string being scanned.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Text {
    at: At,
    /// The first half of a surrogate pair was read; the second must follow.
    owes_low: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    /// Between characters.
    #[default]
    Between,
    /// `due` continuation bytes of a character are missing; the next one must be in `low..=high`.
    Within { due: u8, low: u8, high: u8 },
    /// After a backslash.
    Escape,
    /// In the digits of `\u`.
    Hex { due: u8, code: u16 },
}

impl Text {
    /// Whether the text can be cut here.
    pub(super) fn is_between(self) -> bool {
        self.at == At::Between && !self.owes_low
    }

    pub(super) fn step(&mut self, byte: u8) -> Inside {
        let next = match self.at {
            At::Between => return self.between(byte),
            At::Within { due, low, high } => (low..=high).contains(&byte).then_some(if due == 1 {
                At::Between
            } else {
                within(due - 1)
            }),
            At::Escape => self.escape(byte),
            At::Hex { due, code } => self.hex(byte, due, code),
        };
        match next {
            Some(at) => {
                self.at = at;
                Inside::More
            }
            None => Inside::Wrong,
        }
    }

    fn between(&mut self, byte: u8) -> Inside {
        if self.owes_low && byte != b'\\' {
            return Inside::Wrong;
        }
        self.at = match byte {
            b'"' => return Inside::Closed,
            b'\\' => At::Escape,
            0x20..=0x7f => At::Between,
            0xc2..=0xdf => within(1),
            0xe0 => bounded(2, 0xa0, 0xbf),
            0xed => bounded(2, 0x80, 0x9f),
            0xe1..=0xef => within(2),
            0xf0 => bounded(3, 0x90, 0xbf),
            0xf4 => bounded(3, 0x80, 0x8f),
            0xf1..=0xf3 => within(3),
            _ => return Inside::Wrong,
        };
        Inside::More
    }

    fn escape(self, byte: u8) -> Option<At> {
        match byte {
            b'u' => Some(At::Hex { due: 4, code: 0 }),
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' if !self.owes_low => {
                Some(At::Between)
            }
            _ => None,
        }
    }

    fn hex(&mut self, byte: u8, due: u8, code: u16) -> Option<At> {
        let digit = char::from(byte).to_digit(16)?;
        let code = code << 4 | u16::try_from(digit).ok()?;
        if due > 1 {
            return Some(At::Hex { due: due - 1, code });
        }
        let is_low = (0xdc00..=0xdfff).contains(&code);
        if is_low != self.owes_low {
            return None;
        }
        self.owes_low = (0xd800..=0xdbff).contains(&code);
        Some(At::Between)
    }
}

fn within(due: u8) -> At {
    bounded(due, 0x80, 0xbf)
}

fn bounded(due: u8, low: u8, high: u8) -> At {
    At::Within { due, low, high }
}
