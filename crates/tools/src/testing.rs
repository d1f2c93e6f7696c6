//! Shared test helpers: calls built from JSON, and log sinks that record lines or react to them.

#![cfg_attr(
    not(test),
    expect(
        clippy::unwrap_used,
        clippy::needless_pass_by_value,
        reason = "these functions are called by tests, which may panic"
    )
)]

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use language::template::Piece;
use model::outcome::{Outcome, TaskError};
use model::task_log::LogStream;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, DiscardingLogSink, LogSink, Tool};

/// A sink that records every line.
#[derive(Default)]
pub struct RecordedLogLines(Mutex<Vec<(LogStream, String)>>);

impl LogSink for RecordedLogLines {
    fn write_line(&self, stream: LogStream, text: &str) {
        self.0.lock().unwrap().push((stream, text.to_owned()));
    }
}

impl RecordedLogLines {
    pub fn lines_of(&self, stream: LogStream) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines
            .iter()
            .filter(|(of, _)| *of == stream)
            .map(|(_, text)| text.clone())
            .collect()
    }
}

/// A sink that stops the call when the first line is printed.
pub struct StopAtFirstLine(pub CancellationToken);

impl LogSink for StopAtFirstLine {
    fn write_line(&self, _stream: LogStream, _text: &str) {
        self.0.cancel();
    }
}

/// A sink that records every line and creates a file at the first one; the program waits for this file.
pub struct FileAtFirstLine {
    file: PathBuf,
    lines: RecordedLogLines,
}

impl FileAtFirstLine {
    pub fn new(file: PathBuf) -> Self {
        let lines = RecordedLogLines::default();
        Self { file, lines }
    }

    pub fn lines_of(&self, stream: LogStream) -> Vec<String> {
        self.lines.lines_of(stream)
    }
}

impl LogSink for FileAtFirstLine {
    fn write_line(&self, stream: LogStream, text: &str) {
        std::fs::write(&self.file, "").unwrap();
        self.lines.write_line(stream, text);
    }
}

/// A call of a kind with fields and input as JSON maps.
pub fn build_call(kind: &str, fields: Value, input: Value) -> Call {
    let mut call = Call::new(kind);
    call.fields.clone_from(fields.as_object().unwrap());
    call.input.clone_from(input.as_object().unwrap());
    call.site.base_dir = "/tmp".into();
    call
}

/// A call whose `command` is only text.
pub fn command_call(kind: &str, text: &str, base: &Path) -> Call {
    let mut call = Call::new(kind);
    base.clone_into(&mut call.site.base_dir);
    let pieces = vec![vec![Piece::Text(text.to_owned())]];
    call.pieces.insert("command".to_owned(), pieces);
    call
}

/// Runs a call without cancellation and without a log.
pub async fn run_tool(tool: &dyn Tool, call: Call) -> Outcome {
    tool.call(call, CancellationToken::new(), &DiscardingLogSink).await
}

/// Value of a successful outcome.
pub fn expect_result(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Ok(success) => success.result,
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    }
}

/// Error of a failed outcome.
pub fn expect_error(outcome: &Outcome) -> &TaskError {
    outcome.failure().unwrap_or_else(|| panic!("{outcome:?}"))
}

/// Waits until a killed process has disappeared.
pub async fn wait_for_exit(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if status.is_empty() || status.contains("Z (zombie)") {
            return;
        }
        assert!(Instant::now() < deadline, "{status}");
        tokio::task::yield_now().await;
    }
}
