//! Runs: start, list, read and control them.

use std::collections::BTreeMap;

use model::event::EndStatus;
use model::id::{ExecutionId, Name, Seq};
use model::labels::Labels;
use model::outcome::TaskError;
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::log_schemas::{LogEventSchema, TaskErrorSchema};

/// A run to start: by catalog path, or with the text of a playbook.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteRequest {
    /// Catalog path of the playbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Catalog path and version, `path@version`, or hash of the playbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<String>,
    /// YAML text of a playbook; registered under `path`, or under the path in its metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playbook: Option<String>,
    /// Catalog version. Default: the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Inputs, merged over the defaults of the playbook; alias `workload`.
    #[serde(
        default,
        alias = "workload",
        alias = "input",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<RawJson>,
    /// Parent run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub parent_execution_id: Option<ExecutionId>,
    /// Deduplication key: requests with the same key start only one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub dedup: Option<String>,
    /// Trace ID for all events of the run and of its child runs. Default: the trace ID of the `traceparent` header, or
    /// a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub trace_id: Option<String>,
    /// Labels, which replace those of the playbook with the same keys. At most 32 with those of the playbook. A key has up to
    /// 63 letters, digits, `_`, `-`, `.` or `/`; a value has up to 200 bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A started run; the start is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecuteResponse {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Status of the run.
    #[schema(value_type = String)]
    pub status: RunStatus,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionSummary {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Status of the run.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// Name of the playbook.
    #[schema(value_type = String)]
    pub name: Name,
    /// Catalog path of the playbook.
    #[schema(value_type = String)]
    pub path: Name,
    /// Catalog version of the playbook.
    pub version: u32,
    /// SHA-256 of the playbook's text.
    pub hash: String,
    /// Sequence number of the last event in its log.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Retry number of the run.
    pub generation: u32,
    /// Whether the run is being cancelled.
    pub cancelling: bool,
    /// Run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub parent_execution_id: Option<ExecutionId>,
    /// When the run was requested.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    /// When the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Time>,
    /// Step that was scheduled last, while the run is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub current_step: Option<Name>,
    /// Name of a signal that a task of the run waits for; the first by name, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub waits_for: Option<Name>,
    /// Error code and message of a failed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Labels of the playbook, and those given at the start.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecutionPage {
    /// Runs.
    pub executions: Vec<ExecutionSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A run with its result.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionDetail {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Status of the run.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// Result, any JSON value; null until the run ends, and if `result_href` is set. The result of a failed run is
    /// `{status, context: {error}}`.
    #[schema(value_type = Value)]
    pub result: Value,
    /// Path from which a large result can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_href: Option<String>,
    /// Error of a failed run.
    #[schema(value_type = Option<TaskErrorSchema>)]
    pub error: Option<TaskError>,
    /// Other data of the run.
    pub execution: ExecutionSummary,
}

/// A page of an event log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// Events, in order.
    #[schema(value_type = Vec<LogEventSchema>)]
    pub events: Vec<RawJson>,
    /// Value for `after_seq` to get the next page; absent at the end of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub next_after_seq: Option<Seq>,
}

/// A page of the outline of a run: its log without the events of iterations.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OutlinePage {
    /// The last event of the run when the page was read.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The loops of the run; only on the first page.
    pub loops: Vec<LoopEntry>,
    /// The events, in order.
    #[schema(value_type = Vec<LogEventSchema>)]
    pub events: Vec<RawJson>,
    /// The `after_seq` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub next_after_seq: Option<Seq>,
}

/// One run of a loop in an outline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LoopEntry {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The run of the step, from 1.
    pub run: u32,
    /// How many iterations succeeded.
    pub succeeded: u64,
    /// How many iterations failed.
    pub failed: u64,
    /// How many retries there were in iterations.
    pub retries: u64,
    /// How many iterations are in progress.
    pub in_flight: u64,
    /// The events of the first 100 failed iterations, and the `task.started` events of up to 100 waiting tasks.
    #[schema(value_type = Vec<LogEventSchema>)]
    pub events: Vec<RawJson>,
}

/// Request to cancel a run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Reason, recorded in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether child runs are cancelled too.
    #[serde(default = "yes")]
    pub cascade: bool,
}

fn yes() -> bool {
    true
}

impl Default for CancelRequest {
    fn default() -> Self {
        Self {
            reason: None,
            cascade: true,
        }
    }
}

/// Reason to pause or resume a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// Reason, recorded in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Request to retry the failed steps of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Playbook version to continue with. Default: the current version of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// Request to finalize a run with a given status.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinalizeRequest {
    /// `success`, `error` or `cancelled`.
    #[schema(value_type = String)]
    pub status: EndStatus,
    /// Reason, recorded in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Request to start a new run from an earlier one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerunRequest {
    /// First step to run again; results of earlier steps are reused. Default: all steps run again.
    #[serde(default, alias = "from", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub from_step: Option<Name>,
    /// First iteration of that step's loop to run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_iteration: Option<u64>,
    /// Inputs, merged over those of the earlier run.
    #[serde(default, alias = "workload", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<RawJson>,
    /// Playbook version. Default: the version of the earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// Cancellation status of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancellationStatus {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Status of the run.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// Whether the run is cancelled or being cancelled.
    pub cancelled: bool,
}

/// Writes to `ctx` by a client.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchCtxRequest {
    /// New values or reducers, by key.
    #[schema(value_type = Object)]
    pub variables: serde_json::Map<String, Value>,
}

/// State of a run as of one event of its log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReplayResponse {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Sequence number of the last event that the state includes.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Status of the run at this event.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// State, computed from the event log.
    #[schema(value_type = Object)]
    pub state: Value,
    /// SHA-256 of the state's canonical form.
    pub checksum: String,
}
