//! Translates events of clients of any version into events of the log.
//!
//! Older clients report the start and end of a step and put the result into the end, whereas the log needs the events
//! of the task. Missing events are added, and events that the log has already are dropped. Each event is translated
//! against the state after the previous one, so the result does not depend on how events are batched.

use engine::{ExecutionState, StepRun};
use language::playbook::Step;
use model::command::{CommandWork, Continuation, PipelineCursor, PipelineStage};
use model::event::{
    AttemptEnded, EmptyPayload, EntityType, EventBody, EventKind, EventLocation, EventSource, FailurePayload,
    IterationDone, PolicyAction, PolicyEvaluated, ReportedEvent, ResultStored, StepDone, TaskEnded, TaskStarted,
};
use model::id::{IdBlock, Name, Seq, StepRunId, WorkerId};
use model::playbook::Directive;
use model::raw::RawJson;
use model::time::Time;
use serde_json::Value;
use wire::{WireEvent, WireEventError};

use crate::ingest::outcome::{is_native_payload, reported_error, reported_outcome};

/// A step run that a client reports on, with the state after the events translated so far.
pub(super) struct Translation<'s> {
    state: ExecutionState,
    run_id: StepRunId,
    work: CommandWork,
    step: &'s Step,
    worker: WorkerId,
    now: Time,
    /// IDs of events in `state`; the log assigns its own.
    provisional_ids: IdBlock,
}

/// Why an event cannot be translated.
#[derive(Debug, thiserror::Error)]
pub(super) enum TranslateError {
    #[error(transparent)]
    Invalid(#[from] WireEventError),
    /// A step with several tasks needs their outcomes before its end.
    #[error(
        "step `{step}` has {tasks} tasks, and some have no outcome: report `task.done` for each before the end of the step"
    )]
    TasksUnreported { step: String, tasks: usize },
    /// The step does not have this task.
    #[error("step `{step}` has no task `{task}`; its tasks are {tasks}")]
    UnknownTask { step: String, task: String, tasks: String },
    /// The step run has ended, and the event does not repeat that end.
    #[error("the step has already ended")]
    StepEnded,
}

/// Result of translating an event.
pub(super) enum TranslationResult {
    /// Events for the log, in order; the last one has the ID of the client's event.
    Events(Vec<ReportedEvent>),
    /// The log has it already.
    AlreadyRecorded,
}

impl<'s> Translation<'s> {
    /// Starts with the current state.
    pub(super) fn new(
        state: ExecutionState,
        command: Seq,
        step: &'s Step,
        worker: WorkerId,
        provisional_ids: IdBlock,
    ) -> Option<Self> {
        let live = state.commands.get(&command)?;
        Some(Self {
            run_id: live.run.clone(),
            work: live.work,
            state,
            step,
            worker,
            now: Time::default(),
            provisional_ids,
        })
    }

    /// Translates one event and applies the result to the state.
    pub(super) fn translate(&mut self, wire: &WireEvent, now: Time) -> Result<TranslationResult, TranslateError> {
        self.now = now;
        let kind = wire.kind()?;
        if self.step_run().is_none_or(|run| run.boundary.is_some()) {
            return if is_repeated_end(wire) {
                Ok(TranslationResult::AlreadyRecorded)
            } else {
                Err(TranslateError::StepEnded)
            };
        }
        let mut events = match kind {
            EventKind::StepStarted => self.start_events(None),
            EventKind::StepDone => self.end_step(wire)?,
            EventKind::StepFailed | EventKind::CommandFailed => self.fail_step(wire),
            EventKind::IterationStarted => self.start_events(wire.location()?.iteration),
            EventKind::IterationDone | EventKind::IterationFailed => self.end_iteration(wire, kind)?,
            EventKind::TaskStarted | EventKind::AttemptStarted => self.start_task(wire, kind)?,
            EventKind::AttemptDone | EventKind::AttemptFailed | EventKind::TaskDone | EventKind::TaskFailed => {
                self.end_task(wire, kind)?
            }
            _ => vec![self.to_native_event(wire)?],
        };
        let Some(last) = events.last_mut() else {
            return Ok(TranslationResult::AlreadyRecorded);
        };
        last.event_id = wire.event_id;
        last.meta = recorded_meta(wire);
        last.timestamp = wire.created_at.unwrap_or(now);
        last.duration_ms = wire.duration_ms;
        for event in &mut events {
            event.seq = self.state.seq.next();
            let id = self.provisional_ids.next_event_id();
            self.state.apply(&event.clone().with_id(id));
        }
        Ok(TranslationResult::Events(events))
    }

