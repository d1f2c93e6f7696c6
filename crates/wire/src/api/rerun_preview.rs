//! What a rerun would do.

use model::id::{ExecutionId, Name, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::PlaybookDiff;

/// What a rerun would reuse and run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RerunPreview {
    /// The earlier run.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Catalog path.
    pub path: String,
    /// Version of the earlier run.
    pub from_version: u32,
    /// Version that the rerun would use.
    pub version: u32,
    /// The steps whose results are reused, in the order in which they ended.
    pub reused_steps: Vec<ReusedStepEntry>,
    /// The loop of which some iterations are reused.
    pub reused_iterations: Option<ReusedIterationCount>,
    /// The steps that run first.
    #[schema(value_type = Vec<String>)]
    pub first_steps: Vec<Name>,
    /// The steps that arcs lead to from there, in YAML order, and the final step. Which of them run is decided by the
    /// conditions of the arcs.
    #[schema(value_type = Vec<String>)]
    pub later_steps: Vec<Name>,
    /// The inputs that differ from those of the earlier run.
    pub changed_inputs: Vec<String>,
    /// What differs between the two versions; null if both runs use the same version.
    pub difference: Option<PlaybookDiff>,
}

/// A step whose result is reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReusedStepEntry {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// Whether it succeeded.
    pub ok: bool,
    /// The run that recorded its end; not the earlier run if that run reused the step itself.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The event there.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Number of its tasks whose results are reused.
    pub tasks: u32,
}

/// How many iterations of a loop are reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReusedIterationCount {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// Number of items of the loop.
    pub total: u64,
    /// Number of iterations that are reused.
    pub reused: u64,
}
