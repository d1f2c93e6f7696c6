//! Bodies that a server keeps for its workers.

use model::event::Status;
use model::id::{ExecutionId, Name, Seq};
use model::raw::Raw;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

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

/// Which result of a step is meant; what is not said fits any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ResultPlace {
    /// The run of the step, from 1; its latest unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// The task's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub task: Option<Name>,
    /// The loop index, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// The page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// The try, from 1; the one that ended well unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// The references that a run's log holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReferenceList {
    /// The run.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Oldest first.
    pub results: Vec<ReferenceEntry>,
    /// Where the next ones begin, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub next_after_seq: Option<Seq>,
}

/// A result: what it is the result of, and where it is.
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
    /// The page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// Counts the tries from 1.
    pub attempt: u32,
    /// How the task ended.
    #[schema(value_type = String)]
    pub status: Status,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// Its size.
    pub bytes: u64,
    /// The reference to it, where it lives outside the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub reference: Option<Raw>,
}
