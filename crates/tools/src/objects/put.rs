//! Content to write: a value, a file, or a stored result, which is streamed.

use bytes::Bytes;
use futures_util::StreamExt as _;
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::{HELD_BYTES_MAX, Resolved, ResultRef, SCHEME};
use model::template::{Bound, Segment};
use results::{Found, Pieces, Source};
use serde_json::{Map, Value};
use tokio_util::io::StreamReader;

use super::address::{Place, Reach, told};
use super::files::{self, allowed};
use crate::call::{Call, not_read};

/// Content to write.
pub(crate) enum Content {
    /// All bytes, with their content type.
    Bytes(Bytes, &'static str),
    /// A stream to read to its end.
    Stream(
        Box<dyn tokio::io::AsyncRead + Send + Unpin>,
        Option<&'static str>,
    ),
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Content from `data` or `source`.
pub(super) async fn content(call: &Call, reach: &Reach) -> Result<Content, TaskError> {
    if let Some(data) = call.fields.get("data") {
        return Ok(value(data));
    }
    match call.field("source") {
        None => Err(call.missing(
            "source",
            "set it to the data, a file:// URI, or a step's result",
        )),
        Some(Value::String(text)) if text.starts_with("file://") => {
            let path = text.strip_prefix("file://").unwrap_or(text);
            let file = allowed(call.resolve(path), &reach.forbidden)?;
            let opened = files::get(&file, None).await?;
            Ok(Content::Stream(
                Box::new(StreamReader::new(opened.pieces)),
                None,
            ))
        }
        Some(Value::String(text)) if text.starts_with(SCHEME) => {
            let access = call.access.as_ref().ok_or_else(no_access)?;
            match access.references.look_up(text).await? {
                Resolved::Body(reference) => body(call, &Bound::whole(*reference)).await,
                Resolved::Value(found) => Ok(value(&found.value())),
            }
        }
        Some(Value::Object(map)) => match reference(map) {
            Some(bound) => body(call, &bound).await,
            None => Ok(value(&Value::Object(map.clone()))),
        },
        Some(other) => Ok(value(other)),
    }
}

fn reference(map: &Map<String, Value>) -> Option<Bound> {
    Call::bound(map).or_else(|| ResultRef::of(map).map(Bound::whole))
}

fn value(data: &Value) -> Content {
    match data {
        Value::String(text) => Content::Bytes(text.clone().into(), TEXT),
        other => Content::Bytes(other.to_string().into(), JSON),
    }
}

/// A stored result, or a value inside it; only that value is loaded.
async fn body(call: &Call, bound: &Bound) -> Result<Content, TaskError> {
    let access = call.access.as_ref().ok_or_else(no_access)?;
    let reference = &bound.reference;
    let failed = |error: results::Error| not_read(&error, reference);
    let is_whole = bound.paths.iter().all(Vec::is_empty);
    let is_json = reference.meta.content_type == JSON;
    if !is_whole {
        let paths: Vec<Vec<Segment>> = bound.paths.clone();
        let located = results::locate(&*access.bodies, reference, &paths).await;
        let located = located.map_err(failed)?;
        let Some(located) = located else {
            return Ok(value(&Value::Null));
        };
        let reading = access.bodies.read(reference, Some(located.range)).await;
        let reading = reading.map_err(failed)?;
        if located.is_text {
            return text(reading.pieces, reference).await;
        }
        return Ok(Content::Stream(
            Box::new(StreamReader::new(reading.pieces)),
            Some(JSON),
        ));
    }
    let reading = access.bodies.read(reference, None).await.map_err(failed)?;
    let kind = if is_json { JSON } else { TEXT };
    Ok(Content::Stream(
        Box::new(StreamReader::new(reading.pieces)),
        Some(kind),
    ))
}

/// A string inside a stored result, without its quotes.
async fn text(mut pieces: Pieces, reference: &ResultRef) -> Result<Content, TaskError> {
    let mut held = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece =
            piece.map_err(|error| not_read(&results::Error::Interrupted(error), reference))?;
        held.extend_from_slice(&piece);
        if held.len() as u64 > HELD_BYTES_MAX {
            let message = "a text inside a result is too large to load into memory; store it as a separate result";
            return Err(TaskError::new(
                ErrorKind::Storage,
                "BODY_TOO_LARGE",
                message,
            ));
        }
    }
    Ok(value(&serde_json::from_slice(&held).unwrap_or_default()))
}

/// Writes the content.
pub(crate) async fn put(
    place: &Place,
    content: Content,
    content_type: Option<&str>,
) -> Result<Found, TaskError> {
    let (source, own);
    let mut stream;
    match content {
        Content::Bytes(bytes, kind) => (source, own) = (Source::Bytes(bytes), Some(kind)),
        Content::Stream(reader, kind) => {
            stream = reader;
            (source, own) = (Source::Stream(&mut stream), kind);
        }
    }
    let content_type = content_type.or(own);
    match place {
        Place::Object { bucket, key } => {
            let put = bucket.put(key, source, content_type).await;
            put.map_err(|error| told(&error))
        }
        Place::File(file) => files::put(file, source).await,
    }
}

fn no_access() -> TaskError {
    let message = "no result store is available";
    TaskError::new(ErrorKind::Unknown, "TOOL_INPUT", message)
}
