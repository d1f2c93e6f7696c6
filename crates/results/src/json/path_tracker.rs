//! Tracks the path of the current value while JSON is streamed.

use model::result_ref::PathSegment;

use super::scan::ValueStart;

/// Longer keys cannot be selected or be part of a path, so they are skipped.
const KEY_BYTES_MAX: usize = 1024;

/// Open containers, and the key that is being read.
#[derive(Default)]
pub(super) struct PathTracker {
    frames: Vec<PathFrame>,
    key: Option<Vec<u8>>,
}

/// An open container and the current position in it.
struct PathFrame {
    is_object: bool,
    next: u64,
    segment: Option<PathSegment>,
}

impl PathTracker {
    /// Number of open containers.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Whether the current value is at this path.
    pub(super) fn is_at(&self, path: &[PathSegment]) -> bool {
        let segments = self.frames.iter().map(|frame| frame.segment.as_ref());
        segments.eq(path.iter().map(Some))
    }

    /// Current key of the outermost container, if that is an object.
    pub(super) fn top_level_key(&self) -> Option<&str> {
        match self.frames.first()?.segment.as_ref()? {
            PathSegment::Key(name) => Some(name),
            PathSegment::Index(_) => None,
        }
    }

    /// A key starts.
    pub(super) fn start_key(&mut self) {
        self.key = Some(Vec::new());
    }

    /// Records the next bytes of the text if they belong to a key.
    pub(super) fn capture_key(&mut self, bytes: &[u8]) {
        if let Some(key) = &mut self.key
            && key.len() <= KEY_BYTES_MAX
        {
            key.extend_from_slice(&bytes[..bytes.len().min(KEY_BYTES_MAX + 1)]);
        }
    }

    /// Ends the key that is being read; false if there is none, so that a value ends.
    pub(super) fn end_key(&mut self) -> bool {
        let Some(key) = self.key.take() else {
            return false;
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.segment = serde_json::from_slice(&key).ok().map(PathSegment::Key);
        }
        true
    }

    /// A value starts: in a list it is the next element.
    pub(super) fn enter_value(&mut self) {
        if let Some(frame) = self.frames.last_mut().filter(|frame| !frame.is_object) {
            frame.segment = Some(PathSegment::Index(frame.next));
            frame.next += 1;
        }
    }

    /// Opens a container, unless the value is a scalar.
    pub(super) fn open_container(&mut self, start: ValueStart) {
        if start != ValueStart::Scalar {
            self.frames.push(PathFrame {
                is_object: start == ValueStart::Object,
                next: 0,
                segment: None,
            });
        }
    }

    /// Closes the containers below this depth.
    pub(super) fn close_to(&mut self, depth: usize) {
        self.frames.truncate(depth);
    }
}
