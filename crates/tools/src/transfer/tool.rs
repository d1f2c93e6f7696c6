//! Runs one `transfer` call: opens both sides, moves the rows and cancels both sides together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::duckdb::{self, Base};
use super::flow::{Inlet, Outlet, Stops, Totals, flow};
use super::plan::{End, Format, Manner, Mode};
use super::{decode, file, postgres, sqlite, web};
use crate::call::{Call, LogSink, Tool, cancelled, elapsed, timed_out};
use crate::duckdb::Databases;
use crate::http::Http;
use crate::objects::{Place, Reach, open};
use crate::postgres::{Pools, Stopper, Target as Server};
use crate::sql::{Dialect, Statement};

/// Default connect timeout.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Interval between cancellations of running work.
const STOP_EVERY: Duration = Duration::from_millis(20);

/// The `transfer` tool.
pub(crate) struct Transfer {
    pub(crate) reach: Reach,
    pub(crate) databases: Databases,
    pub(crate) pools: Arc<Pools>,
    pub(crate) http: Arc<Http>,
}

/// Source of the rows.
enum From {
    Postgres(Server, Statement),
    Sqlite(sqlite::File, Statement),
    Duckdb(Base, Statement),
    File(Place, Format, Option<String>),
    Http(Box<Call>, Option<Format>, Option<String>),
}

/// Target of the rows.
enum To {
    Postgres(Server, String),
    Sqlite(sqlite::File, String),
    Duckdb(Base, String),
    File(Place, Format),
    Http(Box<Call>, Format),
}

impl Transfer {
    async fn run(&self, call: &Call, stop: &CancellationToken) -> Result<Outcome, TaskError> {
        let (source, target) = (End::of(call, "source")?, End::of(call, "target")?);
        let manner = Manner::of(call, &target)?;
        let stops = Stops::default();
        let from = self.from(call, &source, &stops).await?;
        let to = self.to(call, &target, &stops, &manner).await?;
        let work = self.go(call, from, to, manner);
        tokio::pin!(work);
        let why = tokio::select! {
            biased;
            done = &mut work => return done.map(|totals| shown(&totals)),
            () = stop.cancelled() => cancelled(),
            limit = elapsed(call.timeout.total) => timed_out(limit),
        };
        // Blocking threads are cancelled repeatedly until they end; everything else ends on drop.
        let mut again = tokio::time::interval(STOP_EVERY);
        let grace = tokio::time::sleep(Duration::from_secs(5));
        tokio::pin!(grace);
        loop {
            tokio::select! {
                biased;
                done = &mut work => match done {
                    // The transfer finished before the cancellation took effect.
                    Ok(totals) => return Ok(shown(&totals)),
                    Err(_) => break,
                },
                () = &mut grace => break,
                _ = again.tick() => stops.stop(),
            }
        }
        Err(why)
    }

    async fn from(&self, call: &Call, end: &End<'_>, stops: &Stops) -> Result<From, TaskError> {
        Ok(match end.kind {
            "postgres" => From::Postgres(end.server()?, end.query(Dialect::Postgres)?),
            "sqlite" => From::Sqlite(self.sqlite(call, end, stops)?, end.query(Dialect::Sqlite)?),
            "duckdb" => From::Duckdb(self.duckdb(call, end, stops), end.query(Dialect::Duckdb)?),
            "file" | "s3" | "gcs" => {
                let place = end.place(&self.reach).await?;
                let format = end.need_format(&place.uri())?;
                From::File(
                    place,
                    format,
                    end.text("path")
                        .filter(|_| end.text("uri").is_some())
                        .map(str::to_owned),
                )
            }
            "http" => {
                let format = end.format(end.text("url").unwrap_or_default())?;
                From::Http(
                    Box::new(web::call(call, end)?),
                    format,
                    end.text("path").map(str::to_owned),
                )
            }
            other => return Err(unknown("source", other)),
        })
    }

