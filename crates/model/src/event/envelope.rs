//! The envelope of every event, and the fields derived from it for display.

use serde::{Deserialize, Serialize};

use crate::event::body::{
    Action, AdmitEvaluated, AttemptEnded, Batch, CommandClaimed, CommandExpired, CommandFailed,
    CommandIssued, CtxPatched, Ending, Failed, Finished, FrameClaimed, IterationDone,
    IterationScheduled, LoopDone, LoopStarted, NextEvaluated, Note, Nothing, PolicyEvaluated,
    RequestEvaluated, Requested, ResultStored, Retried, Signal, StepDone, StepScheduled, TaskEnded,
    TaskStarted, TimerFired, TimerSet, WorkflowStarted, Written,
};
use crate::event::control::{StopRequested, Switched};
use crate::event::kind::{Kind, Source};
use crate::event::reuse::Reused;
use crate::id::{EventId, ExecutionId, Name, Seq, StepRunId, WorkerId};
use crate::raw::Raw;
use crate::time::Time;

/// One event of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Unique; appending the same id again has no effect.
    pub event_id: EventId,
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
    pub source: Source,
    /// The location in the execution.
    pub at: At,
    /// The duration of the entity that this event ends.
    pub duration_ms: Option<u64>,
    /// The worker that emitted it.
    pub worker_id: Option<WorkerId>,
    /// The trace id from the request; `None` means the execution's own.
    pub trace_id: Option<Name>,
    /// Free-form data, stored unchanged.
    pub meta: Option<Raw>,
    /// The payload.
    pub body: Body,
}

/// The location of an event in an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct At {
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

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl At {
    /// The location of a step run.
    pub fn step_run(run: &StepRunId) -> Self {
        Self {
            step: Some(run.step.clone()),
            run: run.run,
            ..Self::default()
        }
    }

    /// Adds the index of an iteration.
    #[must_use]
    pub fn iteration(mut self, index: Option<u64>) -> Self {
        self.iteration = index;
        self
    }

    /// The step run of this location.
    pub fn step_run_id(&self) -> Option<StepRunId> {
        let step = self.step.clone()?;
        (self.run > 0).then_some(StepRunId {
            step,
            run: self.run,
        })
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
        Some(format!(
            "{}:iteration:{}",
            self.step_run_id()?,
            self.iteration?
        ))
    }
}

/// Progress of the entity that the event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants are self-explanatory")]
pub enum Status {
    InProgress,
    Success,
    Error,
    Skipped,
    Paused,
    Cancelled,
}

macro_rules! bodies {
    ($($kind:ident($payload:ty)),* $(,)?) => {
        /// The payload of an event, by kind.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant has the name of its `Kind`")]
        pub enum Body { $($kind($payload)),* }

        impl Body {
            /// The kind.
            pub fn kind(&self) -> Kind {
                match self { $(Body::$kind(_) => Kind::$kind),* }
            }

            /// The payload as JSON text.
            pub fn payload(&self) -> Raw {
                match self { $(Body::$kind(payload) => Raw::of(payload)),* }
            }

            /// Writes the payload as JSON.
            pub fn write<W: std::io::Write>(&self, writer: W) -> serde_json::Result<()> {
                match self { $(Body::$kind(payload) => serde_json::to_writer(writer, payload)),* }
            }

            /// Parses a payload of the given kind.
            pub fn read(kind: Kind, payload: &str) -> serde_json::Result<Self> {
                match kind { $(Kind::$kind => serde_json::from_str(payload).map(Body::$kind)),* }
            }
        }
    };
}

bodies! {
    ExecutionRequested(Box<Requested>),
    RequestEvaluated(RequestEvaluated),
    PlaybookStarted(Nothing),
    PlaybookPaused(Note),
    PlaybookResumed(Note),
    PlaybookSwitched(Switched),
    PlaybookFinished(Box<Finished>),
    PlaybookProcessed(Nothing),
    WorkflowStarted(WorkflowStarted),
    WorkflowFinished(Box<Finished>),
    CancelRequested(StopRequested),
    ExecutionRetried(Retried),
    StepReused(Box<Reused>),
    SignalReceived(Signal),
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
    StepStarted(Nothing),
    StepDone(StepDone),
    StepFailed(Box<Failed>),
    TaskStarted(TaskStarted),
    AttemptStarted(Nothing),
    AttemptDone(AttemptEnded),
    AttemptFailed(AttemptEnded),
    TaskDone(Box<TaskEnded>),
    TaskFailed(Box<TaskEnded>),
    PolicyEvaluated(Box<PolicyEvaluated>),
    LoopStarted(Box<LoopStarted>),
    FrameClaimed(FrameClaimed),
    IterationScheduled(IterationScheduled),
    IterationStarted(Nothing),
    IterationDone(IterationDone),
    IterationFailed(Box<Failed>),
    LoopDone(LoopDone),
    ResultStored(ResultStored),
    ManifestUpdated(ResultStored),
    BatchAccepted(Batch),
    BatchProcessing(Batch),
    BatchCompleted(Batch),
    BatchFailed(Batch),
}

