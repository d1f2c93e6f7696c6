//! Runs one `duckdb` call: binds the command, runs it on a blocking thread and interrupts it on request. Rows are
//! streamed to the result store.

use std::io;
use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use model::duration;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;
use tools::sql::{SqlDialect, bind_statements};
use tools::{
    Call, LogSink, Tool, ToolResult, cancelled_error, store_error, stored_outcome, timeout_error, wait_for_timeout,
};

use super::aliases::Aliases;
use super::ffi::DuckdbConnection;
use super::pool::DatabasePool;
use super::run::{self, JsonWriter, StatementBatch, StatementsError};

/// Name of an in-memory database, which exists for one call.
const MEMORY_DATABASE: &str = ":memory:";
/// Maximum number of result chunks that wait to be stored.
const QUEUED_CHUNKS_MAX: usize = 4;
/// Maximum size of a result that cannot be streamed to a store.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Interval between interrupts of a running statement.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(20);

/// The `duckdb` tool.
pub(crate) struct DuckdbTool {
    databases: DatabasePool,
}

impl DuckdbTool {
    pub(crate) fn new(databases: DatabasePool) -> Self {
        Self { databases }
    }
}

#[async_trait]
impl Tool for DuckdbTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        let call = &call;
        let database = call.text_field("database")?.unwrap_or(MEMORY_DATABASE);
        let file = (database != MEMORY_DATABASE).then(|| call.resolve_path(database));
        let guard = self.databases.guard().clone();
        let batch = StatementBatch {
            statements: bind_statements(call, SqlDialect::Duckdb)?,
            aliases: Aliases::from_call(call, &guard)?,
            settings: settings_statements(call)?,
            base: call.site.base_dir.clone(),
            guard,
        };
        let secrets_lock = match &file {
            Some(file) if !batch.aliases.is_empty() => Some(self.databases.secrets_lock(file)),
            _ => None,
        };
        let databases = self.databases.clone();
        let (send_handle, handle) = oneshot::channel::<Weak<DuckdbConnection>>();
        let (chunk_sender, chunks) = mpsc::channel(QUEUED_CHUNKS_MAX);
        let limit = call.timeout.total;
        let lock_secrets = async {
            match secrets_lock {
                Some(secrets_lock) => Some(secrets_lock.lock_owned().await),
                None => None,
            }
        };
        let guard = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(cancelled_error()),
            limit = wait_for_timeout(limit) => return Err(timeout_error(limit)),
            guard = lock_secrets => guard,
        };
        let statements = tokio::task::spawn_blocking(move || {
            let _guard = guard;
            let handle = databases.connect(file.as_deref())?;
            // If the receiver is gone, the call has ended and the statements must not run.
            if send_handle.send(handle.weak_connection()).is_err() {
                return Err(cancelled_error().into());
            }
            run::run_statements(handle.connection(), &batch, &mut JsonWriter::new(chunk_sender))
        });
        let answer = store_answer(call, chunks, statements);
        tokio::pin!(answer);
        let interruption = tokio::select! {
            biased;
            done = &mut answer => return done,
            () = stop.cancelled() => cancelled_error(),
            limit = wait_for_timeout(limit) => timeout_error(limit),
        };
        match interrupt_until_done(handle.await.ok(), answer).await {
            Ok(Outcome::Error(failure)) if failure.error.code == "CANCELLED" => Err(interruption),
            done => done,
        }
    }
}

type RunningStatements = JoinHandle<Result<(), StatementsError>>;

/// Interrupts repeatedly until the work ends: a statement that has just started misses earlier interrupts.
async fn interrupt_until_done<T>(connection: Option<Weak<DuckdbConnection>>, running: impl Future<Output = T>) -> T {
    tokio::pin!(running);
    let mut interrupts = tokio::time::interval(INTERRUPT_INTERVAL);
    loop {
        tokio::select! {
            biased;
            done = &mut running => return done,
            _ = interrupts.tick() => {
                if let Some(connection) = connection.as_ref().and_then(Weak::upgrade) {
                    connection.interrupt();
                }
            }
        }
    }
}

