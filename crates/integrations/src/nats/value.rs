//! Converts between values and message payloads: JSON, text or base64.

use async_nats::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use tools::{Call, plain_text};

/// Encoding of a value in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NatsEncoding {
    /// Writes text as it is and anything else as JSON; reads JSON, else text, else base64.
    Auto,
    Json,
    Text,
    Base64,
}

impl NatsEncoding {
    /// Reads the encoding of a call.
    pub(crate) fn from_call(call: &Call) -> Result<Self, TaskError> {
        match call.text_field("encoding")? {
            None | Some("auto") => Ok(Self::Auto),
            Some("json") => Ok(Self::Json),
            Some("text") => Ok(Self::Text),
            Some("base64" | "binary") => Ok(Self::Base64),
            Some(other) => {
                let message = format!("invalid `encoding: {other}`; use auto, json, text or base64");
                Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "encoding"))
            }
        }
    }

    /// Encodes a value.
    pub(crate) fn encode(self, call: &Call, value: &Value) -> Result<Bytes, TaskError> {
        match (self, value) {
            (Self::Base64, Value::String(text)) => {
                let decoded = STANDARD.decode(text.trim());
                decoded.map(Bytes::from).map_err(|error| {
                    let message = format!("`value` is not valid base64: {error}");
                    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "value")
                })
            }
            (Self::Base64, other) => Err(call.wrong_type_error("value", "base64 text", other)),
            (Self::Auto | Self::Text, Value::String(text)) => Ok(Bytes::from(text.clone())),
            (Self::Auto | Self::Text | Self::Json, value) => Ok(Bytes::from(value.to_string())),
        }
    }

    /// Adds a decoded payload to the map under `name`, with `encoding` if it is base64.
    pub(crate) fn decode_into(self, map: &mut Map<String, Value>, name: &str, bytes: &[u8]) -> Result<(), TaskError> {
        let text = || Value::from(String::from_utf8_lossy(bytes).into_owned());
        let value = match self {
            Self::Json => serde_json::from_slice(bytes).map_err(|error| {
                let message = format!("the message is not valid JSON: {error}");
                TaskError::new(ErrorKind::Parse, "NATS_JSON", message)
            })?,
            Self::Text => text(),
            Self::Auto => match (serde_json::from_slice(bytes), std::str::from_utf8(bytes)) {
                (Ok(value), _) => value,
                (_, Ok(_)) => text(),
                _ => return Self::Base64.decode_into(map, name, bytes),
            },
            Self::Base64 => {
                map.insert("encoding".to_owned(), "base64".into());
                STANDARD.encode(bytes).into()
            }
        };
        map.insert(name.to_owned(), value);
        Ok(())
    }
}

/// Headers of a call for NATS.
pub(crate) fn to_header_map(call: &Call) -> Result<HeaderMap, TaskError> {
    let mut headers = HeaderMap::new();
    for (name, value) in call.map_field("headers")?.into_iter().flatten() {
        if value.is_null() {
            continue;
        }
        let text = plain_text(value);
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        if !is_name || text.contains(['\r', '\n']) {
            let message = format!("`headers.{name}` is not a valid header");
            return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "headers"));
        }
        headers.append(name.as_str(), text.as_str());
    }
    Ok(headers)
}

/// Headers as a map; values of a repeated header are a list.
pub(crate) fn headers_to_json(headers: &HeaderMap) -> Value {
    let mut map = Map::new();
    for (name, values) in headers.iter() {
        let mut values: Vec<Value> = values.iter().map(|v| v.as_str().into()).collect();
        let value = match values.len() {
            1 => values.remove(0),
            _ => Value::Array(values),
        };
        map.insert(name.to_string(), value);
    }
    Value::Object(map)
}

/// A timestamp as text.
pub(crate) fn time_value(nanoseconds: i128) -> Value {
    let moment = jiff::Timestamp::from_nanosecond(nanoseconds);
    moment.map_or(Value::Null, |moment| moment.to_string().into())
}
