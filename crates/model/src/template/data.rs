//! A JSON value that templates read: parsed when first touched, shared when cloned.

use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::Value as Native;
use serde_json::Value;

use crate::raw::Raw;
use crate::template::convert;
use crate::template::scope::empty_map;

/// A value that templates read. Cheap to clone.
#[derive(Clone)]
pub struct Data(Arc<Inner>);

struct Inner {
    raw: Option<Raw>,
    json: OnceLock<Value>,
    native: OnceLock<Native>,
}

impl Data {
    /// A value at hand.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(Inner {
            raw: None,
            json: value.into(),
            native: OnceLock::new(),
        }))
    }

    /// JSON text, parsed when first touched.
    pub fn lazy(raw: Raw) -> Self {
        Self(Arc::new(Inner {
            raw: Some(raw),
            json: OnceLock::new(),
            native: OnceLock::new(),
        }))
    }

    /// The value.
    pub fn json(&self) -> &Value {
        self.0
            .json
            .get_or_init(|| self.0.raw.as_ref().map_or(Value::Null, Raw::value))
    }

    /// The value as templates hold it, converted when first touched.
    pub(crate) fn native(&self) -> &Native {
        self.0
            .native
            .get_or_init(|| convert::to_native(self.json()))
    }
}

impl Default for Data {
    fn default() -> Self {
        Self::new(empty_map())
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.json().fmt(f)
    }
}
