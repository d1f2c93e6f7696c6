//! Actions on many runs at a time.

use model::id::ExecutionId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::FacetCount;

/// What is done with each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BulkAction {
    /// Retry the failed steps, in the same run.
    Retry,
    /// Start a new run with the same inputs; everything runs again.
    Rerun,
    /// Cancel the run and its child runs.
    Cancel,
}

/// Request to preview an action on the runs that the query parameters select, or on the given runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkPreviewRequest {
    /// The action.
    pub action: BulkAction,
    /// Only these of the selected runs. Empty: all selected runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, max_items = 10_000)]
    pub execution_ids: Vec<ExecutionId>,
}

/// What an action would do now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkPreview {
    /// The action.
    pub action: BulkAction,
    /// Number of selected runs.
    pub total: u64,
    /// Whether all selected runs are counted; false if there are more than 10,000. Older runs are then left out.
    pub is_complete: bool,
    /// Selected runs by status, most frequent first.
    pub statuses: Vec<FacetCount>,
    /// Selected runs to which the action does not apply, by error code.
    pub refusals: Vec<BulkRefusal>,
    /// The runs to which the action applies, newest first. Send these: runs that start later are then not included.
    #[schema(value_type = Vec<String>)]
    pub execution_ids: Vec<ExecutionId>,
}

/// Runs to which an action does not apply for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkRefusal {
    /// Error code.
    pub code: String,
    /// The reason.
    pub detail: String,
    /// Number of runs.
    pub count: u64,
}

/// Request to apply an action to runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// The action.
    pub action: BulkAction,
    /// Deduplication key: a repeated request with the same key does nothing to the runs that the first one has changed.
    /// Use one key for all requests of an action.
    #[schema(min_length = 1, max_length = 100)]
    pub key: String,
    /// The runs.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 100)]
    pub execution_ids: Vec<ExecutionId>,
    /// Reason of a cancellation, recorded in the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The result for each run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BulkResponse {
    /// Results, in the order of the request.
    pub results: Vec<BulkResult>,
}

/// What happened to a run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BulkResult {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Whether the action was applied.
    pub outcome: BulkOutcome,
    /// The new run of a rerun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub new_execution_id: Option<ExecutionId>,
    /// Error code, if the action was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why the action was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Whether an action was applied to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BulkOutcome {
    /// The action was applied, by this request or by an earlier one with the same key.
    Done,
    /// The action was refused.
    Refused,
    /// The time of the request was over before the action started; send the run again with the same key.
    Pending,
}
