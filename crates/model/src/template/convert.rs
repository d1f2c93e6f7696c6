//! Values between JSON and templates.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value as Native, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::{Map, Number, Value};

use crate::result_ref::ResultRef;
use crate::template::budget::{self, DEPTH_MAX, ITEM_BYTES};
use crate::template::envelope;
use crate::template::reference::Reference;
use crate::template::session;

/// A value that was taken from the keychain.
#[derive(Clone)]
pub(crate) struct Secret(Native);

impl Secret {
    /// The value as this rendering may show it; the rendering is tainted from here on.
    pub(crate) fn take(&self) -> Native {
        session::with(|session| {
            session.tainted = true;
            if session.reveals_secrets {
                self.0.clone()
            } else {
                Native::from("***")
            }
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Object for Secret {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.take(), f)
    }
}

/// JSON as templates hold it. References inside are bodies that load when touched.
pub(crate) fn to_native(value: &Value) -> Native {
    match value {
        Value::Array(items) => items.iter().map(to_native).collect::<Vec<_>>().into(),
        Value::Object(map) => {
            if let Some(reference) = ResultRef::of(map) {
                return Native::from_object(Reference::new(reference));
            }
            Native::from_pairs(
                map.iter()
                    .map(|(key, value)| (key.as_str(), to_native(value))),
            )
        }
        scalar => scalar_to_native(scalar),
    }
}

/// JSON from the keychain: every scalar inside is a secret.
pub(crate) fn to_secret(value: &Value) -> Native {
    match value {
        Value::Array(items) => items.iter().map(to_secret).collect::<Vec<_>>().into(),
        Value::Object(map) => Native::from_pairs(
            map.iter()
                .map(|(key, value)| (key.as_str(), to_secret(value))),
        ),
        Value::Null => Native::from(()),
        scalar => Native::from_object(Secret(scalar_to_native(scalar))),
    }
}

fn scalar_to_native(value: &Value) -> Native {
    match value {
        Value::Bool(flag) => Native::from(*flag),
        Value::String(text) => Native::from(text.as_str()),
        Value::Number(number) => number
            .as_i64()
            .map(Native::from)
            .or_else(|| number.as_u64().map(Native::from))
            .or_else(|| number.as_f64().map(Native::from))
            .unwrap_or_default(),
        _ => Native::from(()),
    }
}

/// A template's value as JSON.
pub(crate) fn to_json(value: &Native) -> Result<Value, Error> {
    json_within(value, 0)
}

fn json_within(value: &Native, depth: usize) -> Result<Value, Error> {
    if depth > DEPTH_MAX {
        return Err(budget::exceeded("a value is nested too deeply"));
    }
    session::charge_result(ITEM_BYTES)?;
    let value = &envelope::whole(value);
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number => Value::Number(number(value)?),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter()?.checked() {
                items.push(json_within(&item?, depth + 1)?);
            }
            Value::Array(items)
        }
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter()?.checked() {
                let key = key?;
                let name = key.to_string();
                session::charge_result(name.len())?;
                map.insert(name, json_within(&value.get_item(&key)?, depth + 1)?);
            }
            Value::Object(map)
        }
        _ => Value::String(match value.as_str() {
            Some(text) => {
                session::charge_result(text.len())?;
                text.to_owned()
            }
            None => value.to_string(),
        }),
    })
}

fn number(value: &Native) -> Result<Number, Error> {
    if value.is_integer() {
        if let Some(number) = value.as_i64() {
            return Ok(number.into());
        }
        if let Ok(number) = u64::try_from(value.clone()) {
            return Ok(number.into());
        }
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("{value} does not fit into 64 bits"),
        ));
    }
    f64::try_from(value.clone())
        .ok()
        .and_then(Number::from_f64)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("{value} is not a number that data can hold"),
            )
        })
}
