//! Runs one `s3` or `gcs` call.

use std::time::Duration;

use async_trait::async_trait;
use model::duration;
use model::outcome::{ErrorKind, Outcome, TaskError};
use results::ObjectPage;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::address::{ObjectAccess, ObjectAddress, ObjectLocation, bucket_task_error, to_json};
use super::{files, get, put};
use crate::call::{Call, LogSink, Tool, ToolResult, run_within_limit};

/// Default number of objects in a listing.
const LISTED_DEFAULT: u64 = 1_000;
/// Maximum number of objects in a listing.
const LISTED_MAX: u64 = 100_000;
/// Default validity of a signed URL.
const SIGNED_VALIDITY: Duration = Duration::from_secs(3600);
/// Maximum validity of a signed URL: one week.
const SIGNED_VALIDITY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The `s3` and `gcs` tools.
pub(crate) struct ObjectsTool {
    object_access: ObjectAccess,
}

impl ObjectsTool {
    pub(crate) fn new(object_access: ObjectAccess) -> Self {
        Self { object_access }
    }

    async fn run_call(&self, call: &Call) -> Result<Outcome, TaskError> {
        let location = self.open_location(call).await?;
        let action = call.text_field("action")?.unwrap_or("get");
        run_action(call, action, &location, &self.object_access).await
    }

    async fn open_location(&self, call: &Call) -> Result<ObjectLocation, TaskError> {
        let example = match call.kind.as_str() {
            "gcs" => "`gs://bucket/key`, or `file:///folder/file`",
            _ => "`s3://bucket/key`, or `file:///folder/file`",
        };
        let uri = call
            .text_field("uri")?
            .ok_or_else(|| call.missing_key_error("uri", example))?;
        let address = ObjectAddress::parse(call, uri);
        let is_own = match &address {
            Some(ObjectAddress::S3 { .. }) => call.kind != "gcs",
            Some(ObjectAddress::Gcs { .. }) => call.kind != "s3",
            Some(ObjectAddress::File(_)) => true,
            None => false,
        };
        if let Some(address) = address.filter(|_| is_own) {
            address.open(call.field("auth"), &self.object_access).await
        } else {
            let message = format!("`{uri}` is not a valid URI for a `{}` task; use {example}", call.kind);
            Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "uri"))
        }
    }
}

#[async_trait]
impl Tool for ObjectsTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        run_within_limit(call.timeout.total, stop, Box::pin(self.run_call(&call))).await
    }
}

/// Runs the action of a task on an object.
pub(crate) async fn run_action(
    call: &Call,
    action: &str,
    location: &ObjectLocation,
    access: &ObjectAccess,
) -> Result<Outcome, TaskError> {
    match action {
        "get" => return get::get_object(call, location, access).await,
        "put" => put_object(call, location, access).await,
        "head" => location.head().await.map(|summary| to_json(&summary)),
        "list" => list_objects(call, location).await,
        "delete" => {
            let deleted = location.delete().await?;
            Ok(json!({"uri": location.uri(), "deleted": deleted}))
        }
        "presign" => presign_object(call, location).await,
        other => {
            let message = format!("invalid `action: {other}`; use get, put, head, list, delete or presign");
            Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "action"))
        }
    }
    .map(Outcome::ok)
}

async fn put_object(call: &Call, location: &ObjectLocation, access: &ObjectAccess) -> Result<Value, TaskError> {
    let content = put::read_content(call, access).await?;
    let summary = put::put_content(location, content, call.text_field("content_type")?).await?;
    Ok(to_json(&summary))
}

async fn list_objects(call: &Call, location: &ObjectLocation) -> Result<Value, TaskError> {
    let limit = match call.field("limit") {
        None => LISTED_DEFAULT,
        Some(value) => {
            let expected = format!("a number from 1 to {LISTED_MAX}");
            let limit = value.as_u64().filter(|limit| (1..=LISTED_MAX).contains(limit));
            limit.ok_or_else(|| call.wrong_type_error("limit", &expected, value))?
        }
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let after = call.text_field("after")?;
    let listed = match location {
        ObjectLocation::Object { bucket, key } => {
            // `next` of a listing is a URI.
            let bucket_prefix = bucket.uri("");
            let after = after.map(|after| after.strip_prefix(bucket_prefix.as_str()).unwrap_or(after));
            let listed = bucket.list(key, after, limit).await;
            listed.map_err(|error| bucket_task_error(&error))?
        }
        ObjectLocation::File(file) => files::list(file, after, limit).await?,
    };
    let ObjectPage { objects, has_more } = listed;
    let next = objects.last().filter(|_| has_more).map(|last| last.uri.clone());
    let listed: Vec<Value> = objects.iter().map(to_json).collect();
    Ok(json!({"uri": location.uri(), "count": listed.len(), "objects": listed, "next": next}))
}

async fn presign_object(call: &Call, location: &ObjectLocation) -> Result<Value, TaskError> {
    let is_put = match call.text_field("method")?.map(str::to_ascii_uppercase).as_deref() {
        None | Some("GET") => false,
        Some("PUT") => true,
        Some(other) => {
            return Err(call.wrong_type_error("method", "GET or PUT", &Value::from(other)));
        }
    };
    let valid = match call.field("expires") {
        None => SIGNED_VALIDITY,
        Some(value) => {
            let valid = duration::parse(value).filter(|valid| !valid.is_zero() && *valid <= SIGNED_VALIDITY_MAX);
            valid.ok_or_else(|| call.wrong_type_error("expires", "a duration of at most 7 days", value))?
        }
    };
    let ObjectLocation::Object { bucket, key } = location else {
        let message = "`presign` is only supported for objects in buckets, not for files";
        return Err(TaskError::new(ErrorKind::ClientError, "TOOL_INPUT", message));
    };
    let url = bucket.presign(key, is_put, valid).await;
    let url = url.map_err(|error| bucket_task_error(&error))?;
    Ok(json!({"uri": location.uri(), "url": url, "expires_in": valid.as_secs()}))
}
