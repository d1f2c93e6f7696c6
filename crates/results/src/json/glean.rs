//! Extracts from streamed JSON what a reference contains: small top-level fields, selected values, and the beginning.

use model::result_ref::{ENVELOPE_WORDS, KEYS_MAX};
use model::template::Segment;
use serde_json::{Map, Value};

use super::scan::{Begin, NotJson, Scanner};

/// Longer keys cannot be selected, so the extractor skips them.
const KEY_BYTES_MAX: usize = 1024;

/// Maximum size of the JSON text of a top-level scalar; longer ones are not small, whatever the escapes.
const SCALAR_BYTES_MAX: usize = 8 * 1024;

/// Maximum number of collected top-level scalars.
const SCALARS_MAX: usize = 64;

/// Maximum size of a selected value; larger ones do not belong into an event.
pub(crate) const SELECTED_BYTES_MAX: usize = 64 * 1024;

/// Streaming extractor.
pub(crate) struct Glean {
    scanner: Scanner,
    wanted: Vec<Vec<Segment>>,
    trail: Vec<Frame>,
    catches: Vec<Catch>,
    key: Option<Vec<u8>>,
    head: Head,
    found: Gleaned,
    bytes: u64,
}

/// Extracted values.
#[derive(Debug, Default)]
pub(crate) struct Gleaned {
    /// Top-level fields that may be small.
    pub(crate) scalars: Map<String, Value>,
    /// Top-level keys: the envelope's words, and the first of the others.
    pub(crate) keys: Vec<String>,
    /// For each path the last value found there.
    pub(crate) selected: Vec<Option<Selected>>,
    /// Beginning of the value; the whole value if it is short.
    pub(crate) sample: Value,
}

/// Value at a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selected {
    Value(Value),
    TooLarge,
}

/// An open container and the current position in it.
struct Frame {
    is_object: bool,
    next: u64,
    at: Option<Segment>,
}

/// A value that is being captured.
struct Catch {
    to: To,
    depth: usize,
    bytes: Vec<u8>,
    bytes_max: usize,
    is_over: bool,
}

enum To {
    Scalar(String),
    Selected(usize),
}

/// Beginning of the text, and the brackets that close it.
struct Head {
    bytes: Vec<u8>,
    bytes_max: usize,
    whole: usize,
    closers: Vec<u8>,
}

impl Glean {
    /// Creates an extractor for values at `wanted` and for the first `head_bytes_max` bytes.
    pub(crate) fn new(wanted: Vec<Vec<Segment>>, head_bytes_max: usize) -> Self {
        let found = Gleaned {
            selected: vec![None; wanted.len()],
            ..Gleaned::default()
        };
        Self {
            scanner: Scanner::default(),
            wanted,
            trail: Vec::new(),
            catches: Vec::new(),
            key: None,
            head: Head {
                bytes: Vec::new(),
                bytes_max: head_bytes_max,
                whole: 0,
                closers: b"null".to_vec(),
            },
            found,
            bytes: 0,
        }
    }

    /// Number of bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the text is complete here.
    pub(crate) fn is_whole(&self) -> bool {
        self.scanner.is_whole()
    }