    fn step_run(&self) -> Option<&StepRun> {
        self.state.run(&self.run_id)
    }

    fn continuation(&self, iteration: Option<u64>) -> Option<&Continuation> {
        self.step_run()?.continuation(iteration)
    }

    /// The start events that must be recorded before any other event of a step run or iteration.
    fn start_events(&self, iteration: Option<u64>) -> Vec<ReportedEvent> {
        let Some(run) = self.step_run() else {
            return Vec::new();
        };
        match iteration {
            None if self.work == CommandWork::Pipeline && !run.started => {
                vec![self.event(self.location(), EventBody::StepStarted(EmptyPayload {}))]
            }
            Some(index) => {
                let progress = run.loop_.as_ref();
                let has_started =
                    progress.is_some_and(|loop_| loop_.live.contains_key(&index) || loop_.has_ended(index));
                if has_started {
                    return Vec::new();
                }
                let location = self.location().with_iteration(iteration);
                vec![self.event(location, EventBody::IterationStarted(EmptyPayload {}))]
            }
            None => Vec::new(),
        }
    }

    /// The end of the step, preceded by the outcome of its only task if that was not reported.
    fn end_step(&self, wire: &WireEvent) -> Result<Vec<ReportedEvent>, TranslateError> {
        let mut events = self.start_events(None);
        events.extend(self.end_tasks(wire, None)?);
        events.push(self.event(self.location(), EventBody::StepDone(StepDone::default())));
        Ok(events)
    }

    fn fail_step(&self, wire: &WireEvent) -> Vec<ReportedEvent> {
        let mut events = self.start_events(None);
        let failed = FailurePayload {
            error: reported_error(wire),
            set_ctx: None,
        };
        events.push(self.event(self.location(), EventBody::StepFailed(Box::new(failed))));
        events
    }

    fn end_iteration(&self, wire: &WireEvent, kind: EventKind) -> Result<Vec<ReportedEvent>, TranslateError> {
        let iteration = wire.location()?.iteration;
        let mut events = self.start_events(iteration);
        let body = if kind == EventKind::IterationDone {
            events.extend(self.end_tasks(wire, iteration)?);
            let event = wire.to_event(self.now);
            event.map_or(EventBody::IterationDone(IterationDone { set_ctx: None }), |event| {
                event.body
            })
        } else {
            let failed = FailurePayload {
                error: reported_error(wire),
                set_ctx: None,
            };
            EventBody::IterationFailed(Box::new(failed))
        };
        events.push(self.event(self.location().with_iteration(iteration), body));
        Ok(events)
    }

    /// The outcome of the only task, if it is reported with the end of the step or iteration.
    fn end_tasks(&self, wire: &WireEvent, iteration: Option<u64>) -> Result<Vec<ReportedEvent>, TranslateError> {
        let initial = Continuation::default();
        let continuation = self.continuation(iteration).unwrap_or(&initial);
        if self.has_run_all(continuation) {
            return Ok(Vec::new());
        }
        let [task] = self.step.tasks.as_slice() else {
            return Err(TranslateError::TasksUnreported {
                step: self.run_id.step.to_string(),
                tasks: self.step.tasks.len(),
            });
        };
        let location = self.task_location(task.label.clone(), iteration, continuation);
        let mut events = self.start_missing(&location, continuation);
        let location = EventLocation {
            attempt: events
                .last()
                .map_or(continuation.attempt.max(1), |event| event.location.attempt),
            ..location
        };
        let ended = TaskEnded::new(reported_outcome(wire, false), Directive::Continue);
        events.push(self.event(location, EventBody::TaskDone(Box::new(ended))));
        Ok(events)
    }

