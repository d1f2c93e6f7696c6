//! Conversions between table rows and values.

use std::sync::Arc;

use model::event::{Event, EventHead, EventStatus};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::raw::RawJson;
use model::time::Time;
use postgres::QueryError;
use serde::de::DeserializeOwned;
use sha2::Digest as _;
use tokio_postgres::Row;

use crate::commit::{Message, MessageKey};
use crate::damage::LogRowReader;
use crate::rows::{CatalogEntry, CommandClaim, ExecutionRow, LostClaim, OpenCommand, OwnerId, ResultRow, StepState};

/// Converts to the database's signed integer; sequence numbers and counts stay far below its maximum.
pub(super) fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The same for 32-bit integers.
pub(super) fn to_i32<T: TryInto<i32>>(value: T) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

pub(super) fn checksum(bytes: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(bytes).into()
}

pub(super) fn read_unsigned(row: &Row, column: usize) -> Result<u64, QueryError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|error| QueryError::BadRow(error.into()))
}

pub(super) fn read_count(row: &Row, column: usize) -> Result<u32, QueryError> {
    let value: i32 = row.try_get(column)?;
    u32::try_from(value).map_err(|error| QueryError::BadRow(error.into()))
}

pub(super) fn read_seq(row: &Row, column: usize) -> Result<Seq, QueryError> {
    read_unsigned(row, column).map(Seq)
}

pub(super) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, QueryError> {
    serde_json::from_str(text).map_err(|error| QueryError::BadRow(error.into()))
}

fn read_json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T, QueryError> {
    parse_json(row.try_get(column)?)
}

fn read_optional_raw(row: &Row, column: usize) -> Result<Option<RawJson>, QueryError> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(parse_json).transpose()
}

fn read_name(row: &Row, column: usize) -> Result<Name, QueryError> {
    Ok(Name::from(row.try_get::<_, &str>(column)?))
}

fn read_optional_name(row: &Row, column: usize) -> Result<Option<Name>, QueryError> {
    Ok(row.try_get::<_, Option<&str>>(column)?.map(Name::from))
}

fn read_step_status(row: &Row, column: usize) -> Result<EventStatus, QueryError> {
    let text: &str = row.try_get(column)?;
    parse_json(&format!("\"{text}\""))
}

pub(super) fn owner_id(text: &str) -> OwnerId {
    OwnerId(text.into())
}

/// Reads each row.
pub(super) fn read_all<T>(rows: &[Row], read: impl FnMut(&Row) -> Result<T, QueryError>) -> Result<Vec<T>, QueryError> {
    rows.iter().map(read).collect()
}

/// Reads the columns of [`ExecutionRow`], in its order.
pub(super) fn read_execution(row: &Row) -> Result<ExecutionRow, QueryError> {
    let status = row.try_get::<_, &str>(2)?.parse();
    Ok(ExecutionRow {
        id: ExecutionId(row.try_get(0)?),
        version: read_seq(row, 1)?,
        status: status.map_err(|error: model::status::UnknownStatusError| QueryError::BadRow(error.into()))?,
        cancelling: row.try_get(3)?,
        generation: read_count(row, 4)?,
        name: read_name(row, 5)?,
        path: read_name(row, 6)?,
        playbook_version: read_count(row, 7)?,
        hash: PlaybookHash(row.try_get::<_, &str>(8)?.into()),
        parent: row.try_get::<_, Option<i64>>(9)?.map(ExecutionId),
        owner: row.try_get::<_, Option<&str>>(10)?.map(owner_id),
        started_at: Time(row.try_get(11)?),
        finished_at: row.try_get::<_, Option<i64>>(12)?.map(Time),
        current: read_optional_name(row, 13)?,
        error: row.try_get(14)?,
    })
}

/// Reads `seq_first, body` of a row of the log.
pub(super) fn read_events(reading: &mut LogRowReader, row: &Row) -> Result<Vec<Event>, QueryError> {
    read_selected_events(reading, row, |_| true)
}

