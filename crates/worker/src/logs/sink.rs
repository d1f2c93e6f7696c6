//! Where the lines of tasks go, as the worker sees it.

use model::task_log::LogLine;
use results::FileLogs;

/// Takes the lines that tasks print. It never waits: output must not hold up the task whose it is.
pub trait Logs: Send + Sync {
    /// Takes one line.
    fn line(&self, line: &LogLine);
}

impl Logs for FileLogs {
    fn line(&self, line: &LogLine) {
        // A full disk must not fail the task whose output it is.
        if let Err(error) = self.write(line) {
            tracing::warn!(%error, execution = %line.execution, "a log line was lost");
        }
    }
}
