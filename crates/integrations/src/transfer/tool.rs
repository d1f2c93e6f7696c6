//! Runs one `transfer` call: opens both sides, moves the rows and cancels both sides together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::postgres::ConnectTarget;
use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tools::http::HttpTool;
use tools::objects::{ObjectAccess, ObjectLocation, open_object};
use tools::postgres::{PostgresPools, QueryCanceller};
use tools::sql::{SqlDialect, SqlStatement};
use tools::{Call, LogSink, Tool, ToolResult, cancelled_error, timeout_error, wait_for_timeout};

use super::duckdb::{self, DuckdbEndpoint};
use super::flow::{RowReceiver, RowSender, StopCallbacks, TransferTotals, row_channel};
use super::options::{FileFormat, TransferEnd, TransferOptions, WriteMode};
use super::{decode, file, postgres, sqlite, web};
use crate::duckdb::DatabasePool;

/// Default connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between cancellations of running work.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

/// The `transfer` tool.
pub(crate) struct TransferTool {
    pub(crate) object_access: ObjectAccess,
    pub(crate) databases: DatabasePool,
    pub(crate) pools: Arc<PostgresPools>,
    pub(crate) http: Arc<HttpTool>,
}

/// Source of the rows.
enum TransferSource {
    Postgres(ConnectTarget, SqlStatement),
    Sqlite(sqlite::SqliteEndpoint, SqlStatement),
    Duckdb(DuckdbEndpoint, SqlStatement),
    File(ObjectLocation, FileFormat, Option<String>),
    Http(Box<Call>, Option<FileFormat>, Option<String>),
}

/// Target of the rows.
enum TransferSink {
    Postgres(ConnectTarget, String),
    Sqlite(sqlite::SqliteEndpoint, String),
    Duckdb(DuckdbEndpoint, String),
    File(ObjectLocation, FileFormat),
    Http(Box<Call>, FileFormat),
}

impl TransferTool {
    async fn open_source(
        &self,
        call: &Call,
        end: &TransferEnd<'_>,
        stops: &StopCallbacks,
    ) -> Result<TransferSource, TaskError> {
        Ok(match end.kind {
            "postgres" => TransferSource::Postgres(end.postgres_target()?, end.read_statement(SqlDialect::Postgres)?),
            "sqlite" => TransferSource::Sqlite(
                self.sqlite_endpoint(call, end, stops)?,
                end.read_statement(SqlDialect::Sqlite)?,
            ),
            "duckdb" => TransferSource::Duckdb(
                self.duckdb_endpoint(call, end, stops),
                end.read_statement(SqlDialect::Duckdb)?,
            ),
            "file" | "s3" | "gcs" => {
                let location = end.location(&self.object_access).await?;
                let format = end.required_format(&location.uri())?;
                TransferSource::File(
                    location,
                    format,
                    end.text("path")
                        .filter(|_| end.text("uri").is_some())
                        .map(str::to_owned),
                )
            }
            "http" => {
                let format = end.format(end.text("url").unwrap_or_default())?;
                TransferSource::Http(
                    Box::new(web::end_call(call, end)?),
                    format,
                    end.text("path").map(str::to_owned),
                )
            }
            other => return Err(unknown_kind_error("source", other)),
        })
    }

    async fn open_sink(
        &self,
        call: &Call,
        end: &TransferEnd<'_>,
        stops: &StopCallbacks,
        options: &TransferOptions,
    ) -> Result<TransferSink, TaskError> {
        Ok(match end.kind {
            "postgres" => TransferSink::Postgres(end.postgres_target()?, end.table()?.to_owned()),
            "sqlite" => TransferSink::Sqlite(self.sqlite_endpoint(call, end, stops)?, end.table()?.to_owned()),
            "duckdb" => TransferSink::Duckdb(self.duckdb_endpoint(call, end, stops), end.table()?.to_owned()),
            "file" | "s3" | "gcs" => {
                options.check_file()?;
                let location = end.location(&self.object_access).await?;
                let format = end.required_format(&location.uri())?;
                TransferSink::File(location, format)
            }
            "http" => {
                let format = end.format("x.json")?.unwrap_or(FileFormat::Json);
                if options.mode.as_ref().is_some_and(|mode| *mode != WriteMode::Append) || format == FileFormat::Parquet
                {
                    let message = "an http target supports csv, ndjson and json, and only `mode: append`";
                    return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
                }
                TransferSink::Http(Box::new(web::end_call(call, end)?), format)
            }
            other => return Err(unknown_kind_error("target", other)),
        })
    }

