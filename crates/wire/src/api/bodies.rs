//! Stored results: uploads of workers, selection of results, and lists of references.

use model::event::EventStatus;
use model::id::{ExecutionId, Name, Seq};
use model::raw::RawJson;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

/// A stored body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoreBodyResponse {
    /// SHA-256 of the bytes, in hex.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Kind of the result store.
    pub store: String,
    /// Data that the store needs to find the body.
    #[schema(value_type = Object)]
    pub location: Map<String, Value>,
}

/// Selects a result of a step; parameters that are not set match any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ResultSelector {
    /// Run of the step, from 1. Default: the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// Label of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub task: Option<Name>,
    /// Loop index, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// Attempt, from 1. Default: the latest successful one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// Results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReferenceList {
    /// Run ID.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Results, oldest first.
    pub results: Vec<ReferenceEntry>,
    /// Value for `after_seq` to get the next page, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub next_after_seq: Option<Seq>,
}

/// A result with its location in the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReferenceEntry {
    /// Sequence number of the event that records the result.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Step name.
    #[schema(value_type = String)]
    pub step: Name,
    /// Run of the step, from 1.
    pub run: u32,
    /// Label of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub task: Option<Name>,
    /// Pass of the task, from 1.
    pub visit: u32,
    /// Loop index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// Attempt, from 1.
    pub attempt: u32,
    /// How the task ended.
    #[schema(value_type = String)]
    pub status: EventStatus,
    /// When the result was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// Size in bytes.
    pub bytes: u64,
    /// Reference, if the result is stored outside the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub reference: Option<RawJson>,
}