    /// Whether all tasks of the pipeline have been reported.
    fn has_run_all(&self, continuation: &Continuation) -> bool {
        let last = self.step.tasks.last();
        let is_behind_last = last.is_none_or(|task| continuation.cursor == PipelineCursor::After(task.label.clone()));
        matches!(continuation.stage, PipelineStage::Done | PipelineStage::Failed)
            || (is_behind_last && continuation.stage == PipelineStage::Ready)
    }

    /// The start of a task or of one of its attempts.
    fn start_task(&self, wire: &WireEvent, kind: EventKind) -> Result<Vec<ReportedEvent>, TranslateError> {
        let location = self.reported_location(wire)?;
        let mut events = self.start_events(location.iteration);
        let initial = Continuation::default();
        let continuation = self.continuation(location.iteration).unwrap_or(&initial);
        if kind == EventKind::TaskStarted {
            if is_task_running(continuation, &location) {
                return Ok(Vec::new());
            }
            events.push(self.event(location, self.started_body(wire)));
            return Ok(events);
        }
        let is_running = is_task_running(continuation, &location);
        let current = if is_running { continuation.attempt } else { 0 };
        // A retry without an attempt number is the next attempt.
        let attempt = wire.attempt.unwrap_or(current + 1).max(1);
        if is_running && attempt <= current && attempt > 1 {
            return Ok(Vec::new());
        }
        events.extend(self.attempts_before(&location, continuation, attempt));
        events.push(self.event(
            EventLocation { attempt, ..location },
            EventBody::AttemptStarted(EmptyPayload {}),
        ));
        Ok(events)
    }

    /// The end of a task or of one of its attempts.
    fn end_task(&self, wire: &WireEvent, kind: EventKind) -> Result<Vec<ReportedEvent>, TranslateError> {
        let location = self.reported_location(wire)?;
        let mut events = self.start_events(location.iteration);
        let initial = Continuation::default();
        let continuation = self.continuation(location.iteration).unwrap_or(&initial);
        let label = location.task.as_ref();
        let has_outcome = label.is_some_and(|label| continuation.outcomes.contains_key(label));
        let is_running = is_task_running(continuation, &location);
        if !is_running && has_outcome && !wire.has_task_run() {
            return Ok(Vec::new());
        }
        let is_attempt = matches!(kind, EventKind::AttemptDone | EventKind::AttemptFailed);
        if is_attempt && wire.attempt.is_some_and(|attempt| attempt > 1) {
            let attempt = wire.attempt.unwrap_or(1);
            if !is_running || continuation.attempt < attempt {
                events.extend(self.attempts_before(&location, continuation, attempt));
                let next = EventLocation {
                    attempt,
                    ..location.clone()
                };
                events.push(self.event(next, EventBody::AttemptStarted(EmptyPayload {})));
            }
        } else {
            events.extend(self.start_missing(&location, continuation));
        }
        let current = if is_running { continuation.attempt.max(1) } else { 1 };
        let attempt = events.last().map_or(current, |event| event.location.attempt.max(1));
        let location = EventLocation { attempt, ..location };
        let has_failed = matches!(kind, EventKind::AttemptFailed | EventKind::TaskFailed);
        let body = if is_native_payload(wire) {
            wire.to_event(self.now)?.body
        } else {
            ended_body(wire, kind, has_failed)
        };
        events.push(self.event(location, body));
        Ok(events)
    }

    /// The start of a task, or of its next attempt, if it was not reported.
    fn start_missing(&self, location: &EventLocation, continuation: &Continuation) -> Vec<ReportedEvent> {
        if !is_task_running(continuation, location) {
            let location = EventLocation {
                attempt: 1,
                ..location.clone()
            };
            return vec![self.event(location, EventBody::TaskStarted(TaskStarted::default()))];
        }
        if matches!(continuation.stage, PipelineStage::Retrying { .. }) {
            let attempt = continuation.attempt + 1;
            let location = EventLocation {
                attempt,
                ..location.clone()
            };
            return vec![self.event(location, EventBody::AttemptStarted(EmptyPayload {}))];
        }
        Vec::new()
    }

