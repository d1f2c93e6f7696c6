//! Computes a pipeline's position (`Continuation`) from its own events.
//!
//! Only recorded events change the position.

use std::time::Duration;

use model::command::{Continuation, OutcomePointer, PipelineCursor, PipelineStage};
use model::event::{Event, EventBody, PolicyAction, ResultStored, TaskEnded, TaskStarted};
use model::events;
use model::id::Name;
use model::manifest::ManifestRule;
use model::outcome::{Outcome, TaskError};
use model::playbook::Directive;
use model::raw::RawJson;

/// Applies one event of the pipeline to its continuation. Events without a task label, and other kinds, change
/// nothing.
pub fn fold<Id>(continuation: &mut Continuation, event: &Event<Id>) {
    let Some(label) = event.location.task.clone() else {
        return;
    };
    match &event.body {
        EventBody::TaskStarted(started) => start_visit(continuation, event, started, label),
        EventBody::AttemptStarted(_) => {
            continuation.attempt = event.location.attempt;
            continuation.stage = PipelineStage::Started;
            continuation.unknown = None;
        }
        EventBody::AttemptFailed(ended) => {
            record_unknown_effect(continuation, event, &ended.outcome);
        }
        EventBody::PolicyEvaluated(evaluated) => {
            if evaluated.action.directive == Directive::Retry {
                continuation.stage = retry_stage(&evaluated.action, event);
                add_writes(continuation, event);
            }
        }
        EventBody::TaskDone(ended) => end_visit(continuation, event, ended, true),
        EventBody::ManifestUpdated(stored) => use_manifest(continuation, event, stored),
        EventBody::TaskFailed(ended) => {
            record_unknown_effect(continuation, event, &ended.outcome);
            end_visit(continuation, event, ended, false);
        }
        events!(
            ExecutionRequested RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched
            PlaybookFinished PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested ExecutionRetried
            StepReused SignalReceived TimerSet TimerFired AdmitEvaluated StepScheduled NextEvaluated CtxPatched
            CommandIssued CommandClaimed CommandExpired CommandFailed StepStarted StepDone StepFailed AttemptDone
            LoopStarted FrameClaimed IterationScheduled IterationStarted IterationDone IterationFailed LoopDone
            ResultStored BatchAccepted BatchProcessing BatchCompleted BatchFailed
        ) => {}
    }
}

/// Records an attempt whose effect is unknown. The outcome of an awaiting task is always known.
fn record_unknown_effect<Id>(continuation: &mut Continuation, event: &Event<Id>, outcome: &RawJson) {
    let outcome = outcome.parse_as::<Outcome>().ok();
    let error = outcome.as_ref().and_then(Outcome::failure);
    let is_unknown = error.is_some_and(TaskError::leaves_effect_unknown);
    let was_called = continuation.stage == PipelineStage::Started;
    continuation.unknown = (is_unknown && was_called).then_some(event.location.attempt.max(1));
}

fn start_visit<Id>(continuation: &mut Continuation, event: &Event<Id>, started: &TaskStarted, label: Name) {
    continuation.visits.insert(label.clone(), event.location.visit);
    continuation.cursor = PipelineCursor::At(label);
    continuation.unknown = None;
    // A task that awaits an external event has one `task.started` per attempt.
    continuation.attempt = event.location.attempt.max(1);
    continuation.stage = started_stage(started, event);
}

fn started_stage<Id>(started: &TaskStarted, event: &Event<Id>) -> PipelineStage {
    match started.awaits {
        Some(_) => PipelineStage::Awaiting { since: event.seq },
        None => PipelineStage::Started,
    }
}

fn retry_stage<Id>(action: &PolicyAction, event: &Event<Id>) -> PipelineStage {
    let delay = Duration::try_from_secs_f64(action.delay.unwrap_or(0.0)).unwrap_or_default();
    PipelineStage::Retrying {
        due: event.timestamp.after(delay),
        suspended: action.suspend,
    }
}

/// Points the task's outcome to a manifest that replaces its result.
fn use_manifest<Id>(continuation: &mut Continuation, event: &Event<Id>, stored: &ResultStored) {
    let is_result = ManifestRule::from_reference(&stored.result_ref).is_some_and(|rule| rule.is_result);
    let Some(label) = event.location.task.as_ref().filter(|_| is_result) else {
        return;
    };
    if let Some(parts) = continuation.parts_of(label) {
        continuation.parts.insert(label.clone(), parts);
    }
    if let Some(pointer) = continuation.outcomes.get_mut(label) {
        pointer.seq = event.seq;
        pointer.ok = true;
        pointer.bytes = u32::try_from(model::size::json_bytes(stored)).unwrap_or(u32::MAX);
    }
}

fn end_visit<Id>(continuation: &mut Continuation, event: &Event<Id>, ended: &TaskEnded, ok: bool) {
    let label = event
        .location
        .task
        .clone()
        .expect("`fold` returns early if the event has no label");
    let bytes = u32::try_from(ended.outcome.text().len()).unwrap_or(u32::MAX);
    let pointer = OutcomePointer {
        seq: event.seq,
        ok,
        bytes,
        page: event
            .location
            .page
            .or((event.location.visit > 1).then_some(event.location.visit.into())),
        outside: ended.result_ref.as_ref().map(|body| body.meta.bytes),
    };
    let previous = continuation.outcomes.insert(label.clone(), pointer);
    add_part(continuation, &label, previous, &pointer);
    continuation.last = Some(label.clone());
    continuation.attempt = 0;
    add_writes(continuation, event);
    continuation.stage = match ended.directive {
        Directive::Break => PipelineStage::Done,
        Directive::Fail => PipelineStage::Failed,
        Directive::Continue | Directive::Jump | Directive::Retry => PipelineStage::Ready,
    };
    continuation.cursor = match (ended.directive, &ended.to) {
        (Directive::Jump, Some(to)) => {
            continuation.jumps += 1;
            PipelineCursor::At(to.clone())
        }
        (Directive::Continue, _) => PipelineCursor::After(label),
        _ => PipelineCursor::At(label),
    };
}

/// Records the events of a label's successful visits, as soon as there is more than one visit.
fn add_part(continuation: &mut Continuation, label: &Name, previous: Option<OutcomePointer>, latest: &OutcomePointer) {
    if let Some(parts) = continuation.parts.get_mut(label) {
        if latest.ok {
            parts.add(latest);
        }
        return;
    }
    let Some(previous) = previous.filter(|previous| previous.ok) else {
        return;
    };
    let parts = continuation.parts.entry(label.clone()).or_default();
    parts.add(&previous);
    if latest.ok {
        parts.add(latest);
    }
}

/// Records the sequence numbers of events that wrote values, so that the values can be read again.
fn add_writes<Id>(continuation: &mut Continuation, event: &Event<Id>) {
    let writes = event.body.writes();
    if writes.iter.is_some() {
        continuation.iter_writes.push(event.seq);
    }
    if writes.local.is_some() {
        continuation.local_writes.push(event.seq);
    }
    if writes.ctx.is_some() {
        continuation.ctx_writes.push(event.seq);
    }
}
