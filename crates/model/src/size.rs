//! Sizes of values and events as JSON text, and their limits.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use crate::event::{AwaitTarget, EventBody, NextEvaluated};
use crate::outcome::{ErrorKind, TaskError};
use crate::raw::RawJson;

/// Maximum size of one event; larger data fails with `LIMIT_EVENT`.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;
/// The part of it that is reserved for the envelope.
pub const ENVELOPE_BYTES: usize = 4 * 1024;
/// Written values above this size are stored as bodies and recorded by reference.
pub const WRITE_BYTES_MAX: usize = 4 * 1024;

/// The length of a value's JSON text.
pub fn json_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut counter = ByteCounter {
        count: 0,
        max: usize::MAX,
    };
    serde_json::to_writer(&mut counter, value).expect("plain data serializes to JSON");
    counter.count
}

/// Whether a value's JSON text has at most `max` bytes; stops counting there.
pub fn fits_json_bytes(value: &Value, max: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) if max >= 32 => true,
        Value::String(text) if text.len() > max => false,
        value => serde_json::to_writer(ByteCounter { count: 0, max }, value).is_ok(),
    }
}

/// Returns an error if data does not fit into one event of `max` bytes.
pub fn size_error(subject: &str, bytes: usize, max: usize) -> Option<TaskError> {
    let data_bytes_max = max.saturating_sub(ENVELOPE_BYTES);
    (bytes > data_bytes_max).then(|| {
        let message = format!("{subject} takes more than the {data_bytes_max} bytes that one event holds");
        TaskError::permanent(ErrorKind::Schema, "LIMIT_EVENT", message)
    })
}

impl EventBody {
    /// The size of the user data in the event.
    pub fn data_bytes(&self) -> usize {
        let total = |raws: &[Option<&RawJson>]| -> usize {
            let texts = raws.iter().flatten().map(|raw| raw.text().len());
            texts.sum()
        };
        match self {
            Self::ExecutionRequested(requested) => requested.workload.text().len(),
            Self::SignalReceived(signal) => total(&[signal.payload.as_ref()]),
            Self::StepScheduled(scheduled) => total(&[scheduled.args.as_ref(), scheduled.args_from.as_ref()]),
            Self::NextEvaluated(next) => args_bytes(next),
            Self::CtxPatched(patched) => patched.patch.text().len(),
            Self::StepFailed(failed) | Self::IterationFailed(failed) => total(&[failed.set_ctx.as_ref()]),
            Self::IterationDone(done) => total(&[done.set_ctx.as_ref()]),
            Self::TaskStarted(started) => {
                let child = match started.awaits.as_deref() {
                    Some(AwaitTarget::Child(start)) => total(&[Some(&start.input), start.iter.as_ref()]),
                    _ => 0,
                };
                child
                    + total(&[
                        started.inputs.as_ref(),
                        started.request.as_ref(),
                        started.approval.as_ref(),
                    ])
            }
            Self::AttemptDone(ended) | Self::AttemptFailed(ended) => total(&[Some(&ended.outcome)]),
            Self::TaskDone(ended) | Self::TaskFailed(ended) => total(&[
                Some(&ended.outcome),
                ended.set_iter.as_ref(),
                ended.set_ctx.as_ref(),
                ended.set.as_ref(),
            ]),
            Self::PolicyEvaluated(policy) => {
                total(&[policy.set_iter.as_ref(), policy.set_ctx.as_ref(), policy.set.as_ref()])
            }
            Self::LoopStarted(started) => total(&[started.collection.as_ref()]),
            Self::LoopDone(done) => total(&[done.results.as_ref()]),
            _ => 0,
        }
    }
}

fn args_bytes(next: &NextEvaluated) -> usize {
    let args = next.selected.iter().filter_map(|arc| arc.args.as_ref());
    args.map(|args| args.text().len()).sum()
}

struct ByteCounter {
    count: usize,
    max: usize,
}

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.count += bytes.len();
        if self.count > self.max {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_within_exactly_its_own_length() {
        for value in [json!({"a": [1, 2, "x"]}), json!("text"), json!([])] {
            let length = value.to_string().len();
            assert_eq!(json_bytes(&value), length);
            assert!(fits_json_bytes(&value, length), "{value}");
            assert!(!fits_json_bytes(&value, length - 1), "{value}");
        }
    }
}