impl Body {
    /// The writes of the event: those of an outcome, or of a rule that retries.
    pub fn written(&self) -> Written<'_> {
        match self {
            Self::TaskDone(ended) | Self::TaskFailed(ended) => Written {
                iter: ended.set_iter.as_ref(),
                ctx: ended.set_ctx.as_ref(),
                local: ended.set.as_ref(),
            },
            Self::PolicyEvaluated(policy) => Written {
                iter: policy.set_iter.as_ref(),
                ctx: policy.set_ctx.as_ref(),
                local: policy.set.as_ref(),
            },
            _ => Written::default(),
        }
    }
}

impl Event {
    /// The kind.
    pub fn kind(&self) -> Kind {
        self.body.kind()
    }

    /// The progress of the entity that the event is about.
    pub fn status(&self) -> Status {
        match &self.body {
            Body::PlaybookFinished(finished) | Body::WorkflowFinished(finished) => {
                match finished.ended {
                    Ending::Success => Status::Success,
                    Ending::Error => Status::Error,
                    Ending::Cancelled => Status::Cancelled,
                }
            }
            Body::AdmitEvaluated(admit) if admit.discarded => Status::Skipped,
            Body::AdmitEvaluated(admit) if admit.error.is_some() => Status::Error,
            Body::NextEvaluated(next) if next.error.is_some() => Status::Error,
            Body::PlaybookPaused(_) => Status::Paused,
            Body::StepFailed(_)
            | Body::TaskFailed(_)
            | Body::AttemptFailed(_)
            | Body::IterationFailed(_)
            | Body::CommandFailed(_)
            | Body::CommandExpired(_)
            | Body::BatchFailed(_) => Status::Error,
            Body::ExecutionRequested(_)
            | Body::PlaybookStarted(_)
            | Body::WorkflowStarted(_)
            | Body::StepScheduled(_)
            | Body::StepStarted(_)
            | Body::TaskStarted(_)
            | Body::AttemptStarted(_)
            | Body::LoopStarted(_)
            | Body::FrameClaimed(_)
            | Body::IterationScheduled(_)
            | Body::IterationStarted(_)
            | Body::CommandIssued(_)
            | Body::CommandClaimed(_)
            | Body::TimerSet(_)
            | Body::CancelRequested(_)
            | Body::PlaybookResumed(_)
            | Body::ExecutionRetried(_)
            | Body::BatchAccepted(_)
            | Body::BatchProcessing(_) => Status::InProgress,
            _ => Status::Success,
        }
    }

    /// The id of the entity that the event is about.
    pub fn entity_id(&self) -> String {
        let step = self.at.step.as_ref().map_or("", Name::as_str);
        let task = self.at.task.as_ref().map_or("", Name::as_str);
        match &self.body {
            Body::NextEvaluated(_) | Body::AdmitEvaluated(_) => format!("step:{step}"),
            Body::PolicyEvaluated(_) => format!("task:{task}"),
            Body::ResultStored(_) | Body::ManifestUpdated(_) => {
                format!("task:{task}:attempt:{}", self.at.attempt)
            }
            Body::SignalReceived(signal) => signal.name.to_string(),
            Body::TimerFired(fired) => fired.timer.to_string(),
            Body::CommandClaimed(claimed) => claimed.command.to_string(),
            Body::CommandExpired(expired) => expired.command.to_string(),
            Body::CommandFailed(failed) => failed.command.to_string(),
            Body::TimerSet(_) | Body::CommandIssued(_) => self.seq.to_string(),
            _ if !task.is_empty() => task.to_owned(),
            _ if !step.is_empty() => step.to_owned(),
            _ => self.execution_id.to_string(),
        }
    }

    /// The id of the entity that contains this one: workflow, then step run, then task run.
    pub fn parent_id(&self) -> Option<String> {
        match &self.body {
            Body::PolicyEvaluated(_) | Body::ResultStored(_) | Body::ManifestUpdated(_) => {
                self.at.task_run_id()
            }
            Body::StepScheduled(_)
            | Body::StepStarted(_)
            | Body::StepDone(_)
            | Body::StepFailed(_) => Some(self.workflow_run_id()),
            _ => match self.at.step_run_id() {
                Some(run) => Some(run.to_string()),
                None if self.at.step.is_some() => Some(self.workflow_run_id()),
                None => None,
            },
        }
    }

    /// The trace id from the request, or the execution's own.
    pub fn trace_id(&self) -> Name {
        let given = self.trace_id.clone();
        given.unwrap_or_else(|| own_trace(self.execution_id))
    }

    /// The id of the workflow run; each execution has one.
    pub fn workflow_run_id(&self) -> String {
        format!("workflow:{}", self.execution_id)
    }
}

/// The trace id of an execution whose request has none: its id in the form of a W3C trace id.
pub fn own_trace(execution: ExecutionId) -> Name {
    Name::from(format!("{:032x}", execution.0))
}

impl Action {
    /// Creates an action without further values.
    pub fn plain(directive: crate::playbook::Directive) -> Self {
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
