//! Rebuilds the projections from the log, one execution at a time, each under its lock.

use model::event::EventStatus;
use model::id::{ExecutionId, Name, Seq};
use model::raw::RawJson;
use postgres::QueryError;
use tokio_postgres::Transaction;

use crate::damage::LogRowReader;
use crate::error::Error;
use crate::postgres::iterations;
use crate::postgres::pool::SessionPool;
use crate::postgres::query_error::IntoStoreError as _;
use crate::postgres::rows::{self, to_i32, to_i64};
use crate::postgres::waits;
use crate::projections::ProjectionDelta;
use crate::rows::{ExecutionRow, RebuildStats};

/// Rows of the log read at a time.
const PAGE: i64 = 1_000;

pub(super) async fn rebuild(pool: &SessionPool) -> Result<RebuildStats, Error> {
    let to_store_error = |query_error: QueryError| query_error.into_store_error(pool.target());
    let mut rebuilt = RebuildStats::default();
    let mut connection = pool.acquire().await.map_err(to_store_error)?;
    let list = "SELECT execution_id FROM noetl.execution ORDER BY execution_id";
    let client = &mut connection.client;
    let rows = client.query(list, &[]).await;
    for row in rows.map_err(|error| to_store_error(error.into()))? {
        let id = ExecutionId(
            row.try_get(0)
                .map_err(|error| to_store_error(QueryError::from(error)))?,
        );
        let transaction = client
            .transaction()
            .await
            .map_err(|error| to_store_error(error.into()))?;
        rebuilt.events += rebuild_one(&transaction, id).await.map_err(to_store_error)?;
        transaction
            .commit()
            .await
            .map_err(|error| to_store_error(error.into()))?;
        rebuilt.executions += 1;
    }
    Ok(rebuilt)
}

async fn rebuild_one(transaction: &Transaction<'_>, id: ExecutionId) -> Result<u64, QueryError> {
    let lock = "SELECT execution_id, version, status, cancelling, generation, name, path, playbook_version, hash,
            parent_id, owner, started_at, finished_at, current, error
        FROM noetl.execution WHERE execution_id = $1 FOR NO KEY UPDATE";
    let Some(execution_row) = transaction.query_opt(lock, &[&id.0]).await? else {
        return Ok(0);
    };
    let before: ExecutionRow = rows::read_row(&execution_row)?;
    for table in [
        "step_state",
        "result_index",
        "loop_progress",
        "loop_task",
        "iteration_index",
        "iteration_span",
        "execution_label",
        "pending_wait",
        "early_signal",
    ] {
        let clear = format!("DELETE FROM noetl.{table} WHERE execution_id = $1");
        transaction.execute(&clear, &[&id.0]).await?;
    }
    let page =
        "SELECT seq_first, body FROM noetl.log WHERE execution_id = $1 AND seq_last > $2 ORDER BY seq_last LIMIT $3";
    let mut row: Option<ExecutionRow> = None;
    let mut last = Seq(0);
    let mut reading = LogRowReader::starting_after(id, last);
    loop {
        let appends = transaction.query(page, &[&id.0, &to_i64(last.0), &PAGE]).await?;
        let events = rows::read_all(&appends, |append| rows::read_events(&mut reading, append))?.concat();
        let Some(end) = events.last() else { break };
        last = end.seq;
        let delta = ProjectionDelta::from_events(&events);
        project(transaction, id, &delta).await?;
        ExecutionRow::rebuild(&mut row, &before, &events, &delta);
    }
    if let Some(row) = row {
        update(transaction, &row).await?;
    }
    iterations::rebuild(transaction, id).await?;
    Ok(last.0)
}

async fn project(transaction: &Transaction<'_>, id: ExecutionId, delta: &ProjectionDelta) -> Result<(), QueryError> {
    let step = "INSERT INTO noetl.step_state AS old (execution_id, step_name, run, status, last_result_ref,
            aggregate_result_ref, seq)
        VALUES ($1, $2, coalesce($3, 0), coalesce($4, 'in_progress'), $5, $6, $7)
        ON CONFLICT (execution_id, step_name) DO UPDATE SET run = coalesce($3, old.run),
            status = coalesce($4, old.status), last_result_ref = coalesce($5, old.last_result_ref),
            aggregate_result_ref = coalesce($6, old.aggregate_result_ref), seq = $7";
    for change in &delta.steps {
        let last = change.last_result_ref.as_ref().map(RawJson::text);
        let aggregate = change.aggregate_result_ref.as_ref().map(RawJson::text);
        let status = change.status.map(EventStatus::name);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] = [
            &id.0,
            &change.step.as_str(),
            &change.run.map(to_i32),
            &status,
            &last,
            &aggregate,
            &to_i64(change.seq.0),
        ];
        transaction.execute(step, &values).await?;
    }
    let index = "INSERT INTO noetl.result_index (execution_id, seq, step_name, run, task_label, visit, iteration, page,
            attempt, result_ref, status, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    for result in &delta.results {
        let task = result.task.as_ref().map(Name::as_str);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 12] = [
            &id.0,
            &to_i64(result.seq.0),
            &result.run.step.as_str(),
            &to_i32(result.run.run),
            &task,
            &to_i32(result.visit),
            &result.iteration.map(to_i64),
            &result.page,
            &to_i32(result.attempt),
            &result.result_ref.text(),
            &result.status.name(),
            &result.created_at.0,
        ];
        transaction.execute(index, &values).await?;
    }
    let label = "INSERT INTO noetl.execution_label (execution_id, key, value) VALUES ($1, $2, $3)";
    for (key, value) in delta.labels.iter() {
        transaction
            .execute(label, &[&id.0, &key.as_str(), &value.as_str()])
            .await?;
    }
    waits::write_waits(transaction, id, &delta.waits).await
}

async fn update(transaction: &Transaction<'_>, row: &ExecutionRow) -> Result<(), QueryError> {
    let update = "UPDATE noetl.execution SET version = $2, status = $3, cancelling = $4, generation = $5, path = $6,
            playbook_version = $7, hash = $8, parent_id = $9, started_at = $10, finished_at = $11, current = $12,
            error = $13
        WHERE execution_id = $1";
    let current = row.current.as_ref().map(Name::as_str);
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 13] = [
        &row.id.0,
        &to_i64(row.version.0),
        &row.status.name(),
        &row.cancelling,
        &to_i32(row.generation),
        &row.path.as_str(),
        &to_i32(row.playbook_version),
        &&*row.hash.0,
        &row.parent.map(|id| id.0),
        &row.started_at.0,
        &row.finished_at.map(|time| time.0),
        &current,
        &row.error,
    ];
    transaction.execute(update, &values).await?;
    Ok(())
}