    async fn to(
        &self,
        call: &Call,
        end: &End<'_>,
        stops: &Stops,
        manner: &Manner,
    ) -> Result<To, TaskError> {
        Ok(match end.kind {
            "postgres" => To::Postgres(end.server()?, end.table()?.to_owned()),
            "sqlite" => To::Sqlite(self.sqlite(call, end, stops)?, end.table()?.to_owned()),
            "duckdb" => To::Duckdb(self.duckdb(call, end, stops), end.table()?.to_owned()),
            "file" | "s3" | "gcs" => {
                manner.check_file()?;
                let place = end.place(&self.reach).await?;
                let format = end.need_format(&place.uri())?;
                To::File(place, format)
            }
            "http" => {
                let format = end.format("x.json")?.unwrap_or(Format::Json);
                if manner
                    .mode
                    .as_ref()
                    .is_some_and(|mode| *mode != Mode::Append)
                    || format == Format::Parquet
                {
                    let message =
                        "an http target supports csv, ndjson and json, and only `mode: append`";
                    return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
                }
                To::Http(Box::new(web::call(call, end)?), format)
            }
            other => return Err(unknown("target", other)),
        })
    }

    fn sqlite(&self, call: &Call, end: &End<'_>, stops: &Stops) -> Result<sqlite::File, TaskError> {
        let database = end.need("database", "set it to the database file")?;
        Ok(sqlite::File {
            path: call.resolve(database),
            forbidden: self.reach.forbidden.clone(),
            stops: stops.clone(),
        })
    }

    fn duckdb(&self, call: &Call, end: &End<'_>, stops: &Stops) -> Base {
        let database = end.text("database").filter(|name| *name != ":memory:");
        self.base(call, database.map(|name| call.resolve(name)), stops)
    }

    fn base(&self, call: &Call, file: Option<PathBuf>, stops: &Stops) -> Base {
        Base {
            databases: self.databases.clone(),
            file,
            folder: call.place.base_dir.clone(),
            stops: stops.clone(),
        }
    }

    /// Lets DuckDB copy directly if possible, else moves rows through a channel.
    async fn go(
        &self,
        call: &Call,
        from: From,
        to: To,
        manner: Manner,
    ) -> Result<Totals, TaskError> {
        match (from, to) {
            (From::Duckdb(base, query), To::File(place, format)) if manner.mapping.is_none() => {
                let draft = file::draft(&self.reach.scratch_dir)?;
                let path = draft.to_path_buf();
                let totals =
                    blocking(move || duckdb::copy_out(&base, &query, &path, format)).await?;
                file::sent(&draft, &place, format).await?;
                Ok(totals)
            }
            (From::File(place, format, None), To::Duckdb(base, table))
                if !matches!(manner.mode, Some(Mode::Upsert(_))) =>
            {
                let (path, _guard) = file::fetched(&place, &self.reach.scratch_dir).await?;
                let (mode, mapping) = (manner.table_mode(), manner.mapping);
                blocking(move || {
                    duckdb::copy_in(&base, (&path, format), &table, (&mode, mapping.as_ref()))
                })
                .await
            }
            (from, to) => {
                let mode = manner.table_mode();
                let (mut outlet, inlet) = flow(manner.chunk_size, manner.mapping);
                if matches!((&from, &to), (From::Postgres(..), To::Postgres(..))) {
                    outlet.keep_json_text();
                }
                let reading = self.read(call, from, outlet);
                let writing = self.write(call, to, mode, inlet);
                // The writing side returns the result: an error of the source arrives there as the last chunk.
                let ((), written) = tokio::join!(reading, writing);
                written
            }
        }
    }