    /// The events that the log needs before attempt `next` of a task starts: the earlier attempts, each with its
    /// retry.
    fn attempts_before(&self, location: &EventLocation, continuation: &Continuation, next: u32) -> Vec<ReportedEvent> {
        let is_running = is_task_running(continuation, location);
        let mut events = Vec::new();
        let mut current = continuation.attempt.max(1);
        let mut is_retrying = is_running && matches!(continuation.stage, PipelineStage::Retrying { .. });
        if !is_running {
            let first = EventLocation {
                attempt: 1,
                ..location.clone()
            };
            events.push(self.event(first, EventBody::TaskStarted(TaskStarted::default())));
            current = 1;
            is_retrying = false;
        }
        while current < next {
            let current_location = EventLocation {
                attempt: current,
                ..location.clone()
            };
            if is_retrying {
                // The retry of this attempt is in the log already.
                is_retrying = false;
            } else {
                let policy = PolicyEvaluated {
                    matched_rule_index: None,
                    action: PolicyAction::from_directive(Directive::Retry),
                    set_iter: None,
                    set_ctx: None,
                    set: None,
                };
                events.push(self.event(current_location, EventBody::PolicyEvaluated(Box::new(policy))));
            }
            current += 1;
            if current < next {
                let between = EventLocation {
                    attempt: current,
                    ..location.clone()
                };
                events.push(self.event(between, EventBody::AttemptStarted(EmptyPayload {})));
            }
        }
        events
    }

    fn started_body(&self, wire: &WireEvent) -> EventBody {
        match wire.to_event(self.now) {
            Ok(event) if matches!(event.body, EventBody::TaskStarted(_)) => event.body,
            // The payload of an older client is not a rendered input.
            _ => EventBody::TaskStarted(TaskStarted::default()),
        }
    }

    fn to_native_event(&self, wire: &WireEvent) -> Result<ReportedEvent, TranslateError> {
        let mut event = wire.to_event(self.now)?;
        if let EventBody::ResultStored(stored) | EventBody::ManifestUpdated(stored) = &mut event.body {
            move_extracted(wire, stored);
        }
        event.location = self.reported_location(wire)?;
        event.worker_id = Some(self.worker.clone());
        Ok(event)
    }

    /// The location that the client reports, within the run of the command it holds.
    fn reported_location(&self, wire: &WireEvent) -> Result<EventLocation, TranslateError> {
        let mut location = wire.location()?;
        location.step = Some(self.run_id.step.clone());
        location.run = self.run_id.run;
        let entity = wire.kind()?.entity();
        if let Some(label) = &location.task {
            let exists = self.step.tasks.iter().any(|task| task.label == *label);
            if !exists {
                return Err(self.unknown_task(label));
            }
        }
        let initial = Continuation::default();
        let continuation = self.continuation(location.iteration).unwrap_or(&initial);
        if location.task.is_none() && matches!(entity, EntityType::Task | EntityType::Policy) {
            location.task = self.current_task(continuation);
        }
        if let Some(label) = location.task.clone()
            && !wire.has_task_run()
        {
            let placed = self.task_location(label, location.iteration, continuation);
            location.visit = placed.visit;
            location.attempt = wire.attempt.unwrap_or(location.attempt).max(1);
        }
        Ok(location)
    }

    /// The task that is running, or the next one.
    fn current_task(&self, continuation: &Continuation) -> Option<Name> {
        let tasks = &self.step.tasks;
        match &continuation.cursor {
            PipelineCursor::At(label) => Some(label.clone()),
            PipelineCursor::Start => tasks.first().map(|task| task.label.clone()),
            PipelineCursor::After(label) => {
                let index = tasks.iter().position(|task| task.label == *label);
                let next = index.and_then(|index| tasks.get(index + 1));
                Some(next.map_or_else(|| label.clone(), |task| task.label.clone()))
            }
        }
    }

