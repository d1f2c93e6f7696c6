//! Stores results and writes that are too large for the log, and puts references in their place.

use std::sync::Arc;

use language::playbook::Task;
use language::template::{LazyValue, LoadedValues};
use model::event::EventLocation;
use model::id::Name;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::ResultControl;
use model::result_ref::{INLINE_BYTES_MAX, ResultRef};
use model::size::fits_json_bytes;
use pipeline::OutcomeRecord;
use results::{BodyStore, LargeResult, MissingPaths, ResultOrigin, ResultWriter};
use serde_json::Value;

use crate::command_context::{CommandContext, WorkError};
use crate::host_wait::HostWait;
use crate::logs::{LogLine, LogStream};
use crate::secrets::MaskingBodyStore;

/// Bodies up to this size are cached after they were stored, because policy rules often read them next.
const CACHED_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Returns the outcome for the log: a large result becomes a reference, a result over the limit becomes a failure.
pub(crate) async fn store_large_result(
    context: &CommandContext,
    task: &Task,
    location: &EventLocation,
    outcome: Outcome,
) -> Result<Outcome, WorkError> {
    let Outcome::Ok(mut success) = outcome else {
        return Ok(outcome);
    };
    if let Some(reference) = &mut success.reference {
        // The tool stored the body while it received it; its lifetime starts now.
        reference.expires_at = task.result.ttl.map(|ttl| context.now().after(ttl));
        return Ok(Outcome::Ok(success));
    }
    let selection = match results::select_fields(&success.result, &task.result) {
        Ok(selection) => selection,
        Err(error) => return Ok(Outcome::error(storage_error(&error))),
    };
    warn_of_missing(context, task, location, &selection.missing);
    let payload_max = usize::try_from(payload_bytes_max(context)).unwrap_or(usize::MAX);
    let inline_max = inline_bytes_max(task);
    if fits_json_bytes(&success.result, inline_max.min(payload_max)) {
        success.selected = selection.fields;
        return Ok(Outcome::Ok(success));
    }
    if !fits_json_bytes(&success.result, payload_max) {
        let message = format!(
            "the result of task `{}` exceeds `max_payload_bytes` ({payload_max} bytes)",
            task.label
        );
        let error = TaskError::permanent(ErrorKind::Storage, "LIMIT_PAYLOAD", message);
        return Ok(Outcome::error(error));
    }
    let value = std::mem::take(&mut success.result);
    match store_body(context, location, value, &task.result).await {
        Ok(reference) => {
            success.reference = Some(Box::new(reference));
            Ok(Outcome::Ok(success))
        }
        Err(WorkError::Failed(error)) => Ok(Outcome::error(*error)),
        Err(WorkError::Interrupted) => Err(WorkError::Interrupted),
    }
}

/// Logs that selected paths match nothing, once for each task of a command.
pub(crate) fn warn_of_missing(context: &CommandContext, task: &Task, location: &EventLocation, missing: &[String]) {
    if missing.is_empty() || !context.is_first_warning(&task.label) {
        return;
    }
    let paths: Vec<_> = missing.iter().map(|path| format!("`{path}`")).collect();
    let text = format!(
        "warning: `select` of task `{}` matches nothing at {} in its result; the value is null",
        task.label,
        paths.join(", ")
    );
    context.shared.config.logs.write_line(&LogLine {
        time: context.now(),
        execution: context.execution(),
        step: location.step.clone().unwrap_or_else(|| Name::from("")),
        run: location.run,
        iteration: location.iteration,
        task: task.label.clone(),
        visit: location.visit,
        attempt: location.attempt,
        stream: LogStream::Stderr,
        text,
    });
}

/// Returns the writer that streams a large result of a tool into the body store.
pub(crate) fn result_writer(context: &CommandContext, task: &Task, location: &EventLocation) -> ResultWriter {
    let origin = ResultOrigin {
        execution: context.execution(),
        location,
        now: context.now(),
    };
    ResultWriter {
        store: tool_body_store(context),
        control: task.result.clone(),
        uri: origin.uri(),
        bytes_max: payload_bytes_max(context),
        missing_paths: MissingPaths::default(),
    }
}

/// Returns the body store for tools; it masks the secrets of the execution, if there are any.
pub(crate) fn tool_body_store(context: &CommandContext) -> Arc<dyn BodyStore> {
    let bodies = context.shared.config.bodies.clone();
    match context.masker() {
        Some(masker) => Arc::new(MaskingBodyStore { bodies, masker }),
        None => bodies,
    }
}

fn payload_bytes_max(context: &CommandContext) -> u64 {
    let configured = context.prepared_playbook.playbook.executor.payload_bytes_max;
    configured.unwrap_or(u64::MAX)
}

/// Maximum size of an inline result of a task.
pub(crate) fn inline_bytes_max(task: &Task) -> usize {
    let configured = task.result.inline_bytes_max;
    let configured = configured.map_or(INLINE_BYTES_MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    configured.min(INLINE_BYTES_MAX)
}

/// Stores the large values among a task's writes and replaces them by references, in the writes and in the event that
/// records them.
pub(crate) async fn store_large_writes(
    context: &CommandContext,
    location: &EventLocation,
    settled: &mut OutcomeRecord,
) -> Result<(), WorkError> {
    let large = settled.writes.large_values();
    if large.is_empty() {
        return Ok(());
    }
    for (key, value) in large {
        let part = EventLocation {
            task: location.task.as_ref().map(|task| format!("{task}/set/{key}").into()),
            ..location.clone()
        };
        let value_copy = std::mem::take(value);
        let reference = store_body(context, &part, value_copy, &ResultControl::default()).await?;
        *value = serde_json::to_value(&reference).expect("a reference is plain data");
    }
    settled.record_writes();
    Ok(())
}

/// Stores a body of any size; if the disk is full, waits for space. Caches a body of up to `CACHED_BODY_BYTES_MAX`.
pub(crate) async fn store_body(
    context: &CommandContext,
    location: &EventLocation,
    value: Value,
    control: &ResultControl,
) -> Result<ResultRef, WorkError> {
    let cached = fits_json_bytes(&value, CACHED_BODY_BYTES_MAX).then(|| value.clone());
    let origin = ResultOrigin {
        execution: context.execution(),
        location,
        now: context.now(),
    };
    let large = LargeResult::new(&value, control).map_err(|error| storage_error(&error))?;
    // Only the serialized text is needed from here on.
    drop(value);
    let bodies = context.shared.config.bodies.as_ref();
    let mut wait = HostWait::new(context);
    let reference = loop {
        match large.store(bodies, origin).await {
            // The task is done; only its result waits for disk space.
            Err(error @ results::Error::Full { .. }) => {
                wait.wait_for_space(&error.to_string()).await?;
            }
            stored => break stored.map_err(|error| storage_error(&error))?,
        }
    };
    if let Some(value) = cached {
        let mut more = LoadedValues::default();
        more.bodies.insert(reference.uri.clone(), LazyValue::new(value));
        context.add_loaded(more, vec![(reference.uri.clone(), reference.meta.bytes)]);
    }
    Ok(reference)
}

/// Converts a storage error to the error of a task.
pub(crate) fn storage_error(error: &results::Error) -> TaskError {
    TaskError {
        retryable: error.is_retryable(),
        ..TaskError::new(ErrorKind::Storage, error.code(), error.to_string())
    }
}
