//! Queries. Each is one statement, and so sees one snapshot of the database.

use std::collections::{BTreeMap, BTreeSet};

use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, PlaybookHash, Seq, WorkerId};
use model::labels::Labels;
use model::time::Time;
use postgres::{QueryError, RetrySafety, SqlValues};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::columns::{Columns as _, group_labels, owner_name, snapshot_checksum};
use crate::commit::{ExternalEventKey, Message, MessageKey};
use crate::damage::LogRowReader;
use crate::error::Error;
use crate::execution_filter::{ExecutionFilter, FacetRow};
use crate::list_statement::{FACET_COLUMNS, FilterValue, ListStatement, SqlDialect, list_statement};
use crate::postgres::pool::SessionPool;
use crate::postgres::query_error::IntoStoreError as _;
use crate::postgres::rows::{self, read_all, read_row, to_i32, to_i64};
use crate::rows::{
    CatalogEntry, CatalogVersion, ExecutionRow, LostClaim, OpenCommand, OwnerId, ResultRow, Snapshot, StepState,
    StoredExecution, WorkerSession,
};
use model::event::UniqueKey;

/// Rows of the log read at a time.
const PAGE: i64 = 1_000;

pub(super) async fn query_rows<T>(
    pool: &SessionPool,
    sql: &'static str,
    values: SqlValues<'_>,
    read: impl FnMut(&Row) -> Result<T, QueryError>,
) -> Result<Vec<T>, Error> {
    let rows = pool.query(RetrySafety::Idempotent, sql, values).await?;
    read_all(&rows, read).map_err(|error| error.into_store_error(pool.target()))
}

pub(super) async fn query_row<T>(
    pool: &SessionPool,
    sql: &'static str,
    values: SqlValues<'_>,
    read: impl FnMut(&Row) -> Result<T, QueryError>,
) -> Result<Option<T>, Error> {
    Ok(query_rows(pool, sql, values, read).await?.into_iter().next())
}

fn to_limit(limit: usize) -> i64 {
    to_i64(limit as u64)
}

/// Reads the log up to the version in the row; events appended in the meantime are left for the next load.
pub(super) async fn load(pool: &SessionPool, id: ExecutionId, version: u32) -> Result<Option<StoredExecution>, Error> {
    const ROW: &str = "SELECT e.execution_id, e.version, e.status, e.cancelling, e.generation, e.name, e.path,
            e.playbook_version, e.hash, e.parent_id, e.owner, e.started_at, e.finished_at, e.current, e.error,
            s.seq, s.bytes, s.sha256
        FROM noetl.execution e
        LEFT JOIN noetl.snapshot s ON s.execution_id = e.execution_id AND s.version = $2
        WHERE e.execution_id = $1";
    let read = |row: &Row| Ok((read_row::<ExecutionRow>(row)?, read_snapshot(row, version)?));
    let execution_row = query_row(pool, ROW, &[&id.0, &rows::to_i32(version)], read).await?;
    let Some((row, snapshot)) = execution_row else {
        return Ok(None);
    };
    let from = snapshot.as_ref().map_or(Seq(0), |snapshot| snapshot.seq);
    let tail = events_between(pool, id, from, row.version, usize::MAX).await?;
    Ok(Some(StoredExecution { row, snapshot, tail }))
}

/// The snapshot, if its checksum matches. A damaged one is ignored, because the log has all data.
fn read_snapshot(row: &Row, version: u32) -> Result<Option<Snapshot>, QueryError> {
    let Some(bytes) = row.try_get::<_, Option<Vec<u8>>>(16)? else {
        return Ok(None);
    };
    let sha256: &[u8] = row.try_get(17)?;
    let is_whole = snapshot_checksum(&bytes)[..] == *sha256;
    let seq = row.seq(15)?;
    Ok(is_whole.then_some(Snapshot { version, seq, bytes }))
}

pub(super) async fn events(pool: &SessionPool, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
    events_between(pool, id, after, Seq(u64::MAX), limit).await
}

