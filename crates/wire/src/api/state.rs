//! The state of a run at one event of its log.

use model::event::EventKind;
use model::id::{ExecutionId, Name, Seq};
use model::status::RunStatus;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::GraphStatus;

/// State of a run at one event of its log, with the events that wrote its values.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StateResponse {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The last event that the state includes.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The newest event of the run.
    #[schema(value_type = u64)]
    pub newest_seq: Seq,
    /// When the last included event was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub recorded_at: Time,
    /// Status of the run at this event.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// The values of `ctx`, by key.
    pub ctx: Vec<StateEntry>,
    /// The inputs of the run, by key.
    pub workload: Vec<StateEntry>,
    /// Active pipelines with their `iter` values, at most 100.
    pub pipelines: Vec<StatePipeline>,
    /// All steps of the playbook.
    pub steps: Vec<StateStep>,
    /// Branches that wait at a step, at most 1,000.
    pub tokens: Vec<StateToken>,
    /// Whether every key, pipeline and token is listed.
    pub is_complete: bool,
    /// The event after which the writers of `ctx` are known. It is 0 unless the state was computed from a snapshot.
    #[schema(value_type = u64)]
    pub writers_since: Seq,
    /// The difference from the state at the `compare` event.
    pub comparison: Option<StateComparison>,
}

/// A value of the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateEntry {
    /// Its key.
    pub key: String,
    /// The value; the beginning of its JSON text, as a string, if `is_preview` is true.
    #[schema(value_type = Value)]
    pub value: Value,
    /// Whether the value is larger than 16 KiB, so that only the beginning of its JSON text is included.
    pub is_preview: bool,
    /// Size of its JSON text in bytes.
    pub bytes: u64,
    /// The event that wrote it last, if known.
    pub writer: Option<StateWriter>,
}

/// The event that wrote a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateWriter {
    /// The event.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Its type.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub type_: EventKind,
    /// The step that wrote the value; null for inputs and values that a client set.
    #[schema(value_type = Option<String>)]
    pub step: Option<Name>,
    /// The task that wrote the value.
    #[schema(value_type = Option<String>)]
    pub task: Option<Name>,
    /// The iteration that wrote the value.
    pub iteration: Option<u64>,
}

/// A pipeline in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatePipeline {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// Number of the step run, from 1.
    pub run: u32,
    /// The iteration of a loop.
    pub iteration: Option<u64>,
    /// The task that runs now or ran last.
    #[schema(value_type = Option<String>)]
    pub task: Option<Name>,
    /// Its progress.
    pub status: GraphStatus,
    /// The values of `iter` that its tasks wrote, by key.
    pub iter: Vec<StateEntry>,
}

/// A step at one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateStep {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// Progress of its latest run.
    pub status: GraphStatus,
    /// How often it was scheduled.
    pub runs: u32,
    /// The event that ended its latest run, if it has ended.
    #[schema(value_type = Option<u64>)]
    pub ended_seq: Option<Seq>,
}

/// A branch that waits at a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateToken {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The step that the branch comes from; null at the start of the run.
    #[schema(value_type = Option<String>)]
    pub from: Option<Name>,
    /// Whether it waits for admission.
    pub is_parked: bool,
}

/// The difference of two states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateComparison {
    /// The last event of the other state.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Status of the run at that event.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// Keys of `ctx` that differ.
    pub ctx: Vec<StateChange>,
    /// Inputs that differ.
    pub workload: Vec<StateChange>,
    /// Steps whose status or number of runs differs.
    pub steps: Vec<StateStepChange>,
}

/// A key whose value differs between two states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateChange {
    /// The key.
    pub key: String,
    /// How it differs, from the earlier to the later state.
    pub kind: StateChangeKind,
    /// Its value in the earlier state.
    pub before: Option<StateEntry>,
    /// Its value in the later state.
    pub after: Option<StateEntry>,
}

/// How a key differs between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateChangeKind {
    /// Only the later state has it.
    Added,
    /// Only the earlier state has it.
    Removed,
    /// The values differ.
    Changed,
}

/// A step that differs between two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateStepChange {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The step in the earlier state.
    pub before: StateStep,
    /// The step in the later state.
    pub after: StateStep,
}

/// Whether the state computed from the log equals the state with which the server works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateCheckResponse {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The event at which both states were compared.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// What the replayed state was compared with.
    pub source: StateCheckSource,
    /// Whether both are equal.
    pub is_equal: bool,
    /// SHA-256 of what was replayed.
    pub replayed: String,
    /// SHA-256 of what it was compared with.
    pub live: String,
}

/// What a replayed state is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateCheckSource {
    /// The state in the memory of the server that owns the run.
    Memory,
    /// The latest snapshot and the events after it; the run is not in memory.
    Snapshot,
    /// The stored status, retry number and playbook version; the run is not in memory and has no snapshot.
    Summary,
}
