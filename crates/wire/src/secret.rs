//! Secret values: without `Debug` and `Serialize`, zeroed when dropped.

use std::time::Duration;

use serde_json::Value;
use zeroize::Zeroize as _;

/// Secret fields of a credential.
#[derive(Clone)]
pub struct SecretValue(Value);

impl SecretValue {
    /// Wraps a value.
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// Returns the value, for the call that needs it.
    pub fn reveal(&self) -> &Value {
        &self.0
    }
}

impl Drop for SecretValue {
    fn drop(&mut self) {
        zeroize_value(&mut self.0);
    }
}

fn zeroize_value(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(zeroize_value),
        Value::Object(map) => map.values_mut().for_each(zeroize_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A resolved credential or keychain entry.
#[derive(Clone)]
pub struct ResolvedSecret {
    /// Name of the credential or keychain entry.
    pub name: String,
    /// Secret fields and `type`.
    pub value: SecretValue,
    /// How long the value may be used before it must be requested again.
    pub valid_for: Duration,
}
