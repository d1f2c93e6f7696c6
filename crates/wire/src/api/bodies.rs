//! Bodies that a server keeps for its workers.

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