/// Reads some events of `seq_first, body` of a row of the log.
pub(super) fn read_selected_events(
    reading: &mut LogRowReader,
    row: &Row,
    is_selected: impl FnMut(EventHead<'_>) -> bool,
) -> Result<Vec<Event>, QueryError> {
    let body: &str = row.try_get(1)?;
    let events = reading.read_row(read_seq(row, 0)?, body, is_selected);
    events.map_err(|damage| QueryError::BadRow(damage.into()))
}

/// Reads `read_step_name, run, status, last_result_ref, aggregate_result_ref, seq`.
pub(super) fn read_step(row: &Row) -> Result<StepState, QueryError> {
    Ok(StepState {
        step: read_name(row, 0)?,
        run: read_count(row, 1)?,
        status: read_step_status(row, 2)?,
        last_result_ref: read_optional_raw(row, 3)?,
        aggregate_result_ref: read_optional_raw(row, 4)?,
        seq: read_seq(row, 5)?,
    })
}

/// Reads `seq, read_step_name, run, task_label, visit, iteration, page, attempt, result_ref, status, created_at`.
pub(super) fn read_result(row: &Row) -> Result<ResultRow, QueryError> {
    let iteration: Option<i64> = row.try_get(5)?;
    Ok(ResultRow {
        seq: read_seq(row, 0)?,
        run: StepRunId {
            step: read_name(row, 1)?,
            run: read_count(row, 2)?,
        },
        task: read_optional_name(row, 3)?,
        visit: read_count(row, 4)?,
        iteration: iteration.and_then(|index| u64::try_from(index).ok()),
        page: row.try_get(6)?,
        attempt: read_count(row, 7)?,
        result_ref: read_json(row, 8)?,
        status: read_step_status(row, 9)?,
        created_at: Time(row.try_get(10)?),
    })
}

/// Reads `path, version, hash, text, registered_at`.
pub(super) fn read_catalog_entry(row: &Row) -> Result<CatalogEntry, QueryError> {
    let entry = CatalogEntry {
        path: read_name(row, 0)?,
        version: read_count(row, 1)?,
        hash: PlaybookHash(row.try_get::<_, &str>(2)?.into()),
        text: Arc::from(row.try_get::<_, &str>(3)?),
        registered_at: Time(row.try_get(4)?),
    };
    if !entry.matches_hash() {
        let message = format!("playbook `{}` does not match its hash", entry.path);
        return Err(QueryError::BadRow(message.into()));
    }
    Ok(entry)
}

/// Reads `body, lease_epoch`.
pub(super) fn read_claim(row: &Row) -> Result<CommandClaim, QueryError> {
    Ok(CommandClaim {
        command: read_json(row, 0)?,
        lease_epoch: LeaseEpoch(u64::from(read_count(row, 1)?)),
    })
}

/// Reads `execution_id, seq`.
pub(super) fn read_command_id(row: &Row) -> Result<CommandId, QueryError> {
    Ok(CommandId {
        execution: ExecutionId(row.try_get(0)?),
        seq: read_seq(row, 1)?,
    })
}

pub(super) fn read_worker(row: &Row, column: usize) -> Result<WorkerId, QueryError> {
    Ok(WorkerId(row.try_get::<_, &str>(column)?.into()))
}

/// Reads `execution_id, seq, worker, lease_epoch`.
pub(super) fn read_lost_claim(row: &Row) -> Result<LostClaim, QueryError> {
    Ok(LostClaim {
        command: read_command_id(row)?,
        worker: read_worker(row, 2)?,
        lease_epoch: LeaseEpoch(u64::from(read_count(row, 3)?)),
    })
}

/// Reads `body, worker, lease_epoch, issued_at`.
pub(super) fn read_open_command(row: &Row) -> Result<OpenCommand, QueryError> {
    let worker: Option<&str> = row.try_get(1)?;
    Ok(OpenCommand {
        command: read_json(row, 0)?,
        worker: worker.map(|worker| WorkerId(worker.into())),
        lease_epoch: LeaseEpoch(u64::from(read_count(row, 2)?)),
        issued_at: Time(row.try_get(3)?),
    })
}

/// Reads `from_id, seq, n, to_id, body`.
pub(super) fn read_message(row: &Row) -> Result<Message, QueryError> {
    Ok(Message {
        key: MessageKey {
            from: ExecutionId(row.try_get(0)?),
            seq: read_seq(row, 1)?,
            n: read_count(row, 2)?,
        },
        to: ExecutionId(row.try_get(3)?),
        body: read_json(row, 4)?,
    })
}