    async fn read(&self, call: &Call, from: From, mut outlet: Outlet) {
        let done = match from {
            From::Postgres(server, query) => {
                match self.pools.lease(server, connect_max(call)).await {
                    Err(error) => Err(error),
                    Ok(lease) => {
                        let mut unfinished = Unfinished(Some(lease.stopper()));
                        let done = postgres::read(lease.client(), &query, &mut outlet).await;
                        unfinished.0.take();
                        if done.is_ok() {
                            lease.give_back();
                        }
                        done
                    }
                }
            }
            From::File(place, Format::Parquet, _) => {
                let fetched = file::fetched(&place, &self.reach.scratch_dir).await;
                let base = self.base(call, None, &Stops::default());
                match fetched {
                    Err(error) => Err(error),
                    Ok((path, guard)) => {
                        return in_thread(outlet, move |outlet| {
                            let _guard = guard;
                            duckdb::read_file(&base, &path, Format::Parquet, outlet)
                        })
                        .await;
                    }
                }
            }
            From::File(place, format, path) => match open(&place, None).await {
                Err(error) => Err(error),
                Ok(opened) => {
                    decode::read(opened.pieces, format, path.as_deref(), &mut outlet).await
                }
            },
            From::Http(call, format, path) => {
                web::read(&self.http, &call, (format, path), &mut outlet).await
            }
            From::Sqlite(file, query) => {
                return in_thread(outlet, move |outlet| sqlite::read(&file, &query, outlet)).await;
            }
            From::Duckdb(base, query) => {
                return in_thread(outlet, move |outlet| duckdb::read(&base, &query, outlet)).await;
            }
        };
        outlet.end(done).await;
    }

    async fn write(
        &self,
        call: &Call,
        to: To,
        mode: Mode,
        inlet: Inlet,
    ) -> Result<Totals, TaskError> {
        match to {
            To::Postgres(server, table) => {
                let lease = self.pools.lease(server, connect_max(call)).await?;
                let mut unfinished = Unfinished(Some(lease.stopper()));
                let written = postgres::write(lease.client(), &table, mode, inlet).await;
                unfinished.0.take();
                let totals = written?;
                lease.give_back();
                Ok(totals)
            }
            To::Sqlite(file, table) => {
                blocking(move || sqlite::write(&file, &table, &mode, inlet)).await
            }
            To::Duckdb(base, table) => {
                blocking(move || duckdb::write(&base, &table, &mode, inlet)).await
            }
            To::File(place, Format::Parquet) => {
                let scratch = &self.reach.scratch_dir;
                let (lines, draft) = (file::draft(scratch)?, file::draft(scratch)?);
                let aside = Place::File(lines.to_path_buf());
                let totals = file::write(&aside, Format::Ndjson, inlet).await?;
                let base = self.base(call, None, &Stops::default());
                let (from, into) = (lines.to_path_buf(), draft.to_path_buf());
                blocking(move || duckdb::parquet(&base, &from, &into)).await?;
                file::sent(&draft, &place, Format::Parquet).await?;
                Ok(totals)
            }
            To::File(place, format) => file::write(&place, format, inlet).await,
            To::Http(call, format) => web::write(&self.http, &call, format, inlet).await,
        }
    }
}

/// Cancels a running query on drop.
struct Unfinished(Option<Stopper>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(stopper) = self.0.take() {
            tokio::spawn(stopper.stop());
        }
    }
}

#[async_trait]
impl Tool for Transfer {
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

fn connect_max(call: &Call) -> Duration {
    call.timeout.connect.unwrap_or(CONNECT_MAX)
}

fn shown(totals: &Totals) -> Outcome {
    Outcome::ok(json!({
        "rows_transferred": totals.rows,
        "chunks": totals.chunks,
        "columns": totals.columns,
    }))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TaskError> + Send + 'static,
) -> Result<T, TaskError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(lost(&error.to_string())))
}

/// Runs a reader on a blocking thread.
async fn in_thread(
    mut outlet: Outlet,
    work: impl FnOnce(&mut Outlet) -> Result<(), TaskError> + Send + 'static,
) {
    let work = move || {
        let done = work(&mut outlet);
        outlet.end_blocking(done);
    };
    // If the thread panics, the channel closes without a last chunk, which the target treats as a failure.
    let _ = tokio::task::spawn_blocking(work).await;
}

fn lost(problem: &str) -> TaskError {
    let message = format!("a thread of the transfer failed: {problem}");
    TaskError::new(ErrorKind::Unknown, "TRANSFER_LOST", message)
}

fn unknown(side: &str, kind: &str) -> TaskError {
    let message = format!(
        "invalid `{side}.kind`: `{kind}`; use http, postgres, sqlite, duckdb, file, s3 or gcs"
    );
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with("key", "kind")
}
