//! Where a result's body lives when it is too large for the log.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::manifest::{Rule, Strategy};
use crate::raw::Raw;
use crate::time::Time;

/// A body up to this size stays inline in its event unless the task says otherwise.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// A body up to this size may be brought into memory whole: for a template, for a tool, to combine parts.
pub const HELD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How the address of a result begins.
pub const SCHEME: &str = "noetl://";

/// The words of the envelope and of a reference. Those that a body has as its own keys are always in its reference.
pub const ENVELOPE_WORDS: [&str; 20] = [
    "status",
    "result",
    "results",
    "stats",
    "error",
    "meta",
    "http",
    "pg",
    "py",
    "data",
    "body",
    "ref",
    "reference",
    "store",
    "preview",
    "_ref",
    "_uri",
    "_store",
    "_preview",
    "_file",
];

/// So many keys of a body are in its reference.
pub const KEYS_MAX: usize = 64;

/// A longer key is not in the reference.
pub const KEY_BYTES_MAX: usize = 64;

/// Where the meta of a compressed body names the hash of what is stored.
pub const STORED_SHA256: &str = "stored_sha256";

/// The `kind` of a result that says that a task gave up a body of its run.
pub const RELEASED: &str = "result_release";

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
    /// Top-level keys of the body that are not among `extracted`, the envelope's words first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The beginning of the body, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
}

/// Stores that hold bodies, as a short reference names them.
const STORES: [&str; 9] = [
    "disk",
    "file",
    "pvc",
    "postgres",
    "nats_kv",
    "nats_object",
    "s3",
    "gcs",
    "minio",
];

impl ResultRef {
    /// The reference that a map is: whole, or of the short shape `{store, key, range?, size, checksum}`.
    ///
    /// A short one names a body only if its store is one that holds bodies and its checksum is a sha256; any other map of
    /// that look is plain data.
    pub fn of(map: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        if let Some(kind) = text("kind") {
            let is_tagged = kind == "result_ref" || kind == "manifest";
            let whole = || serde_json::from_value(Value::Object(map.clone())).ok();
            return is_tagged.then(whole).flatten();
        }
        let (store, key, sha256) = (text("store")?, text("key")?, text("checksum")?);
        let bytes = map.get("size").and_then(Value::as_u64)?;
        let is_named =
            |key: &String| ["store", "key", "range", "size", "checksum"].contains(&&**key);
        let is_short = STORES.contains(&store) && is_sha256(sha256) && map.keys().all(is_named);
        is_short.then(|| Self {
            kind: RefKind::Result,
            uri: key.to_owned(),
            store: store.to_owned(),
            scope: Scope::default(),
            expires_at: None,
            meta: BodyMeta {
                content_type: "application/json".to_owned(),
                bytes,
                sha256: sha256.to_ascii_lowercase(),
                compression: None,
                location: Map::new(),
            },
            extracted: Map::new(),
            keys: Vec::new(),
            preview: None,
        })
    }
}

impl ResultRef {
    /// Whether the body has a top-level key that is not among `extracted`; none if only the body can tell.
    pub fn has_key(&self, name: &str) -> Option<bool> {
        if let Some(rule) = Rule::of(self) {
            return (rule.strategy == Strategy::Append).then_some(false);
        }
        if self.keys.iter().any(|key| key == name) {
            return Some(true);
        }
        let is_listed = ENVELOPE_WORDS.contains(&name)
            || (self.keys.len() < KEYS_MAX && name.len() <= KEY_BYTES_MAX);
        is_listed.then_some(false)
    }

    /// The hashes that its body may be kept under: its own, and that of the body as it is compressed.
    pub fn hashes(&self) -> impl Iterator<Item = String> {
        let stored = self.meta.location.get(STORED_SHA256);
        let stored = stored.and_then(Value::as_str);
        let all = [Some(self.meta.sha256.as_str()), stored];
        all.into_iter().flatten().map(str::to_ascii_lowercase)
    }
}

/// Whether a text is a sha256 in hex.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
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

/// What an address leads to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolved {
    /// A body outside the log.
    Body(Box<ResultRef>),
    /// A value that the log holds, or a list of bodies.
    Value(Raw),
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
    #[serde(default = "json_type")]
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

fn json_type() -> String {
    "application/json".to_owned()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Option<ResultRef> {
        ResultRef::of(value.as_object().expect("it is a map"))
    }

    #[test]
    fn a_short_reference_is_one_only_with_a_store_of_bodies_and_a_sha256() {
        let sha256 = "ab".repeat(32);
        let short =
            json!({"store": "disk", "key": "noetl://execution/1/x", "size": 3, "checksum": sha256});
        let found = read(&short).expect("it names a body");
        assert_eq!(
            (found.meta.bytes, found.uri.as_str()),
            (3, "noetl://execution/1/x")
        );
        let mut table = short.clone();
        table["store"] = "postgres.table".into();
        assert_eq!(read(&table), None);
        let mut other = short.clone();
        other["checksum"] = "crc32:1".into();
        assert_eq!(read(&other), None);
        let mut more = short;
        more["price"] = 1.into();
        assert_eq!(read(&more), None);
    }
}
