//! The envelope of every event, and the fields derived from it for display.

use serde::{Deserialize, Serialize};

use crate::event::body::{
    AdmitEvaluated, AttemptEnded, BatchProgress, CommandClaimed, CommandExpired, CommandFailed, CommandIssued,
    ControlNote, CtxPatched, EmptyPayload, EndStatus, ExecutionFinished, ExecutionRequested, ExecutionRetried,
    FailurePayload, FrameClaimed, IterationDone, IterationScheduled, LoopDone, LoopStarted, NextEvaluated,
    PolicyAction, PolicyEvaluated, RequestEvaluated, ResultStored, SignalReceived, StepDone, StepScheduled, TaskEnded,
    TaskStarted, TimerFired, TimerSet, WorkflowStarted,
};
use crate::event::control::{PlaybookSwitched, StopRequest};
use crate::event::kind::{EventKind, EventSource};
use crate::event::reuse::ReusedRecord;
use crate::id::{EventId, ExecutionId, Name, Seq, StepRunId, WorkerId};
use crate::raw::RawJson;
use crate::time::Time;

/// The writes of a task event, by target.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventWrites<'e> {
    /// Writes to the iteration.
    pub iter: Option<&'e RawJson>,
    /// Writes to the execution.
    pub ctx: Option<&'e RawJson>,
    /// Writes to the pipeline.
    pub local: Option<&'e RawJson>,
}

/// One event of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<Id = EventId> {
    /// Unique; appending the same id again has no effect.
    pub event_id: Id,
    /// The execution it belongs to.
    pub execution_id: ExecutionId,
    /// Its position in the log; [`Seq`] 0 until it is appended.
    pub seq: Seq,
    /// The earlier event that caused it; `None` only for the first.
    pub cause_seq: Option<Seq>,
    /// The time on the emitter's clock.
    pub timestamp: Time,
    /// The time on the store's clock.
    pub recorded_at: Time,
    /// The emitter.
    pub source: EventSource,
    /// The location in the execution.
    pub location: EventLocation,
    /// The duration of the entity that this event ends.
    pub duration_ms: Option<u64>,
    /// The worker that emitted it.
    pub worker_id: Option<WorkerId>,
    /// The trace id from the request; `None` means the execution's own.
    pub trace_id: Option<Name>,
    /// Free-form data, stored unchanged.
    pub meta: Option<RawJson>,
    /// The payload.
    pub body: EventBody,
}

/// An event that was reported: it has an ID only if the reporter chose one.
pub type ReportedEvent = Event<Option<EventId>>;

impl ReportedEvent {
    /// The event with its final ID.
    pub fn with_id(self, event_id: EventId) -> Event {
        Event {
            seq: self.seq,
            cause_seq: self.cause_seq,
            recorded_at: self.recorded_at,
            source: self.source,
            duration_ms: self.duration_ms,
            worker_id: self.worker_id,
            trace_id: self.trace_id,
            meta: self.meta,
            ..Event::new(event_id, self.execution_id, self.timestamp, self.location, self.body)
        }
    }
}

/// The location of an event in an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EventLocation {
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Name>,
    /// Counts the step's runs from 1; 0 if the event is not about a step run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub run: u32,
    /// The loop index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// The task's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Name>,
    /// Counts the entries of that label in its pipeline from 1; 0 if the event is not about a task.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// Counts the attempts of that visit from 1; 0 if the event is not about an attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The page of a paginated result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl EventLocation {
    /// The location of a step, without a run.
    pub fn of_step(step: &Name) -> Self {
        Self {
            step: Some(step.clone()),
            ..Self::default()
        }
    }

    /// The location of a step run.
    pub fn of_step_run(run: &StepRunId) -> Self {
        Self {
            step: Some(run.step.clone()),
            run: run.run,
            ..Self::default()
        }
    }

    /// Adds the index of an iteration.
    #[must_use]
    pub fn with_iteration(mut self, index: Option<u64>) -> Self {
        self.iteration = index;
        self
    }

    /// The step run of this location.
    pub fn step_run_id(&self) -> Option<StepRunId> {
        let step = self.step.clone()?;
        (self.run > 0).then_some(StepRunId { step, run: self.run })
    }

    /// The task run, `task:<step>.<label>:run:<run>[.<iteration>].<visit>`; unique within its execution.
    pub fn task_run_id(&self) -> Option<String> {
        let label = self.task.as_ref()?;
        let step = self.step.as_ref().map_or("", Name::as_str);
        let Self { run, visit, .. } = self;
        Some(match self.iteration {
            Some(index) => format!("task:{step}.{label}:run:{run}.{index}.{visit}"),
            None => format!("task:{step}.{label}:run:{run}.{visit}"),
        })
    }

    /// The iteration's stable id, `step:<name>:run:<n>:iteration:<i>`.
    pub fn iteration_id(&self) -> Option<String> {
        Some(format!("{}:iteration:{}", self.step_run_id()?, self.iteration?))
    }
}

