//! Columns that most batches do not have, as JSON rows with the field names that the database reads.

use model::id::Name;
use serde::Serialize;

use crate::commit::Message;
use crate::postgres::rows::to_i64;
use crate::projections::ExecutionPatch;
use crate::rows::{ExecutionRow, ResultRow};

/// The changes to a row of `execution`.
#[derive(Debug, Serialize)]
pub(super) struct PatchRow {
    pub(super) m: i32,
    pub(super) status: Option<&'static str>,
    pub(super) cancelling: Option<bool>,
    pub(super) generation: Option<u32>,
    pub(super) playbook_version: Option<u32>,
    pub(super) hash: Option<String>,
    pub(super) ends: bool,
    pub(super) finished_at: Option<i64>,
    pub(super) error: Option<String>,
}

/// A new row of `execution`.
#[derive(Debug, Serialize)]
pub(super) struct CreatedRow {
    pub(super) m: i32,
    pub(super) execution_id: i64,
    pub(super) version: i64,
    pub(super) status: &'static str,
    pub(super) cancelling: bool,
    pub(super) generation: u32,
    pub(super) name: String,
    pub(super) path: String,
    pub(super) playbook_version: u32,
    pub(super) hash: String,
    pub(super) parent_id: Option<i64>,
    pub(super) owner: Option<String>,
    pub(super) started_at: i64,
    pub(super) finished_at: Option<i64>,
    pub(super) current: Option<String>,
    pub(super) error: Option<String>,
}

/// An offered command that is assigned to a worker.
#[derive(Debug, Serialize)]
pub(super) struct AssignRow {
    pub(super) m: i32,
    pub(super) seq: u64,
    pub(super) worker: String,
    pub(super) lease_epoch: u64,
}

/// A timer to set, or to clear if `due` is `None`.
#[derive(Debug, Serialize)]
pub(super) struct TimerRow {
    pub(super) m: i32,
    pub(super) seq: u64,
    pub(super) due: Option<i64>,
}

/// A message to send.
#[derive(Debug, Serialize)]
pub(super) struct MessageRow {
    pub(super) m: i32,
    pub(super) from_id: i64,
    pub(super) seq: u64,
    pub(super) n: u32,
    pub(super) to_id: i64,
    pub(super) body: String,
}

/// A message to mark as consumed.
#[derive(Debug, Serialize)]
pub(super) struct ConsumedRow {
    pub(super) m: i32,
    pub(super) from_id: i64,
    pub(super) seq: u64,
    pub(super) n: u32,
}

/// A new row of `result_index`.
#[derive(Debug, Serialize)]
pub(super) struct IndexRow {
    pub(super) m: i32,
    pub(super) seq: u64,
    pub(super) step: String,
    pub(super) run: u32,
    pub(super) task: Option<String>,
    pub(super) visit: u32,
    pub(super) iteration: Option<u64>,
    pub(super) page: Option<i64>,
    pub(super) attempt: u32,
    pub(super) result_ref: String,
    pub(super) status: &'static str,
    pub(super) created_at: i64,
}

/// Replaces NUL characters, which Postgres text cannot contain but messages of failed tools can.
pub(super) fn without_nul(text: Option<String>) -> Option<String> {
    text.map(|text| text.replace('\0', "\u{FFFD}"))
}

impl CreatedRow {
    pub(super) fn from_execution(member: i32, row: ExecutionRow) -> Self {
        Self {
            m: member,
            execution_id: row.id.0,
            version: to_i64(row.version.0),
            status: row.status.name(),
            cancelling: row.cancelling,
            generation: row.generation,
            name: row.name.to_string(),
            path: row.path.to_string(),
            playbook_version: row.playbook_version,
            hash: row.hash.0.to_string(),
            parent_id: row.parent.map(|parent| parent.0),
            owner: row.owner.map(|owner| owner.0.to_string()),
            started_at: row.started_at.0,
            finished_at: row.finished_at.map(|time| time.0),
            current: row.current.as_ref().map(Name::to_string),
            error: without_nul(row.error),
        }
    }
}

impl PatchRow {
    pub(super) fn from_patch(member: i32, patch: &ExecutionPatch) -> Self {
        let (playbook_version, hash) = patch.playbook.clone().unzip();
        let end = patch.end.clone();
        Self {
            m: member,
            status: patch.status.map(model::status::RunStatus::name),
            cancelling: patch.cancelling,
            generation: patch.generation,
            playbook_version,
            hash: hash.map(|hash| hash.0.to_string()),
            ends: end.is_some(),
            finished_at: end.as_ref().and_then(|end| end.ended_at).map(|time| time.0),
            error: without_nul(end.and_then(|end| end.error)),
        }
    }
}

impl MessageRow {
    pub(super) fn from_message(member: i32, message: &Message) -> Self {
        Self {
            m: member,
            from_id: message.key.from.0,
            seq: message.key.seq.0,
            n: message.key.n,
            to_id: message.to.0,
            body: message.body.text().to_owned(),
        }
    }
}

impl IndexRow {
    pub(super) fn from_result(member: i32, result: &ResultRow) -> Self {
        Self {
            m: member,
            seq: result.seq.0,
            step: result.run.step.to_string(),
            run: result.run.run,
            task: result.task.as_ref().map(Name::to_string),
            visit: result.visit,
            iteration: result.iteration,
            page: result.page,
            attempt: result.attempt,
            result_ref: result.result_ref.text().to_owned(),
            status: result.status.name(),
            created_at: result.created_at.0,
        }
    }
}