    fn unknown_task(&self, label: &Name) -> TranslateError {
        let tasks = self.step.tasks.iter();
        let tasks: Vec<String> = tasks.map(|task| format!("`{}`", task.label)).collect();
        TranslateError::UnknownTask {
            step: self.run_id.step.to_string(),
            task: label.to_string(),
            tasks: tasks.join(", "),
        }
    }

    /// Location of a task: its current visit, or the next one.
    fn task_location(&self, label: Name, iteration: Option<u64>, continuation: &Continuation) -> EventLocation {
        let earlier_visits = continuation.visits.get(&label).copied().unwrap_or(0);
        let is_here = continuation.cursor == PipelineCursor::At(label.clone());
        let visit = if is_here {
            earlier_visits.max(1)
        } else {
            earlier_visits + 1
        };
        EventLocation {
            task: Some(label),
            visit,
            attempt: 1,
            ..self.location().with_iteration(iteration)
        }
    }

    fn location(&self) -> EventLocation {
        EventLocation::of_step_run(&self.run_id)
    }

    fn event(&self, location: EventLocation, body: EventBody) -> ReportedEvent {
        ReportedEvent {
            source: EventSource::Worker,
            worker_id: Some(self.worker.clone()),
            ..ReportedEvent::new(None, self.state.execution, self.now, location, body)
        }
    }
}

/// Whether the event repeats, under an older event name, a start or end that the log already has. The first report
/// counts. The log's own names would mean a second end, which is impossible.
pub(super) fn is_repeated_end(wire: &WireEvent) -> bool {
    let name = wire.event_type.as_str();
    let is_older = EventKind::from_stored_name(name).is_none();
    let is_boundary = wire
        .kind()
        .is_ok_and(|kind| kind.is_boundary() || kind == EventKind::StepStarted);
    (is_older && is_boundary) || name == "command.failed"
}

/// Whether this visit of the task has started and has no outcome.
fn is_task_running(continuation: &Continuation, location: &EventLocation) -> bool {
    let Some(label) = &location.task else { return false };
    let is_here = continuation.cursor == PipelineCursor::At(label.clone());
    let visit = continuation.visits.get(label).copied().unwrap_or(0);
    let has_started = matches!(
        continuation.stage,
        PipelineStage::Started
            | PipelineStage::Retrying { .. }
            | PipelineStage::WaitEnded { .. }
            | PipelineStage::Awaiting { .. }
    );
    is_here && has_started && visit == location.visit
}

/// The meta to record: everything except the sealed epoch, which readers of the log could use to report.
fn recorded_meta(wire: &WireEvent) -> Option<RawJson> {
    let meta = wire.stored_meta()?;
    let Value::Object(mut fields) = meta.to_value() else {
        return Some(meta);
    };
    if fields.remove("lease_epoch").is_none() {
        return Some(meta);
    }
    (!fields.is_empty()).then(|| RawJson::from_serializable(&fields))
}

fn ended_body(wire: &WireEvent, kind: EventKind, has_failed: bool) -> EventBody {
    let outcome = reported_outcome(wire, has_failed);
    match kind {
        EventKind::AttemptDone | EventKind::AttemptFailed => {
            let ended = AttemptEnded {
                outcome,
                result_ref: None,
            };
            if has_failed {
                EventBody::AttemptFailed(ended)
            } else {
                EventBody::AttemptDone(ended)
            }
        }
        _ if has_failed => EventBody::TaskFailed(Box::new(TaskEnded::new(outcome, Directive::Fail))),
        _ => EventBody::TaskDone(Box::new(TaskEnded::new(outcome, Directive::Continue))),
    }
}

/// Moves extracted fields that are next to the reference into it.
fn move_extracted(wire: &WireEvent, stored: &mut ResultStored) {
    let payload = wire.payload.as_ref().map(RawJson::to_value);
    let extracted = payload.as_ref().and_then(|payload| payload.get("extracted"));
    if let Some(Value::Object(extracted)) = extracted
        && stored.result_ref.extracted.is_empty()
    {
        stored.result_ref.extracted.clone_from(extracted);
    }
}
