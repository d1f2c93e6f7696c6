//! Limits the output of one attempt: passes the beginning on at once and keeps only the end of the remaining lines.

use std::collections::VecDeque;

use model::task_log::LogLine;

/// Number of bytes of an attempt that are passed on at once.
const HEAD_BYTES: usize = 512 * 1024;
/// Maximum number of later bytes that are kept until the attempt ends.
const TAIL_BYTES: usize = 512 * 1024;
/// Maximum length of a line; longer lines are truncated.
const LINE_BYTES: usize = 64 * 1024;

/// Output of one attempt.
#[derive(Debug, Default)]
pub(crate) struct LineLimiter {
    passed_bytes: usize,
    tail: VecDeque<LogLine>,
    tail_bytes: usize,
    dropped_lines: u64,
}

impl LineLimiter {
    /// Returns the line if it is within `HEAD_BYTES`; otherwise keeps it for the end.
    pub(crate) fn accept_line(&mut self, mut line: LogLine) -> Option<LogLine> {
        truncate_line(&mut line.text);
        let bytes = line.text.len() + 1;
        if self.tail.is_empty() && self.passed_bytes + bytes <= HEAD_BYTES {
            self.passed_bytes += bytes;
            return Some(line);
        }
        self.tail_bytes += bytes;
        self.tail.push_back(line);
        while self.tail_bytes > TAIL_BYTES {
            let oldest = self.tail.pop_front().expect("a non-empty tail has lines");
            self.tail_bytes -= oldest.text.len() + 1;
            self.dropped_lines += 1;
        }
        None
    }

    /// Returns the kept lines, preceded by a line with the number of omitted lines.
    pub(crate) fn take_tail(&mut self) -> Vec<LogLine> {
        let first = self.tail.front().filter(|_| self.dropped_lines > 0);
        let remark = first.map(|line| {
            line.annotation(format!(
                "{} lines omitted here; the beginning and the end are kept",
                self.dropped_lines
            ))
        });
        let tail = std::mem::take(&mut self.tail);
        remark.into_iter().chain(tail).collect()
    }
}

fn truncate_line(text: &mut String) {
    if text.len() > LINE_BYTES {
        let mut end = LINE_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::log_line;

    #[test]
    fn a_task_that_prints_little_is_passed_on_at_once() {
        let mut printed = LineLimiter::default();
        assert_eq!(printed.accept_line(log_line("one")), Some(log_line("one")));
        assert_eq!(printed.take_tail(), []);
    }

    #[test]
    fn long_output_keeps_its_beginning_and_end() {
        let mut printed = LineLimiter::default();
        let text = |n: usize| format!("{n:07}");
        let lines = 1_000_000;
        let passed: Vec<LogLine> = (0..lines)
            .filter_map(|n| printed.accept_line(log_line(&text(n))))
            .collect();
        assert_eq!(passed.len(), HEAD_BYTES / 8);
        let tail = printed.take_tail();
        let tail_lines = TAIL_BYTES / 8;
        assert_eq!(tail.len(), tail_lines + 1);
        let omitted_lines = lines - passed.len() - tail_lines;
        let remark = format!("{omitted_lines} lines omitted here");
        assert!(tail[0].text.starts_with(&remark), "{}", tail[0].text);
        assert_eq!(tail[1].text, text(lines - tail_lines));
        assert_eq!(tail[tail_lines].text, text(lines - 1));
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_between_characters() {
        let mut printed = LineLimiter::default();
        let long = "ä".repeat(LINE_BYTES);
        let passed = printed.accept_line(log_line(&long)).unwrap();
        assert!(passed.text.len() <= LINE_BYTES + '…'.len_utf8());
        assert!(passed.text.ends_with("ä…"));
    }
}
