//! Converts values between JSON and template values.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value as Native, ValueKind};
use minijinja::{Error, ErrorKind};
use model::result_ref::ResultRef;
use serde_json::{Map, Number, Value};

use crate::playbook::credentials;
use crate::template::budget::{self, DEPTH_MAX, ITEM_BYTES, MAP_BYTES};
use crate::template::envelope;
use crate::template::reference::BodyValue;
use crate::template::session;
use crate::template::taint::{MASK, SecretOrigin, Taint};

/// A scalar from the keychain, or derived from one.
#[derive(Clone)]
pub(crate) struct KeychainValue {
    value: Native,
    origin: SecretOrigin,
}

impl KeychainValue {
    /// Returns the value that this rendering may print; taints the rendering.
    pub(crate) fn reveal(&self) -> Native {
        session::with_session(|session| {
            session.record_secret(self.origin);
            if session.reveals_secrets {
                self.value.clone()
            } else {
                Native::from(MASK)
            }
        })
    }
}

impl fmt::Debug for KeychainValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Object for KeychainValue {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.reveal(), f)
    }
}

/// Converts JSON to a template value. References in it are bodies that load on first use.
pub(crate) fn to_native(value: &Value) -> Native {
    match value {
        Value::Array(items) => items.iter().map(to_native).collect::<Vec<_>>().into(),
        Value::Object(map) => {
            if let Some(reference) = ResultRef::from_map(map) {
                return Native::from_object(BodyValue::new(reference));
            }
            Native::from_pairs(map.iter().map(|(key, value)| (key.as_str(), to_native(value))))
        }
        scalar => scalar_to_native(scalar),
    }
}

/// The keychain: every scalar of every entry is a secret.
pub(crate) fn to_keychain(entries: &Value) -> Native {
    match entries {
        Value::Object(map) => Native::from_pairs(
            map.iter()
                .map(|(name, entry)| (name.as_str(), to_secret(entry, SecretOrigin::Secret))),
        ),
        other => to_secret(other, SecretOrigin::Secret),
    }
}

/// JSON of which every scalar is a secret.
fn to_secret(value: &Value, origin: SecretOrigin) -> Native {
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| to_secret(item, origin));
            items.collect::<Vec<_>>().into()
        }
        Value::Object(map) => Native::from_pairs(map.iter().map(|(key, value)| {
            let is_open = credentials::is_public_field(key) && !value.is_object();
            let origin = if is_open { SecretOrigin::Field } else { origin };
            (key.as_str(), to_secret(value, origin))
        })),
        Value::Null => Native::from(()),
        scalar => Native::from_object(KeychainValue {
            value: scalar_to_native(scalar),
            origin,
        }),
    }
}

/// JSON of which some parts are secrets.
pub(crate) fn to_tainted(value: &Value, taint: &Taint) -> Native {
    match (taint, value) {
        (Taint::Whole { origin, .. }, _) => to_wholly_tainted(value, *origin),
        (Taint::List(taints), Value::Array(items)) => {
            let clean = std::iter::repeat(&Taint::Clean);
            let pairs = items.iter().zip(taints.iter().chain(clean));
            let items = pairs.map(|(item, taint)| to_tainted(item, taint));
            items.collect::<Vec<_>>().into()
        }
        (Taint::Map(taints), Value::Object(map)) => Native::from_pairs(map.iter().map(|(key, value)| {
            let taint = taints.get(key).unwrap_or(&Taint::Clean);
            (key.as_str(), to_tainted(value, taint))
        })),
        _ => to_native(value),
    }
}

/// JSON in which every scalar has the same origin.
fn to_wholly_tainted(value: &Value, origin: SecretOrigin) -> Native {
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| to_wholly_tainted(item, origin));
            items.collect::<Vec<_>>().into()
        }
        Value::Object(map) => Native::from_pairs(
            map.iter()
                .map(|(key, value)| (key.as_str(), to_wholly_tainted(value, origin))),
        ),
        Value::Null => Native::from(()),
        scalar => Native::from_object(KeychainValue {
            value: scalar_to_native(scalar),
            origin,
        }),
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

/// Converts a template value to JSON.
pub(crate) fn to_json(value: &Native) -> Result<Value, Error> {
    to_json_at_depth(value, 0)
}

fn to_json_at_depth(value: &Native, depth: usize) -> Result<Value, Error> {
    if depth > DEPTH_MAX {
        return Err(budget::limit_error("a value is nested too deeply"));
    }
    session::charge_result(ITEM_BYTES)?;
    let value = &envelope::unwrap_view(value);
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number => Value::Number(to_number(value)?),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = Vec::with_capacity(known_item_count(value)?);
            for item in value.try_iter()?.checked() {
                items.push(to_json_at_depth(&item?, depth + 1)?);
            }
            Value::Array(items)
        }
        ValueKind::Map => {
            session::charge_result(MAP_BYTES)?;
            let mut map = Map::with_capacity(known_item_count(value)?);
            for key in value.try_iter()?.checked() {
                let key = key?;
                let name = key.to_string();
                session::charge_result(name.len())?;
                map.insert(name, to_json_at_depth(&value.get_item(&key)?, depth + 1)?);
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

/// Returns the number of items of a list or map if it is known and within the limit of the result.
fn known_item_count(value: &Native) -> Result<usize, Error> {
    let items = value.len().unwrap_or_default();
    session::check_result_room(items.saturating_mul(ITEM_BYTES))?;
    Ok(items)
}

fn to_number(value: &Native) -> Result<Number, Error> {
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
