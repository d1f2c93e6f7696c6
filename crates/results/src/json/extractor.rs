//! Extracts from streamed JSON what a reference contains: small top-level fields, selected values, and the beginning.

use model::result_ref::PathSegment;
use model::result_ref::{ENVELOPE_WORDS, KEYS_MAX};
use serde_json::{Map, Value};

use super::path_tracker::PathTracker;
use super::scan::{JsonScanError, JsonScanner, ValueStart};

/// Maximum size of the JSON text of a top-level scalar; longer ones are not small, whatever the escapes.
const SCALAR_BYTES_MAX: usize = 8 * 1024;

/// Maximum number of collected top-level scalars.
const SCALARS_MAX: usize = 64;

/// Maximum size of a selected value; larger ones do not belong into an event.
pub(crate) const SELECTED_BYTES_MAX: usize = 64 * 1024;

/// Streaming extractor.
pub(crate) struct JsonExtractor {
    scanner: JsonScanner,
    paths: Vec<Vec<PathSegment>>,
    path: PathTracker,
    captures: Vec<ValueCapture>,
    head: TextHead,
    extracted: ExtractedFields,
    bytes: u64,
}

/// Extracted values.
#[derive(Debug, Default)]
pub(crate) struct ExtractedFields {
    /// Top-level fields that may be small.
    pub(crate) scalars: Map<String, Value>,
    /// Top-level keys: the envelope's words, and the first of the others.
    pub(crate) keys: Vec<String>,
    /// For each path the last value found there.
    pub(crate) selected: Vec<Option<SelectedValue>>,
    /// Beginning of the value; the whole value if it is short.
    pub(crate) sample: Value,
}

/// Value at a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SelectedValue {
    Value(Value),
    TooLarge,
}

/// A value that is being captured.
struct ValueCapture {
    target: CaptureTarget,
    depth: usize,
    bytes: Vec<u8>,
    bytes_max: usize,
    is_oversized: bool,
}

enum CaptureTarget {
    Scalar(String),
    Selected(usize),
}

/// Beginning of the text, and the brackets that close it.
struct TextHead {
    bytes: Vec<u8>,
    bytes_max: usize,
    cut_bytes: usize,
    closers: Vec<u8>,
}

impl JsonExtractor {
    /// Creates an extractor for the values at `paths` and for the first `head_bytes_max` bytes.
    pub(crate) fn new(paths: Vec<Vec<PathSegment>>, head_bytes_max: usize) -> Self {
        let extracted = ExtractedFields {
            selected: vec![None; paths.len()],
            ..ExtractedFields::default()
        };
        Self {
            scanner: JsonScanner::default(),
            paths,
            path: PathTracker::default(),
            captures: Vec::new(),
            head: TextHead {
                bytes: Vec::new(),
                bytes_max: head_bytes_max,
                cut_bytes: 0,
                closers: b"null".to_vec(),
            },
            extracted,
            bytes: 0,
        }
    }

    /// Number of bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the text is complete here.
    pub(crate) fn is_complete(&self) -> bool {
        self.scanner.is_complete()
    }