    fn sqlite_endpoint(
        &self,
        call: &Call,
        end: &TransferEnd<'_>,
        stops: &StopCallbacks,
    ) -> Result<sqlite::SqliteEndpoint, TaskError> {
        let database = end.required_text("database", "set it to the database file")?;
        Ok(sqlite::SqliteEndpoint {
            path: call.resolve_path(database),
            forbidden: self.object_access.forbidden.clone(),
            stop_callbacks: stops.clone(),
        })
    }

    fn duckdb_endpoint(&self, call: &Call, end: &TransferEnd<'_>, stops: &StopCallbacks) -> DuckdbEndpoint {
        let database = end.text("database").filter(|name| *name != ":memory:");
        self.duckdb_endpoint_at(call, database.map(|name| call.resolve_path(name)), stops)
    }

    fn duckdb_endpoint_at(&self, call: &Call, file: Option<PathBuf>, stops: &StopCallbacks) -> DuckdbEndpoint {
        DuckdbEndpoint {
            databases: self.databases.clone(),
            file,
            folder: call.site.base_dir.clone(),
            stop_callbacks: stops.clone(),
        }
    }

    /// Lets DuckDB copy directly if possible, else moves rows through a channel.
    async fn run_transfer(
        &self,
        call: &Call,
        source: TransferSource,
        sink: TransferSink,
        options: TransferOptions,
    ) -> Result<TransferTotals, TaskError> {
        match (source, sink) {
            (TransferSource::Duckdb(endpoint, query), TransferSink::File(location, format))
                if options.mapping.is_none() =>
            {
                let draft = file::create_temp_path(&self.object_access.scratch_dir)?;
                let path = draft.to_path_buf();
                let totals = run_blocking(move || duckdb::copy_out(&endpoint, &query, &path, format)).await?;
                file::send_file(&draft, &location, format).await?;
                Ok(totals)
            }
            (TransferSource::File(location, format, None), TransferSink::Duckdb(endpoint, table))
                if !matches!(options.mode, Some(WriteMode::Upsert(_))) =>
            {
                let (path, _guard) = file::fetch_file(&location, &self.object_access.scratch_dir).await?;
                let (mode, mapping) = (options.table_mode(), options.mapping);
                run_blocking(move || {
                    let file = duckdb::SourceFile { path: &path, format };
                    duckdb::copy_in(&endpoint, file, &table, &mode, mapping.as_ref())
                })
                .await
            }
            (source, sink) => {
                let mode = options.table_mode();
                let (mut sender, receiver) = row_channel(options.chunk_size, options.mapping);
                if matches!(
                    (&source, &sink),
                    (TransferSource::Postgres(..), TransferSink::Postgres(..))
                ) {
                    sender.allow_json_text();
                }
                let read = self.read_source(call, source, sender);
                let write = self.write_sink(call, sink, mode, receiver);
                // The writing side returns the result: an error of the source arrives there as the last chunk.
                let ((), totals) = tokio::join!(read, write);
                totals
            }
        }
    }

    async fn read_source(&self, call: &Call, source: TransferSource, mut sender: RowSender) {
        let read_result = match source {
            TransferSource::Postgres(server, query) => match self.pools.acquire(server, connect_timeout(call)).await {
                Err(error) => Err(error),
                Ok(connection) => {
                    let mut unfinished = CancelOnDrop(Some(connection.canceller()));
                    let read_result = postgres::read_query(connection.client(), &query, &mut sender).await;
                    unfinished.0.take();
                    if read_result.is_ok() {
                        connection.release();
                    }
                    read_result
                }
            },
            TransferSource::File(location, FileFormat::Parquet, _) => {
                let fetched = file::fetch_file(&location, &self.object_access.scratch_dir).await;
                let endpoint = self.duckdb_endpoint_at(call, None, &StopCallbacks::default());
                match fetched {
                    Err(error) => Err(error),
                    Ok((path, guard)) => {
                        return read_on_thread(sender, move |sender| {
                            let _guard = guard;
                            duckdb::read_file(&endpoint, &path, FileFormat::Parquet, sender)
                        })
                        .await;
                    }
                }
            }
            TransferSource::File(location, format, path) => match open_object(&location, None).await {
                Err(error) => Err(error),
                Ok(opened) => decode::decode_rows(opened.chunks, format, path.as_deref(), &mut sender).await,
            },
            TransferSource::Http(call, format, path) => {
                web::read_response(&self.http, &call, format, path, &mut sender).await
            }
            TransferSource::Sqlite(file, query) => {
                return read_on_thread(sender, move |sender| sqlite::read_query(&file, &query, sender)).await;
            }
            TransferSource::Duckdb(endpoint, query) => {
                return read_on_thread(sender, move |sender| duckdb::read_query(&endpoint, &query, sender)).await;
            }
        };
        sender.finish(read_result).await;
    }

