//! Reads an object into a result: inline if small, else streamed to the result store.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use model::outcome::{ErrorKind, Outcome, TaskError};
use results::{ObjectStream, ResultWriter, SpaceWatch};
use serde_json::{Map, Value};

use super::address::{ObjectAccess, ObjectLocation, bucket_task_error, to_json};
use super::files;
use crate::call::{Call, stored_outcome};
use crate::http::{BodyEncoding, BodyFormat, BodyType, EnvelopeFields, SpooledBody, store_envelope};

/// Maximum size of an object that cannot be streamed to a store.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum size of an object that is streamed to the store.
const STREAMED_BYTES_MAX: u64 = 50 * 1024 * 1024 * 1024;

/// How to decode an object.
fn body_format(call: &Call) -> Result<BodyFormat, TaskError> {
    Ok(match call.text_field("format")? {
        None | Some("auto") => BodyFormat::Auto,
        Some("json") => BodyFormat::Json,
        Some("text" | "csv" | "ndjson") => BodyFormat::Text,
        Some("binary" | "base64") => BodyFormat::Binary,
        Some(other) => {
            return Err(call.wrong_type_error("format", "auto, json, text or binary", &other.into()));
        }
    })
}

/// Opens an object or file for reading.
pub async fn open_object(location: &ObjectLocation, range: Option<Range<u64>>) -> Result<ObjectStream, TaskError> {
    match location {
        ObjectLocation::Object { bucket, key } => {
            bucket.get(key, range).await.map_err(|error| bucket_task_error(&error))
        }
        ObjectLocation::File(file) => files::get(file, range).await,
    }
}

/// Gets an object.
pub(super) async fn get_object(
    call: &Call,
    location: &ObjectLocation,
    access: &ObjectAccess,
) -> Result<Outcome, TaskError> {
    let format = body_format(call)?;
    let range = parse_range(call)?;
    let is_part = range.is_some();
    let ObjectStream {
        summary,
        range,
        mut chunks,
    } = open_object(location, range).await?;
    let writer = call.result_writer.as_ref().filter(|writer| writer.can_stream());
    let buffered_bytes_max = writer.map_or(BUFFERED_BYTES_MAX, |_| call.inline_bytes_max);
    let mut before = match to_json(&summary) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    if is_part {
        before.insert("range".to_owned(), vec![range.start, range.end].into());
    }
    let body_type = infer_body_type(&summary.uri, summary.content_type.as_deref());
    let mut buffer = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| broken_object_error(&summary.uri, &error))?;
        buffer.extend_from_slice(&chunk);
        if buffer.len() <= buffered_bytes_max {
            continue;
        }
        let Some(writer) = writer else {
            return Err(object_too_large_error(&summary.uri, BUFFERED_BYTES_MAX as u64));
        };
        let mut spool = SpooledBody::create(&access.scratch_dir, &SpaceWatch::default())?;
        let head = std::mem::take(&mut buffer);
        spool.append(head.into(), STREAMED_BYTES_MAX).await?;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| broken_object_error(&summary.uri, &error))?;
            spool.append(chunk, STREAMED_BYTES_MAX).await?;
        }
        return store_spooled_result(spool, format, body_type, before, writer).await;
    }
    buffered_result(&buffer, format, body_type, before)
}

fn buffered_result(
    buffer: &[u8],
    format: BodyFormat,
    body_type: BodyType,
    mut result: Map<String, Value>,
) -> Result<Outcome, TaskError> {
    let json = || serde_json::from_slice::<Value>(buffer);
    let text = || std::str::from_utf8(buffer).ok().map(Value::from);
    let lossy = || Value::String(String::from_utf8_lossy(buffer).into_owned());
    let data = match (format, body_type) {
        (BodyFormat::Json, _) => Some(json().map_err(|error| not_json_error(&error.to_string()))?),
        (BodyFormat::Text, _) | (BodyFormat::Auto, BodyType::Text) => Some(lossy()),
        (BodyFormat::Auto, BodyType::Json | BodyType::Unknown) => json().ok().or_else(text),
        (BodyFormat::Binary, _) | (BodyFormat::Auto, BodyType::Binary) => None,
    };
    let data = data.unwrap_or_else(|| {
        result.insert("encoding".to_owned(), "base64".into());
        STANDARD.encode(buffer).into()
    });
    result.insert("data".to_owned(), data);
    Ok(Outcome::ok(Value::Object(result)))
}

