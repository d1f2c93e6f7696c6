//! Runs one `sqlite` call: binds the command, runs it on a blocking thread and interrupts it on request.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use rusqlite::InterruptHandle;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, cancelled, elapsed, timed_out};
use crate::sql::{Dialect, statements};
use crate::sqlite::failure::Failure;
use crate::sqlite::run;

/// Interval between interrupts of a running statement.
const INTERRUPT_EVERY: Duration = Duration::from_millis(20);

/// The `sqlite` tool.
pub(crate) struct Sqlite {
    forbidden_files: Vec<PathBuf>,
}

impl Sqlite {
    pub(crate) fn new(forbidden_files: Vec<PathBuf>) -> Self {
        Self { forbidden_files }
    }

    async fn run(&self, call: &Call, stop: &CancellationToken) -> Result<Outcome, TaskError> {
        let database = call
            .text("database")?
            .ok_or_else(|| call.missing("database", "set it to a file, or to `:memory:`"))?
            .to_owned();
        let path = call.resolve(&database);
        let statements = statements(call, Dialect::Sqlite)?;
        let forbidden = self.forbidden_files.clone();
        run::check_file(&path, &forbidden)?;
        let (send_handle, handle) = oneshot::channel();
        let work = tokio::task::spawn_blocking(move || {
            let connection = run::open(&database, &path)?;
            // If the receiver is gone, the call has ended and the statements must not run.
            if send_handle.send(connection.get_interrupt_handle()).is_err() {
                return Err(cancelled().into());
            }
            run::run(&connection, &statements, &forbidden)
        });
        tokio::pin!(work);
        let limit = call.timeout.total;
        let why = tokio::select! {
            biased;
            done = &mut work => return Ok(outcome(done, None)),
            () = stop.cancelled() => cancelled(),
            limit = elapsed(limit) => timed_out(limit),
        };
        let handle = handle.await.ok();
        let mut again = tokio::time::interval(INTERRUPT_EVERY);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(outcome(done, Some(why))),
                // An interrupt between two statements has no effect, so it is repeated.
                _ = again.tick() => handle.iter().for_each(InterruptHandle::interrupt),
            }
        }
    }
}

#[async_trait]
impl Tool for Sqlite {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, _log: &dyn LogSink) -> Outcome {
        match self.run(&call, &stop).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::error(error),
        }
    }
}

/// Outcome of the statements; `why` is the reason of an interruption.
fn outcome(
    done: Result<Result<Value, Failure>, tokio::task::JoinError>,
    why: Option<TaskError>,
) -> Outcome {
    match (done, why) {
        (Ok(Ok(result)), _) => Outcome::ok(result),
        (Ok(Err(failure)), Some(why)) if failure.is_interrupt() => Outcome::error(why),
        (Ok(Err(failure)), _) => failure.outcome(),
        (Err(error), _) => {
            let message = format!("the thread that ran the statements failed: {error}");
            Outcome::error(TaskError::new(ErrorKind::Unknown, "SQLITE_LOST", message))
        }
    }
}
