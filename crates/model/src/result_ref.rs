//! References to results that are too large for the log.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::manifest::{CombineStrategy, ManifestRule};
use crate::raw::RawJson;
use crate::time::Time;

/// Bodies up to this size stay inline in their event, unless the task sets another limit.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Bodies up to this size may be loaded into memory: for a template, for a tool, to combine parts.
pub const IN_MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The scheme of result addresses.
pub const SCHEME: &str = "noetl://";

/// The fields of the envelope and of a reference. A body's own keys with these names are always in its reference.
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

/// Maximum number of keys of a body in its reference.
pub const KEYS_MAX: usize = 64;

/// Longer keys are not in the reference.
pub const KEY_BYTES_MAX: usize = 64;

/// The key in the meta of a compressed body for the hash of the compressed bytes.
pub const STORED_SHA256_KEY: &str = "stored_sha256";

/// The `kind` of a result that records that a task released a body of its run.
pub const RELEASED_KIND: &str = "result_release";

/// A pointer to a body outside the log, with the fields that are available without loading it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRef {
    /// Always `result_ref`; identifies a reference inside plain data.
    pub kind: RefKind,
    /// The logical address, `noetl://execution/…`.
    #[serde(rename = "ref")]
    pub uri: String,
    /// The kind of store that holds the body.
    pub store: String,
    /// How long the body is retained.
    #[serde(default)]
    pub scope: BodyScope,
    /// When the body may be deleted, if that is earlier than its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Size, hash and the location in the store.
    pub meta: BodyMeta,
    /// Small values extracted from the body, for conditions and state.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extracted: Map<String, Value>,
    /// Top-level keys of the body that are not in `extracted`; names of envelope fields come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The beginning of the body, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
}

/// Stores that a short reference may name.
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
    /// Reads a map as a reference, in full or in the short form `{store, key, range?, size, checksum}`.
    ///
    /// A short form is a reference only if its store holds bodies and its checksum is a sha256; any other map of that
    /// form is plain data.
    pub fn from_map(map: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        if let Some(kind) = text("kind") {
            let is_tagged = kind == "result_ref" || kind == "manifest";
            let full = || serde_json::from_value(Value::Object(map.clone())).ok();
            return is_tagged.then(full).flatten();
        }
        let (store, key, sha256) = (text("store")?, text("key")?, text("checksum")?);
        let bytes = map.get("size").and_then(Value::as_u64)?;
        let is_short_form_key = |key: &String| ["store", "key", "range", "size", "checksum"].contains(&&**key);
        let is_short = STORES.contains(&store) && is_sha256(sha256) && map.keys().all(is_short_form_key);
        is_short.then(|| Self {
            kind: RefKind::Result,
            uri: key.to_owned(),
            store: store.to_owned(),
            scope: BodyScope::default(),
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

    /// Whether the body has a top-level key that is not in `extracted`; `None` if this is unknown without the body.
    pub fn has_key(&self, name: &str) -> Option<bool> {
        if let Some(rule) = ManifestRule::from_reference(self) {
            return (rule.strategy == CombineStrategy::Append).then_some(false);
        }
        if self.keys.iter().any(|key| key == name) {
            return Some(true);
        }
        let would_be_listed =
            ENVELOPE_WORDS.contains(&name) || (self.keys.len() < KEYS_MAX && name.len() <= KEY_BYTES_MAX);
        would_be_listed.then_some(false)
    }

    /// The hashes under which its body may be stored: of the body, and of the compressed body.
    pub fn hashes(&self) -> impl Iterator<Item = String> {
        let stored = self.meta.location.get(STORED_SHA256_KEY);
        let stored = stored.and_then(Value::as_str);
        let hashes = [Some(self.meta.sha256.as_str()), stored];
        hashes.into_iter().flatten().map(str::to_ascii_lowercase)
    }
}

/// Whether a text is a sha256 in hex.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The type tag of a reference.
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

/// The target of an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedRef {
    /// A body outside the log.
    Body(Box<ResultRef>),
    /// A value in the log, or a list of bodies.
    Value(RawJson),
}

/// How long a body is retained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyScope {
    /// Until the end of its step is committed.
    Step,
    /// Until the execution has ended and its retention has passed.
    #[default]
    Execution,
    /// Until the root of the tree of sub-playbooks ends.
    Workflow,
    /// Never deleted automatically.
    Permanent,
}

/// Metadata of a stored body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BodyMeta {
    /// The media type.
    #[serde(default = "json_type")]
    pub content_type: String,
    /// The uncompressed size.
    pub bytes: u64,
    /// The sha256 of its uncompressed bytes, in hex.
    pub sha256: String,
    /// The compression, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<String>,
    /// What the store needs to find it: bucket, key, table …
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

/// One segment of a path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum PathSegment {
    /// An index of a list.
    Index(u64),
    /// A key of a map.
    Key(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Option<ResultRef> {
        ResultRef::from_map(value.as_object().expect("the value is a map"))
    }

    #[test]
    fn a_short_reference_is_one_only_with_a_store_of_bodies_and_a_sha256() {
        let sha256 = "ab".repeat(32);
        let short = json!({"store": "disk", "key": "noetl://execution/1/x", "size": 3, "checksum": sha256});
        let reference = read(&short).expect("the value is a reference to a body");
        assert_eq!(
            (reference.meta.bytes, reference.uri.as_str()),
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
