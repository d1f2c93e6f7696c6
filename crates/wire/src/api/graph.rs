//! The graph of a playbook, alone or with the progress of a run.

use model::id::{ExecutionId, Name, Seq};
use model::outcome::TaskError;
use model::playbook::Directive;
use model::status::RunStatus;
use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::log_schemas::TaskErrorSchema;

/// The steps and arcs of the playbook of a run, with their progress.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionGraph {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The last event of the run that the graph includes.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Status of the run.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// The step where the run starts.
    #[schema(value_type = String)]
    pub entry: Name,
    /// Whether all events of the run were read; a run with more than 50,000 events of steps shows only the first ones.
    pub is_complete: bool,
    /// Steps in the order of the playbook.
    pub steps: Vec<GraphStep>,
    /// Arcs in the order of the playbook.
    pub arcs: Vec<GraphArc>,
}

/// The steps and arcs of a playbook without a run. Nothing in it has been reached.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlaybookGraph {
    /// The step where a run starts. A text without steps has none.
    #[schema(value_type = Option<String>)]
    pub entry: Option<Name>,
    /// Steps in the order of the playbook.
    pub steps: Vec<GraphStep>,
    /// Arcs in the order of the playbook.
    pub arcs: Vec<GraphArc>,
}

/// A step with its progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphStep {
    /// Its name.
    #[schema(value_type = String)]
    pub step: Name,
    /// Its description.
    pub description: Option<String>,
    /// What it does.
    pub kind: GraphStepKind,
    /// Its line in the playbook.
    pub line: u32,
    /// Its column in the playbook.
    pub column: u32,
    /// How often it ran.
    pub runs: u32,
    /// Progress of its latest run.
    pub status: GraphStatus,
    /// Whether its result was reused from an earlier run.
    pub is_reused: bool,
    /// Start of its latest run.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Time>,
    /// End of its latest run.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    /// Its tasks in order.
    pub tasks: Vec<GraphTask>,
    /// Progress of its loop.
    #[serde(rename = "loop")]
    pub loop_: Option<GraphLoop>,
    /// Why its latest run failed.
    #[schema(value_type = Option<TaskErrorSchema>)]
    pub error: Option<TaskError>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraphStepKind {
    /// It has no task.
    Route,
    /// It has one task.
    Task,
    /// It has several tasks.
    Pipeline,
    /// It runs its tasks for each item.
    Loop,
}

/// Progress of a step or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraphStatus {
    /// It has not started.
    NotReached,
    /// It waits for a worker, a time, a signal or a child run.
    Waiting,
    /// It is running.
    Running,
    /// A task failed and will be tried again.
    Retrying,
    /// It succeeded.
    Success,
    /// It failed.
    Error,
    /// The run ended before it did.
    Cancelled,
}

/// A task of a step. The tasks of a loop show no progress, because each iteration has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphTask {
    /// Its label.
    #[schema(value_type = String)]
    pub label: Name,
    /// Its kind.
    #[schema(value_type = String)]
    pub kind: Name,
    /// Its line in the playbook.
    pub line: u32,
    /// Its column in the playbook.
    pub column: u32,
    /// Progress in the latest run of the step.
    pub status: GraphStatus,
    /// Number of attempts in the latest run of the step.
    pub attempts: u32,
    /// The rules of its policy in order; `matched_rule_index` of an event is an index of this list.
    pub rules: Vec<GraphPolicyRule>,
}

/// A rule of the policy of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphPolicyRule {
    /// Its condition as written; null for `else`.
    pub when: Option<String>,
    /// What it does: `continue`, `retry`, `jump`, `break` or `fail`.
    #[schema(value_type = String)]
    pub action: Directive,
    /// Its line in the playbook.
    pub line: u32,
    /// Its column in the playbook.
    pub column: u32,
}

/// Progress of a loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphLoop {
    /// Number of items, once it is known. A cursor loop has none.
    pub total: Option<u64>,
    /// Number of iterations that succeeded.
    pub succeeded: u64,
    /// Number of iterations that failed.
    pub failed: u64,
    /// Number of iterations in progress.
    pub in_flight: u64,
    /// Number of retries in iterations.
    pub retries: u64,
}

/// An arc with the results of its condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphArc {
    /// Its source.
    #[schema(value_type = String)]
    pub from: Name,
    /// Its target.
    #[schema(value_type = String)]
    pub to: Name,
    /// Its position among the arcs of its source, from 0.
    pub index: u32,
    /// Its condition as written.
    pub when: Option<String>,
    /// Its line in the playbook.
    pub line: u32,
    /// Its column in the playbook.
    pub column: u32,
    /// How often it was followed.
    pub followed: u32,
    /// How often its condition was false.
    pub refused: u32,
    /// The latest evaluation of its condition.
    pub last: Option<GraphEvaluation>,
}

/// An evaluation of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphEvaluation {
    /// The `next.evaluated` event.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The value of the condition.
    pub value: bool,
}
