//! Conversions between table rows and values.

use std::sync::Arc;

use model::event::{Event, EventHead, Status};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::raw::Raw;
use model::time::Time;
use serde::de::DeserializeOwned;
use sha2::Digest as _;
use tokio_postgres::Row;

use crate::commit::{Message, MessageKey};
use crate::damage::Rows;
use crate::postgres::failure::Fault;
use crate::rows::{
    CatalogEntry, Claim, ExecutionRow, LostClaim, OpenCommand, OwnerId, ResultRow, StepState,
};

/// Converts to the database's signed integer; sequence numbers and counts stay far below its maximum.
pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The same for 32-bit integers.
pub(super) fn small<T: TryInto<i32>>(value: T) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

pub(super) fn checksum(bytes: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(bytes).into()
}

pub(super) fn status_name(status: Status) -> &'static str {
    match status {
        Status::InProgress => "in_progress",
        Status::Success => "success",
        Status::Error => "error",
        Status::Skipped => "skipped",
        Status::Paused => "paused",
        Status::Cancelled => "cancelled",
    }
}

pub(super) fn unsigned(row: &Row, column: usize) -> Result<u64, Fault> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|error| Fault::Row(error.into()))
}

pub(super) fn count(row: &Row, column: usize) -> Result<u32, Fault> {
    let value: i32 = row.try_get(column)?;
    u32::try_from(value).map_err(|error| Fault::Row(error.into()))
}

pub(super) fn seq(row: &Row, column: usize) -> Result<Seq, Fault> {
    unsigned(row, column).map(Seq)
}

pub(super) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::Row(error.into()))
}

fn json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T, Fault> {
    parsed(row.try_get(column)?)
}

fn maybe_raw(row: &Row, column: usize) -> Result<Option<Raw>, Fault> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(parsed).transpose()
}

fn name(row: &Row, column: usize) -> Result<Name, Fault> {
    Ok(Name::from(row.try_get::<_, &str>(column)?))
}

fn maybe_name(row: &Row, column: usize) -> Result<Option<Name>, Fault> {
    Ok(row.try_get::<_, Option<&str>>(column)?.map(Name::from))
}

fn step_status(row: &Row, column: usize) -> Result<Status, Fault> {
    let text: &str = row.try_get(column)?;
    parsed(&format!("\"{text}\""))
}

pub(super) fn owner_id(text: &str) -> OwnerId {
    OwnerId(text.into())
}

/// Reads each row.
pub(super) fn each<T>(
    rows: &[Row],
    read: impl FnMut(&Row) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    rows.iter().map(read).collect()
}

/// Reads the columns of [`ExecutionRow`], in its order.
pub(super) fn execution(row: &Row) -> Result<ExecutionRow, Fault> {
    let status = row.try_get::<_, &str>(2)?.parse();
    Ok(ExecutionRow {
        id: ExecutionId(row.try_get(0)?),
        version: seq(row, 1)?,
        status: status.map_err(|error: model::status::UnknownStatus| Fault::Row(error.into()))?,
        cancelling: row.try_get(3)?,
        generation: count(row, 4)?,
        name: name(row, 5)?,
        path: name(row, 6)?,
        playbook_version: count(row, 7)?,
        hash: PlaybookHash(row.try_get::<_, &str>(8)?.into()),
        parent: row.try_get::<_, Option<i64>>(9)?.map(ExecutionId),
        owner: row.try_get::<_, Option<&str>>(10)?.map(owner_id),
        started_at: Time(row.try_get(11)?),
        finished_at: row.try_get::<_, Option<i64>>(12)?.map(Time),
        current: maybe_name(row, 13)?,
        error: row.try_get(14)?,
    })
}

/// Reads `seq_first, body` of a row of the log.
pub(super) fn events(reading: &mut Rows, row: &Row) -> Result<Vec<Event>, Fault> {
    wanted_events(reading, row, |_| true)
}

