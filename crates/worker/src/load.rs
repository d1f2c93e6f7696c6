//! Loads data that templates read and that is not in memory.
//!
//! Input: the needs of a rendering. Output: the same scope with more loaded values. An unavailable server or store is
//! retried; missing data fails the task.

use std::sync::Arc;

use language::template::{LazyValue, LoadedValues, Need, RenderError, Scope};
use model::event::{Event, EventBody, LoopStats, RecordedResult};
use model::id::Seq;
use model::manifest;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::result_ref::{IN_MEMORY_BYTES_MAX, ResultRef};
use model::step_pointer::LoopPointer;
use serde_json::Value;

use crate::backoff::RetryBackoff;
use crate::command_context::{CommandContext, WorkError};
use crate::lease::LeaseState;
use crate::scratch;
use crate::store_results;

/// Maximum number of load rounds of one rendering.
const ROUNDS_MAX: usize = 8;

/// Maximum number of events per request.
const EVENTS_MAX: usize = 1_000;

/// Maximum number of attempts to read a body.
const BODY_ATTEMPTS_MAX: u32 = 6;

/// Maximum number of retries for secrets that are temporarily unavailable.
const DENIALS_MAX: u32 = 5;

/// Result of a rendering with its loading.
pub(crate) type ResolveResult<T> = Result<T, ResolveError>;

/// Why a rendering has no result.
#[derive(Debug)]
pub(crate) enum ResolveError {
    /// The template cannot be rendered.
    Template(RenderError),
    /// Data that the template needs cannot be loaded.
    Missing(Box<TaskError>),
    /// The worker was stopped.
    Interrupted,
}

impl From<WorkError> for ResolveError {
    fn from(work_error: WorkError) -> Self {
        match work_error {
            WorkError::Failed(error) => Self::Missing(error),
            WorkError::Interrupted => Self::Interrupted,
        }
    }
}

/// Renders; loads missing data and renders again as long as data is missing.
pub(crate) async fn render_with_loading<T>(
    context: &CommandContext,
    scope: &mut Scope,
    render: impl Fn(&Scope) -> Result<T, RenderError>,
) -> ResolveResult<T> {
    for _ in 0..ROUNDS_MAX {
        match render(scope) {
            Ok(value) => return Ok(value),
            Err(RenderError::Needs(needs)) => {
                let more = load_needs(context, &needs).await?;
                let before = std::mem::replace(&mut scope.loaded, more);
                restore_evicted(scope, &before);
            }
            Err(error) => return Err(ResolveError::Template(error)),
        }
    }
    let message = format!("a template still requests more data after {ROUNDS_MAX} rounds of loading");
    let error = TaskError::new(ErrorKind::Transform, "TEMPLATE_LIMIT", message);
    Err(ResolveError::Missing(Box::new(error)))
}

/// Restores bodies that the cache evicted: this rendering needs them together with the newly loaded ones.
fn restore_evicted(scope: &mut Scope, before: &LoadedValues) {
    let is_evicted = |uri: &String| !scope.loaded.bodies.contains_key(uri);
    let evicted: Vec<_> = before.bodies.iter().filter(|(uri, _)| is_evicted(uri)).collect();
    if !evicted.is_empty() {
        let evicted = evicted.into_iter().map(|(uri, body)| (uri.clone(), body.clone()));
        Arc::make_mut(&mut scope.loaded).bodies.extend(evicted);
    }
}

/// Loads what is needed, unless another pipeline of the command already loaded it.
pub(crate) async fn load_needs(context: &CommandContext, needs: &[Need]) -> Result<Arc<LoadedValues>, WorkError> {
    let loaded = context.loaded_values();
    let mut more = LoadedValues::default();
    let (mut seqs, mut sizes) = (Vec::new(), Vec::new());
    for need in needs {
        match need {
            Need::Outcome(seq) if !loaded.outcomes.contains_key(seq) => seqs.push(*seq),
            Need::Body(reference) if !loaded.bodies.contains_key(&reference.uri) => {
                let value = load_body(context, reference).await?;
                sizes.push((reference.uri.clone(), reference.meta.bytes));
                more.bodies.insert(reference.uri.clone(), LazyValue::new(value));
            }
            Need::Loop(pointer) if !loaded.loops.contains_key(&pointer.done) => {
                let results = load_loop_results(context, pointer).await?;
                more.loops.insert(pointer.done, results);
            }
            Need::LoopStats(pointer) if !loaded.loop_stats.contains_key(&pointer.done) => {
                if let Some(stats) = load_loop_stats(context, pointer).await? {
                    more.loop_stats.insert(pointer.done, stats);
                } else {
                    let results = load_loop_results(context, pointer).await?;
                    more.loops.insert(pointer.done, results);
                }
            }
            Need::File(need) if !loaded.files.contains_key(&need.key) => {
                let path = scratch::write_scratch_file(context, need).await?;
                more.files.insert(need.key.clone(), path);
            }
            Need::Outcome(_) | Need::Body(_) | Need::Loop(_) | Need::LoopStats(_) | Need::File(_) => {}
        }
    }
    if !seqs.is_empty() {
        for event in load_events(context, &seqs).await? {
            let outcome = recorded_outcome(&event).ok_or_else(|| no_outcome_error(event.seq))?;
            more.outcomes.insert(event.seq, Arc::new(outcome));
        }
        let missing = seqs.iter().find(|seq| !more.outcomes.contains_key(*seq));
        if let Some(seq) = missing {
            return Err(no_outcome_error(*seq).into());
        }
    }
    Ok(context.add_loaded(more, sizes))
}

