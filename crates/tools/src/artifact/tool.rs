//! Runs one `artifact` call.

use std::sync::Arc;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::result_ref::ResultRef;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::nats_address::NatsBuckets;
use super::target::ArtifactTarget;
use super::{buckets, files, parts};
use crate::call::{Call, LogSink, ResultAccess, Tool, ToolResult, run_within_limit, store_error, stored_outcome};
use crate::kind_not_built::kind_not_built_error;
use crate::objects::{ObjectAccess, check_allowed};

/// The `artifact` tool.
pub(crate) struct ArtifactTool {
    /// Access to files and buckets.
    object_access: ObjectAccess,
    /// Access to NATS buckets, if this binary has the `nats` kind.
    nats_buckets: Option<Arc<dyn NatsBuckets>>,
}

impl ArtifactTool {
    pub(crate) fn new(object_access: ObjectAccess, nats_buckets: Option<Arc<dyn NatsBuckets>>) -> Self {
        Self {
            object_access,
            nats_buckets,
        }
    }

    async fn run_call(&self, call: &Call) -> Result<Outcome, TaskError> {
        let action = call.text_field("action")?.unwrap_or("get");
        let target = match ArtifactTarget::from_call(call)? {
            Some(ArtifactTarget::File(file)) => Some(ArtifactTarget::File(check_allowed(
                file,
                &self.object_access.forbidden,
            )?)),
            Some(ArtifactTarget::Object(address)) => {
                let location = address.open(call.field("auth"), &self.object_access).await?;
                return buckets::run_object_action(call, action, &location, &self.object_access).await;
            }
            Some(ArtifactTarget::Nats(address)) => {
                let buckets = self.nats_buckets.as_ref();
                let buckets = buckets.ok_or_else(|| kind_not_built_error("nats"))?;
                return buckets.run_action(call, action, address).await;
            }
            other => other,
        };
        let access = call.access.as_ref().ok_or_else(no_access_error)?;
        match action {
            "get" => get(call, access, require_target(call, target)?).await.map(Outcome::ok),
            "put" => put(call, target).await,
            "list" => list(access, target).await.map(Outcome::ok),
            "delete" => delete(access, require_target(call, target)?).await.map(Outcome::ok),
            other => {
                let message = format!("invalid `action: {other}`; use get, put, list or delete");
                Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "action"))
            }
        }
    }
}

#[async_trait]
impl Tool for ArtifactTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        run_within_limit(call.timeout.total, stop, Box::pin(self.run_call(&call))).await
    }
}

fn no_access_error() -> TaskError {
    TaskError::new(ErrorKind::Unknown, "TOOL_INPUT", "no result store is available")
}

fn require_target(call: &Call, target: Option<ArtifactTarget>) -> Result<ArtifactTarget, TaskError> {
    target.ok_or_else(|| call.missing_key_error("ref", "set it to a step's result or its `_ref`, or set `uri`"))
}

async fn get(call: &Call, access: &ResultAccess, target: ArtifactTarget) -> Result<Value, TaskError> {
    let rows = parts::parse_slice(call)?;
    let mut result = match target.resolve(access).await? {
        ArtifactTarget::Body(bound) => {
            let mut result = match rows {
                Some(rows) => parts::load_rows(access, &bound, rows).await?,
                None => json!({"data": parts::load_value(access, &bound).await?}),
            };
            add_reference_fields(&mut result, &bound.reference);
            return Ok(result);
        }
        ArtifactTarget::File(file) => {
            let data = files::get(&file).await?;
            json!({"data": data, "uri": format!("file://{}", file.display())})
        }
        ArtifactTarget::Value(data) => json!({"data": data}),
        ArtifactTarget::Address(_) | ArtifactTarget::Object(_) | ArtifactTarget::Nats(_) => {
            unreachable!("addresses are resolved above")
        }
    };
    result["size_bytes"] = result["data"].to_string().len().into();
    if let Some(rows) = rows {
        let cut = parts::slice_list(&result["data"], rows)?;
        if let (Some(all), Value::Object(cut)) = (result.as_object_mut(), cut) {
            all.extend(cut);
        }
    }
    Ok(result)
}

