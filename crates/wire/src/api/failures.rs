//! Failures of a run.

use model::id::{Name, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The failures of a run, grouped by error.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FailureList {
    /// Groups, the largest first.
    pub groups: Vec<FailureGroup>,
}

/// Failures of a step with the same error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FailureGroup {
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// The task that failed, if known.
    #[schema(value_type = Option<String>)]
    pub task: Option<Name>,
    /// The code of the error.
    pub code: String,
    /// The message of the first failure; the messages of the others may differ in numbers.
    pub message: String,
    /// Its line in the playbook, if known.
    pub line: Option<u64>,
    /// Its column in the playbook, if known.
    pub column: Option<u64>,
    /// How many failures there were.
    pub count: u64,
    /// The first 100 failed iterations; empty for a step without a loop.
    pub iterations: Vec<u64>,
    /// The events that recorded the first 100 failures.
    #[schema(value_type = Vec<u64>)]
    pub seqs: Vec<Seq>,
    /// The event that recorded the first failure.
    #[schema(value_type = u64)]
    pub first_seq: Seq,
}
