//! Reads an object into a result: inline if small, else streamed to the result store.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use model::outcome::{ErrorKind, Outcome, Success, TaskError};
use results::{ObjectStream, ResultWriter, SpaceWatch};
use serde_json::{Map, Value};

use super::address::{ObjectAccess, ObjectLocation, bucket_task_error, to_json};
use super::files;
use crate::call::Call;
use crate::http::{BodyEncoding, BodyType, EnvelopeFields, SpooledBody, store_envelope};

/// Maximum size of an object that cannot be streamed to a store.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum size of an object that is streamed to the store.
const STREAMED_BYTES_MAX: u64 = 50 * 1024 * 1024 * 1024;

/// How to decode an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Auto,
    Json,
    Text,
    Binary,
}

impl Format {
    fn from_call(call: &Call) -> Result<Self, TaskError> {
        Ok(match call.text_field("format")? {
            None | Some("auto") => Self::Auto,
            Some("json") => Self::Json,
            Some("text" | "csv" | "ndjson") => Self::Text,
            Some("binary" | "base64") => Self::Binary,
            Some(other) => {
                let other = Value::from(other);
                return Err(call.wrong_type_error("format", "auto, json, text or binary", &other));
            }
        })
    }
}

/// Opens an object or file for reading.
pub async fn open_object(place: &ObjectLocation, range: Option<Range<u64>>) -> Result<ObjectStream, TaskError> {
    match place {
        ObjectLocation::Object { bucket, key } => {
            bucket.get(key, range).await.map_err(|error| bucket_task_error(&error))
        }
        ObjectLocation::File(file) => files::get(file, range).await,
    }
}

/// Gets an object.
pub(super) async fn get_object(
    call: &Call,
    place: &ObjectLocation,
    reach: &ObjectAccess,
) -> Result<Outcome, TaskError> {
    let format = Format::from_call(call)?;
    let range = parse_range(call)?;
    let is_part = range.is_some();
    let ObjectStream {
        summary: found,
        range,
        chunks: mut pieces,
    } = open_object(place, range).await?;
    let keeper = call.result_writer.as_ref().filter(|keeper| keeper.can_stream());
    let held_bytes_max = keeper.map_or(BUFFERED_BYTES_MAX, |_| call.inline_bytes_max);
    let mut before = match to_json(&found) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    if is_part {
        before.insert("range".to_owned(), vec![range.start, range.end].into());
    }
    let kind = body_type(&found.uri, found.content_type.as_deref());
    let mut held = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| broken_object_error(&found.uri, &error))?;
        held.extend_from_slice(&piece);
        if held.len() <= held_bytes_max {
            continue;
        }
        let Some(keeper) = keeper else {
            return Err(object_too_large_error(&found.uri, BUFFERED_BYTES_MAX as u64));
        };
        let mut spool = SpooledBody::create(&reach.scratch_dir, &SpaceWatch::default())?;
        let begun = std::mem::take(&mut held);
        spool.append(begun.into(), STREAMED_BYTES_MAX).await?;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| broken_object_error(&found.uri, &error))?;
            spool.append(piece, STREAMED_BYTES_MAX).await?;
        }
        return spooled_result(spool, format, kind, before, keeper).await;
    }
    buffered_result(&held, format, kind, before)
}

fn buffered_result(
    held: &[u8],
    format: Format,
    kind: BodyType,
    mut result: Map<String, Value>,
) -> Result<Outcome, TaskError> {
    let json = || serde_json::from_slice::<Value>(held);
    let text = || std::str::from_utf8(held).ok().map(Value::from);
    let lossy = || Value::String(String::from_utf8_lossy(held).into_owned());
    let data = match (format, kind) {
        (Format::Json, _) => Some(json().map_err(|error| not_json_error(&error.to_string()))?),
        (Format::Text, _) | (Format::Auto, BodyType::Text) => Some(lossy()),
        (Format::Auto, BodyType::Json | BodyType::Unknown) => json().ok().or_else(text),
        (Format::Binary, _) | (Format::Auto, BodyType::Binary) => None,
    };
    let data = data.unwrap_or_else(|| {
        result.insert("encoding".to_owned(), "base64".into());
        STANDARD.encode(held).into()
    });
    result.insert("data".to_owned(), data);
    Ok(Outcome::ok(Value::Object(result)))
}

async fn spooled_result(
    spool: SpooledBody,
    format: Format,
    kind: BodyType,
    before: Map<String, Value>,
    keeper: &ResultWriter,
) -> Result<Outcome, TaskError> {
    let form = match (format, kind) {
        (Format::Json, _) => {
            spool.check_json().map_err(|error| not_json_error(&error.to_string()))?;
            BodyEncoding::Json
        }
        (Format::Text, _) | (Format::Auto, BodyType::Text) => BodyEncoding::Text,
        (Format::Auto, BodyType::Json | BodyType::Unknown) if spool.check_json().is_ok() => BodyEncoding::Json,
        (Format::Auto, BodyType::Json | BodyType::Unknown) if spool.is_utf8() => BodyEncoding::Text,
        _ => BodyEncoding::Base64,
    };
    let encoding = if form == BodyEncoding::Base64 { "base64" } else { "none" };
    let after = Map::from_iter([("encoding".to_owned(), Value::from(encoding))]);
    let reference = store_envelope(EnvelopeFields { before, after }, form, spool, keeper).await?;
    Ok(Outcome::Ok(Success {
        reference: Some(Box::new(reference)),
        ..Success::default()
    }))
}

/// Type of an object, by its content type, else by its file extension.
fn body_type(uri: &str, content_type: Option<&str>) -> BodyType {
    let vague = ["application/octet-stream", "binary/octet-stream", "application/binary"];
    let said = content_type.filter(|said| !vague.contains(said)).unwrap_or("");
    let ending = uri.rsplit('.').next().unwrap_or("").to_ascii_lowercase();
    match (BodyType::from_content_type(&said.to_ascii_lowercase()), ending.as_str()) {
        (BodyType::Unknown, "json") => BodyType::Json,
        (BodyType::Unknown, "csv" | "txt" | "ndjson" | "jsonl" | "yaml" | "yml" | "xml") => BodyType::Text,
        (BodyType::Unknown, "parquet" | "gz" | "zst" | "zip" | "png" | "jpg" | "pdf") => BodyType::Binary,
        (said, _) => said,
    }
}

/// Bytes that `range` requests: `[a, b]` or `"a..b"`, without `b`.
fn parse_range(call: &Call) -> Result<Option<Range<u64>>, TaskError> {
    let Some(value) = call.field("range") else {
        return Ok(None);
    };
    let wrong = || call.wrong_type_error("range", "two numbers: [0, 100] or \"0..100\"", value);
    let (from, to) = match value {
        Value::Array(ends) => match ends.as_slice() {
            [from, to] => (from.as_u64(), to.as_u64()),
            _ => return Err(wrong()),
        },
        Value::String(text) => {
            let (from, to) = text.split_once("..").ok_or_else(wrong)?;
            let number = |text: &str, or: u64| match text.trim() {
                "" => Some(or),
                text => text.parse().ok(),
            };
            (number(from, 0), number(to, u64::MAX))
        }
        _ => return Err(wrong()),
    };
    match (from, to) {
        (Some(from), Some(to)) if from < to => Ok(Some(from..to)),
        _ => Err(wrong()),
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
