//! A JSON value that templates read: parsed on first use, shared when cloned.

use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::Value as Native;
use serde_json::{Map, Value};

use crate::raw::Raw;
use crate::template::convert;
use crate::template::scope::empty_map;
use crate::template::taint::Taint;

/// A value that templates read. Cheap to clone.
#[derive(Clone)]
pub struct Data(Arc<Inner>);

struct Inner {
    source: Source,
    taint: Taint,
    json: OnceLock<Value>,
    native: OnceLock<Native>,
}

/// The source of the value.
enum Source {
    Given,
    Text(Raw),
    Map(Arc<Map<String, Value>>),
}

impl Data {
    /// Creates a value in memory.
    pub fn new(value: Value) -> Self {
        Self::tainted(value, Taint::Clean)
    }

    /// Creates a value with its taint: templates that read tainted parts are tainted.
    pub fn tainted(value: Value, taint: Taint) -> Self {
        Self(Arc::new(Inner {
            source: Source::Given,
            taint,
            json: value.into(),
            native: OnceLock::new(),
        }))
    }

    /// Creates a value from JSON text, parsed on first use.
    pub fn lazy(raw: Raw) -> Self {
        Self(Arc::new(Inner {
            source: Source::Text(raw),
            taint: Taint::Clean,
            json: OnceLock::new(),
            native: OnceLock::new(),
        }))
    }

    /// Creates a value from a shared map, copied on first use.
    pub fn shared(map: Arc<Map<String, Value>>) -> Self {
        Self(Arc::new(Inner {
            source: Source::Map(map),
            taint: Taint::Clean,
            json: OnceLock::new(),
            native: OnceLock::new(),
        }))
    }

    /// The value.
    pub fn json(&self) -> &Value {
        self.0.json.get_or_init(|| match &self.0.source {
            Source::Given => Value::Null,
            Source::Text(raw) => raw.value(),
            Source::Map(map) => Value::Object((**map).clone()),
        })
    }

    /// The value with `***` in place of tainted parts, for display.
    pub fn shown(&self) -> Value {
        self.0.taint.shown(self.json())
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

impl Default for Data {
    fn default() -> Self {
        Self::new(empty_map())
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}
