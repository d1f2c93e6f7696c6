//! Runs one `s3` or `gcs` call.

use std::time::Duration;

use async_trait::async_trait;
use model::duration;
use model::outcome::{ErrorKind, Outcome, TaskError};
use results::Listed;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::address::{Address, Place, Reach, shown, told};
use super::{files, get, put};
use crate::call::{Call, LogSink, Tool, cancelled, elapsed, timed_out};

/// Default number of objects in a listing.
const LISTED: u64 = 1_000;
/// Maximum number of objects in a listing.
const LISTED_MAX: u64 = 100_000;
/// Default validity of a signed URL.
const SIGNED: Duration = Duration::from_secs(3600);
/// Maximum validity of a signed URL: one week.
const SIGNED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The `s3` and `gcs` tools.
pub(crate) struct Objects {
    reach: Reach,
}

impl Objects {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { reach }
    }

    async fn run(&self, call: &Call) -> Result<Outcome, TaskError> {
        let place = self.place(call).await?;
        let action = call.text("action")?.unwrap_or("get");
        act(call, action, &place, &self.reach).await
    }

    async fn place(&self, call: &Call) -> Result<Place, TaskError> {
        let example = match call.kind.as_str() {
            "gcs" => "`gs://bucket/key`, or `file:///folder/file`",
            _ => "`s3://bucket/key`, or `file:///folder/file`",
        };
        let uri = call
            .text("uri")?
            .ok_or_else(|| call.missing("uri", example))?;
        let address = Address::read(call, uri);
        let is_own = match &address {
            Some(Address::S3 { .. }) => call.kind != "gcs",
            Some(Address::Gcs { .. }) => call.kind != "s3",
            Some(Address::File(_)) => true,
            None => false,
        };
        if let Some(address) = address.filter(|_| is_own) {
            address.open(call.field("auth"), &self.reach).await
        } else {
            let message = format!(
                "`{uri}` is not a valid URI for a `{}` task; use {example}",
                call.kind
            );
            Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with("key", "uri"))
        }
    }
}

#[async_trait]
impl Tool for Objects {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, _log: &dyn LogSink) -> Outcome {
        let limit = call.timeout.total;
        let done = tokio::select! {
            biased;
            done = self.run(&call) => done,
            () = stop.cancelled() => Err(cancelled()),
            limit = elapsed(limit) => Err(timed_out(limit)),
        };
        done.unwrap_or_else(Outcome::error)
    }
}

/// Runs the action of a task on an object.
pub(crate) async fn act(
    call: &Call,
    action: &str,
    place: &Place,
    reach: &Reach,
) -> Result<Outcome, TaskError> {
    match action {
        "get" => return get::get(call, place, reach).await,
        "put" => put_object(call, place, reach).await,
        "head" => place.head().await.map(|found| shown(&found)),
        "list" => list(call, place).await,
        "delete" => {
            let deleted = place.delete().await?;
            Ok(json!({"uri": place.uri(), "deleted": deleted}))
        }
        "presign" => presign(call, place).await,
        other => {
            let message =
                format!("invalid `action: {other}`; use get, put, head, list, delete or presign");
            Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with("key", "action"))
        }
    }
    .map(Outcome::ok)
}

async fn put_object(call: &Call, place: &Place, reach: &Reach) -> Result<Value, TaskError> {
    let content = put::content(call, reach).await?;
    let found = put::put(place, content, call.text("content_type")?).await?;
    Ok(shown(&found))
}

async fn list(call: &Call, place: &Place) -> Result<Value, TaskError> {
    let limit = match call.field("limit") {
        None => LISTED,
        Some(value) => {
            let wanted = format!("a number from 1 to {LISTED_MAX}");
            let limit = value
                .as_u64()
                .filter(|limit| (1..=LISTED_MAX).contains(limit));
            limit.ok_or_else(|| call.wrong_type("limit", &wanted, value))?
        }
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let after = call.text("after")?;
    let listed = match place {
        Place::Object { bucket, key } => {
            // `next` of a listing is a URI.
            let begin = bucket.uri("");
            let after = after.map(|after| after.strip_prefix(begin.as_str()).unwrap_or(after));
            let listed = bucket.list(key, after, limit).await;
            listed.map_err(|error| told(&error))?
        }
        Place::File(file) => files::list(file, after, limit).await?,
    };
    let Listed { objects, has_more } = listed;
    let next = objects
        .last()
        .filter(|_| has_more)
        .map(|last| last.uri.clone());
    let shown: Vec<Value> = objects.iter().map(shown).collect();
    Ok(json!({"uri": place.uri(), "count": shown.len(), "objects": shown, "next": next}))
}

async fn presign(call: &Call, place: &Place) -> Result<Value, TaskError> {
    let is_put = match call.text("method")?.map(str::to_ascii_uppercase).as_deref() {
        None | Some("GET") => false,
        Some("PUT") => true,
        Some(other) => return Err(call.wrong_type("method", "GET or PUT", &Value::from(other))),
    };
    let valid = match call.field("expires") {
        None => SIGNED,
        Some(value) => {
            let valid =
                duration::parse(value).filter(|valid| !valid.is_zero() && *valid <= SIGNED_MAX);
            valid
                .ok_or_else(|| call.wrong_type("expires", "a duration of at most 7 days", value))?
        }
    };
    let Place::Object { bucket, key } = place else {
        let message = "`presign` is only supported for objects in buckets, not for files";
        return Err(TaskError::new(
            ErrorKind::ClientError,
            "TOOL_INPUT",
            message,
        ));
    };
    let url = bucket.presign(key, is_put, valid).await;
    let url = url.map_err(|error| told(&error))?;
    Ok(json!({"uri": place.uri(), "url": url, "expires_in": valid.as_secs()}))
}