/// Collects the result: a small one is returned inline, a large one is streamed to the store.
async fn store_answer(
    call: &Call,
    mut chunks: mpsc::Receiver<Bytes>,
    running: RunningStatements,
) -> Result<Outcome, TaskError> {
    let writer = call.result_writer.as_ref().filter(|writer| writer.can_stream());
    let buffered_bytes_max = writer.map_or(BUFFERED_BYTES_MAX, |_| call.inline_bytes_max);
    let mut head = Vec::new();
    while let Some(chunk) = chunks.recv().await {
        head.extend_from_slice(&chunk);
        if head.len() <= buffered_bytes_max {
            continue;
        }
        let Some(writer) = writer else {
            let message = format!("rows exceed the limit of {BUFFERED_BYTES_MAX} bytes; select fewer rows or columns");
            return Err(TaskError::new(ErrorKind::Schema, "LIMIT_RESULT", message));
        };
        let remaining = stream::unfold(chunks, async |mut chunks| {
            let chunk = chunks.recv().await?;
            Some((Ok::<_, io::Error>(chunk), chunks))
        });
        let first = stream::iter([Ok(Bytes::from(head))]);
        let mut text = StreamReader::new(Box::pin(futures_util::StreamExt::chain(first, remaining)));
        let stored = writer.write(&mut text).await;
        drop(text);
        // The error of the statements takes precedence: it is why the stream ended early, unless storing failed.
        return Ok(match (wait_for_end(running).await, stored) {
            (Err(StatementsError::Failed(failure)), _) => *failure,
            (Ok(()), Ok(reference)) => stored_outcome(reference),
            (Ok(()) | Err(StatementsError::ReceiverClosed), Err(error)) => Outcome::error(store_error(&error)),
            (Err(StatementsError::ReceiverClosed), Ok(_)) => Outcome::error(cancelled_error()),
        });
    }
    match wait_for_end(running).await {
        Ok(()) => {}
        Err(StatementsError::Failed(failure)) => return Ok(*failure),
        Err(StatementsError::ReceiverClosed) => return Err(cancelled_error()),
    }
    let mut result: Value = serde_json::from_slice(&head).map_err(|error| thread_lost_error(&error.to_string()))?;
    add_last_answer(&mut result);
    Ok(Outcome::ok(result))
}

/// Adds the last statement's result to a small result under its own key, too.
fn add_last_answer(result: &mut Value) {
    let Value::Object(map) = result else { return };
    let own = ["columns", "rows", "row_count", "affected_rows"];
    let last = map.len() - own.len();
    let answer = own.map(|key| (key.to_owned(), map[key].clone()));
    map.insert(format!("command_{last}"), Value::Object(answer.into_iter().collect()));
}

async fn wait_for_end(running: RunningStatements) -> Result<(), StatementsError> {
    match running.await {
        Ok(done) => done,
        Err(error) => Err(thread_lost_error(&error.to_string()).into()),
    }
}

fn thread_lost_error(problem: &str) -> TaskError {
    let message = format!("the thread that ran the statements failed: {problem}");
    TaskError::new(ErrorKind::Unknown, "DUCKDB_LOST", message)
}

/// Statements for the memory and thread settings of the call.
fn settings_statements(call: &Call) -> Result<Vec<String>, TaskError> {
    let mut settings = Vec::new();
    if let Some(value) = call.field("memory_limit") {
        let bytes = duration::parse_size(value);
        let bytes = bytes.ok_or_else(|| call.wrong_type_error("memory_limit", "a size such as `512MiB`", value))?;
        settings.push(format!("SET memory_limit = '{bytes}B'"));
    }
    if let Some(value) = call.field("threads") {
        let threads = match value {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_u64(),
        };
        let threads = threads.filter(|threads| (1..=1024).contains(threads));
        let threads = threads.ok_or_else(|| call.wrong_type_error("threads", "a number from 1 to 1024", value))?;
        settings.push(format!("SET threads = {threads}"));
    }
    Ok(settings)
}
