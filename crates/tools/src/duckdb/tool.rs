//! Runs one `duckdb` call: binds the command, runs it on a blocking thread and interrupts it on request. Rows are
//! streamed to the result store.

use std::io;
use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use model::duration;
use model::outcome::{ErrorKind, Outcome, Success, TaskError};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;

use super::aliases::Aliases;
use super::ffi::Connection;
use super::pool::Databases;
use super::run::{self, Broken, Out, Work};
use crate::call::{Call, LogSink, Tool, cancelled, elapsed, not_kept, timed_out};
use crate::sql::{Dialect, statements};

/// Name of an in-memory database, which exists for one call.
const MEMORY: &str = ":memory:";
/// Maximum number of result chunks that wait to be stored.
const PIECES_MAX: usize = 4;
/// Maximum size of a result that cannot be streamed to a store.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Interval between interrupts of a running statement.
const INTERRUPT_EVERY: Duration = Duration::from_millis(20);

/// The `duckdb` tool.
pub(crate) struct Duckdb {
    databases: Databases,
}

impl Duckdb {
    pub(crate) fn new(databases: Databases) -> Self {
        Self { databases }
    }

    async fn run(&self, call: &Call, stop: &CancellationToken) -> Result<Outcome, TaskError> {
        let database = call.text("database")?.unwrap_or(MEMORY);
        let file = (database != MEMORY).then(|| call.resolve(database));
        let guard = self.databases.guard().clone();
        let work = Work {
            statements: statements(call, Dialect::Duckdb)?,
            aliases: Aliases::of(call, &guard)?,
            settings: settings(call)?,
            base: call.place.base_dir.clone(),
            guard,
        };
        let secrets = match &file {
            Some(file) if !work.aliases.is_empty() => Some(self.databases.secrets(file)),
            _ => None,
        };
        let databases = self.databases.clone();
        let (send_handle, handle) = oneshot::channel::<Weak<Connection>>();
        let (send, pieces) = mpsc::channel(PIECES_MAX);
        let limit = call.timeout.total;
        let locking = async {
            match secrets {
                Some(secrets) => Some(secrets.lock_owned().await),
                None => None,
            }
        };
        let held = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(cancelled()),
            limit = elapsed(limit) => return Err(timed_out(limit)),
            held = locking => held,
        };
        let work = tokio::task::spawn_blocking(move || {
            let _held = held;
            let lease = databases.connect(file.as_deref())?;
            // If the receiver is gone, the call has ended and the statements must not run.
            if send_handle.send(lease.handle()).is_err() {
                return Err(cancelled().into());
            }
            run::run(lease.connection(), &work, &mut Out::new(send))
        });
        let answer = keep(call, pieces, work);
        tokio::pin!(answer);
        let why = tokio::select! {
            biased;
            done = &mut answer => return done,
            () = stop.cancelled() => cancelled(),
            limit = elapsed(limit) => timed_out(limit),
        };
        match interrupted(handle.await.ok(), answer).await {
            Ok(Outcome::Error(failure)) if failure.error.code == "CANCELLED" => Err(why),
            done => done,
        }
    }
}

#[async_trait]
impl Tool for Duckdb {
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

type Running = JoinHandle<Result<(), Broken>>;

/// Interrupts repeatedly until the work ends: a statement that has just started misses earlier interrupts.
async fn interrupted<T>(connection: Option<Weak<Connection>>, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    let mut again = tokio::time::interval(INTERRUPT_EVERY);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = again.tick() => {
                if let Some(connection) = connection.as_ref().and_then(Weak::upgrade) {
                    connection.interrupt();
                }
            }
        }
    }
}

/// Collects the result: a small one is returned inline, a large one is streamed to the store.
async fn keep(
    call: &Call,
    mut pieces: mpsc::Receiver<Bytes>,
    work: Running,
) -> Result<Outcome, TaskError> {
    let keeper = call.keeper.as_ref().filter(|keeper| keeper.can_stream());
    let held_bytes_max = keeper.map_or(HELD_BYTES_MAX, |_| call.inline_bytes_max);
    let mut head = Vec::new();
    while let Some(piece) = pieces.recv().await {
        head.extend_from_slice(&piece);
        if head.len() <= held_bytes_max {
            continue;
        }
        let Some(keeper) = keeper else {
            let message = format!(
                "rows exceed the limit of {HELD_BYTES_MAX} bytes; select fewer rows or columns"
            );
            return Err(TaskError::new(ErrorKind::Schema, "LIMIT_RESULT", message));
        };
        let rest = stream::unfold(pieces, async |mut pieces| {
            let piece = pieces.recv().await?;
            Some((Ok::<_, io::Error>(piece), pieces))
        });
        let first = stream::iter([Ok(Bytes::from(head))]);
        let mut text = StreamReader::new(Box::pin(futures_util::StreamExt::chain(first, rest)));
        let kept = keeper.keep(&mut text).await;
        drop(text);
        // The error of the statements takes precedence: it is why the stream ended early, unless storing failed.
        return Ok(match (ended(work).await, kept) {
            (Err(Broken::Failed(failure)), _) => *failure,
            (Ok(()), Ok(reference)) => Outcome::Ok(Success {
                reference: Some(Box::new(reference)),
                ..Success::default()
            }),
            (Ok(()) | Err(Broken::Left), Err(error)) => Outcome::error(not_kept(&error)),
            (Err(Broken::Left), Ok(_)) => Outcome::error(cancelled()),
        });
    }
    match ended(work).await {
        Ok(()) => {}
        Err(Broken::Failed(failure)) => return Ok(*failure),
        Err(Broken::Left) => return Err(cancelled()),
    }
    let mut result: Value =
        serde_json::from_slice(&head).map_err(|error| lost(&error.to_string()))?;
    name_last(&mut result);
    Ok(Outcome::ok(result))
}

/// Adds the last statement's result to a small result under its own key, too.
fn name_last(result: &mut Value) {
    let Value::Object(map) = result else { return };
    let own = ["columns", "rows", "row_count", "affected_rows"];
    let last = map.len() - own.len();
    let answer = own.map(|key| (key.to_owned(), map[key].clone()));
    map.insert(
        format!("command_{last}"),
        Value::Object(answer.into_iter().collect()),
    );
}

async fn ended(work: Running) -> Result<(), Broken> {
    match work.await {
        Ok(done) => done,
        Err(error) => Err(lost(&error.to_string()).into()),
    }
}

fn lost(problem: &str) -> TaskError {
    let message = format!("the thread that ran the statements failed: {problem}");
    TaskError::new(ErrorKind::Unknown, "DUCKDB_LOST", message)
}

/// Statements for the memory and thread settings of the call.
fn settings(call: &Call) -> Result<Vec<String>, TaskError> {
    let mut settings = Vec::new();
    if let Some(value) = call.field("memory_limit") {
        let bytes = duration::parse_size(value);
        let bytes = bytes
            .ok_or_else(|| call.wrong_type("memory_limit", "a size such as `512MiB`", value))?;
        settings.push(format!("SET memory_limit = '{bytes}B'"));
    }
    if let Some(value) = call.field("threads") {
        let threads = match value {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_u64(),
        };
        let threads = threads.filter(|threads| (1..=1024).contains(threads));
        let threads =
            threads.ok_or_else(|| call.wrong_type("threads", "a number from 1 to 1024", value))?;
        settings.push(format!("SET threads = {threads}"));
    }
    Ok(settings)
}
