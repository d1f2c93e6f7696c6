//! Computes a pipeline's position (`Continuation`) from its own events.
//!
//! Only recorded events change the position.

use std::time::Duration;

use model::command::{Continuation, Cursor, OutcomePointer, Stage};
use model::event::{Action, Body, Event, ResultStored, TaskEnded, TaskStarted};
use model::id::Name;
use model::manifest::Rule;
use model::outcome::{Outcome, TaskError};
use model::playbook::Directive;
use model::raw::Raw;

/// Applies one event of the pipeline to its continuation. Events without a task label, and other kinds, change
/// nothing.
pub fn fold(continuation: &mut Continuation, event: &Event) {
    let Some(label) = event.at.task.clone() else {
        return;
    };
    match &event.body {
        Body::TaskStarted(started) => {
            continuation.visits.insert(label.clone(), event.at.visit);
            continuation.cursor = Cursor::At(label);
            continuation.unknown = None;
            // A task that awaits an external event has one `task.started` per attempt.
            continuation.attempt = event.at.attempt.max(1);
            continuation.stage = started_stage(started, event);
        }
        Body::AttemptStarted(_) => {
            continuation.attempt = event.at.attempt;
            continuation.stage = Stage::Started;
            continuation.unknown = None;
        }
        Body::AttemptFailed(ended) => note_unknown(continuation, event, &ended.outcome),
        Body::PolicyEvaluated(evaluated) if evaluated.action.directive == Directive::Retry => {
            continuation.stage = retrying(&evaluated.action, event);
            note_writes(continuation, event);
        }
        Body::TaskDone(ended) => end(continuation, event, ended, true),
        Body::ManifestUpdated(stored) => stand_for(continuation, event, stored),
        Body::TaskFailed(ended) => {
            note_unknown(continuation, event, &ended.outcome);
            end(continuation, event, ended, false);
        }
        _ => {}
    }
}

/// Records an attempt whose effect is unknown. The outcome of an awaiting task is always known.
fn note_unknown(continuation: &mut Continuation, event: &Event, outcome: &Raw) {
    let outcome = outcome.read::<Outcome>().ok();
    let error = outcome.as_ref().and_then(Outcome::failure);
    let is_unknown = error.is_some_and(TaskError::leaves_effect_unknown);
    let was_called = continuation.stage == Stage::Started;
    continuation.unknown = (is_unknown && was_called).then_some(event.at.attempt.max(1));
}

fn started_stage(started: &TaskStarted, event: &Event) -> Stage {
    match started.awaits {
        Some(_) => Stage::Awaiting { since: event.seq },
        None => Stage::Started,
    }
}

fn retrying(action: &Action, event: &Event) -> Stage {
    let delay = Duration::try_from_secs_f64(action.delay.unwrap_or(0.0)).unwrap_or_default();
    Stage::Retrying {
        due: event.timestamp.after(delay),
        suspended: action.suspend,
    }
}

/// Points the task's outcome to a manifest that replaces its result.
fn stand_for(continuation: &mut Continuation, event: &Event, stored: &ResultStored) {
    let is_result = Rule::of(&stored.result_ref).is_some_and(|rule| rule.is_result);
    let Some(label) = event.at.task.as_ref().filter(|_| is_result) else {
        return;
    };
    if let Some(parts) = continuation.parts_of(label) {
        continuation.parts.insert(label.clone(), parts);
    }
    if let Some(pointer) = continuation.outcomes.get_mut(label) {
        pointer.seq = event.seq;
        pointer.ok = true;
        pointer.bytes = u32::try_from(model::size::bytes(stored)).unwrap_or(u32::MAX);
    }
}

fn end(continuation: &mut Continuation, event: &Event, ended: &TaskEnded, ok: bool) {
    let label = event
        .at
        .task
        .clone()
        .expect("`fold` returns early if the event has no label");
    let bytes = u32::try_from(ended.outcome.text().len()).unwrap_or(u32::MAX);
    let pointer = OutcomePointer {
        seq: event.seq,
        ok,
        bytes,
        page: event
            .at
            .page
            .or((event.at.visit > 1).then_some(event.at.visit.into())),
        outside: ended.result_ref.as_ref().map(|body| body.meta.bytes),
    };
    let before = continuation.outcomes.insert(label.clone(), pointer);
    note_part(continuation, &label, before, &pointer);
    continuation.last = Some(label.clone());
    continuation.attempt = 0;
    note_writes(continuation, event);
    continuation.stage = match ended.directive {
        Directive::Break => Stage::Done,
        Directive::Fail => Stage::Failed,
        Directive::Continue | Directive::Jump | Directive::Retry => Stage::Ready,
    };
    continuation.cursor = match (ended.directive, &ended.to) {
        (Directive::Jump, Some(to)) => {
            continuation.jumps += 1;
            Cursor::At(to.clone())
        }
        (Directive::Continue, _) => Cursor::After(label),
        _ => Cursor::At(label),
    };
}

/// Records the events of a label's successful visits, as soon as there is more than one visit.
fn note_part(
    continuation: &mut Continuation,
    label: &Name,
    before: Option<OutcomePointer>,
    now: &OutcomePointer,
) {
    if let Some(parts) = continuation.parts.get_mut(label) {
        if now.ok {
            parts.add(now);
        }
        return;
    }
    let Some(before) = before.filter(|before| before.ok) else {
        return;
    };
    let parts = continuation.parts.entry(label.clone()).or_default();
    parts.add(&before);
    if now.ok {
        parts.add(now);
    }
}

/// Records the sequence numbers of events that wrote values, so that the values can be read again.
fn note_writes(continuation: &mut Continuation, event: &Event) {
    let written = event.body.written();
    if written.iter.is_some() {
        continuation.iter_writes.push(event.seq);
    }
    if written.local.is_some() {
        continuation.local_writes.push(event.seq);
    }
    if written.ctx.is_some() {
        continuation.ctx_writes.push(event.seq);
    }
}
