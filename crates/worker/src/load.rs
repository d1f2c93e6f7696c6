//! Loads data that templates read and that is not in memory.
//!
//! Enters: the needs of a rendering. Leaves: the same scope with more loaded values. An unavailable server or store is
//! retried; missing data fails the task.

use std::sync::Arc;

use model::event::{Body, Event, LoopStats};
use model::id::Seq;
use model::manifest;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::result_ref::{HELD_BYTES_MAX, ResultRef};
use model::template::{Data, Loaded, LoopPointer, Need, RenderError, Scope};
use serde_json::Value;

use crate::hand::{Hand, Trouble};
use crate::keep;
use crate::lease::Order;
use crate::patience::Backoff;
use crate::scratch;

/// Maximum number of load rounds of one rendering.
const ROUNDS_MAX: usize = 8;

/// Maximum number of events per request.
const EVENTS_MAX: usize = 1_000;

/// Maximum number of attempts to read a body.
const BODY_TRIES_MAX: u32 = 6;

/// Maximum number of retries for secrets that are temporarily unavailable.
const DENIALS_MAX: u32 = 5;

/// Result of a rendering with its loading.
pub(crate) type Resolved<T> = Result<T, Unresolved>;

/// Why a rendering has no result.
#[derive(Debug)]
pub(crate) enum Unresolved {
    /// The template cannot be rendered.
    Template(RenderError),
    /// Data that the template needs cannot be loaded.
    Missing(Box<TaskError>),
    /// The worker was stopped.
    Interrupted,
}

impl From<Trouble> for Unresolved {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Failed(error) => Self::Missing(error),
            Trouble::Interrupted => Self::Interrupted,
        }
    }
}

/// Renders; loads missing data and renders again as long as data is missing.
pub(crate) async fn resolve<T>(
    hand: &Hand,
    scope: &mut Scope,
    render: impl Fn(&Scope) -> Result<T, RenderError>,
) -> Resolved<T> {
    for _ in 0..ROUNDS_MAX {
        match render(scope) {
            Ok(value) => return Ok(value),
            Err(RenderError::Needs(needs)) => {
                let more = fetch(hand, &needs).await?;
                let before = std::mem::replace(&mut scope.loaded, more);
                put_back(scope, &before);
            }
            Err(failed) => return Err(Unresolved::Template(failed)),
        }
    }
    let message =
        format!("a template still requests more data after {ROUNDS_MAX} rounds of loading");
    let error = TaskError::new(ErrorKind::Transform, "TEMPLATE_LIMIT", message);
    Err(Unresolved::Missing(Box::new(error)))
}

/// Restores bodies that the cache evicted: this rendering needs them together with the newly loaded ones.
fn put_back(scope: &mut Scope, before: &Loaded) {
    let is_gone = |uri: &String| !scope.loaded.bodies.contains_key(uri);
    let gone: Vec<_> = before
        .bodies
        .iter()
        .filter(|(uri, _)| is_gone(uri))
        .collect();
    if !gone.is_empty() {
        let gone = gone
            .into_iter()
            .map(|(uri, body)| (uri.clone(), body.clone()));
        Arc::make_mut(&mut scope.loaded).bodies.extend(gone);
    }
}

/// Loads what is needed, unless another pipeline of the command already loaded it.
pub(crate) async fn fetch(hand: &Hand, needs: &[Need]) -> Result<Arc<Loaded>, Trouble> {
    let known = hand.loaded();
    let mut more = Loaded::default();
    let (mut seqs, mut sizes) = (Vec::new(), Vec::new());
    for need in needs {
        match need {
            Need::Outcome(seq) if !known.outcomes.contains_key(seq) => seqs.push(*seq),
            Need::Body(reference) if !known.bodies.contains_key(&reference.uri) => {
                let value = body(hand, reference).await?;
                sizes.push((reference.uri.clone(), reference.meta.bytes));
                more.bodies.insert(reference.uri.clone(), Data::new(value));
            }
            Need::Loop(pointer) if !known.loops.contains_key(&pointer.done) => {
                let results = loop_results(hand, pointer).await?;
                more.loops.insert(pointer.done, results);
            }
            Need::LoopStats(pointer) if !known.loop_stats.contains_key(&pointer.done) => {
                if let Some(stats) = loop_stats(hand, pointer).await? {
                    more.loop_stats.insert(pointer.done, stats);
                } else {
                    let results = loop_results(hand, pointer).await?;
                    more.loops.insert(pointer.done, results);
                }
            }
            Need::File(need) if !known.files.contains_key(&need.key) => {
                let path = scratch::file(hand, need).await?;
                more.files.insert(need.key.clone(), path);
            }
            Need::Outcome(_)
            | Need::Body(_)
            | Need::Loop(_)
            | Need::LoopStats(_)
            | Need::File(_) => {}
        }
    }
    if !seqs.is_empty() {
        for event in events(hand, &seqs).await? {
            let outcome = outcome(&event).ok_or_else(|| no_outcome(event.seq))?;
            more.outcomes.insert(event.seq, Arc::new(outcome));
        }
        let missing = seqs.iter().find(|seq| !more.outcomes.contains_key(*seq));
        if let Some(seq) = missing {
            return Err(no_outcome(*seq).into());
        }
    }
    Ok(hand.remember(more, sizes))
}

