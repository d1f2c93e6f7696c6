//! Runs one `sqlite` call: binds the command, runs it on a blocking thread and interrupts it on request.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use rusqlite::InterruptHandle;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult, cancelled_error, timeout_error, wait_for_timeout};
use crate::sql::{SqlDialect, bind_statements};
use crate::sqlite::failure::SqliteError;
use crate::sqlite::run;

/// Interval between interrupts of a running statement.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(20);

/// The `sqlite` tool.
pub(crate) struct SqliteTool {
    forbidden_files: Vec<PathBuf>,
}

impl SqliteTool {
    pub(crate) fn new(forbidden_files: Vec<PathBuf>) -> Self {
        Self { forbidden_files }
    }
}

#[async_trait]
impl Tool for SqliteTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        let call = &call;
        let database = call
            .text_field("database")?
            .ok_or_else(|| call.missing_key_error("database", "set it to a file, or to `:memory:`"))?
            .to_owned();
        let path = call.resolve_path(&database);
        let statements = bind_statements(call, SqlDialect::Sqlite)?;
        let forbidden = self.forbidden_files.clone();
        run::check_file(&path, &forbidden)?;
        let (send_handle, handle) = oneshot::channel();
        let work = tokio::task::spawn_blocking(move || {
            let connection = run::open_database(&database, &path)?;
            // If the receiver is gone, the call has ended and the statements must not run.
            if send_handle.send(connection.get_interrupt_handle()).is_err() {
                return Err(cancelled_error().into());
            }
            run::run_statements(&connection, &statements, &forbidden)
        });
        tokio::pin!(work);
        let limit = call.timeout.total;
        let interruption = tokio::select! {
            biased;
            done = &mut work => return Ok(to_outcome(done, None)),
            () = stop.cancelled() => cancelled_error(),
            limit = wait_for_timeout(limit) => timeout_error(limit),
        };
        let handle = handle.await.ok();
        let mut interrupts = tokio::time::interval(INTERRUPT_INTERVAL);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(to_outcome(done, Some(interruption))),
                // An interrupt between two statements has no effect, so it is repeated.
                _ = interrupts.tick() => handle.iter().for_each(InterruptHandle::interrupt),
            }
        }
    }
}

/// Outcome of the statements; `interruption` is the error of a call that was stopped.
fn to_outcome(
    done: Result<Result<Value, SqliteError>, tokio::task::JoinError>,
    interruption: Option<TaskError>,
) -> Outcome {
    match (done, interruption) {
        (Ok(Ok(result)), _) => Outcome::ok(result),
        (Ok(Err(failure)), Some(interruption)) if failure.is_interrupt() => Outcome::error(interruption),
        (Ok(Err(failure)), _) => failure.into_outcome(),
        (Err(error), _) => {
            let message = format!("the thread that ran the statements failed: {error}");
            Outcome::error(TaskError::new(ErrorKind::Unknown, "SQLITE_LOST", message))
        }
    }
}
