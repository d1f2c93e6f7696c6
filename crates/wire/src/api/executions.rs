//! Runs: how they are asked for, shown and moved.

use model::event::Ending;
use model::id::{ExecutionId, Name, Seq};
use model::outcome::TaskError;
use model::raw::Raw;
use model::status::RunStatus;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A run that someone asks for: by catalog path, or with the playbook's text.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteRequest {
    /// The playbook's path in the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The playbook's path and version, `path@version`, or its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<String>,
    /// The playbook's text; registered under `path`, or the path it gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playbook: Option<String>,
    /// The catalog version; the latest if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Inputs over the playbook's own; also called `workload`.
    #[serde(
        default,
        alias = "workload",
        alias = "input",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Raw>,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub parent_execution_id: Option<ExecutionId>,
    /// Asking twice with the same word starts one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub dedup: Option<String>,
    /// The trace it belongs to, which every event of the run and of its children names. Left out: that of the
    /// `traceparent` header, or one made for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub trace_id: Option<String>,
}

/// A run has begun, and that is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Started {
    /// The run.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// How it stands.
    #[schema(value_type = String)]
    pub status: RunStatus,
}

/// A run as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Execution {
    /// The run.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// How it stands.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// The playbook's name.
    #[schema(value_type = String)]
    pub name: Name,
    /// The playbook's path.
    #[schema(value_type = String)]
    pub path: Name,
    /// The playbook's catalog version.
    pub version: u32,
    /// The playbook's text, by its sha256.
    pub hash: String,
    /// The last place in its log.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Which life of it this is.
    pub generation: u32,
    /// Whether someone asked for its end.
    pub cancelling: bool,
    /// The run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub parent_execution_id: Option<ExecutionId>,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Time>,
    /// The step scheduled last, while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub current_step: Option<Name>,
    /// Why it failed: code and message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionPage {
    /// The runs.
    pub executions: Vec<Execution>,
    /// Where the next page begins; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A run with its result.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunAnswer {
    /// The run.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// How it stands.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// Its result, any JSON value; null until the run ends, and where `result_href` is set. The result of a failed run is
    /// `{status, context: {error}}`.
    #[schema(value_type = Value)]
    pub result: Value,
    /// The path that a large result is read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_href: Option<String>,
    /// Why it failed.
    #[schema(value_type = Option<Object>)]
    pub error: Option<TaskError>,
    /// The rest.
    pub execution: Execution,
}

/// A page of a log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events, in order.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<Raw>,
    /// What `after_seq` of the next page is; none at the end of the log.
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
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<Raw>,
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
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<Raw>,
}

/// Why someone stops a run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Kept in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the runs it started end too.
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

/// Why someone pauses a run, or lets it go on.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteRequest {
    /// Kept in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How failed work is done again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Another version of the playbook to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// How a run that someone gives up is to count.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinalizeRequest {
    /// `success`, `error` or `cancelled`.
    #[schema(value_type = String)]
    pub status: Ending,
    /// Kept in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a run is done once more, as a new run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerunRequest {
    /// The first step that runs again; what ran before it is taken over. All run again if none.
    #[serde(default, alias = "from", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub from_step: Option<Name>,
    /// The first iteration of that step's loop that runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_iteration: Option<u64>,
    /// Inputs over those of the first run.
    #[serde(default, alias = "workload", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Raw>,
    /// Another version of the playbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// Whether work for a run should stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancellationCheck {
    /// The run.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// How it stands.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// Whether it was stopped, or is being stopped.
    pub cancelled: bool,
}

/// Writes to `ctx` from outside.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CtxPatch {
    /// Each key with its new value, or a reducer.
    #[schema(value_type = Object)]
    pub variables: serde_json::Map<String, Value>,
}

/// A run's state as of one place in its log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReplayState {
    /// The run.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The last event folded in.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// How it stood.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// The folded state.
    #[schema(value_type = Object)]
    pub state: Value,
    /// The sha256 of the state's canonical form.
    pub checksum: String,
}
