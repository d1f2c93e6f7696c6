//! Bodies that a server keeps for its workers.

use model::id::{ExecutionId, Name, Seq};
use model::raw::Raw;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A body is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BodyStored {
    /// The sha256 of its bytes, in hex.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// The kind of store that holds it.
    pub store: String,
    /// What that store needs to find it.
    #[schema(value_type = Object)]
    pub location: Map<String, Value>,
}

/// The references that a run's log holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReferenceList {
    /// The run.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Oldest first.
    pub results: Vec<ReferenceEntry>,
}

/// A reference, and what it is the result of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReferenceEntry {
    /// The event that tells of it.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The step.
    #[schema(value_type = String)]
    pub step: Name,
    /// Counts the step's runs from 1.
    pub run: u32,
    /// The task's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub task: Option<Name>,
    /// Counts the entries of that label from 1.
    pub visit: u32,
    /// The loop index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Counts the tries from 1.
    pub attempt: u32,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// The reference itself.
    #[schema(value_type = Object)]
    pub reference: Raw,
}
