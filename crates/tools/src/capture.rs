//! Captures the output of a process: logs its lines as they arrive and keeps the text up to a limit.
//!
//! If the output is larger than 1 MiB, its head and tail are kept, with a line in between that states how much is
//! missing. Secrets are masked before the output is cut, so that no part of one remains.

use std::collections::VecDeque;

use model::task_log::LogStream;

use crate::call::{LogSink, OutputMask};

/// Maximum size of the head, and of the tail.
const HALF_BYTES_MAX: usize = 512 * 1024;

/// Longer lines are split into parts of this size for the log.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// End of the line that replaces omitted output.
pub const OMITTED_SUFFIX: &str = "left out …";

/// One output stream of a call.
pub struct OutputCapture {
    stream: LogStream,
    /// Bytes that are not masked yet, because a secret may continue in the next read.
    unmasked: Vec<u8>,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted_bytes: u64,
    /// Start in `head` of the line that is not logged yet.
    logged_bytes: usize,
}

impl OutputCapture {
    pub fn new(stream: LogStream) -> Self {
        Self {
            stream,
            unmasked: Vec::new(),
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted_bytes: 0,
            logged_bytes: 0,
        }
    }

    /// Adds bytes that were read; logs complete lines of the head immediately.
    pub fn feed(&mut self, chunk: &[u8], log: &dyn LogSink) {
        match log.output_mask() {
            Some(mask) => {
                self.unmasked.extend_from_slice(chunk);
                self.append_masked(mask, false, log);
            }
            None => self.append(chunk, log),
        }
    }

    fn append_masked(&mut self, mask: &dyn OutputMask, is_end: bool, log: &dyn LogSink) {
        let (clean, consumed) = mask.mask(&self.unmasked, is_end);
        self.unmasked.drain(..consumed);
        self.append(&clean, log);
    }

    fn append(&mut self, chunk: &[u8], log: &dyn LogSink) {
        let available = HALF_BYTES_MAX - self.head.len();
        let (head, overflow) = chunk.split_at(available.min(chunk.len()));
        self.head.extend_from_slice(head);
        self.log_complete_lines(log);
        if overflow.is_empty() {
            return;
        }
        let last_bytes = &overflow[overflow.len().saturating_sub(HALF_BYTES_MAX)..];
        let excess = (self.tail.len() + last_bytes.len()).saturating_sub(HALF_BYTES_MAX);
        self.tail.drain(..excess);
        self.omitted_bytes += (excess + overflow.len() - last_bytes.len()) as u64;
        self.tail.extend(last_bytes);
    }

    /// Logs the remaining output: the last line of the head, the note about omitted bytes, and the tail.
    pub fn finish(mut self, log: &dyn LogSink) -> String {
        if let Some(mask) = log.output_mask() {
            self.append_masked(mask, true, log);
        }
        if self.omitted_bytes == 0 {
            self.head.extend(self.tail.drain(..));
        }
        self.log_complete_lines(log);
        if self.logged_bytes < self.head.len() {
            self.log_line(&self.head[self.logged_bytes..], log);
        }
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.omitted_bytes > 0 {
            let note = format!("… {} bytes {OMITTED_SUFFIX}", self.omitted_bytes);
            let tail = self.tail.make_contiguous().to_vec();
            log.write_line(self.stream, &note);
            for line in tail.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()) {
                self.log_line(line, log);
            }
            text.push_str(&format!("\n{note}\n"));
            text.push_str(&String::from_utf8_lossy(&tail));
        }
        text
    }

    fn log_complete_lines(&mut self, log: &dyn LogSink) {
        while let Some(length) = self.head[self.logged_bytes..].iter().position(|b| *b == b'\n') {
            let end = self.logged_bytes + length;
            self.log_line(&self.head[self.logged_bytes..end], log);
            self.logged_bytes = end + 1;
        }
    }

    fn log_line(&self, line: &[u8], log: &dyn LogSink) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            log.write_line(self.stream, "");
        }
        for part in line.chunks(LINE_BYTES_MAX) {
            log.write_line(self.stream, &String::from_utf8_lossy(part));
        }
    }
}

/// Last `bytes_max` bytes of a text, cut at a character boundary.
pub fn text_tail(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct CapturedLines(Mutex<Vec<String>>);

    impl LogSink for CapturedLines {
        fn write_line(&self, _stream: LogStream, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    /// Masks `canary` in each read.
    struct CanaryMask;

    impl OutputMask for CanaryMask {
        fn mask(&self, bytes: &[u8], is_end: bool) -> (Vec<u8>, usize) {
            let text = std::str::from_utf8(bytes).unwrap();
            let open = (1..6).rev().find(|n| text.ends_with(&"canary"[..*n]));
            let consumed = text.len() - open.filter(|_| !is_end).unwrap_or(0);
            (text[..consumed].replace("canary", "***").into_bytes(), consumed)
        }
    }

    impl LogSink for CanaryMask {
        fn write_line(&self, _stream: LogStream, _text: &str) {}

        fn output_mask(&self) -> Option<&dyn OutputMask> {
            Some(self)
        }
    }

    #[test]
    fn a_secret_is_masked_before_the_output_is_cut() {
        for before in HALF_BYTES_MAX - 8..HALF_BYTES_MAX + 2 {
            let mut capture = OutputCapture::new(LogStream::Stdout);
            let filling = "x".repeat(before);
            for part in [&filling, "can", "ary", &filling, &filling, "cana", "ry", &filling, "ca"] {
                capture.feed(part.as_bytes(), &CanaryMask);
            }
            let text = capture.finish(&CanaryMask);
            assert!(!text.contains("can") && !text.contains("ary"), "{before}");
            assert!(text.ends_with("ca"), "{before}");
            // With this much output before it, the first secret begins in the omitted part.
            assert_eq!(text.contains('*'), before < HALF_BYTES_MAX, "{before}");
        }
    }

    #[test]
    fn lines_are_logged_as_they_are_completed() {
        let lines = CapturedLines::default();
        let mut capture = OutputCapture::new(LogStream::Stdout);
        capture.feed(b"one\ntw", &lines);
        assert_eq!(*lines.0.lock().unwrap(), ["one"]);
        capture.feed(b"o\nrest", &lines);
        assert_eq!(capture.finish(&lines), "one\ntwo\nrest");
        assert_eq!(*lines.0.lock().unwrap(), ["one", "two", "rest"]);
    }

    #[test]
    fn long_output_keeps_its_head_and_tail() {
        let lines = CapturedLines::default();
        let mut capture = OutputCapture::new(LogStream::Stdout);
        capture.feed(b"first\n", &lines);
        for _ in 0..100 {
            capture.feed(&[b'x'; 100_000], &lines);
        }
        capture.feed(b"\nlast\n", &lines);
        let text = capture.finish(&lines);
        assert!(text.starts_with("first\n") && text.ends_with("\nlast\n"));
        assert!(text.contains("bytes left out"));
        assert!(text.len() < 1_100_000);
        assert_eq!(lines.0.lock().unwrap().last().unwrap(), "last");
    }

    #[test]
    fn output_below_the_limit_is_complete() {
        let lines = CapturedLines::default();
        let mut capture = OutputCapture::new(LogStream::Stdout);
        let text = "y".repeat(HALF_BYTES_MAX + 10);
        capture.feed(text.as_bytes(), &lines);
        assert_eq!(capture.finish(&lines), text);
    }
}