/// Returns the outcome that an event records.
pub(crate) fn outcome(event: &Event) -> Option<Outcome> {
    match &event.body {
        Body::AttemptDone(ended) | Body::AttemptFailed(ended) => ended.outcome.read().ok(),
        _ => manifest::outcome_of(event),
    }
}

fn no_outcome(seq: Seq) -> TaskError {
    let message = format!("event {seq} contains no outcome");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message)
}

/// Reads events from the execution's log.
pub(crate) async fn events(hand: &Hand, seqs: &[Seq]) -> Result<Vec<Event>, Trouble> {
    let transport = &hand.shared.transport;
    let mut events = Vec::with_capacity(seqs.len());
    for seqs in seqs.chunks(EVENTS_MAX) {
        events.extend(patiently(hand, || transport.events(hand.execution(), seqs)).await?);
    }
    Ok(events)
}

async fn loop_results(hand: &Hand, pointer: &LoopPointer) -> Result<Data, Trouble> {
    let transport = &hand.shared.transport;
    let raw = patiently(hand, || transport.loop_results(hand.execution(), pointer)).await?;
    Ok(Data::lazy(raw))
}

/// Returns the counts of a loop; `None` if `loop.done` is in the log of another execution.
async fn loop_stats(hand: &Hand, pointer: &LoopPointer) -> Result<Option<LoopStats>, Trouble> {
    let events = events(hand, &[pointer.done]).await?;
    Ok(events.iter().find_map(|event| match &event.body {
        Body::LoopDone(done) => Some(done.stats),
        _ => None,
    }))
}

/// Loads the value behind a reference.
pub(crate) async fn body(hand: &Hand, reference: &ResultRef) -> Result<Value, Trouble> {
    if reference.meta.bytes > HELD_BYTES_MAX {
        let message = format!(
            "cannot load stored result `{}` into a template: {} bytes; extract the fields you need with `spec.result.select`",
            reference.uri, reference.meta.bytes
        );
        return Err(TaskError::new(ErrorKind::Storage, "BODY_TOO_LARGE", message).into());
    }
    let read = || hand.shared.config.bodies.get(reference);
    let bytes = reading(hand, reference, read).await?;
    Ok(results::value(reference, &bytes))
}

/// Runs a read of a body and retries it if the store is unavailable.
pub(crate) async fn reading<T, F>(
    hand: &Hand,
    reference: &ResultRef,
    mut read: impl FnMut() -> F,
) -> Result<T, Trouble>
where
    F: Future<Output = Result<T, results::Error>>,
{
    let mut backoff = Backoff::default();
    let mut tries = 1;
    loop {
        let read = tokio::select! {
            read = read() => read,
            // A copy can wait for disk space for a long time.
            () = hand.lease.stopped().cancelled() => return Err(Trouble::Interrupted),
        };
        match read {
            Ok(value) => return Ok(value),
            Err(error) if error.is_retryable() && tries < BODY_TRIES_MAX => {
                tracing::debug!(%error, uri = reference.uri, "failed to read stored result; retrying");
                tries += 1;
                pause(hand, &mut backoff).await?;
            }
            Err(error) => {
                let told = error.told_of(reference);
                let error = TaskError {
                    message: told,
                    ..keep::failure(&error)
                };
                return Err(error.with("ref", reference.uri.as_str()).into());
            }
        }
    }
}

/// Sends a request to the server and retries it until the server responds or the worker is stopped.
pub(crate) async fn patiently<T, F>(hand: &Hand, mut ask: impl FnMut() -> F) -> Result<T, Trouble>
where
    F: Future<Output = Result<T, wire::Error>>,
{
    let mut backoff = Backoff::default();
    let mut denials = 0;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(wire::Error::Denied {
                is_passing: true, ..
            }) if denials < DENIALS_MAX => {
                denials += 1;
                pause(hand, &mut backoff).await?;
            }
            Err(wire::Error::Unavailable(error)) => {
                tracing::debug!(%error, "server unavailable; retrying request");
                pause(hand, &mut backoff).await?;
            }
            Err(wire::Error::Fenced(_) | wire::Error::SessionReplaced(_)) => {
                hand.lease.tell(Order::Gone);
                return Err(Trouble::Interrupted);
            }
            Err(wire::Error::Denied {
                code,
                detail,
                is_passing,
            }) => {
                let kind = if is_passing {
                    ErrorKind::Connection
                } else {
                    ErrorKind::Auth
                };
                let error = TaskError {
                    retryable: is_passing,
                    ..TaskError::new(kind, code, detail)
                };
                return Err(error.into());
            }
            Err(error @ (wire::Error::NotFound(_) | wire::Error::Refused(_))) => {
                let error = TaskError::new(
                    ErrorKind::Storage,
                    "REFERENCE_NOT_AVAILABLE",
                    error.to_string(),
                );
                return Err(error.into());
            }
        }
    }
}

async fn pause(hand: &Hand, backoff: &mut Backoff) -> Result<(), Trouble> {
    tokio::select! {
        () = backoff.wait() => Ok(()),
        () = hand.lease.stopped().cancelled() => Err(Trouble::Interrupted),
    }
}