    /// Scans the next part of the text.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), JsonScanError> {
        self.bytes += bytes.len() as u64;
        let mut remaining = bytes;
        while !remaining.is_empty() {
            let (plain, after) = remaining.split_at(self.scanner.skip_plain(remaining));
            // Plain characters can be cut anywhere.
            if !plain.is_empty() && self.capture_bytes(plain) && self.scanner.is_in_string() {
                self.mark_cut();
            }
            remaining = after;
            if let Some((byte, after)) = remaining.split_first() {
                self.scan_byte(*byte)?;
                remaining = after;
            }
        }
        Ok(())
    }

    /// Returns the extracted values of the whole text.
    pub(crate) fn finish(mut self) -> Result<ExtractedFields, JsonScanError> {
        self.scanner.finish()?;
        if !self.captures.is_empty() {
            // Only a number ends together with the text.
            self.end_value(0);
        }
        self.extracted.sample = self.head.into_sample(self.bytes);
        Ok(self.extracted)
    }

    fn scan_byte(&mut self, byte: u8) -> Result<(), JsonScanError> {
        let depth = self.scanner.depth();
        let step = self.scanner.step(byte)?;
        if step.is_after_number {
            self.end_value(depth);
            self.mark_cut_before(depth);
        }
        match step.value_start {
            None => {}
            Some(ValueStart::Key) => self.path.start_key(),
            Some(start) => self.start_value(start, depth),
        }
        let is_in_head = self.capture_bytes(&[byte]);
        let mut can_close = matches!(step.value_start, Some(ValueStart::Object | ValueStart::Array));
        if step.is_end && !self.path.end_key() {
            self.path.close_to(self.scanner.depth());
            self.end_value(self.scanner.depth());
            can_close = true;
        }
        if is_in_head && (can_close || self.scanner.is_in_string()) {
            self.mark_cut();
        }
        Ok(())
    }

    fn start_value(&mut self, start: ValueStart, depth: usize) {
        self.path.enter_value();
        if depth == 1
            && let Some(name) = self.path.top_level_key()
        {
            let name = name.to_owned();
            self.extracted.add_key(&name);
            self.extracted.scalars.shift_remove(&name);
            let has_room = self.extracted.scalars.len() < SCALARS_MAX || is_always_extracted(&name);
            if start == ValueStart::Scalar && has_room {
                self.start_capture(CaptureTarget::Scalar(name), depth, SCALAR_BYTES_MAX);
            }
        }
        for index in 0..self.paths.len() {
            if self.path.is_at(&self.paths[index]) {
                self.start_capture(CaptureTarget::Selected(index), depth, SELECTED_BYTES_MAX);
            }
        }
        self.path.open_container(start);
    }

    fn start_capture(&mut self, to: CaptureTarget, depth: usize, bytes_max: usize) {
        self.captures.push(ValueCapture {
            target: to,
            depth,
            bytes: Vec::new(),
            bytes_max,
            is_oversized: false,
        });
    }

    /// Captures these bytes where needed; returns whether they start within the head.
    fn capture_bytes(&mut self, bytes: &[u8]) -> bool {
        for capture in &mut self.captures {
            capture.is_oversized |= capture.bytes.len() + bytes.len() > capture.bytes_max;
            if capture.is_oversized {
                capture.bytes = Vec::new();
            } else {
                capture.bytes.extend_from_slice(bytes);
            }
        }
        self.path.capture_key(bytes);
        let bytes_left = self.head.bytes_max - self.head.bytes.len();
        let part = &bytes[..bytes_left.min(bytes.len())];
        self.head.bytes.extend_from_slice(part);
        bytes_left > 0
    }

    fn end_value(&mut self, depth: usize) {
        while let Some(capture) = self.captures.pop_if(|capture| capture.depth >= depth) {
            let value = if capture.is_oversized {
                None
            } else {
                serde_json::from_slice(&capture.bytes).ok()
            };
            match (capture.target, value) {
                (CaptureTarget::Scalar(name), Some(value)) => {
                    self.extracted.scalars.insert(name, value);
                }
                (CaptureTarget::Scalar(_), None) => {}
                (CaptureTarget::Selected(index), Some(value)) => {
                    self.extracted.selected[index] = Some(SelectedValue::Value(value));
                }
                (CaptureTarget::Selected(index), None) => {
                    self.extracted.selected[index] = Some(SelectedValue::TooLarge);
                }
            }
        }
    }

    /// Marks the current position as one where the head can be cut and closed.
    fn mark_cut(&mut self) {
        self.head.cut_bytes = self.head.bytes.len();
        self.head.closers = self.scanner.closing_brackets();
        if self.scanner.is_in_string() {
            self.head.closers.insert(0, b'"');
        }
    }

    /// Marks the position before the last byte, unless that byte closed a container.
    fn mark_cut_before(&mut self, depth: usize) {
        let has_room = self.head.bytes.len() < self.head.bytes_max;
        if has_room && self.scanner.depth() == depth {
            self.head.cut_bytes = self.head.bytes.len();
            self.head.closers = self.scanner.closing_brackets();
        }
    }
}

impl ExtractedFields {
    /// Keeps up to `2 * KEYS_MAX` keys, because scalars are later extracted and not listed.
    fn add_key(&mut self, name: &str) {
        let has_room = self.keys.len() < 2 * KEYS_MAX || ENVELOPE_WORDS.contains(&name);
        if has_room && !self.keys.iter().any(|key| key == name) {
            self.keys.push(name.to_owned());
        }
    }
}

impl TextHead {
    fn into_sample(mut self, bytes: u64) -> Value {
        if bytes > self.bytes.len() as u64 {
            self.bytes.truncate(self.cut_bytes);
            self.bytes.append(&mut self.closers);
        }
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

fn is_always_extracted(name: &str) -> bool {
    crate::extract::ALWAYS_EXTRACTED.contains(&name)
}