/// Returns the outcome that an event records.
pub(crate) fn recorded_outcome(event: &Event) -> Option<Outcome> {
    match event.body.recorded_result()? {
        RecordedResult::Attempt(ended) => ended.outcome.parse_as().ok(),
        RecordedResult::TaskDone(_) | RecordedResult::TaskFailed(_) | RecordedResult::Manifest(_) => {
            manifest::outcome_from_event(event)
        }
    }
}

fn no_outcome_error(seq: Seq) -> TaskError {
    let message = format!("event {seq} contains no outcome");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message)
}

/// Reads events from the execution's log.
pub(crate) async fn load_events(context: &CommandContext, seqs: &[Seq]) -> Result<Vec<Event>, WorkError> {
    let transport = &context.shared.transport;
    let mut events = Vec::with_capacity(seqs.len());
    for seqs in seqs.chunks(EVENTS_MAX) {
        events.extend(call_with_retry(context, || transport.events(context.execution(), seqs)).await?);
    }
    Ok(events)
}

async fn load_loop_results(context: &CommandContext, pointer: &LoopPointer) -> Result<LazyValue, WorkError> {
    let transport = &context.shared.transport;
    let raw = call_with_retry(context, || transport.loop_results(context.execution(), pointer)).await?;
    Ok(LazyValue::from_raw(raw))
}

/// Returns the counts of a loop; `None` if `loop.done` is in the log of another execution.
async fn load_loop_stats(context: &CommandContext, pointer: &LoopPointer) -> Result<Option<LoopStats>, WorkError> {
    let events = load_events(context, &[pointer.done]).await?;
    Ok(events.iter().find_map(|event| match &event.body {
        EventBody::LoopDone(done) => Some(done.stats),
        _ => None,
    }))
}

/// Loads the value behind a reference.
pub(crate) async fn load_body(context: &CommandContext, reference: &ResultRef) -> Result<Value, WorkError> {
    if reference.meta.bytes > IN_MEMORY_BYTES_MAX {
        let message = format!(
            "cannot load stored result `{}` into a template: {} bytes; extract the fields you need with `spec.result.select`",
            reference.uri, reference.meta.bytes
        );
        return Err(TaskError::new(ErrorKind::Storage, "BODY_TOO_LARGE", message).into());
    }
    let read = || context.shared.config.bodies.get(reference);
    let bytes = retry_read(context, reference, read).await?;
    Ok(results::decode_body(reference, &bytes))
}

/// Runs a read of a body and retries it if the store is unavailable.
pub(crate) async fn retry_read<T, F>(
    context: &CommandContext,
    reference: &ResultRef,
    mut read: impl FnMut() -> F,
) -> Result<T, WorkError>
where
    F: Future<Output = Result<T, results::Error>>,
{
    let mut backoff = RetryBackoff::default();
    let mut attempts = 1;
    loop {
        let read = tokio::select! {
            read = read() => read,
            // A copy can wait for disk space for a long time.
            () = context.lease.stop_token().cancelled() => return Err(WorkError::Interrupted),
        };
        match read {
            Ok(value) => return Ok(value),
            Err(error) if error.is_retryable() && attempts < BODY_ATTEMPTS_MAX => {
                tracing::debug!(%error, uri = reference.uri, "failed to read stored result; retrying");
                attempts += 1;
                wait_before_retry(context, &mut backoff).await?;
            }
            Err(error) => {
                let detail = error.message_for(reference);
                let error = TaskError {
                    message: detail,
                    ..store_results::storage_error(&error)
                };
                return Err(error.with_detail("ref", reference.uri.as_str()).into());
            }
        }
    }
}

/// Sends a request to the server and retries it until the server responds or the worker is stopped.
pub(crate) async fn call_with_retry<T, F>(context: &CommandContext, mut call: impl FnMut() -> F) -> Result<T, WorkError>
where
    F: Future<Output = Result<T, wire::Error>>,
{
    let mut backoff = RetryBackoff::default();
    let mut denials = 0;
    loop {
        match call().await {
            Ok(reply) => return Ok(reply),
            Err(wire::Error::SecretsRefused { is_transient: true, .. }) if denials < DENIALS_MAX => {
                denials += 1;
                wait_before_retry(context, &mut backoff).await?;
            }
            Err(wire::Error::Unavailable(error)) => {
                tracing::debug!(%error, "server unavailable; retrying request");
                wait_before_retry(context, &mut backoff).await?;
            }
            Err(wire::Error::Fenced(_) | wire::Error::SessionReplaced(_)) => {
                context.lease.restrict(LeaseState::Lost);
                return Err(WorkError::Interrupted);
            }
            Err(wire::Error::SecretsRefused {
                code,
                detail,
                is_transient,
            }) => {
                let kind = if is_transient {
                    ErrorKind::Connection
                } else {
                    ErrorKind::Auth
                };
                let error = TaskError {
                    retryable: is_transient,
                    ..TaskError::new(kind, code, detail)
                };
                return Err(error.into());
            }
            Err(error @ (wire::Error::NotFound(_) | wire::Error::Refused(_))) => {
                let error = TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", error.to_string());
                return Err(error.into());
            }
        }
    }
}

async fn wait_before_retry(context: &CommandContext, backoff: &mut RetryBackoff) -> Result<(), WorkError> {
    tokio::select! {
        () = backoff.wait() => Ok(()),
        () = context.lease.stop_token().cancelled() => Err(WorkError::Interrupted),
    }
}
