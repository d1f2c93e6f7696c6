//! The trait for sinks of task output.

use model::task_log::LogLine;
use results::FileLogs;

/// Receives the lines that tasks print. It never blocks, because output must not delay the task.
pub trait TaskLogSink: Send + Sync {
    /// Receives one line.
    fn write_line(&self, line: &LogLine);
}

impl TaskLogSink for FileLogs {
    fn write_line(&self, line: &LogLine) {
        // A full disk must not fail the task that prints.
        if let Err(error) = self.write(line) {
            tracing::warn!(%error, execution = %line.execution, "failed to write task log line");
        }
    }
}
