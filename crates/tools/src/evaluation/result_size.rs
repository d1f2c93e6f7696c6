//! The size of a result, checked before it leaves the process that evaluated it: as a value it is larger than as text.

use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

use crate::evaluation::Language;

/// What a result may take in memory.
const RESULT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// What a value takes in addition to its text.
const VALUE_BYTES: usize = 64;
/// How deeply a result may be nested: JSON that is nested deeper than 128 levels is not parsed again.
const DEPTH_MAX: usize = 120;

/// What is left of the memory that a result may take.
pub(crate) struct ResultBudget {
    language: Language,
    bytes_left: usize,
}

impl ResultBudget {
    pub(crate) fn new(language: Language) -> Self {
        Self {
            language,
            bytes_left: RESULT_BYTES_MAX,
        }
    }

    /// Charges for one value with a text of so many bytes, without what it contains.
    pub(crate) fn charge(&mut self, text_bytes: usize, depth: usize) -> Result<(), TaskError> {
        if depth > DEPTH_MAX {
            return Err(self.exceeded(&format!("is nested deeper than {DEPTH_MAX} levels")));
        }
        let Some(left) = self.bytes_left.checked_sub(VALUE_BYTES + text_bytes) else {
            let mebibytes = RESULT_BYTES_MAX / 1024 / 1024;
            return Err(self.exceeded(&format!("takes more than {mebibytes} MiB of memory")));
        };
        self.bytes_left = left;
        Ok(())
    }

    /// Charges for a value and everything in it.
    pub(crate) fn charge_all(&mut self, value: &Value, depth: usize) -> Result<(), TaskError> {
        match value {
            Value::String(text) => self.charge(text.len(), depth),
            Value::Array(items) => {
                self.charge(0, depth)?;
                items
                    .iter()
                    .try_for_each(|item| self.charge_all(item, depth + 1))
            }
            Value::Object(entries) => {
                self.charge(0, depth)?;
                entries.iter().try_for_each(|(key, value)| {
                    self.charge(key.len(), depth)?;
                    self.charge_all(value, depth + 1)
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.charge(0, depth),
        }
    }

    fn exceeded(&self, problem: &str) -> TaskError {
        let message = format!(
            "the result of the {} {problem}; select less, or return it in parts",
            self.language.program_name()
        );
        TaskError::new(ErrorKind::Transform, "LIMIT_RESULT", message)
    }
}