/// Reads some events of `seq_first, body` of a row of the log.
pub(super) fn wanted_events(
    reading: &mut Rows,
    row: &Row,
    is_wanted: impl FnMut(EventHead<'_>) -> bool,
) -> Result<Vec<Event>, Fault> {
    let body: &str = row.try_get(1)?;
    let events = reading.read(seq(row, 0)?, body, is_wanted);
    events.map_err(|damage| Fault::Row(damage.into()))
}

/// Reads `step_name, run, status, last_result_ref, aggregate_result_ref, seq`.
pub(super) fn step(row: &Row) -> Result<StepState, Fault> {
    Ok(StepState {
        step: name(row, 0)?,
        run: count(row, 1)?,
        status: step_status(row, 2)?,
        last_result_ref: maybe_raw(row, 3)?,
        aggregate_result_ref: maybe_raw(row, 4)?,
        seq: seq(row, 5)?,
    })
}

/// Reads `seq, step_name, run, task_label, visit, iteration, page, attempt, result_ref, status, created_at`.
pub(super) fn result(row: &Row) -> Result<ResultRow, Fault> {
    let iteration: Option<i64> = row.try_get(5)?;
    Ok(ResultRow {
        seq: seq(row, 0)?,
        run: StepRunId {
            step: name(row, 1)?,
            run: count(row, 2)?,
        },
        task: maybe_name(row, 3)?,
        visit: count(row, 4)?,
        iteration: iteration.and_then(|index| u64::try_from(index).ok()),
        page: row.try_get(6)?,
        attempt: count(row, 7)?,
        result_ref: json(row, 8)?,
        status: step_status(row, 9)?,
        created_at: Time(row.try_get(10)?),
    })
}

/// Reads `path, version, hash, text, registered_at`.
pub(super) fn catalog_entry(row: &Row) -> Result<CatalogEntry, Fault> {
    let entry = CatalogEntry {
        path: name(row, 0)?,
        version: count(row, 1)?,
        hash: PlaybookHash(row.try_get::<_, &str>(2)?.into()),
        text: Arc::from(row.try_get::<_, &str>(3)?),
        registered_at: Time(row.try_get(4)?),
    };
    if !entry.is_whole() {
        let what = format!("playbook `{}` does not match its hash", entry.path);
        return Err(Fault::Row(what.into()));
    }
    Ok(entry)
}

/// Reads `body, lease_epoch`.
pub(super) fn claim(row: &Row) -> Result<Claim, Fault> {
    Ok(Claim {
        command: json(row, 0)?,
        lease_epoch: LeaseEpoch(u64::from(count(row, 1)?)),
    })
}

/// Reads `execution_id, seq`.
pub(super) fn command_id(row: &Row) -> Result<CommandId, Fault> {
    Ok(CommandId {
        execution: ExecutionId(row.try_get(0)?),
        seq: seq(row, 1)?,
    })
}

pub(super) fn worker(row: &Row, column: usize) -> Result<WorkerId, Fault> {
    Ok(WorkerId(row.try_get::<_, &str>(column)?.into()))
}

/// Reads `execution_id, seq, worker, lease_epoch`.
pub(super) fn lost_claim(row: &Row) -> Result<LostClaim, Fault> {
    Ok(LostClaim {
        command: command_id(row)?,
        worker: worker(row, 2)?,
        lease_epoch: LeaseEpoch(u64::from(count(row, 3)?)),
    })
}

/// Reads `body, worker, lease_epoch, issued_at`.
pub(super) fn open_command(row: &Row) -> Result<OpenCommand, Fault> {
    let worker: Option<&str> = row.try_get(1)?;
    Ok(OpenCommand {
        command: json(row, 0)?,
        worker: worker.map(|worker| WorkerId(worker.into())),
        lease_epoch: LeaseEpoch(u64::from(count(row, 2)?)),
        issued_at: Time(row.try_get(3)?),
    })
}

/// Reads `from_id, seq, n, to_id, body`.
pub(super) fn message(row: &Row) -> Result<Message, Fault> {
    Ok(Message {
        key: MessageKey {
            from: ExecutionId(row.try_get(0)?),
            seq: seq(row, 1)?,
            n: count(row, 2)?,
        },
        to: ExecutionId(row.try_get(3)?),
        body: json(row, 4)?,
    })
}
