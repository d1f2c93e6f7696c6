//! Locates a value in streamed JSON, and the offsets of its elements if it is a list.

use std::ops::Range;

use model::result_ref::PathSegment;
use serde::{Deserialize, Serialize};

use super::path_tracker::PathTracker;
use super::scan::{JsonScanError, JsonScanner, ValueStart};

/// Maximum number of recorded offsets; for longer lists only those of every second, fourth … element are recorded.
const OFFSETS_MAX: usize = 1024;

/// A value inside a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedValue {
    /// Byte range of the value.
    pub range: Range<u64>,
    /// Offsets of its elements, if it is a list.
    pub list: Option<ElementOffsets>,
    /// Whether it is a string.
    pub is_text: bool,
}

/// Offsets of every `stride`-th element of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementOffsets {
    /// Number of elements.
    pub total: u64,
    /// Number of elements between two offsets.
    pub stride: u64,
    /// Offset of each `stride`-th element.
    pub offsets: Vec<u64>,
    /// Offset after the list.
    pub end: u64,
}

impl ElementOffsets {
    /// Returns a byte range that contains these elements, and the index of the first element in it.
    pub(crate) fn byte_range_of(&self, indices: &Range<u64>) -> (Range<u64>, u64) {
        let offset = |n: u64| usize::try_from(n).ok().and_then(|n| self.offsets.get(n));
        let first = indices.start / self.stride;
        let behind = indices.end.div_ceil(self.stride);
        let start = offset(first).copied().unwrap_or(self.end);
        let end = offset(behind).copied().unwrap_or(self.end);
        (start..end.max(start), first * self.stride)
    }
}

/// Looks for values at several paths while the text is streamed.
pub(crate) struct JsonLocator<'p> {
    scanner: JsonScanner,
    paths: &'p [Vec<PathSegment>],
    candidates: Vec<Option<LocatedCandidate>>,
    path: PathTracker,
    position: u64,
}

/// A value at one of the paths.
struct LocatedCandidate {
    range: Range<u64>,
    is_open: bool,
    is_list: bool,
    is_text: bool,
    element_offsets: ElementOffsets,
}

impl LocatedCandidate {
    fn new(start: ValueStart, offset: u64, is_text: bool) -> Self {
        Self {
            range: offset..offset,
            is_open: true,
            is_list: start == ValueStart::Array,
            is_text,
            element_offsets: ElementOffsets {
                total: 0,
                stride: 1,
                offsets: Vec::new(),
                end: offset,
            },
        }
    }

    fn add_element(&mut self, offset: u64) {
        let elements = &mut self.element_offsets;
        if elements.total.is_multiple_of(elements.stride) {
            elements.offsets.push(offset);
        }
        elements.total += 1;
        if elements.offsets.len() > OFFSETS_MAX {
            let mut is_retained = false;
            elements.offsets.retain(|_| {
                is_retained = !is_retained;
                is_retained
            });
            elements.stride *= 2;
        }
    }
}

impl<'p> JsonLocator<'p> {
    pub(crate) fn new(paths: &'p [Vec<PathSegment>]) -> Self {
        Self {
            scanner: JsonScanner::default(),
            paths,
            candidates: paths.iter().map(|_| None).collect(),
            path: PathTracker::default(),
            position: 0,
        }
    }

