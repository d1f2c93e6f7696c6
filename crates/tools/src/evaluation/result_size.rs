//! Limits the size of a result before it leaves its process, because a value takes more memory than its text.

use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

use crate::evaluation::Language;

/// Maximum memory of a result.
const RESULT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Overhead of a value in addition to its text.
const VALUE_BYTES: usize = 64;
/// Maximum nesting of a result: the JSON parser rejects more than 128 levels.
const DEPTH_MAX: usize = 120;

/// Remaining memory for a result.
pub(crate) struct ResultBudget {
    language: Language,
    remaining_bytes: usize,
}

impl ResultBudget {
    pub(crate) fn new(language: Language) -> Self {
        Self {
            language,
            remaining_bytes: RESULT_BYTES_MAX,
        }
    }

    /// Charges for one value with a text of `text_bytes`, without its children.
    pub(crate) fn charge(&mut self, text_bytes: usize, depth: usize) -> Result<(), TaskError> {
        if depth > DEPTH_MAX {
            return Err(self.exceeded_error(&format!("is nested deeper than {DEPTH_MAX} levels")));
        }
        let Some(remaining) = self.remaining_bytes.checked_sub(VALUE_BYTES + text_bytes) else {
            let mebibytes = RESULT_BYTES_MAX / 1024 / 1024;
            return Err(self.exceeded_error(&format!("takes more than {mebibytes} MiB of memory")));
        };
        self.remaining_bytes = remaining;
        Ok(())
    }

    /// Charges for a value and all its children.
    pub(crate) fn charge_all(&mut self, value: &Value, depth: usize) -> Result<(), TaskError> {
        match value {
            Value::String(text) => self.charge(text.len(), depth),
            Value::Array(items) => {
                self.charge(0, depth)?;
                items.iter().try_for_each(|item| self.charge_all(item, depth + 1))
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

    fn exceeded_error(&self, problem: &str) -> TaskError {
        let message = format!(
            "the result of the {} {problem}; return less data, or return it in parts",
            self.language.program_name()
        );
        TaskError::new(ErrorKind::Transform, "LIMIT_RESULT", message)
    }
}
