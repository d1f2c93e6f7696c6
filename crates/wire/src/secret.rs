//! Values that must not be said: no `Debug`, no `Serialize`, wiped when they go.

use std::time::Duration;

use model::id::{CommandId, LeaseEpoch, WorkerId};
use serde_json::Value;
use zeroize::Zeroize as _;

/// What a credential opens with.
#[derive(Clone)]
pub struct SecretValue(Value);

impl SecretValue {
    /// Keeps a value.
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// The value, for the call that needs it.
    pub fn reveal(&self) -> &Value {
        &self.0
    }
}

impl Drop for SecretValue {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(map) => map.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A name and what it came to.
#[derive(Clone)]
pub struct Secret {
    /// The credential, or the entry of the keychain.
    pub name: String,
    /// What it opens with, its `type` beside it.
    pub value: SecretValue,
    /// How long it may be used without asking again.
    pub valid_for: Duration,
}

/// A worker asks for what its command's step names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretsAsk {
    /// Who asks.
    pub worker: WorkerId,
    /// The command it holds.
    pub command: CommandId,
    /// Under which claim.
    pub lease_epoch: LeaseEpoch,
    /// The names.
    pub names: Vec<String>,
}
