//! Playbooks in the catalog as people look at them: versions, differences, forms, callers and recent runs.

use model::id::{ExecutionId, Name};
use model::status::RunStatus;
use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::{GraphArc, GraphStep};

/// A page of the versions of a playbook, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookVersionPage {
    /// Catalog path.
    pub path: String,
    /// The versions.
    pub versions: Vec<PlaybookVersionEntry>,
    /// Value of `before` for the next page; null on the last one.
    pub next_before: Option<u32>,
    /// The runs that `runs` of the versions count: the newest of this playbook, at most 1,000.
    pub counted_runs: u32,
}

/// A version of a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookVersionEntry {
    /// Its number, from 1.
    pub version: u32,
    /// SHA-256 of the text.
    pub hash: String,
    /// When it was registered.
    #[schema(value_type = String, format = DateTime)]
    pub registered_at: Time,
    /// Number of counted runs that use it.
    pub runs: u32,
}

/// A text to compare with a version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlaybookDiffRequest {
    /// YAML text of the playbook.
    pub content: String,
    /// Version to compare with. Default: the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
}

/// The difference between two playbooks: what a run would do differently.
///
/// Comments, layout, the order of keys and other spellings of the same playbook are no difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookDiff {
    /// Catalog path.
    pub path: String,
    /// The first version.
    pub from: u32,
    /// The second version; null for a text that is not registered.
    pub to: Option<u32>,
    /// Whether the texts are equal, byte by byte.
    pub is_same_text: bool,
    /// The changes: first those of the whole playbook, then those of its steps.
    pub changes: Vec<PlaybookDiffChange>,
    /// Whether these are all changes: at most 500 are returned.
    pub is_complete: bool,
}

/// A change of one value, or of one part with all its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookDiffChange {
    /// What changed, such as `fetch/save_page.command` or `workload.limit`.
    pub path: String,
    /// The kind of part that changed.
    pub section: DiffSection,
    /// How it changed.
    pub kind: DiffKind,
    /// The step that it belongs to.
    #[schema(value_type = Option<String>)]
    pub step: Option<Name>,
    /// The task that it belongs to.
    #[schema(value_type = Option<String>)]
    pub task: Option<Name>,
    /// The value in the first playbook; null if it is added.
    pub before: Option<DiffText>,
    /// The value in the second playbook; null if it is removed.
    pub after: Option<DiffText>,
    /// The lines that differ, with their neighbours; empty if both values are on one line.
    pub lines: Vec<DiffTextLine>,
}

/// A value as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffText {
    /// The value; a part with several values has a line for each. At most 4 KiB.
    pub text: String,
    /// Whether the value is longer than `text`.
    pub is_truncated: bool,
    /// Its line in the playbook, or the line of the part that contains it.
    pub line: u32,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffTextLine {
    /// Where the line comes from.
    pub kind: DiffLineKind,
    /// Its text. For `omitted`, the number of lines.
    pub text: String,
}

/// Where a line of a difference comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffLineKind {
    /// Both texts.
    Equal,
    /// Only the first text.
    Removed,
    /// Only the second text.
    Added,
    /// Lines are left out here.
    Omitted,
}

/// How a value or a part changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffKind {
    /// Only the second playbook has it.
    Added,
    /// Only the first playbook has it.
    Removed,
    /// It has another value.
    Changed,
    /// Its parts are in another order.
    Reordered,
}

/// The kinds of parts of a playbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffSection {
    /// `metadata`.
    Metadata,
    /// `executor`.
    Executor,
    /// `keychain`.
    Keychain,
    /// `workload`: the inputs.
    Workload,
    /// `ctx`.
    Ctx,
    /// A step.
    Step,
    /// The admission rules of a step.
    Admission,
    /// The loop of a step.
    Loop,
    /// A task.
    Task,
    /// The policy of a task.
    Policy,
    /// `next` of a step.
    Next,
}

/// The inputs of a version of a playbook as a JSON schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InputFormResponse {
    /// Catalog path.
    pub path: String,
    /// Version.
    pub version: u32,
    /// Description of the playbook.
    pub description: Option<String>,
    /// JSON schema of the inputs, derived from the defaults in `workload`.
    ///
    /// `title`, `description`, `default`, `properties`, `required` and `items` have their usual meanings. Properties
    /// have no `type` if any value fits. `x-template` is a default that is rendered when the run starts. Integers can
    /// have 64 bits.
    #[schema(value_type = Object)]
    pub schema: serde_json::Value,
}

/// The steps and arcs of a version of a playbook. All progress is that of a run that has not started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookVersionGraph {
    /// Catalog path.
    pub path: String,
    /// Version.
    pub version: u32,
    /// The step where a run starts.
    #[schema(value_type = String)]
    pub entry: Name,
    /// The steps in YAML order.
    pub steps: Vec<GraphStep>,
    /// The arcs in YAML order.
    pub arcs: Vec<GraphArc>,
}

/// The playbooks whose latest versions call a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookCallerList {
    /// Catalog path of the playbook that is called.
    pub path: String,
    /// The tasks that call it, by playbook and line.
    pub callers: Vec<PlaybookCaller>,
    /// Whether these are all callers: at most 200 are returned.
    pub is_complete: bool,
}

/// A task that calls a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlaybookCaller {
    /// Catalog path of the caller.
    pub path: String,
    /// Its latest version.
    pub version: u32,
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The task.
    #[schema(value_type = String)]
    pub task: Name,
    /// The line of the task in the caller's text.
    pub line: u32,
}

/// The playbooks whose recent runs are wanted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RecentRunsRequest {
    /// Catalog paths, at most 100.
    pub paths: Vec<String>,
}

/// The recent runs of playbooks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecentRunsResponse {
    /// One entry for each path of the request, in its order.
    pub playbooks: Vec<RecentRuns>,
}

/// The recent runs of a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecentRuns {
    /// Catalog path.
    pub path: String,
    /// The newest 20 runs, newest first.
    pub outcomes: Vec<RunOutcome>,
    /// Number of runs from which the durations are computed: those that completed among the newest 50.
    pub measured_runs: u32,
    /// Median duration in milliseconds; null without completed runs.
    pub p50_ms: Option<u64>,
    /// 95th percentile of the durations in milliseconds; null without completed runs.
    pub p95_ms: Option<u64>,
}

/// The status of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunOutcome {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Status.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// Version of the playbook.
    pub version: u32,
    /// Start.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    /// End; null while it is active.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Time>,
}