/// Progress of the entity that the event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants are self-explanatory")]
pub enum EventStatus {
    InProgress,
    Success,
    Error,
    Skipped,
    Paused,
    Cancelled,
}

impl EventStatus {
    /// The name in events and stores.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Success => "success",
            Self::Error => "error",
            Self::Skipped => "skipped",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A pattern that matches events of the given kinds, whatever their payload: `events!(TaskDone TaskFailed)`.
///
/// A fold lists the events that it ignores with it, so a new event does not compile until every fold handles it.
#[macro_export]
macro_rules! events {
    ($($kind:ident)+) => { $($crate::event::EventBody::$kind(_))|+ };
}

macro_rules! bodies {
    ($($kind:ident($payload:ty)),* $(,)?) => {
        /// The payload of an event, by kind.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant has the name of its `EventKind`")]
        pub enum EventBody { $($kind($payload)),* }

        impl EventBody {
            /// The kind.
            pub fn kind(&self) -> EventKind {
                match self { $(EventBody::$kind(_) => EventKind::$kind),* }
            }

            /// The payload as JSON text.
            pub fn payload(&self) -> RawJson {
                match self { $(EventBody::$kind(payload) => RawJson::from_serializable(payload)),* }
            }

            /// Writes the payload as JSON.
            pub fn write<W: std::io::Write>(&self, writer: W) -> serde_json::Result<()> {
                match self { $(EventBody::$kind(payload) => serde_json::to_writer(writer, payload)),* }
            }

            /// Parses a payload of the given kind.
            pub fn read(kind: EventKind, payload: &str) -> serde_json::Result<Self> {
                match kind { $(EventKind::$kind => serde_json::from_str(payload).map(EventBody::$kind)),* }
            }
        }
    };
}

bodies! {
    ExecutionRequested(Box<ExecutionRequested>),
    RequestEvaluated(RequestEvaluated),
    PlaybookStarted(EmptyPayload),
    PlaybookPaused(ControlNote),
    PlaybookResumed(ControlNote),
    PlaybookSwitched(PlaybookSwitched),
    PlaybookFinished(Box<ExecutionFinished>),
    PlaybookProcessed(EmptyPayload),
    WorkflowStarted(WorkflowStarted),
    WorkflowFinished(Box<ExecutionFinished>),
    CancelRequested(StopRequest),
    ExecutionRetried(ExecutionRetried),
    StepReused(Box<ReusedRecord>),
    SignalReceived(SignalReceived),
    TimerSet(TimerSet),
    TimerFired(TimerFired),
    AdmitEvaluated(Box<AdmitEvaluated>),
    StepScheduled(Box<StepScheduled>),
    NextEvaluated(Box<NextEvaluated>),
    CtxPatched(CtxPatched),
    CommandIssued(CommandIssued),
    CommandClaimed(CommandClaimed),
    CommandExpired(CommandExpired),
    CommandFailed(Box<CommandFailed>),
    StepStarted(EmptyPayload),
    StepDone(StepDone),
    StepFailed(Box<FailurePayload>),
    TaskStarted(TaskStarted),
    AttemptStarted(EmptyPayload),
    AttemptDone(AttemptEnded),
    AttemptFailed(AttemptEnded),
    TaskDone(Box<TaskEnded>),
    TaskFailed(Box<TaskEnded>),
    PolicyEvaluated(Box<PolicyEvaluated>),
    LoopStarted(Box<LoopStarted>),
    FrameClaimed(FrameClaimed),
    IterationScheduled(IterationScheduled),
    IterationStarted(EmptyPayload),
    IterationDone(IterationDone),
    IterationFailed(Box<FailurePayload>),
    LoopDone(LoopDone),
    ResultStored(ResultStored),
    ManifestUpdated(ResultStored),
    BatchAccepted(BatchProgress),
    BatchProcessing(BatchProgress),
    BatchCompleted(BatchProgress),
    BatchFailed(BatchProgress),
}

impl EventBody {
    /// The result that the event records, if any.
    pub fn recorded_result(&self) -> Option<RecordedResult<'_>> {
        match self {
            Self::TaskDone(ended) => Some(RecordedResult::TaskDone(ended)),
            Self::TaskFailed(ended) => Some(RecordedResult::TaskFailed(ended)),
            Self::AttemptDone(ended) | Self::AttemptFailed(ended) => Some(RecordedResult::Attempt(ended)),
            Self::ManifestUpdated(stored) => Some(RecordedResult::Manifest(stored)),
            events!(
                ExecutionRequested RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched
                PlaybookFinished PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested ExecutionRetried
                StepReused SignalReceived TimerSet TimerFired AdmitEvaluated StepScheduled NextEvaluated CtxPatched
                CommandIssued CommandClaimed CommandExpired CommandFailed StepStarted StepDone StepFailed TaskStarted
                AttemptStarted PolicyEvaluated LoopStarted FrameClaimed IterationScheduled IterationStarted
                IterationDone IterationFailed LoopDone ResultStored BatchAccepted BatchProcessing BatchCompleted
                BatchFailed
            ) => None,
        }
    }