fn add_reference_fields(result: &mut Value, reference: &ResultRef) {
    result["uri"] = reference.uri.as_str().into();
    result["size_bytes"] = reference.meta.bytes.into();
    result["store"] = reference.store.as_str().into();
    result["sha256"] = reference.meta.sha256.as_str().into();
}

/// Stores `data` as a result, whatever its size; it becomes the task's result.
async fn put(call: &Call, target: Option<ArtifactTarget>) -> Result<Outcome, TaskError> {
    let data = call.fields.get("data");
    let data = data.ok_or_else(|| call.missing_key_error("data", "set it to the value to store"))?;
    let compression = match call.field("compress") {
        None | Some(Value::Bool(false)) => None,
        Some(Value::Bool(true)) => Some("gzip"),
        Some(Value::String(text)) => Some(text.as_str()),
        Some(other) => {
            return Err(call.wrong_type_error("compress", "true, false, gzip or zstd", other));
        }
    };
    match target {
        Some(ArtifactTarget::File(_)) if compression.is_some() => {
            let message = "`compress` is only supported for stored results, not for files";
            Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "compress"))
        }
        Some(ArtifactTarget::File(file)) => files::put(&file, data).await.map(Outcome::ok),
        Some(_) => {
            let message = "`put` assigns the address of a stored result; `uri` can only be a file:// URI";
            Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "uri"))
        }
        None => {
            let mut writer = call.result_writer.clone().ok_or_else(no_access_error)?;
            if let Some(compression) = compression {
                writer.control.compression = Some(compression.into());
            }
            let text = data.to_string();
            let written = writer.write(&mut text.as_bytes()).await;
            let mut reference = written.map_err(|error| store_error(&error))?;
            let bytes = reference.meta.bytes;
            let uri = reference.uri.clone();
            reference.extracted.insert("uri".to_owned(), uri.into());
            reference.extracted.insert("size_bytes".to_owned(), bytes.into());
            Ok(stored_outcome(reference))
        }
    }
}

async fn list(access: &ResultAccess, target: Option<ArtifactTarget>) -> Result<Value, TaskError> {
    let uri = match target {
        None => format!("noetl://execution/{}", access.execution),
        Some(ArtifactTarget::Address(uri)) => uri,
        Some(ArtifactTarget::File(dir)) => return files::list(&dir).await,
        Some(_) => {
            let message = "`list` requires a run, noetl://execution/<id>, or a directory, file://…";
            return Err(TaskError::new(ErrorKind::Schema, "REFERENCE_INVALID", message));
        }
    };
    if let ArtifactTarget::Value(Value::Array(data)) = ArtifactTarget::Address(uri).resolve(access).await? {
        return Ok(json!({"count": data.len(), "data": data}));
    }
    let message = "the address refers to a single result; `list` requires noetl://execution/<id> or …/step/<name>";
    let error = TaskError::new(ErrorKind::Schema, "REFERENCE_INVALID", message);
    Err(error)
}

/// Releases a stored result. Its bytes are deleted by the next garbage collection that finds no other reference to
/// them.
async fn delete(access: &ResultAccess, target: ArtifactTarget) -> Result<Value, TaskError> {
    let reference = match target.resolve(access).await? {
        ArtifactTarget::File(file) => return files::delete(&file).await,
        ArtifactTarget::Value(_) => {
            let message = "cannot delete this result: it is stored in the event log, which is append-only";
            return Err(TaskError::new(ErrorKind::ClientError, "REFERENCE_INVALID", message));
        }
        ArtifactTarget::Body(bound) => bound.reference,
        ArtifactTarget::Address(_) | ArtifactTarget::Object(_) | ArtifactTarget::Nats(_) => {
            unreachable!("addresses are resolved above")
        }
    };
    let own = format!("noetl://execution/{}/", access.execution);
    if !reference.uri.starts_with(&own) {
        let message = format!(
            "`{}` belongs to another run; only that run can delete it",
            reference.uri
        );
        return Err(TaskError::new(ErrorKind::ClientError, "REFERENCE_FOREIGN", message));
    }
    let mut released = Map::from_iter([
        ("kind".to_owned(), Value::from(model::result_ref::RELEASED_KIND)),
        ("deleted".to_owned(), true.into()),
    ]);
    released.insert("uri".to_owned(), reference.uri.into());
    released.insert("size_bytes".to_owned(), reference.meta.bytes.into());
    Ok(Value::Object(released))
}
