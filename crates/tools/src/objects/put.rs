//! Content to write: a value, a file, or a stored result, which is streamed.

use bytes::Bytes;
use futures_util::StreamExt as _;
use language::template::BodyPath;
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::PathSegment;
use model::result_ref::{IN_MEMORY_BYTES_MAX, ResolvedRef, ResultRef, SCHEME};
use results::{BodySource, ByteStream, ObjectSummary};
use serde_json::{Map, Value};
use tokio_util::io::StreamReader;

use super::address::{ObjectAccess, ObjectLocation, bucket_task_error};
use super::files::{self, check_allowed};
use crate::call::{Call, read_error};

/// Content to write.
pub enum ObjectContent {
    /// All bytes, with their content type.
    Bytes(Bytes, &'static str),
    /// A stream to read to its end.
    Stream(Box<dyn tokio::io::AsyncRead + Send + Unpin>, Option<&'static str>),
}

const JSON_TYPE: &str = "application/json";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// Content from `data` or `source`.
pub(super) async fn read_content(call: &Call, access: &ObjectAccess) -> Result<ObjectContent, TaskError> {
    if let Some(data) = call.fields.get("data") {
        return Ok(value_content(data));
    }
    match call.field("source") {
        None => Err(call.missing_key_error("source", "set it to the data, a file:// URI, or a step's result")),
        Some(Value::String(text)) if text.starts_with("file://") => {
            let path = text.strip_prefix("file://").unwrap_or(text);
            let file = check_allowed(call.resolve_path(path), &access.forbidden)?;
            let file_stream = files::get(&file, None).await?;
            Ok(ObjectContent::Stream(
                Box::new(StreamReader::new(file_stream.chunks)),
                None,
            ))
        }
        Some(Value::String(text)) if text.starts_with(SCHEME) => {
            let access = call.access.as_ref().ok_or_else(no_access_error)?;
            match access.resolver.resolve(text).await? {
                ResolvedRef::Body(reference) => open_body_content(call, &BodyPath::whole_body(*reference)).await,
                ResolvedRef::Value(value) => Ok(value_content(&value.to_value())),
            }
        }
        Some(Value::Object(map)) => match body_path(map) {
            Some(bound) => open_body_content(call, &bound).await,
            None => Ok(value_content(&Value::Object(map.clone()))),
        },
        Some(other) => Ok(value_content(other)),
    }
}

fn body_path(map: &Map<String, Value>) -> Option<BodyPath> {
    Call::body_path(map).or_else(|| ResultRef::from_map(map).map(BodyPath::whole_body))
}

fn value_content(data: &Value) -> ObjectContent {
    match data {
        Value::String(text) => ObjectContent::Bytes(text.clone().into(), TEXT_TYPE),
        other => ObjectContent::Bytes(other.to_string().into(), JSON_TYPE),
    }
}

/// A stored result, or a value inside it; only that value is loaded.
async fn open_body_content(call: &Call, body_path: &BodyPath) -> Result<ObjectContent, TaskError> {
    let access = call.access.as_ref().ok_or_else(no_access_error)?;
    let reference = &body_path.reference;
    let to_error = |error: results::Error| read_error(&error, reference);
    let is_whole = body_path.paths.iter().all(Vec::is_empty);
    let is_json = reference.meta.content_type == JSON_TYPE;
    if !is_whole {
        let paths: Vec<Vec<PathSegment>> = body_path.paths.clone();
        let located = results::locate_value(&*access.body_store, reference, &paths).await;
        let located = located.map_err(to_error)?;
        let Some(located) = located else {
            return Ok(value_content(&Value::Null));
        };
        let body = access.body_store.read(reference, Some(located.range)).await;
        let body = body.map_err(to_error)?;
        if located.is_text {
            return text_content(body.chunks, reference).await;
        }
        return Ok(ObjectContent::Stream(
            Box::new(StreamReader::new(body.chunks)),
            Some(JSON_TYPE),
        ));
    }
    let body = access.body_store.read(reference, None).await.map_err(to_error)?;
    let kind = if is_json { JSON_TYPE } else { TEXT_TYPE };
    Ok(ObjectContent::Stream(
        Box::new(StreamReader::new(body.chunks)),
        Some(kind),
    ))
}

/// A string inside a stored result, without its quotes.
async fn text_content(mut chunks: ByteStream, reference: &ResultRef) -> Result<ObjectContent, TaskError> {
    let mut buffer = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| read_error(&results::Error::Interrupted(error), reference))?;
        buffer.extend_from_slice(&chunk);
        if buffer.len() as u64 > IN_MEMORY_BYTES_MAX {
            let message = "a text inside a result is too large to load into memory; store it as a separate result";
            return Err(TaskError::new(ErrorKind::Storage, "BODY_TOO_LARGE", message));
        }
    }
    Ok(value_content(&serde_json::from_slice(&buffer).unwrap_or_default()))
}

/// Writes the content.
pub async fn put_content(
    location: &ObjectLocation,
    content: ObjectContent,
    content_type: Option<&str>,
) -> Result<ObjectSummary, TaskError> {
    let (source, own);
    let mut stream;
    match content {
        ObjectContent::Bytes(bytes, kind) => (source, own) = (BodySource::Bytes(bytes), Some(kind)),
        ObjectContent::Stream(reader, kind) => {
            stream = reader;
            (source, own) = (BodySource::Stream(&mut stream), kind);
        }
    }
    let content_type = content_type.or(own);
    match location {
        ObjectLocation::Object { bucket, key } => {
            let put = bucket.put(key, source, content_type).await;
            put.map_err(|error| bucket_task_error(&error))
        }
        ObjectLocation::File(file) => files::put(file, source).await,
    }
}

fn no_access_error() -> TaskError {
    let message = "no result store is available";
    TaskError::new(ErrorKind::Unknown, "TOOL_INPUT", message)
}
