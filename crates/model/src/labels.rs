//! Labels of a run: short texts by key, by which lists of runs are filtered.
//!
//! A run has the labels of its playbook (`metadata.labels`), with those of the request over them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::Name;

/// Maximum number of labels of a run; further ones of a playbook are ignored, in a request they are an error.
pub const LABELS_MAX: usize = 32;
/// Maximum length of the key of a label.
pub const LABEL_KEY_BYTES_MAX: usize = 63;
/// Maximum length of the value of a label.
pub const LABEL_VALUE_BYTES_MAX: usize = 200;

/// The labels of a run, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<Name, Name>);

/// Why a label cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// The key has a wrong length or character.
    #[error("invalid label key `{0}`: expected 1 to {LABEL_KEY_BYTES_MAX} letters, digits, `_`, `-`, `.` or `/`")]
    Key(String),
    /// The value is empty, too long, or has control characters.
    #[error(
        "invalid value of label `{0}`: expected 1 to {LABEL_VALUE_BYTES_MAX} bytes of text without control characters"
    )]
    Value(String),
    /// There are too many labels.
    #[error("a run has at most {LABELS_MAX} labels")]
    TooMany,
}

impl Labels {
    /// The labels of a playbook's `metadata.labels`. Entries that are no valid label are ignored: the key of a playbook
    /// is free-form.
    pub fn from_metadata(labels: Option<&Value>) -> Self {
        let mut valid_labels = Self::default();
        for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => continue,
            };
            // What cannot be stored is left out.
            let _ = valid_labels.insert(key, &text);
        }
        valid_labels
    }

    /// Adds a label, or replaces the one with the same key.
    pub fn insert(&mut self, key: &str, value: &str) -> Result<(), LabelError> {
        let is_key_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
        if key.is_empty() || key.len() > LABEL_KEY_BYTES_MAX || !key.bytes().all(is_key_byte) {
            return Err(LabelError::Key(key.chars().take(LABEL_KEY_BYTES_MAX).collect()));
        }
        if value.is_empty() || value.len() > LABEL_VALUE_BYTES_MAX || value.chars().any(char::is_control) {
            return Err(LabelError::Value(key.to_owned()));
        }
        if self.0.len() == LABELS_MAX && !self.0.contains_key(key) {
            return Err(LabelError::TooMany);
        }
        self.0.insert(Name::from(key), Name::from(value));
        Ok(())
    }

    /// Adds all labels of `others`; their values replace those of the same keys. Beyond the maximum, none is added.
    #[must_use]
    pub fn merged_with(mut self, others: &Self) -> Self {
        for (key, value) in others.iter() {
            if self.0.len() < LABELS_MAX || self.0.contains_key(key) {
                self.0.insert(key.clone(), value.clone());
            }
        }
        self
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.0.iter()
    }

    /// Whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all labels of `wanted` are among these.
    pub fn contains_all(&self, wanted: &Self) -> bool {
        wanted.iter().all(|(key, value)| self.0.get(key) == Some(value))
    }

    /// Adds a label that a store has returned, and that was checked when it was written.
    pub fn insert_stored(&mut self, key: Name, value: Name) {
        self.0.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn to_json(labels: &Labels) -> Value {
        serde_json::to_value(labels).unwrap()
    }

    #[test]
    fn labels_of_a_playbook_are_its_short_scalars() {
        let metadata =
            json!({"team": "x", "tier": 2, "on-call": true, "list": [1], "": "a", "no": null, "big": "v".repeat(201)});
        let labels = Labels::from_metadata(Some(&metadata));
        assert_eq!(to_json(&labels), json!({"team": "x", "tier": "2", "on-call": "true"}));
        assert!(Labels::from_metadata(None).is_empty());
    }

    #[test]
    fn a_label_that_cannot_be_stored_is_refused() {
        let mut labels = Labels::default();
        assert!(matches!(labels.insert("a b", "x"), Err(LabelError::Key(_))));
        assert!(matches!(labels.insert("a", "x\n"), Err(LabelError::Value(_))));
        for number in 0..LABELS_MAX {
            labels.insert(&format!("k{number}"), "x").unwrap();
        }
        assert_eq!(labels.insert("one-more", "x"), Err(LabelError::TooMany));
        assert_eq!(labels.insert("k0", "y"), Ok(()));
    }

    #[test]
    fn labels_of_the_request_replace_those_of_the_playbook() {
        let base = Labels::from_metadata(Some(&json!({"team": "x", "env": "test"})));
        let given = Labels::from_metadata(Some(&json!({"env": "prod"})));
        let merged = base.merged_with(&given);
        assert_eq!(to_json(&merged), json!({"env": "prod", "team": "x"}));
        assert!(merged.contains_all(&given));
        assert!(!given.contains_all(&merged));
    }
}
