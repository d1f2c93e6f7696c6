//! Where a result's body lives when it is too large for the log.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Time;

/// A body up to this size stays inline in its event unless the task says otherwise.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// A pointer to a body kept outside the log, with what is known of it without loading it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRef {
    /// Always `result_ref`; how a reference is recognised inside plain data.
    pub kind: RefKind,
    /// The logical address, `noetl://execution/…`.
    #[serde(rename = "ref")]
    pub uri: String,
    /// The kind of store that holds the body.
    pub store: String,
    /// How long it is kept.
    #[serde(default)]
    pub scope: Scope,
    /// When it may be gone, if its life was shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Size, hash and what the store needs to find it.
    pub meta: BodyMeta,
    /// Small values lifted out of the body for guards and state.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extracted: Map<String, Value>,
    /// The beginning of the body, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
}

/// The tag of a reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefKind {
    /// A body.
    #[default]
    #[serde(rename = "result_ref")]
    Result,
    /// A list of bodies.
    #[serde(rename = "manifest")]
    Manifest,
}

/// How long a body is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Until the step's routing is committed.
    Step,
    /// Until the execution is over and its retention has passed.
    #[default]
    Execution,
    /// Until the root of the tree of sub-playbooks ends.
    Workflow,
    /// For good.
    Permanent,
}

/// What is known of a stored body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BodyMeta {
    /// Its media type.
    pub content_type: String,
    /// Its size, uncompressed.
    pub bytes: u64,
    /// The sha256 of its uncompressed bytes, in hex.
    pub sha256: String,
    /// How it is compressed, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<String>,
    /// What the store itself needs: bucket, key, table …
    #[serde(flatten)]
    pub location: Map<String, Value>,
}

/// The beginning of a body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    /// Whether the sample is shorter than the body.
    pub truncated: bool,
    /// The size of the sample.
    pub bytes: u64,
    /// The sample.
    pub sample: Value,
}
