//! Tasks that wait for a person or another system.

use model::id::{ExecutionId, Name, Seq};
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A page of tasks that wait for a signal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InboxPage {
    /// The waiting tasks.
    pub waits: Vec<InboxEntry>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// How many tasks wait for a signal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub struct InboxCount {
    /// The number of tasks, at most 1,000.
    pub count: u64,
    /// Whether all are counted; false if there are more.
    pub is_complete: bool,
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InboxKind {
    /// A decision of a person.
    Approval,
    /// A signal with any payload.
    Signal,
}

/// A task that waits for a signal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InboxEntry {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The event of the run that began the wait.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Catalog path of the playbook.
    #[schema(value_type = String)]
    pub path: Name,
    /// Catalog version of the playbook.
    pub version: u32,
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The run of the step.
    pub run: u32,
    /// The task.
    #[schema(value_type = Option<String>)]
    pub task: Option<Name>,
    /// The loop index.
    pub iteration: Option<u64>,
    /// What the task waits for.
    pub kind: InboxKind,
    /// Name of the signal that it waits for.
    #[schema(value_type = String)]
    pub signal: Name,
    /// The rendered title of the approval.
    pub title: Option<String>,
    /// The rendered description of the approval.
    pub description: Option<String>,
    /// When the wait began.
    #[schema(value_type = String, format = DateTime)]
    pub since: Time,
    /// When the task fails if no signal arrives.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Time>,
    /// Whether the next signal of this name ends this wait. If not, a task of the same run has waited longer for the same
    /// name, and gets the signal first.
    pub is_next: bool,
    /// JSON Schema of the values to send besides those of a choice; null if any object is accepted.
    #[schema(value_type = Option<Object>)]
    pub form: Option<Map<String, Value>>,
    /// The path to which a payload is sent with `POST`.
    pub href: String,
    /// The possible responses.
    pub choices: Vec<InboxChoice>,
}

/// A possible response to a waiting task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InboxChoice {
    /// What the choice does.
    pub label: String,
    /// The payload; the values of the form are added to it.
    #[schema(value_type = Object)]
    pub payload: Map<String, Value>,
    /// The command that sends this payload.
    pub command: String,
}
