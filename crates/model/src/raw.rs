//! JSON text that is passed on without parsing: the log stores user data as the bytes it arrived in.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON value stored as text. Cheap to clone; parsed only where its content matters.
#[derive(Clone)]
pub struct RawJson(Arc<RawValue>);

impl RawJson {
    /// Serializes a value to JSON text.
    pub fn from_serializable<T: Serialize + ?Sized>(value: &T) -> Self {
        let raw = serde_json::value::to_raw_value(value).expect("plain data serializes to JSON");
        Self(raw.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Parses the text as a value.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.text()).expect("a `RawJson` contains valid JSON")
    }

    /// Parses the text as a typed value.
    pub fn parse_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text())
    }
}

impl From<&Value> for RawJson {
    fn from(value: &Value) -> Self {
        Self::from_serializable(value)
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw.into())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Binary formats store the text as a string; JSON stores the value.
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serializer.serialize_str(self.text())
        }
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()));
        }
        let text = String::deserialize(deserializer)?;
        RawValue::from_string(text)
            .map(|raw| Self(raw.into()))
            .map_err(serde::de::Error::custom)
    }
}

/// The type of a JSON value, in words for a message.
pub fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