/// Events after one sequence number up to another, read page by page.
pub(super) async fn events_between(
    pool: &SessionPool,
    id: ExecutionId,
    after: Seq,
    until: Seq,
    limit: usize,
) -> Result<Vec<Event>, Error> {
    const LOG: &str = "SELECT seq_first, body FROM noetl.log
        WHERE execution_id = $1 AND seq_last > $2 AND seq_first <= $3 ORDER BY seq_last LIMIT $4";
    let mut events: Vec<Event> = Vec::new();
    let mut last = after;
    let mut reading = LogRowReader::starting_after(id, after);
    while events.len() < limit {
        let limit_left = limit - events.len();
        let page = PAGE.min(to_limit(limit_left));
        let values: SqlValues<'_> = &[&id.0, &to_i64(last.0), &to_i64(until.0), &page];
        let read = |row: &Row| rows::read_events(&mut reading, row);
        let appends = query_rows(pool, LOG, values, read).await?;
        let is_end = to_limit(appends.len()) < page;
        if is_end && until != Seq(u64::MAX) {
            let ended = reading
                .check_end(until)
                .map_err(|damage| QueryError::BadRow(damage.into()));
            ended.map_err(|error| error.into_store_error(pool.target()))?;
        }
        let later_events = appends.into_iter().flatten().filter(|event| event.seq > after);
        events.extend(later_events.take(limit_left));
        match events.last() {
            Some(event) if !is_end => last = event.seq,
            _ => break,
        }
    }
    Ok(events)
}

/// The appends that contain these sequence numbers, each once.
pub(super) const APPENDS_AT: &str =
    "SELECT DISTINCT ON (l.seq_last) l.seq_first, l.body FROM unnest($2::bigint[]) AS w (seq)
    CROSS JOIN LATERAL (
        SELECT seq_first, seq_last, body FROM noetl.log
        WHERE execution_id = $1 AND seq_last >= w.seq ORDER BY seq_last LIMIT 1
    ) AS l ORDER BY l.seq_last";

pub(super) async fn events_at(pool: &SessionPool, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
    let wanted_seqs: BTreeSet<Seq> = seqs.iter().copied().collect();
    let numbers: Vec<i64> = wanted_seqs.iter().map(|seq| to_i64(seq.0)).collect();
    let appends = query_rows(pool, APPENDS_AT, &[&id.0, &numbers], |row| {
        rows::read_selected_events(&mut LogRowReader::for_single_row(id), row, |head| {
            wanted_seqs.contains(&head.seq)
        })
    })
    .await?;
    Ok(appends.into_iter().flatten().collect())
}

pub(super) async fn external_events(
    pool: &SessionPool,
    id: ExecutionId,
    event_ids: &[EventId],
) -> Result<Vec<ExternalEventKey>, Error> {
    const KEYS: &str = "SELECT k.place, e.seq, e.hash FROM unnest($2::text[]) WITH ORDINALITY AS k (key, place)
        CROSS JOIN LATERAL (
            SELECT seq, hash FROM noetl.event_key WHERE execution_id = $1 AND key = k.key OFFSET 0
        ) AS e
        WHERE e.hash IS NOT NULL ORDER BY k.place";
    let keys: Vec<String> = event_ids.iter().map(|id| UniqueKey::Event(*id).to_string()).collect();
    let read = |row: &Row| {
        let index = usize::try_from(row.integer(0)? - 1).map_err(|error| QueryError::BadRow(error.into()))?;
        Ok(ExternalEventKey {
            event_id: event_ids[index],
            seq: row.seq(1)?,
            hash: row.hash(2)?,
        })
    };
    query_rows(pool, KEYS, &[&id.0, &keys], read).await
}

pub(super) async fn execution(pool: &SessionPool, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
    const ROW: &str =
        "SELECT execution_id, version, status, cancelling, generation, name, path, playbook_version, hash,
            parent_id, owner, started_at, finished_at, current, error
        FROM noetl.execution WHERE execution_id = $1";
    query_row(pool, ROW, &[&id.0], read_row).await
}

