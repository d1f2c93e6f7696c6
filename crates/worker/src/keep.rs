//! Keeping: what is too large for the log is stored first, then referenced.

use model::event::{At, Body as EventBody};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::{Directive, ResultControl, Task};
use model::raw::Raw;
use model::result_ref::{INLINE_BYTES_MAX, ResultRef};
use model::template::{Data, Loaded};
use pipeline::{Settled, Writes};
use results::{Keeper, Kept, Limits, Place};
use serde_json::{Map, Value};

use crate::hand::Hand;

/// A written value larger than this is kept as a body.
const WRITE_BYTES_MAX: usize = 4 * 1024;
/// A body of this size stays at hand for the rules that look at it next.
const AT_HAND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The outcome as the log keeps it: a large result as a reference, one that is too large as a failure.
pub(crate) async fn outcome(hand: &Hand, task: &Task, at: &At, outcome: Outcome) -> Outcome {
    let Outcome::Ok(mut success) = outcome else {
        return outcome;
    };
    if let Some(reference) = &mut success.reference {
        // The tool stored it as it came; its life begins now.
        reference.expires_at = task.result.ttl.map(|ttl| hand.now().after(ttl));
        return Outcome::Ok(success);
    }
    let payload_max = usize::try_from(payload_bytes_max(hand)).unwrap_or(usize::MAX);
    let inline_max = inline_bytes_max(task);
    if is_within(&success.result, inline_max.min(payload_max)) {
        return Outcome::Ok(success);
    }
    if !is_within(&success.result, payload_max) {
        let message = format!(
            "the result of task `{}` is larger than {payload_max} bytes",
            task.label
        );
        let error = TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::Storage, "LIMIT_PAYLOAD", message)
        };
        return Outcome::error(error);
    }
    let value = std::mem::take(&mut success.result);
    match store(hand, at, value, &task.result).await {
        Ok(reference) => {
            success.reference = Some(Box::new(reference));
            Outcome::Ok(success)
        }
        Err(error) => Outcome::error(error),
    }
}

/// Keeps what a tool cannot hold while it comes.
pub(crate) fn keeper(hand: &Hand, task: &Task, at: &At) -> Keeper {
    let place = Place {
        execution: hand.execution(),
        at,
        now: hand.now(),
    };
    Keeper {
        bodies: hand.shared.config.bodies.clone(),
        control: task.result.clone(),
        uri: place.uri(),
        bytes_max: payload_bytes_max(hand),
    }
}

fn payload_bytes_max(hand: &Hand) -> u64 {
    let asked = hand.prepared.playbook.executor.payload_bytes_max;
    asked.unwrap_or(u64::MAX)
}

/// How much of a task's result may stay inline.
pub(crate) fn inline_bytes_max(task: &Task) -> usize {
    let asked = task.result.inline_bytes_max;
    let asked = asked.map_or(INLINE_BYTES_MAX, |max| {
        usize::try_from(max).unwrap_or(usize::MAX)
    });
    asked.min(INLINE_BYTES_MAX)
}

/// Stores the large values among a task's writes and puts references in their place, in the writes and in the event
/// that records them.
pub(crate) async fn writes(hand: &Hand, at: &At, settled: &mut Settled) -> Result<(), TaskError> {
    let Writes { iter, ctx, local } = &mut settled.writes;
    let mut changed = false;
    for map in [iter, ctx, local] {
        for (key, value) in map.iter_mut() {
            changed |= replace(hand, at, key, operand(value)).await?;
        }
    }
    if !changed {
        return Ok(());
    }
    for draft in &mut settled.events {
        let (set_iter, set_ctx, set) = match &mut draft.body {
            EventBody::TaskDone(ended) | EventBody::TaskFailed(ended) => {
                (&mut ended.set_iter, &mut ended.set_ctx, &mut ended.set)
            }
            EventBody::PolicyEvaluated(policy) if policy.action.directive == Directive::Retry => {
                (&mut policy.set_iter, &mut policy.set_ctx, &mut policy.set)
            }
            _ => continue,
        };
        *set_iter = raw(&settled.writes.iter);
        *set_ctx = raw(&settled.writes.ctx);
        *set = raw(&settled.writes.local);
    }
    Ok(())
}

/// What of a value may be replaced: an appended item, or the value itself.
fn operand(value: &mut Value) -> &mut Value {
    let appends = value
        .as_object()
        .is_some_and(|map| map.len() == 1 && map.contains_key("$append"));
    if appends {
        &mut value["$append"]
    } else {
        value
    }
}

async fn replace(hand: &Hand, at: &At, key: &str, value: &mut Value) -> Result<bool, TaskError> {
    // Other reducers compute with their operand, so it must stay at hand.
    let reduces = value
        .as_object()
        .is_some_and(|map| map.len() == 1 && map.keys().all(|key| key.starts_with('$')));
    if reduces || is_within(value, WRITE_BYTES_MAX) {
        return Ok(false);
    }
    let part = At {
        task: at
            .task
            .as_ref()
            .map(|task| format!("{task}/set/{key}").into()),
        ..at.clone()
    };
    let whole = std::mem::take(value);
    let reference = store(hand, &part, whole, &ResultControl::default()).await?;
    *value = serde_json::to_value(&reference).expect("a reference is plain data");
    Ok(true)
}

/// Stores a body, whatever its size. One that is not too large stays at hand for what reads it next.
pub(crate) async fn store(
    hand: &Hand,
    at: &At,
    value: Value,
    control: &ResultControl,
) -> Result<ResultRef, TaskError> {
    let at_hand = is_within(&value, AT_HAND_BYTES_MAX).then(|| value.clone());
    let place = Place {
        execution: hand.execution(),
        at,
        now: hand.now(),
    };
    let limits = Limits {
        inline_bytes_max: 0,
    };
    let bodies = hand.shared.config.bodies.as_ref();
    let reference = match results::keep(bodies, value, control, place, limits).await {
        Ok(Kept::Ref(reference)) => *reference,
        Ok(Kept::Inline(_)) => unreachable!("no JSON text has zero bytes"),
        Err(error) => return Err(failure(&error)),
    };
    if let Some(value) = at_hand {
        let mut more = Loaded::default();
        more.bodies.insert(reference.uri.clone(), Data::new(value));
        hand.remember(more);
    }
    Ok(reference)
}

/// The failure of a task whose body cannot be stored or read.
pub(crate) fn failure(error: &results::Error) -> TaskError {
    TaskError {
        retryable: error.is_retryable(),
        ..TaskError::new(ErrorKind::Storage, error.code(), error.to_string())
    }
}

fn raw(map: &Map<String, Value>) -> Option<Raw> {
    (!map.is_empty()).then(|| Raw::of(map))
}

/// Whether a value's JSON text is no longer than `max`; stops counting there.
pub(crate) fn is_within(value: &Value, max: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) if max >= 32 => true,
        Value::String(text) if text.len() > max => false,
        value => serde_json::to_writer(Counter { left: max }, value).is_ok(),
    }
}

struct Counter {
    left: usize,
}

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = self.left.checked_sub(bytes.len());
        self.left = left.ok_or(std::io::ErrorKind::FileTooLarge)?;
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
            let bytes = value.to_string().len();
            assert!(is_within(&value, bytes), "{value}");
            assert!(!is_within(&value, bytes - 1), "{value}");
        }
    }
}
