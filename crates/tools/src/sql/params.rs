//! The task's own `params`, by number or by name.

use serde_json::{Map, Value};

use crate::sql::error::BindError;

/// The task's own `params`.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Params {
    #[default]
    None,
    List(Vec<Value>),
    Map(Map<String, Value>),
}

impl Params {
    /// Value number `number`, counted from 1; `placeholder` is its text in the command.
    pub(super) fn by_number(&self, number: usize, placeholder: &str) -> Result<Value, BindError> {
        let value = match self {
            Self::List(list) => number.checked_sub(1).and_then(|index| list.get(index)),
            Self::None | Self::Map(_) => None,
        };
        let missing = || BindError::Missing(format!("{placeholder} (number {number})"));
        value.cloned().ok_or_else(missing)
    }

    /// Value with this name.
    pub(super) fn by_name(&self, name: &str) -> Result<Value, BindError> {
        let value = match self {
            Self::Map(map) => map.get(name),
            Self::None | Self::List(_) => None,
        };
        value.cloned().ok_or_else(|| BindError::Missing(name.to_owned()))
    }
}