/// All columns of an execution, in the order in which rows are read.
const EXECUTION_COLUMNS: &str = "execution_id, version, status, cancelling, generation, name, path, playbook_version,
    hash, parent_id, owner, started_at, finished_at, current, error";

/// How Postgres writes the statement of a list.
const DIALECT: SqlDialect = SqlDialect {
    table: "noetl.execution",
    label_table: "noetl.execution_label",
    error_code: "left(split_part(e.error, ': ', 1), 200)",
    placeholder: '$',
    limits_parts: true,
    like: "ILIKE",
};

pub(super) async fn executions(
    pool: &SessionPool,
    filter: &ExecutionFilter,
    now: Time,
) -> Result<Vec<ExecutionRow>, Error> {
    let statement = list_statement(filter, EXECUTION_COLUMNS, &DIALECT, now);
    query_list(pool, &statement, read_row).await
}

pub(super) async fn execution_facets(
    pool: &SessionPool,
    filter: &ExecutionFilter,
    now: Time,
) -> Result<Vec<FacetRow>, Error> {
    let statement = list_statement(filter, FACET_COLUMNS, &DIALECT, now);
    query_list(pool, &statement, read_row).await
}

/// Runs a statement that depends on the filter, so that it is not prepared.
pub(super) async fn query_list<T>(
    pool: &SessionPool,
    statement: &ListStatement,
    read: impl FnMut(&Row) -> Result<T, QueryError>,
) -> Result<Vec<T>, Error> {
    let values = statement.values.iter().map(|value| match value {
        FilterValue::Integer(number) => (number as &(dyn ToSql + Sync), Type::INT8),
        FilterValue::Text(text) => (text as &(dyn ToSql + Sync), Type::TEXT),
    });
    let values: Vec<_> = values.collect();
    let rows = pool.query_typed(&statement.sql, &values).await?;
    read_all(&rows, read).map_err(|error| error.into_store_error(pool.target()))
}

/// The labels of these executions.
pub(super) async fn labels(pool: &SessionPool, ids: &[ExecutionId]) -> Result<BTreeMap<ExecutionId, Labels>, Error> {
    const LABELS: &str = "SELECT l.execution_id, l.key, l.value FROM unnest($1::bigint[]) AS w (id)
        CROSS JOIN LATERAL (
            SELECT execution_id, key, value FROM noetl.execution_label WHERE execution_id = w.id OFFSET 0
        ) AS l";
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let read = |row: &Row| Ok((row.execution_id(0)?, row.name(1)?, row.name(2)?));
    Ok(group_labels(query_rows(pool, LABELS, &[&ids], read).await?))
}

pub(super) async fn steps(pool: &SessionPool, id: ExecutionId) -> Result<Vec<StepState>, Error> {
    const STEPS: &str = "SELECT step_name, run, status, last_result_ref, aggregate_result_ref, seq
        FROM noetl.step_state WHERE execution_id = $1 ORDER BY step_name COLLATE \"C\"";
    query_rows(pool, STEPS, &[&id.0], read_row).await
}

pub(super) async fn results(pool: &SessionPool, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
    const RESULTS: &str = "SELECT seq, step_name, run, task_label, visit, iteration, page, attempt, result_ref, status,
            created_at
        FROM noetl.result_index WHERE execution_id = $1 ORDER BY seq";
    query_rows(pool, RESULTS, &[&id.0], read_row).await
}

pub(super) async fn executions_with_permanent_bodies(pool: &SessionPool) -> Result<Vec<ExecutionId>, Error> {
    const LASTING: &str = "SELECT DISTINCT execution_id FROM noetl.result_index
        WHERE result_ref::json ->> 'scope' = 'permanent' ORDER BY execution_id";
    query_rows(pool, LASTING, &[], |row| row.execution_id(0)).await
}

