//! Request bodies: JSON, text, form or multipart files. The bytes are built once, so a redirect can send them again.

use std::path::PathBuf;

use bytes::Bytes;
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::IN_MEMORY_BYTES_MAX;
use reqwest::Url;
use serde_json::{Map, Value};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::call::Call;
use crate::objects::check_allowed;
use crate::regular_file;
use crate::value_text::text_or_empty;

/// Mutually exclusive keys; `files` can be combined with `form` or `data`, if that is a map.
const BODY_KEYS: [&str; 5] = ["json", "payload", "body", "data", "form"];

/// Body bytes and their content type.
#[derive(Debug, Clone)]
pub(crate) struct RequestBody {
    pub(crate) bytes: Bytes,
    pub(crate) content_type: Option<String>,
}

/// Builds the request body of a call, if it has one.
pub(crate) async fn build_body(
    call: &Call,
    content_type: Option<&str>,
    forbidden: &[PathBuf],
) -> Result<Option<RequestBody>, TaskError> {
    let present_keys: Vec<&str> = BODY_KEYS.into_iter().filter(|key| call.field(key).is_some()).collect();
    if let [first, second, ..] = present_keys[..] {
        return Err(invalid_body_error(format!(
            "`{first}` and `{second}` are mutually exclusive: a request has one body"
        )));
    }
    let fields = present_keys.first().and_then(|key| call.field(key));
    if let Some(files) = call.field("files") {
        let Value::Object(files) = files else {
            return Err(call.wrong_type_error("files", "a map of names to files", files));
        };
        let fields = match (present_keys.first(), fields) {
            (_, None) => None,
            (_, Some(Value::Object(fields))) => Some(fields),
            (key, Some(other)) => {
                let key = key.copied().unwrap_or_default();
                return Err(call.wrong_type_error(key, "a map if there are `files`", other));
            }
        };
        let parts = read_parts(call, files, fields, forbidden).await?;
        return Ok(Some(write_multipart(&parts)));
    }
    let (Some(key), Some(value)) = (present_keys.first(), fields) else {
        return Ok(None);
    };
    let is_form = content_type.is_some_and(|t| t.starts_with("application/x-www-form-urlencoded"));
    match (*key, value) {
        ("form", Value::Object(map)) => Ok(Some(form_body(map))),
        ("form", other) => Err(call.wrong_type_error("form", "a map", other)),
        ("body" | "data" | "payload", Value::String(text)) => Ok(Some(RequestBody {
            bytes: Bytes::from(text.clone()),
            content_type: Some("text/plain; charset=utf-8".to_owned()),
        })),
        ("body" | "data" | "payload", Value::Object(map)) if is_form => Ok(Some(form_body(map))),
        (_, value) => Ok(Some(RequestBody {
            bytes: Bytes::from(value.to_string()),
            content_type: Some("application/json".to_owned()),
        })),
    }
}

/// Flattens a map into pairs: a list repeats its name, null is left out.
pub(crate) fn to_pairs(map: &Map<String, Value>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, value) in map {
        match value {
            Value::Array(items) => {
                pairs.extend(items.iter().map(|item| (name.clone(), text_or_empty(item))));
            }
            Value::Null => {}
            other => pairs.push((name.clone(), text_or_empty(other))),
        }
    }
    pairs
}

/// Form-encodes pairs.
pub(crate) fn encode_form<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)]) -> String {
    let mut url = Url::parse("http://form/").expect("a constant URL");
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}

fn form_body(map: &Map<String, Value>) -> RequestBody {
    RequestBody {
        bytes: Bytes::from(encode_form(&to_pairs(map))),
        content_type: Some("application/x-www-form-urlencoded".to_owned()),
    }
}

struct MultipartPart {
    name: String,
    filename: Option<String>,
    content_type: Option<String>,
    bytes: Vec<u8>,
}

async fn read_parts(
    call: &Call,
    files: &Map<String, Value>,
    fields: Option<&Map<String, Value>>,
    forbidden: &[PathBuf],
) -> Result<Vec<MultipartPart>, TaskError> {
    let mut parts = Vec::new();
    if let Some(fields) = fields {
        for (name, value) in to_pairs(fields) {
            parts.push(MultipartPart {
                name,
                filename: None,
                content_type: None,
                bytes: value.into_bytes(),
            });
        }
    }
    for (name, file) in files {
        parts.push(read_file_part(call, name, file, forbidden).await?);
    }
    Ok(parts)
}

async fn read_file_part(
    call: &Call,
    name: &str,
    file: &Value,
    forbidden: &[PathBuf],
) -> Result<MultipartPart, TaskError> {
    let text = |key: &str| file.get(key).and_then(Value::as_str);
    let path = file.as_str().or_else(|| text("path"));
    let (bytes, default_name) = if let Some(path) = path {
        let full = check_allowed(call.resolve_path(path), forbidden)?;
        let bytes = regular_file::read_regular(&full, IN_MEMORY_BYTES_MAX)
            .await
            .map_err(|error| {
                let message = format!("`files.{name}`: `{}`: {error}", full.display());
                TaskError::new(ErrorKind::NotFound, "FILE_NOT_READABLE", message)
            })?;
        let base = full.file_name().map(|n| n.to_string_lossy().into_owned());
        (bytes, base)
    } else if let Some(content) = file.get("content") {
        (text_or_empty(content).into_bytes(), None)
    } else if let Some(encoded) = text("content_base64") {
        let bytes = STANDARD.decode(encoded).map_err(|error| {
            invalid_body_error(format!("`files.{name}.content_base64` is not valid base64: {error}"))
        })?;
        (bytes, None)
    } else {
        return Err(invalid_body_error(format!(
            "`files.{name}` needs `path`, `content` or `content_base64`"
        )));
    };
    Ok(MultipartPart {
        name: name.to_owned(),
        filename: text("filename")
            .map(str::to_owned)
            .or(default_name)
            .or_else(|| Some(name.to_owned())),
        content_type: text("content_type").map(str::to_owned),
        bytes,
    })
}

fn write_multipart(parts: &[MultipartPart]) -> RequestBody {
    let boundary = choose_boundary(parts);
    let mut bytes = Vec::new();
    for part in parts {
        let mut head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"{}\"",
            escape_quotes(&part.name)
        );
        if let Some(filename) = &part.filename {
            head.push_str(&format!("; filename=\"{}\"", escape_quotes(filename)));
            let kind = part.content_type.as_deref();
            let kind = escape_quotes(kind.unwrap_or("application/octet-stream"));
            head.push_str(&format!("\r\ncontent-type: {kind}"));
        }
        head.push_str("\r\n\r\n");
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(&part.bytes);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    RequestBody {
        bytes: Bytes::from(bytes),
        content_type: Some(format!("multipart/form-data; boundary={boundary}")),
    }
}

/// A boundary that occurs in none of the parts.
fn choose_boundary(parts: &[MultipartPart]) -> String {
    let mut number = 0_u64;
    loop {
        let boundary = format!("noetl-part-{number:08x}");
        let marker = boundary.as_bytes();
        let is_in_use = parts
            .iter()
            .any(|part| part.bytes.windows(marker.len()).any(|w| w == marker));
        if !is_in_use {
            return boundary;
        }
        number += 1;
    }
}

fn escape_quotes(text: &str) -> String {
    text.replace('"', "%22").replace(['\r', '\n'], " ")
}

fn invalid_body_error(message: String) -> TaskError {
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message)
}
