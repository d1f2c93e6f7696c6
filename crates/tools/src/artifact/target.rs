//! Target of a task: a stored result, an address to resolve, a file, an object, or an inline value.

use std::path::PathBuf;

use language::template::BodyPath;
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::{ResolvedRef, ResultRef, SCHEME};
use serde_json::{Map, Value};

use super::nats_address::NatsAddress;
use crate::call::{Call, ResultAccess};
use crate::objects::ObjectAddress;

/// Target of a task.
#[derive(Debug, PartialEq)]
pub(super) enum ArtifactTarget {
    /// A stored result, or a value inside it.
    Body(Box<BodyPath>),
    /// An inline value: a result that was small enough to stay in the log.
    Value(Value),
    /// Address of a result.
    Address(String),
    /// A file on the worker's machine.
    File(PathBuf),
    /// An object in an S3 or Google Cloud Storage bucket.
    Object(ObjectAddress),
    /// A value in a NATS bucket.
    Nats(NatsAddress),
}

impl ArtifactTarget {
    /// Reads `ref` or `uri`; `None` if neither is set.
    pub(super) fn from_call(call: &Call) -> Result<Option<Self>, TaskError> {
        if let Some(text) = call.text_field("uri")? {
            return Self::from_uri(call, text).map(Some);
        }
        Ok(match call.field("ref") {
            None => None,
            Some(Value::String(text)) => Some(Self::from_uri(call, text)?),
            Some(Value::Object(map)) => Some(Self::from_map(call, map)?),
            Some(other) => Some(Self::Value(other.clone())),
        })
    }

    fn from_map(call: &Call, map: &Map<String, Value>) -> Result<Self, TaskError> {
        if let Some(bound) = Call::body_path(map) {
            return Ok(Self::Body(Box::new(bound)));
        }
        if let Some(reference) = ResultRef::from_map(map) {
            return Ok(Self::Body(Box::new(BodyPath::whole_body(reference))));
        }
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let address = text("ref").or_else(|| text("uri"));
        if let Some(address) = address.filter(|text| text.contains("://")) {
            return Self::from_uri(call, address);
        }
        if let (Some(store), Some(key)) = (text("store"), text("key")) {
            if key.starts_with(SCHEME) {
                return Self::from_uri(call, key);
            }
            return Err(not_configured_error(&format!("{store}:{key}")));
        }
        Ok(Self::Value(Value::Object(map.clone())))
    }

    /// Parses an address by its scheme.
    fn from_uri(call: &Call, uri: &str) -> Result<Self, TaskError> {
        if uri.starts_with(SCHEME) {
            return Ok(Self::Address(uri.to_owned()));
        }
        if let Some(path) = uri.strip_prefix("file://") {
            return Ok(Self::File(call.resolve_path(path)));
        }
        if let Some(address) = ObjectAddress::parse(call, uri) {
            return Ok(Self::Object(address));
        }
        if let Some(address) = NatsAddress::parse(uri) {
            return Ok(Self::Nats(address));
        }
        let message = format!(
            "`{uri}` is not a reference; use a step's result, its `_ref`, or a URI with noetl://, file://, s3://, gs://, nats-kv:// or nats-obj://"
        );
        Err(TaskError::new(ErrorKind::Schema, "REFERENCE_INVALID", message))
    }

    /// Resolves an address.
    pub(super) async fn resolve(self, access: &ResultAccess) -> Result<Self, TaskError> {
        let Self::Address(uri) = self else {
            return Ok(self);
        };
        Ok(match access.resolver.resolve(&uri).await? {
            ResolvedRef::Body(reference) => Self::Body(Box::new(BodyPath::whole_body(*reference))),
            ResolvedRef::Value(value) => Self::Value(value.to_value()),
        })
    }
}

/// Error for data in a store that this worker cannot access.
fn not_configured_error(uri: &str) -> TaskError {
    let message = format!(
        "`{uri}` is in a store that this worker cannot access; store the data as a result, or copy it to a file and use file://"
    );
    TaskError::new(ErrorKind::Storage, "STORE_NOT_CONFIGURED", message).with_detail("ref", uri)
}