    /// Scans the next part of the text.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), NotJson> {
        self.bytes += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (plain, after) = rest.split_at(self.scanner.plain_run(rest));
            // Plain characters can be cut anywhere.
            if !plain.is_empty() && self.keep(plain) && self.scanner.is_in_text() {
                self.mark();
            }
            rest = after;
            if let Some((byte, after)) = rest.split_first() {
                self.byte(*byte)?;
                rest = after;
            }
        }
        Ok(())
    }

    /// Returns the extracted values of the whole text.
    pub(crate) fn finish(mut self) -> Result<Gleaned, NotJson> {
        self.scanner.finish()?;
        if !self.catches.is_empty() {
            // Only a number ends together with the text.
            self.end_value(0);
        }
        self.found.sample = self.head.sample(self.bytes);
        Ok(self.found)
    }

    fn byte(&mut self, byte: u8) -> Result<(), NotJson> {
        let depth = self.scanner.depth();
        let step = self.scanner.step(byte)?;
        if step.ended_before {
            self.end_value(depth);
            self.mark_before(depth);
        }
        match step.begins {
            None => {}
            Some(Begin::Key) => self.key = Some(Vec::new()),
            Some(begin) => self.begin_value(begin, depth),
        }
        let is_in_head = self.keep(&[byte]);
        let mut can_close = matches!(step.begins, Some(Begin::Object | Begin::Array));
        if step.ends {
            if let Some(key) = self.key.take() {
                self.turn_to(&key);
            } else {
                self.trail.truncate(self.scanner.depth());
                self.end_value(self.scanner.depth());
                can_close = true;
            }
        }
        if is_in_head && (can_close || self.scanner.is_in_text()) {
            self.mark();
        }
        Ok(())
    }

    fn turn_to(&mut self, key: &[u8]) {
        if let Some(frame) = self.trail.last_mut() {
            frame.at = serde_json::from_slice(key).ok().map(Segment::Key);
        }
    }

    fn begin_value(&mut self, begin: Begin, depth: usize) {
        if let Some(frame) = self.trail.last_mut().filter(|frame| !frame.is_object) {
            frame.at = Some(Segment::Index(frame.next));
            frame.next += 1;
        }
        if depth == 1
            && let Some(Some(Segment::Key(name))) = self.trail.first().map(|frame| &frame.at)
        {
            let name = name.clone();
            self.found.note_key(&name);
            self.found.scalars.shift_remove(&name);
            let has_room = self.found.scalars.len() < SCALARS_MAX || is_always(&name);
            if begin == Begin::Scalar && has_room {
                self.catch(To::Scalar(name), depth, SCALAR_BYTES_MAX);
            }
        }
        for index in 0..self.wanted.len() {
            if self.is_at(&self.wanted[index]) {
                self.catch(To::Selected(index), depth, SELECTED_BYTES_MAX);
            }
        }
        if begin != Begin::Scalar {
            self.trail.push(Frame {
                is_object: begin == Begin::Object,
                next: 0,
                at: None,
            });
        }
    }

    fn is_at(&self, path: &[Segment]) -> bool {
        path.len() == self.trail.len()
            && self
                .trail
                .iter()
                .zip(path)
                .all(|(frame, segment)| frame.at.as_ref() == Some(segment))
    }

    fn catch(&mut self, to: To, depth: usize, bytes_max: usize) {
        self.catches.push(Catch {
            to,
            depth,
            bytes: Vec::new(),
            bytes_max,
            is_over: false,
        });
    }

    /// Captures these bytes where needed; returns whether they start within the head.
    fn keep(&mut self, bytes: &[u8]) -> bool {
        for catch in &mut self.catches {
            catch.is_over |= catch.bytes.len() + bytes.len() > catch.bytes_max;
            if catch.is_over {
                catch.bytes = Vec::new();
            } else {
                catch.bytes.extend_from_slice(bytes);
            }
        }
        if let Some(key) = &mut self.key
            && key.len() <= KEY_BYTES_MAX
        {
            key.extend_from_slice(&bytes[..bytes.len().min(KEY_BYTES_MAX + 1)]);
        }
        let room = self.head.bytes_max - self.head.bytes.len();
        let part = &bytes[..room.min(bytes.len())];
        self.head.bytes.extend_from_slice(part);
        room > 0
    }

    fn end_value(&mut self, depth: usize) {
        while let Some(catch) = self.catches.pop_if(|catch| catch.depth >= depth) {
            let value = if catch.is_over {
                None
            } else {
                serde_json::from_slice(&catch.bytes).ok()
            };
            match (catch.to, value) {
                (To::Scalar(name), Some(value)) => {
                    self.found.scalars.insert(name, value);
                }
                (To::Scalar(_), None) => {}
                (To::Selected(index), Some(value)) => {
                    self.found.selected[index] = Some(Selected::Value(value));
                }
                (To::Selected(index), None) => {
                    self.found.selected[index] = Some(Selected::TooLarge);
                }
            }
        }
    }

    /// Marks the current position as one where the head can be cut and closed.
    fn mark(&mut self) {
        self.head.whole = self.head.bytes.len();
        self.head.closers = self.scanner.closers();
        if self.scanner.is_in_text() {
            self.head.closers.insert(0, b'"');
        }
    }

    /// Marks the position before the last byte, unless that byte closed a container.
    fn mark_before(&mut self, depth: usize) {
        let has_room = self.head.bytes.len() < self.head.bytes_max;
        if has_room && self.scanner.depth() == depth {
            self.head.whole = self.head.bytes.len();
            self.head.closers = self.scanner.closers();
        }
    }
}

impl Gleaned {
    /// Keeps up to `2 * KEYS_MAX` keys, because scalars are later extracted and not listed.
    fn note_key(&mut self, name: &str) {
        let has_room = self.keys.len() < 2 * KEYS_MAX || ENVELOPE_WORDS.contains(&name);
        if has_room && !self.keys.iter().any(|key| key == name) {
            self.keys.push(name.to_owned());
        }
    }
}

impl Head {
    fn sample(mut self, bytes: u64) -> Value {
        if bytes > self.bytes.len() as u64 {
            self.bytes.truncate(self.whole);
            self.bytes.append(&mut self.closers);
        }
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

fn is_always(name: &str) -> bool {
    crate::extract::ALWAYS.contains(&name)
}
