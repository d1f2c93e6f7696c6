//! A JSON value that templates read: parsed on first use, shared when cloned.

use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::Value as Native;
use model::raw::RawJson;
use serde_json::{Map, Value};

use crate::template::convert;
use crate::template::scope::empty_map;
use crate::template::taint::Taint;

/// A value that templates read. Cheap to clone.
#[derive(Clone)]
pub struct LazyValue(Arc<LazyInner>);

struct LazyInner {
    source: LazySource,
    taint: Taint,
    json: OnceLock<Value>,
    native: OnceLock<Native>,
}

/// The source of the value.
enum LazySource {
    Given,
    Text(RawJson),
    Map(Arc<Map<String, Value>>),
}

impl LazyValue {
    /// Creates a value in memory.
    pub fn new(value: Value) -> Self {
        Self::with_taint(value, Taint::Clean)
    }

    /// Creates a value with its taint: templates that read tainted parts are tainted.
    pub fn with_taint(value: Value, taint: Taint) -> Self {
        Self(Arc::new(LazyInner {
            source: LazySource::Given,
            taint,
            json: value.into(),
            native: OnceLock::new(),
        }))
    }

    /// Creates a value from JSON text, parsed on first use.
    pub fn from_raw(raw: RawJson) -> Self {
        Self(Arc::new(LazyInner {
            source: LazySource::Text(raw),
            taint: Taint::Clean,
            json: OnceLock::new(),
            native: OnceLock::new(),
        }))
    }

    /// Creates a value from a shared map, copied on first use.
    pub fn from_shared_map(map: Arc<Map<String, Value>>) -> Self {
        Self(Arc::new(LazyInner {
            source: LazySource::Map(map),
            taint: Taint::Clean,
            json: OnceLock::new(),
            native: OnceLock::new(),
        }))
    }

    /// The value.
    pub fn json(&self) -> &Value {
        self.0.json.get_or_init(|| match &self.0.source {
            LazySource::Given => Value::Null,
            LazySource::Text(raw) => raw.to_value(),
            LazySource::Map(map) => Value::Object((**map).clone()),
        })
    }

    /// The value with `***` in place of tainted parts, for display.
    pub fn masked(&self) -> Value {
        self.0.taint.mask(self.json())
    }

    /// Whether any part of the value is derived from a secret.
    pub fn is_tainted(&self) -> bool {
        !self.0.taint.is_clean()
    }

    /// The value as a template value, converted on first use.
    pub(crate) fn native(&self) -> &Native {
        self.0
            .native
            .get_or_init(|| convert::to_tainted(self.json(), &self.0.taint))
    }
}

impl Default for LazyValue {
    fn default() -> Self {
        Self::new(empty_map())
    }
}

impl fmt::Debug for LazyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.masked().fmt(f)
    }
}
