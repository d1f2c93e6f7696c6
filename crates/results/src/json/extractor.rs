//! Extracts from streamed JSON what a reference contains: small top-level fields, selected values, and the beginning.

use model::result_ref::PathSegment;
use model::result_ref::{ENVELOPE_WORDS, KEYS_MAX};
use serde_json::{Map, Value};

use super::scan::{JsonScanError, JsonScanner, ValueStart};

/// Longer keys cannot be selected, so the extractor skips them.
const KEY_BYTES_MAX: usize = 1024;

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
    trail: Vec<PathFrame>,
    captures: Vec<ValueCapture>,
    key: Option<Vec<u8>>,
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

/// An open container and the current position in it.
struct PathFrame {
    is_object: bool,
    next: u64,
    segment: Option<PathSegment>,
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
    /// Creates an extractor for values at `wanted` and for the first `head_bytes_max` bytes.
    pub(crate) fn new(paths: Vec<Vec<PathSegment>>, head_bytes_max: usize) -> Self {
        let extracted = ExtractedFields {
            selected: vec![None; paths.len()],
            ..ExtractedFields::default()
        };
        Self {
            scanner: JsonScanner::default(),
            paths,
            trail: Vec::new(),
            captures: Vec::new(),
            key: None,
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
        let mut rest = bytes;
        while !rest.is_empty() {
            let (plain, after) = rest.split_at(self.scanner.skip_plain(rest));
            // Plain characters can be cut anywhere.
            if !plain.is_empty() && self.capture_bytes(plain) && self.scanner.is_in_string() {
                self.mark_cut();
            }
            rest = after;
            if let Some((byte, after)) = rest.split_first() {
                self.scan_byte(*byte)?;
                rest = after;
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
            Some(ValueStart::Key) => self.key = Some(Vec::new()),
            Some(begin) => self.start_value(begin, depth),
        }
        let is_in_head = self.capture_bytes(&[byte]);
        let mut can_close = matches!(
            step.value_start,
            Some(ValueStart::Object | ValueStart::Array)
        );
        if step.is_end {
            if let Some(key) = self.key.take() {
                self.enter_key(&key);
            } else {
                self.trail.truncate(self.scanner.depth());
                self.end_value(self.scanner.depth());
                can_close = true;
            }
        }
        if is_in_head && (can_close || self.scanner.is_in_string()) {
            self.mark_cut();
        }
        Ok(())
    }

    fn enter_key(&mut self, key: &[u8]) {
        if let Some(frame) = self.trail.last_mut() {
            frame.segment = serde_json::from_slice(key).ok().map(PathSegment::Key);
        }
    }

    fn start_value(&mut self, begin: ValueStart, depth: usize) {
        if let Some(frame) = self.trail.last_mut().filter(|frame| !frame.is_object) {
            frame.segment = Some(PathSegment::Index(frame.next));
            frame.next += 1;
        }
        if depth == 1
            && let Some(Some(PathSegment::Key(name))) =
                self.trail.first().map(|frame| &frame.segment)
        {
            let name = name.clone();
            self.extracted.add_key(&name);
            self.extracted.scalars.shift_remove(&name);
            let has_room = self.extracted.scalars.len() < SCALARS_MAX || is_always_extracted(&name);
            if begin == ValueStart::Scalar && has_room {
                self.start_capture(CaptureTarget::Scalar(name), depth, SCALAR_BYTES_MAX);
            }
        }
        for index in 0..self.paths.len() {
            if self.is_at_path(&self.paths[index]) {
                self.start_capture(CaptureTarget::Selected(index), depth, SELECTED_BYTES_MAX);
            }
        }
        if begin != ValueStart::Scalar {
            self.trail.push(PathFrame {
                is_object: begin == ValueStart::Object,
                next: 0,
                segment: None,
            });
        }
    }

    fn is_at_path(&self, path: &[PathSegment]) -> bool {
        path.len() == self.trail.len()
            && self
                .trail
                .iter()
                .zip(path)
                .all(|(frame, segment)| frame.segment.as_ref() == Some(segment))
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
        for catch in &mut self.captures {
            catch.is_oversized |= catch.bytes.len() + bytes.len() > catch.bytes_max;
            if catch.is_oversized {
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
        while let Some(catch) = self.captures.pop_if(|catch| catch.depth >= depth) {
            let value = if catch.is_oversized {
                None
            } else {
                serde_json::from_slice(&catch.bytes).ok()
            };
            match (catch.target, value) {
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