    /// Scans the next part of the text.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), JsonScanError> {
        let mut remaining = bytes;
        while !remaining.is_empty() {
            let (plain, after) = remaining.split_at(self.scanner.skip_plain(remaining));
            self.path.capture_key(plain);
            self.position += plain.len() as u64;
            remaining = after;
            if let Some((byte, after)) = remaining.split_first() {
                self.scan_byte(*byte)?;
                remaining = after;
            }
        }
        Ok(())
    }

    /// Returns the value at the first path that exists.
    pub(crate) fn finish(mut self) -> Result<Option<LocatedValue>, JsonScanError> {
        self.scanner.finish()?;
        // Only a number ends together with the text.
        self.end_value(0, self.position);
        let first = self.candidates.into_iter().flatten().next();
        Ok(first.map(|candidate| LocatedValue {
            list: candidate.is_list.then_some(ElementOffsets {
                end: candidate.range.end,
                ..candidate.element_offsets
            }),
            range: candidate.range,
            is_text: candidate.is_text,
        }))
    }

    fn scan_byte(&mut self, byte: u8) -> Result<(), JsonScanError> {
        let depth = self.scanner.depth();
        let offset = self.position;
        let step = self.scanner.step(byte)?;
        self.position += 1;
        if step.is_after_number {
            self.end_value(depth, offset);
        }
        match step.value_start {
            None => {}
            Some(ValueStart::Key) => self.path.start_key(),
            Some(start) => self.start_value(start, offset, byte == b'"'),
        }
        self.path.capture_key(&[byte]);
        if step.is_end && !self.path.end_key() {
            let depth = self.scanner.depth();
            self.path.close_to(depth);
            self.end_value(depth, offset + 1);
        }
        Ok(())
    }

    fn start_value(&mut self, start: ValueStart, offset: u64, is_text: bool) {
        self.path.enter_value();
        for (path, candidate) in self.paths.iter().zip(&mut self.candidates) {
            if let Some(list) = candidate
                && list.is_open
                && list.is_list
                && self.path.depth() == path.len() + 1
            {
                list.add_element(offset);
            }
            if self.path.is_at(path) {
                // For a duplicate key the last value counts, as in the parser.
                *candidate = Some(LocatedCandidate::new(start, offset, is_text));
            }
        }
        self.path.open_container(start);
    }

    fn end_value(&mut self, depth: usize, end: u64) {
        for (path, candidate) in self.paths.iter().zip(&mut self.candidates) {
            if let Some(candidate) = candidate
                && candidate.is_open
                && path.len() >= depth
            {
                candidate.is_open = false;
                candidate.range.end = end;
            }
        }
    }
}

/// Splits a part of a list's text, which starts with an element, into elements.
pub(crate) struct ElementSplitter {
    scanner: JsonScanner,
    index: u64,
    indices: Range<u64>,
    element: Option<Vec<u8>>,
    /// Elements so far, as JSON text.
    pub(crate) elements: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl ElementSplitter {
    /// Creates a splitter for text that starts with the element at index `first`.
    pub(crate) fn new(first: u64, indices: Range<u64>, bytes_max: usize) -> Self {
        let mut scanner = JsonScanner::default();
        // The opening bracket is before the part that is read.
        scanner.feed(b"[").expect("`[` is a valid start of JSON");
        Self {
            scanner,
            index: first,
            indices,
            element: None,
            elements: Vec::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Whether all wanted elements, or as many as fit, are complete.
    pub(crate) fn is_done(&self) -> bool {
        self.index >= self.indices.end || (self.bytes >= self.bytes_max && !self.elements.is_empty())
    }

    /// Scans the next part of the text.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), JsonScanError> {
        let mut remaining = bytes;
        while !remaining.is_empty() && !self.is_done() {
            let (plain, after) = remaining.split_at(self.scanner.skip_plain(remaining));
            self.capture_bytes(plain);
            remaining = after;
            if let Some((byte, after)) = remaining.split_first() {
                self.scan_byte(*byte)?;
                remaining = after;
            }
        }
        Ok(())
    }

    fn scan_byte(&mut self, byte: u8) -> Result<(), JsonScanError> {
        let depth = self.scanner.depth();
        let step = self.scanner.step(byte)?;
        if step.is_after_number && depth == 1 {
            self.end_element();
        }
        let is_value_start = matches!(step.value_start, Some(start) if start != ValueStart::Key);
        if is_value_start && depth == 1 && self.index >= self.indices.start {
            self.element = Some(Vec::new());
        }
        self.capture_bytes(&[byte]);
        if step.is_end && self.scanner.depth() == 1 {
            self.end_element();
        }
        Ok(())
    }

    fn capture_bytes(&mut self, bytes: &[u8]) {
        if let Some(element) = &mut self.element {
            element.extend_from_slice(bytes);
        }
    }

    fn end_element(&mut self) {
        self.index += 1;
        if let Some(element) = self.element.take() {
            self.bytes += element.len();
            self.elements.push(element);
        }
    }
}
