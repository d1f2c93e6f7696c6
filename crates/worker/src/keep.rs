//! Stores results and writes that are too large for the log, and puts references in their place.

use std::sync::Arc;

use model::event::At;
use model::id::Name;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::{ResultControl, Task};
use model::result_ref::{INLINE_BYTES_MAX, ResultRef};
use model::size::is_within;
use model::template::{Data, Loaded};
use pipeline::Settled;
use results::{Bodies, Keeper, LargeResult, MissingPaths, Place};
use serde_json::Value;

use crate::exhaustion::HostWait;
use crate::hand::{Hand, Trouble};
use crate::logs::{LogLine, LogStream};
use crate::secrets::MaskedBodies;

/// Bodies up to this size are cached after they were stored, because policy rules often read them next.
const AT_HAND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Returns the outcome for the log: a large result becomes a reference, a result over the limit becomes a failure.
pub(crate) async fn outcome(
    hand: &Hand,
    task: &Task,
    at: &At,
    outcome: Outcome,
) -> Result<Outcome, Trouble> {
    let Outcome::Ok(mut success) = outcome else {
        return Ok(outcome);
    };
    if let Some(reference) = &mut success.reference {
        // The tool stored the body while it received it; its lifetime starts now.
        reference.expires_at = task.result.ttl.map(|ttl| hand.now().after(ttl));
        return Ok(Outcome::Ok(success));
    }
    let selection = match results::select(&success.result, &task.result) {
        Ok(selection) => selection,
        Err(error) => return Ok(Outcome::error(failure(&error))),
    };
    warn_of_missing(hand, task, at, &selection.missing);
    let payload_max = usize::try_from(payload_bytes_max(hand)).unwrap_or(usize::MAX);
    let inline_max = inline_bytes_max(task);
    if is_within(&success.result, inline_max.min(payload_max)) {
        success.selected = selection.fields;
        return Ok(Outcome::Ok(success));
    }
    if !is_within(&success.result, payload_max) {
        let message = format!(
            "the result of task `{}` exceeds `max_payload_bytes` ({payload_max} bytes)",
            task.label
        );
        let error = TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::Storage, "LIMIT_PAYLOAD", message)
        };
        return Ok(Outcome::error(error));
    }
    let value = std::mem::take(&mut success.result);
    match store(hand, at, value, &task.result).await {
        Ok(reference) => {
            success.reference = Some(Box::new(reference));
            Ok(Outcome::Ok(success))
        }
        Err(Trouble::Failed(error)) => Ok(Outcome::error(*error)),
        Err(Trouble::Interrupted) => Err(Trouble::Interrupted),
    }
}

/// Logs that selected paths match nothing, once for each task of a command.
pub(crate) fn warn_of_missing(hand: &Hand, task: &Task, at: &At, missing: &[String]) {
    if missing.is_empty() || !hand.is_first_warning(&task.label) {
        return;
    }
    let paths: Vec<_> = missing.iter().map(|path| format!("`{path}`")).collect();
    let text = format!(
        "warning: `select` of task `{}` matches nothing at {} in its result; the value is null",
        task.label,
        paths.join(", ")
    );
    hand.shared.config.logs.line(&LogLine {
        time: hand.now(),
        execution: hand.execution(),
        step: at.step.clone().unwrap_or_else(|| Name::from("")),
        run: at.run,
        iteration: at.iteration,
        task: task.label.clone(),
        visit: at.visit,
        attempt: at.attempt,
        stream: LogStream::Stderr,
        text,
    });
}

/// Returns the writer that streams a large result of a tool into the body store.
pub(crate) fn keeper(hand: &Hand, task: &Task, at: &At) -> Keeper {
    let place = Place {
        execution: hand.execution(),
        at,
        now: hand.now(),
    };
    Keeper {
        bodies: bodies(hand),
        control: task.result.clone(),
        uri: place.uri(),
        bytes_max: payload_bytes_max(hand),
        missing: MissingPaths::default(),
    }
}

/// Returns the body store for tools; it masks the secrets of the execution, if there are any.
pub(crate) fn bodies(hand: &Hand) -> Arc<dyn Bodies> {
    let bodies = hand.shared.config.bodies.clone();
    match hand.masks() {
        Some(masks) => Arc::new(MaskedBodies { bodies, masks }),
        None => bodies,
    }
}

fn payload_bytes_max(hand: &Hand) -> u64 {
    let asked = hand.prepared.playbook.executor.payload_bytes_max;
    asked.unwrap_or(u64::MAX)
}

/// Maximum size of an inline result of a task.
pub(crate) fn inline_bytes_max(task: &Task) -> usize {
    let asked = task.result.inline_bytes_max;
    let asked = asked.map_or(INLINE_BYTES_MAX, |max| {
        usize::try_from(max).unwrap_or(usize::MAX)
    });
    asked.min(INLINE_BYTES_MAX)
}

/// Stores the large values among a task's writes and replaces them by references, in the writes and in the event that
/// records them.
pub(crate) async fn writes(hand: &Hand, at: &At, settled: &mut Settled) -> Result<(), Trouble> {
    let large = settled.writes.large_values();
    if large.is_empty() {
        return Ok(());
    }
    for (key, value) in large {
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
    }
    settled.record_writes();
    Ok(())
}

/// Stores a body of any size; if the disk is full, waits for space. Caches a body of up to `AT_HAND_BYTES_MAX`.
pub(crate) async fn store(
    hand: &Hand,
    at: &At,
    value: Value,
    control: &ResultControl,
) -> Result<ResultRef, Trouble> {
    let at_hand = is_within(&value, AT_HAND_BYTES_MAX).then(|| value.clone());
    let place = Place {
        execution: hand.execution(),
        at,
        now: hand.now(),
    };
    let large = LargeResult::new(&value, control).map_err(|error| failure(&error))?;
    // Only the serialized text is needed from here on.
    drop(value);
    let bodies = hand.shared.config.bodies.as_ref();
    let mut wait = HostWait::new(hand);
    let reference = loop {
        match large.store(bodies, place).await {
            // The task is done; only its result waits for disk space.
            Err(error @ results::Error::Full { .. }) => wait.for_space(&error.to_string()).await?,
            stored => break stored.map_err(|error| failure(&error))?,
        }
    };
    if let Some(value) = at_hand {
        let mut more = Loaded::default();
        more.bodies.insert(reference.uri.clone(), Data::new(value));
        hand.remember(more, vec![(reference.uri.clone(), reference.meta.bytes)]);
    }
    Ok(reference)
}

/// Converts a storage error to the error of a task.
pub(crate) fn failure(error: &results::Error) -> TaskError {
    TaskError {
        retryable: error.is_retryable(),
        ..TaskError::new(ErrorKind::Storage, error.code(), error.to_string())
    }
}