/// Reads the claimed commands by worker: only their own index provides this order.
pub(super) async fn lost_claims(
    pool: &SessionPool,
    owner: Option<&OwnerId>,
    now: Time,
) -> Result<Vec<LostClaim>, Error> {
    const LOST: &str = "SELECT c.execution_id, c.seq, c.worker, c.lease_epoch FROM noetl.command c
        WHERE c.worker IS NOT NULL
            AND (c.claimed_at = 0
                OR coalesce((SELECT s.expires_at FROM noetl.session s WHERE s.worker = c.worker), 0) <= $2)
            AND ($1::text IS NULL
                OR (SELECT e.owner FROM noetl.execution e WHERE e.execution_id = c.execution_id) = $1)
        ORDER BY c.worker";
    let values: SqlValues<'_> = &[&owner_name(owner), &now.0];
    let mut lost_claims: Vec<LostClaim> = query_rows(pool, LOST, values, read_row).await?;
    lost_claims.sort_by_key(|claim| claim.command);
    Ok(lost_claims)
}

pub(super) async fn session(pool: &SessionPool, worker: &WorkerId, now: Time) -> Result<Option<WorkerSession>, Error> {
    const SESSION: &str = "SELECT holder, expires_at > $2 FROM noetl.session WHERE worker = $1";
    query_row(pool, SESSION, &[&&*worker.0, &now.0], read_row).await
}

/// Reads the unclaimed commands by pool and age: only their own index provides this order.
pub(super) async fn overdue_commands(
    pool: &SessionPool,
    owner: Option<&OwnerId>,
    now: Time,
) -> Result<Vec<CommandId>, Error> {
    const OVERDUE: &str = "SELECT c.execution_id, c.seq FROM noetl.command c
        WHERE c.worker IS NULL AND c.start_by <= $2
            AND ($1::text IS NULL
                OR (SELECT e.owner FROM noetl.execution e WHERE e.execution_id = c.execution_id) = $1)
        ORDER BY c.pool, c.issued_at";
    let values: SqlValues<'_> = &[&owner_name(owner), &now.0];
    let mut overdue = query_rows(pool, OVERDUE, values, read_row).await?;
    overdue.sort_unstable();
    Ok(overdue)
}

pub(super) async fn open_commands(pool: &SessionPool, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
    const OPEN: &str = "SELECT body, worker, lease_epoch, issued_at FROM noetl.command
        WHERE execution_id = $1 ORDER BY seq";
    query_rows(pool, OPEN, &[&id.0], read_row).await
}

/// Timers that are due by a time, earliest first; later ones are not read.
pub(super) async fn timers(
    pool: &SessionPool,
    owner: Option<&OwnerId>,
    until: Time,
    limit: usize,
) -> Result<Vec<(Time, ExecutionId, Seq)>, Error> {
    const DUE: &str = "SELECT t.execution_id, t.seq, t.due FROM noetl.timer t
        WHERE t.due <= $2
            AND ($1::text IS NULL
                OR (SELECT e.owner FROM noetl.execution e WHERE e.execution_id = t.execution_id) = $1)
        ORDER BY t.due LIMIT $3";
    let values: SqlValues<'_> = &[&owner_name(owner), &until.0, &to_limit(limit)];
    let read = |row: &Row| {
        let CommandId { execution, seq } = read_row(row)?;
        Ok((row.time(2)?, execution, seq))
    };
    let mut timers = query_rows(pool, DUE, values, read).await?;
    timers.sort_unstable();
    Ok(timers)
}

/// Reads the pending messages in order of arrival: only their own index provides it. Each owner is looked up by the
/// key of its execution.
pub(super) async fn inbox(
    pool: &SessionPool,
    owner: Option<&OwnerId>,
    limit: usize,
    now: Time,
) -> Result<Vec<Message>, Error> {
    const INBOX: &str = "SELECT m.from_id, m.seq, m.n, m.to_id, m.body FROM noetl.message m
        WHERE m.body IS NOT NULL AND ($1::text IS NULL OR coalesce((
            SELECT e.owner IS NULL OR e.owner = $1 OR NOT e.owner = ANY (ARRAY(
                SELECT r.owner FROM noetl.runtime r WHERE abs(r.heartbeat - $3) < 3000000
            ))
            FROM noetl.execution e WHERE e.execution_id = coalesce(
                (SELECT r.execution_id FROM noetl.execution r WHERE r.execution_id = m.to_id), m.from_id
            )
        ), true))
        ORDER BY m.ordinal LIMIT $2";
    let values: SqlValues<'_> = &[&owner_name(owner), &to_limit(limit), &now.0];
    query_rows(pool, INBOX, values, read_row).await
}