    /// The writes of the event: those of an outcome, or of a rule that retries.
    pub fn writes(&self) -> EventWrites<'_> {
        match self {
            Self::TaskDone(ended) | Self::TaskFailed(ended) => EventWrites {
                iter: ended.set_iter.as_ref(),
                ctx: ended.set_ctx.as_ref(),
                local: ended.set.as_ref(),
            },
            Self::PolicyEvaluated(policy) => EventWrites {
                iter: policy.set_iter.as_ref(),
                ctx: policy.set_ctx.as_ref(),
                local: policy.set.as_ref(),
            },
            events!(
                ExecutionRequested RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched
                PlaybookFinished PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested ExecutionRetried
                StepReused SignalReceived TimerSet TimerFired AdmitEvaluated StepScheduled NextEvaluated CtxPatched
                CommandIssued CommandClaimed CommandExpired CommandFailed StepStarted StepDone StepFailed TaskStarted
                AttemptStarted AttemptDone AttemptFailed LoopStarted FrameClaimed IterationScheduled IterationStarted
                IterationDone IterationFailed LoopDone ResultStored ManifestUpdated BatchAccepted BatchProcessing
                BatchCompleted BatchFailed
            ) => EventWrites::default(),
        }
    }
}

/// The result that an event records.
#[derive(Debug, Clone, Copy)]
pub enum RecordedResult<'a> {
    /// The result of a task that succeeded.
    TaskDone(&'a TaskEnded),
    /// The error of a task that failed.
    TaskFailed(&'a TaskEnded),
    /// The outcome of an attempt that a retry follows.
    Attempt(&'a AttemptEnded),
    /// The results that a task collected over several visits.
    Manifest(&'a ResultStored),
}

impl<Id> Event<Id> {
    /// Returns an event of the server that is not in the log yet: it has no seq and no cause.
    pub fn new(event_id: Id, execution: ExecutionId, now: Time, location: EventLocation, body: EventBody) -> Self {
        Self {
            event_id,
            execution_id: execution,
            seq: Seq(0),
            cause_seq: None,
            timestamp: now,
            recorded_at: now,
            source: EventSource::Server,
            location,
            duration_ms: None,
            worker_id: None,
            trace_id: None,
            meta: None,
            body,
        }
    }

    /// The kind.
    pub fn kind(&self) -> EventKind {
        self.body.kind()
    }

    /// The progress of the entity that the event is about.
    pub fn status(&self) -> EventStatus {
        match &self.body {
            EventBody::PlaybookFinished(finished) | EventBody::WorkflowFinished(finished) => match finished.ended {
                EndStatus::Success => EventStatus::Success,
                EndStatus::Error => EventStatus::Error,
                EndStatus::Cancelled => EventStatus::Cancelled,
            },
            EventBody::AdmitEvaluated(admit) if admit.discarded => EventStatus::Skipped,
            EventBody::AdmitEvaluated(admit) if admit.error.is_some() => EventStatus::Error,
            EventBody::NextEvaluated(next) if next.error.is_some() => EventStatus::Error,
            EventBody::PlaybookPaused(_) => EventStatus::Paused,
            events!(
                StepFailed TaskFailed AttemptFailed IterationFailed CommandFailed CommandExpired BatchFailed
            ) => EventStatus::Error,
            events!(
                ExecutionRequested PlaybookStarted WorkflowStarted StepScheduled StepStarted TaskStarted AttemptStarted
                LoopStarted FrameClaimed IterationScheduled IterationStarted CommandIssued CommandClaimed TimerSet
                CancelRequested PlaybookResumed ExecutionRetried BatchAccepted BatchProcessing
            ) => EventStatus::InProgress,
            events!(
                RequestEvaluated PlaybookSwitched PlaybookProcessed StepReused SignalReceived TimerFired AdmitEvaluated
                NextEvaluated CtxPatched StepDone AttemptDone TaskDone PolicyEvaluated IterationDone LoopDone
                ResultStored ManifestUpdated BatchCompleted
            ) => EventStatus::Success,
        }
    }

    /// The id of the entity that the event is about.
    pub fn entity_id(&self) -> String {
        let step = self.location.step.as_ref().map_or("", Name::as_str);
        let task = self.location.task.as_ref().map_or("", Name::as_str);
        match &self.body {
            EventBody::NextEvaluated(_) | EventBody::AdmitEvaluated(_) => format!("step:{step}"),
            EventBody::PolicyEvaluated(_) => format!("task:{task}"),
            EventBody::ResultStored(_) | EventBody::ManifestUpdated(_) => {
                format!("task:{task}:attempt:{}", self.location.attempt)
            }
            EventBody::SignalReceived(signal) => signal.name.to_string(),
            EventBody::TimerFired(fired) => fired.timer.to_string(),
            EventBody::CommandClaimed(claimed) => claimed.command.to_string(),
            EventBody::CommandExpired(expired) => expired.command.to_string(),
            EventBody::CommandFailed(failed) => failed.command.to_string(),
            EventBody::TimerSet(_) | EventBody::CommandIssued(_) => self.seq.to_string(),
            _ if !task.is_empty() => task.to_owned(),
            _ if !step.is_empty() => step.to_owned(),
            _ => self.execution_id.to_string(),
        }
    }

    /// The id of the entity that contains this one: workflow, then step run, then task run.
    pub fn parent_id(&self) -> Option<String> {
        match &self.body {
            EventBody::PolicyEvaluated(_) | EventBody::ResultStored(_) | EventBody::ManifestUpdated(_) => {
                self.location.task_run_id()
            }
            EventBody::StepScheduled(_)
            | EventBody::StepStarted(_)
            | EventBody::StepDone(_)
            | EventBody::StepFailed(_) => Some(self.workflow_run_id()),
            _ => match self.location.step_run_id() {
                Some(run) => Some(run.to_string()),
                None if self.location.step.is_some() => Some(self.workflow_run_id()),
                None => None,
            },
        }
    }

    /// The trace id from the request, or the execution's own.
    pub fn trace_id(&self) -> Name {
        let own_trace = self.trace_id.clone();
        own_trace.unwrap_or_else(|| default_trace_id(self.execution_id))
    }

    /// The id of the workflow run; each execution has one.
    pub fn workflow_run_id(&self) -> String {
        format!("workflow:{}", self.execution_id)
    }
}

/// The trace id of an execution whose request has none: its id in the form of a W3C trace id.
pub fn default_trace_id(execution: ExecutionId) -> Name {
    Name::from(format!("{:032x}", execution.0))
}

impl PolicyAction {
    /// Creates an action without further values.
    pub fn from_directive(directive: crate::playbook::Directive) -> Self {
        Self {
            directive,
            attempts: None,
            backoff: None,
            delay: None,
            to: None,
            suspend: false,
        }
    }
}