async fn store_spooled_result(
    spool: SpooledBody,
    format: BodyFormat,
    body_type: BodyType,
    before: Map<String, Value>,
    writer: &ResultWriter,
) -> Result<Outcome, TaskError> {
    let encoding = match (format, body_type) {
        (BodyFormat::Json, _) => {
            spool.check_json().map_err(|error| not_json_error(&error.to_string()))?;
            BodyEncoding::Json
        }
        (BodyFormat::Text, _) | (BodyFormat::Auto, BodyType::Text) => BodyEncoding::Text,
        (BodyFormat::Auto, BodyType::Json | BodyType::Unknown) => spool.detect_encoding(),
        (BodyFormat::Auto, BodyType::Binary) | (BodyFormat::Binary, _) => BodyEncoding::Base64,
    };
    let name = if encoding == BodyEncoding::Base64 {
        "base64"
    } else {
        "none"
    };
    let after = Map::from_iter([("encoding".to_owned(), Value::from(name))]);
    let reference = store_envelope(EnvelopeFields { before, after }, encoding, spool, writer).await?;
    Ok(stored_outcome(reference))
}

/// Type of an object, by its content type, else by its file extension.
fn infer_body_type(uri: &str, content_type: Option<&str>) -> BodyType {
    let vague = ["application/octet-stream", "binary/octet-stream", "application/binary"];
    let content_type = content_type
        .filter(|content_type| !vague.contains(content_type))
        .unwrap_or("");
    let ending = uri.rsplit('.').next().unwrap_or("").to_ascii_lowercase();
    match (
        BodyType::from_content_type(&content_type.to_ascii_lowercase()),
        ending.as_str(),
    ) {
        (BodyType::Unknown, "json") => BodyType::Json,
        (BodyType::Unknown, "csv" | "txt" | "ndjson" | "jsonl" | "yaml" | "yml" | "xml") => BodyType::Text,
        (BodyType::Unknown, "parquet" | "gz" | "zst" | "zip" | "png" | "jpg" | "pdf") => BodyType::Binary,
        (body_type, _) => body_type,
    }
}

/// Bytes that `range` requests: `[a, b]` or `"a..b"`, without `b`.
fn parse_range(call: &Call) -> Result<Option<Range<u64>>, TaskError> {
    let Some(value) = call.field("range") else {
        return Ok(None);
    };
    let invalid = || call.wrong_type_error("range", "two numbers: [0, 100] or \"0..100\"", value);
    let (from, to) = match value {
        Value::Array(ends) => match ends.as_slice() {
            [from, to] => (from.as_u64(), to.as_u64()),
            _ => return Err(invalid()),
        },
        Value::String(text) => {
            let (from, to) = text.split_once("..").ok_or_else(invalid)?;
            let number = |text: &str, or: u64| match text.trim() {
                "" => Some(or),
                text => text.parse().ok(),
            };
            (number(from, 0), number(to, u64::MAX))
        }
        _ => return Err(invalid()),
    };
    match (from, to) {
        (Some(from), Some(to)) if from < to => Ok(Some(from..to)),
        _ => Err(invalid()),
    }
}

fn not_json_error(problem: &str) -> TaskError {
    let message = format!("the object is not valid JSON: {problem}");
    TaskError::new(ErrorKind::Parse, "OBJECT_JSON", message)
}

fn broken_object_error(uri: &str, error: &std::io::Error) -> TaskError {
    let message = format!("reading `{uri}` failed: {error}");
    TaskError::new(ErrorKind::Connection, "OBJECT_UNAVAILABLE", message)
}

fn object_too_large_error(uri: &str, bytes_max: u64) -> TaskError {
    let message = format!("`{uri}` exceeds the limit of {bytes_max} bytes; read a part of it with `range`");
    TaskError::new(ErrorKind::Storage, "BODY_TOO_LARGE", message)
}