pub(super) async fn is_pending(pool: &SessionPool, key: MessageKey) -> Result<bool, Error> {
    const PENDING: &str = "SELECT 1 FROM noetl.message
        WHERE from_id = $1 AND seq = $2 AND n = $3 AND body IS NOT NULL";
    let values: SqlValues<'_> = &[&key.from.0, &to_i64(key.seq.0), &to_i32(key.n)];
    let row = query_row(pool, PENDING, values, |_| Ok(())).await?;
    Ok(row.is_some())
}

pub(super) async fn playbook(pool: &SessionPool, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
    const ONE: &str = "SELECT path, version, hash, text, registered_at FROM noetl.catalog WHERE hash = $1 ORDER BY registered_at LIMIT 1";
    query_row(pool, ONE, &[&&*hash.0], read_row).await
}

pub(super) async fn catalog_entry(
    pool: &SessionPool,
    path: &str,
    version: Option<u32>,
) -> Result<Option<CatalogEntry>, Error> {
    const LATEST: &str = "SELECT path, version, hash, text, registered_at FROM noetl.catalog
        WHERE path = $1 ORDER BY version DESC LIMIT 1";
    const VERSION: &str = "SELECT path, version, hash, text, registered_at FROM noetl.catalog
        WHERE path = $1 AND version = $2";
    match version.map(rows::to_i32) {
        Some(version) => query_row(pool, VERSION, &[&path, &version], read_row).await,
        None => query_row(pool, LATEST, &[&path], read_row).await,
    }
}

pub(super) async fn catalog_versions(
    pool: &SessionPool,
    path: &str,
    before: Option<u32>,
    limit: usize,
) -> Result<Vec<CatalogVersion>, Error> {
    const VERSIONS: &str = "SELECT version, hash, registered_at FROM noetl.catalog
        WHERE path = $1 AND version < $2 ORDER BY version DESC LIMIT $3";
    let before = before.map_or(i32::MAX, rows::to_i32);
    query_rows(pool, VERSIONS, &[&path, &before, &to_limit(limit)], read_row).await
}

pub(super) async fn catalog(pool: &SessionPool) -> Result<Vec<CatalogEntry>, Error> {
    const CATALOG: &str = "SELECT DISTINCT ON (path COLLATE \"C\") path, version, hash, text, registered_at
        FROM noetl.catalog ORDER BY path COLLATE \"C\", version DESC";
    query_rows(pool, CATALOG, &[], read_row).await
}

/// Reads the active executions by status: two bounds and an order instead of `=` leave the planner no other index.
pub(super) async fn abandoned_executions(pool: &SessionPool, now: Time) -> Result<Vec<ExecutionId>, Error> {
    const ABANDONED: &str = "SELECT found.execution_id FROM unnest(ARRAY['PAUSED', 'RUNNING']) AS s (status)
        CROSS JOIN LATERAL (
            SELECT e.execution_id FROM noetl.execution e
            WHERE e.status >= s.status AND e.status <= s.status
                AND (e.owner IS NULL OR NOT e.owner = ANY (ARRAY(
                    SELECT r.owner FROM noetl.runtime r WHERE abs(r.heartbeat - $1) < 3000000
                )))
            ORDER BY e.status, e.execution_id OFFSET 0
        ) AS found";
    let read = |row: &Row| row.execution_id(0);
    let mut abandoned = query_rows(pool, ABANDONED, &[&now.0], read).await?;
    abandoned.sort_unstable();
    Ok(abandoned)
}
