//! Shared test helpers: calls built from JSON, and a log sink that records its lines.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use language::template::Piece;
use model::outcome::{Outcome, TaskError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, DiscardingLogSink, LogSink, Stream, Tool};

/// A sink that records every line.
#[derive(Default)]
pub(crate) struct RecordedLogLines(Mutex<Vec<(Stream, String)>>);

impl LogSink for RecordedLogLines {
    fn write_line(&self, stream: Stream, text: &str) {
        self.0.lock().unwrap().push((stream, text.to_owned()));
    }
}

impl RecordedLogLines {
    pub(crate) fn lines_of(&self, stream: Stream) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines
            .iter()
            .filter(|(of, _)| *of == stream)
            .map(|(_, text)| text.clone())
            .collect()
    }
}

/// A call of a kind with fields and input as JSON maps.
pub(crate) fn build_call(kind: &str, fields: Value, input: Value) -> Call {
    let mut call = Call::new(kind);
    call.fields = fields.as_object().unwrap().clone();
    call.input = input.as_object().unwrap().clone();
    call.site.base_dir = "/tmp".into();
    call
}

/// A call whose `command` is only text.
pub(crate) fn command_call(kind: &str, text: &str, base: &Path) -> Call {
    let mut call = Call::new(kind);
    call.site.base_dir = base.to_owned();
    let pieces = vec![vec![Piece::Text(text.to_owned())]];
    call.pieces.insert("command".to_owned(), pieces);
    call
}

/// Runs a call without cancellation and without a log.
pub(crate) async fn run_tool(tool: &dyn Tool, call: Call) -> Outcome {
    tool.call(call, CancellationToken::new(), &DiscardingLogSink)
        .await
}

/// Value of a successful outcome.
pub(crate) fn expect_result(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Ok(success) => success.result,
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    }
}

/// Error of a failed outcome.
pub(crate) fn expect_error(outcome: &Outcome) -> &TaskError {
    outcome.failure().unwrap_or_else(|| panic!("{outcome:?}"))
}

/// Waits until a killed process has disappeared.
pub(crate) async fn wait_until_gone(pid: &str) {
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