    async fn write_sink(
        &self,
        call: &Call,
        sink: TransferSink,
        mode: WriteMode,
        receiver: RowReceiver,
    ) -> Result<TransferTotals, TaskError> {
        match sink {
            TransferSink::Postgres(server, table) => {
                let connection = self.pools.acquire(server, connect_timeout(call)).await?;
                let mut unfinished = CancelOnDrop(Some(connection.canceller()));
                let write_result = postgres::write_table(connection.client(), &table, mode, receiver).await;
                unfinished.0.take();
                let totals = write_result?;
                connection.release();
                Ok(totals)
            }
            TransferSink::Sqlite(file, table) => {
                run_blocking(move || sqlite::write_table(&file, &table, &mode, receiver)).await
            }
            TransferSink::Duckdb(endpoint, table) => {
                run_blocking(move || duckdb::write_table(&endpoint, &table, &mode, receiver)).await
            }
            TransferSink::File(location, FileFormat::Parquet) => {
                let scratch = &self.object_access.scratch_dir;
                let (lines, draft) = (file::create_temp_path(scratch)?, file::create_temp_path(scratch)?);
                let lines_location = ObjectLocation::File(lines.to_path_buf());
                let totals = file::write_file(&lines_location, FileFormat::Ndjson, receiver).await?;
                let endpoint = self.duckdb_endpoint_at(call, None, &StopCallbacks::default());
                let (source, into) = (lines.to_path_buf(), draft.to_path_buf());
                run_blocking(move || duckdb::write_parquet(&endpoint, &source, &into)).await?;
                file::send_file(&draft, &location, FileFormat::Parquet).await?;
                Ok(totals)
            }
            TransferSink::File(location, format) => file::write_file(&location, format, receiver).await,
            TransferSink::Http(call, format) => web::send_batches(&self.http, &call, format, receiver).await,
        }
    }
}

/// Cancels a running query on drop.
struct CancelOnDrop(Option<QueryCanceller>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(stopper) = self.0.take() {
            tokio::spawn(stopper.cancel());
        }
    }
}

#[async_trait]
impl Tool for TransferTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        let call = &call;
        let (source, target) = (
            TransferEnd::from_call(call, "source")?,
            TransferEnd::from_call(call, "target")?,
        );
        let options = TransferOptions::from_call(call, &target)?;
        let stops = StopCallbacks::default();
        let source = self.open_source(call, &source, &stops).await?;
        let sink = self.open_sink(call, &target, &stops, &options).await?;
        let work = self.run_transfer(call, source, sink, options);
        tokio::pin!(work);
        let interruption = tokio::select! {
            biased;
            done = &mut work => return done.map(|totals| totals_outcome(&totals)),
            () = stop.cancelled() => cancelled_error(),
            limit = wait_for_timeout(call.timeout.total) => timeout_error(limit),
        };
        // Blocking threads are cancelled repeatedly until they end; everything else ends on drop.
        let mut stop_ticks = tokio::time::interval(STOP_INTERVAL);
        let grace = tokio::time::sleep(Duration::from_secs(5));
        tokio::pin!(grace);
        loop {
            tokio::select! {
                biased;
                done = &mut work => match done {
                    // The transfer finished before the cancellation took effect.
                    Ok(totals) => return Ok(totals_outcome(&totals)),
                    Err(_) => break,
                },
                () = &mut grace => break,
                _ = stop_ticks.tick() => stops.stop(),
            }
        }
        Err(interruption)
    }
}

fn connect_timeout(call: &Call) -> Duration {
    call.timeout.connect.unwrap_or(CONNECT_TIMEOUT)
}

fn totals_outcome(totals: &TransferTotals) -> Outcome {
    Outcome::ok(json!({
        "rows_transferred": totals.rows,
        "chunks": totals.chunks,
        "columns": totals.columns,
    }))
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TaskError> + Send + 'static,
) -> Result<T, TaskError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| Err(thread_lost_error(&error.to_string())))
}

/// Runs a reader on a blocking thread.
async fn read_on_thread(
    mut sender: RowSender,
    work: impl FnOnce(&mut RowSender) -> Result<(), TaskError> + Send + 'static,
) {
    let work = move || {
        let result = work(&mut sender);
        sender.finish_blocking(result);
    };
    // If the thread panics, the channel closes without a last chunk, which the target treats as a failure.
    let _ = tokio::task::spawn_blocking(work).await;
}

fn thread_lost_error(problem: &str) -> TaskError {
    let message = format!("a thread of the transfer failed: {problem}");
    TaskError::new(ErrorKind::Unknown, "TRANSFER_LOST", message)
}

fn unknown_kind_error(side: &str, kind: &str) -> TaskError {
    let message = format!("invalid `{side}.kind`: `{kind}`; use http, postgres, sqlite, duckdb, file, s3 or gcs");
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "kind")
}
