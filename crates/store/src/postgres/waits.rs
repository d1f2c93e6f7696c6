//! Rows of `pending_wait` and `early_signal`: written with the appends that change them, and read.

use model::id::{ExecutionId, Name, Seq};
use postgres::QueryError;
use serde::Serialize;
use tokio_postgres::Transaction;
use tokio_postgres::types::Json;

use crate::columns::Columns as _;
use crate::damage::LogRowReader;
use crate::error::Error;
use crate::pending_waits::WaitChange;
use crate::postgres::json_params::without_nul;
use crate::postgres::pool::SessionPool;
use crate::postgres::queries::{query_list, query_rows};
use crate::postgres::rows::{self, read_row, to_i64};
use crate::rows::WaitEntry;
use crate::wait_filter::{WaitFilter, wait_count_statement, wait_statement};

/// Rows of the log read at a time.
const PAGE: i64 = 100;

/// A change, as `noetl.write_waits` reads it; `m` is the number of the member, from 1.
#[derive(Debug, Default, Serialize)]
pub(super) struct WaitJson {
    m: i32,
    change: &'static str,
    signal: Option<String>,
    seq: Option<u64>,
    step: Option<String>,
    run: Option<u32>,
    task: Option<String>,
    iteration: Option<u64>,
    since: Option<i64>,
    deadline: Option<i64>,
    approval: Option<String>,
}

impl WaitJson {
    pub(super) fn from_change(member: i32, change: &WaitChange) -> Self {
        let base = Self {
            m: member,
            ..Self::default()
        };
        match change {
            WaitChange::Begin(wait) => Self {
                change: "begin",
                signal: without_nul(Some(wait.signal.to_string())),
                seq: Some(wait.seq.0),
                step: Some(wait.run.step.to_string()),
                run: Some(wait.run.run),
                task: wait.task.as_ref().map(Name::to_string),
                iteration: wait.iteration,
                since: Some(wait.since.0),
                deadline: wait.deadline.map(|deadline| deadline.0),
                approval: wait.approval.as_ref().map(|approval| approval.text().to_owned()),
                ..base
            },
            WaitChange::Signal { name, seq } => Self {
                change: "signal",
                signal: without_nul(Some(name.to_string())),
                seq: Some(seq.0),
                ..base
            },
            WaitChange::EndPipeline { run, iteration } => Self {
                change: "end_pipeline",
                step: Some(run.step.to_string()),
                run: Some(run.run),
                iteration: *iteration,
                ..base
            },
            WaitChange::EndRun { run } => Self {
                change: "end_run",
                step: Some(run.step.to_string()),
                run: Some(run.run),
                ..base
            },
            WaitChange::EndAll => Self {
                change: "end_all",
                ..base
            },
        }
    }
}

/// Writes the changes of events of one execution.
pub(super) async fn write_waits(
    transaction: &Transaction<'_>,
    id: ExecutionId,
    changes: &[WaitChange],
) -> Result<(), QueryError> {
    if changes.is_empty() {
        return Ok(());
    }
    let changes: Vec<WaitJson> = changes.iter().map(|change| WaitJson::from_change(1, change)).collect();
    let write = "SELECT noetl.write_waits(ARRAY[0], ARRAY[$1::bigint], $2)";
    transaction.query(write, &[&id.0, &Json(&changes)]).await?;
    Ok(())
}

/// Lists what waits in a store of an earlier version: in executions that are active or can be retried. Of a damaged log,
/// reads the readable part.
pub(super) async fn list_old_waits(transaction: &Transaction<'_>) -> Result<(), QueryError> {
    let unfinished = "SELECT execution_id FROM noetl.execution WHERE status <> 'COMPLETED' ORDER BY execution_id";
    for row in transaction.query(unfinished, &[]).await? {
        let id = row.execution_id(0)?;
        match list_waits_of(transaction, id).await {
            Err(QueryError::BadRow(error)) => {
                tracing::warn!(execution_id = %id, %error, "failed to list the waits of a damaged log");
            }
            other => other?,
        }
    }
    Ok(())
}

async fn list_waits_of(transaction: &Transaction<'_>, id: ExecutionId) -> Result<(), QueryError> {
    let page = "SELECT seq_first, body FROM noetl.log
        WHERE execution_id = $1 AND seq_last > $2 ORDER BY seq_last LIMIT $3";
    let mut reading = LogRowReader::starting_after(id, Seq(0));
    let mut last = Seq(0);
    loop {
        let appends = transaction.query(page, &[&id.0, &to_i64(last.0), &PAGE]).await?;
        if appends.is_empty() {
            return Ok(());
        }
        let mut changes = Vec::new();
        for append in &appends {
            let events = rows::read_events(&mut reading, append)?;
            last = events.last().map_or(last, |event| event.seq);
            changes.extend(events.iter().filter_map(WaitChange::of_event));
        }
        write_waits(transaction, id, &changes).await?;
    }
}

pub(super) async fn waits(pool: &SessionPool, filter: &WaitFilter) -> Result<Vec<WaitEntry>, Error> {
    let statement = wait_statement(filter, "noetl.", '$');
    query_list(pool, &statement, read_row).await
}

pub(super) async fn wait_count(pool: &SessionPool, filter: &WaitFilter) -> Result<u64, Error> {
    let statement = wait_count_statement(filter, "noetl.", '$');
    let counts = query_list(pool, &statement, |row| row.unsigned(0)).await?;
    Ok(counts.into_iter().next().unwrap_or(0))
}

pub(super) async fn awaited_signals(
    pool: &SessionPool,
    ids: &[ExecutionId],
) -> Result<Vec<(ExecutionId, Name)>, Error> {
    const FIRST: &str = "SELECT w.execution_id, min(w.signal) FROM noetl.pending_wait w
        WHERE w.execution_id = ANY($1) GROUP BY w.execution_id";
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    query_rows(pool, FIRST, &[&ids], |row| Ok((row.execution_id(0)?, row.name(1)?))).await
}
