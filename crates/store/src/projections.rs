//! Projections: the changes that events make to the rows that users and the API read.
//!
//! Pure logic. The transaction that appends and the rebuild call the same function, so both produce the same rows.

use model::event::{Event, EventBody, EventStatus, ExecutionFinished, ExecutionRequested};
use model::events;
use model::id::{Name, PlaybookHash, Seq};
use model::labels::Labels;
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;

use crate::commit::ExecutionCreation;
use crate::pending_waits::WaitChange;
use crate::rows::{ExecutionRow, ResultRow};

/// The changes that events make to the rows of one execution.
#[derive(Debug, Default)]
pub(crate) struct ProjectionDelta {
    /// Changes to the execution's row.
    pub(crate) patch: ExecutionPatch,
    /// New rows of `result_index`.
    pub(crate) results: Vec<ResultRow>,
    /// Changes to `step_state`, one per step.
    pub(crate) steps: Vec<StepChange>,
    /// The labels of a new execution.
    pub(crate) labels: Labels,
    /// Changes to `pending_wait` and `early_signal`, in order.
    pub(crate) waits: Vec<WaitChange>,
}

/// Changes to an execution's row besides its version; `None` leaves a value unchanged. Each value is absolute, so a store applies
/// it without reading the row.
#[derive(Debug, Default)]
pub(crate) struct ExecutionPatch {
    /// The status.
    pub(crate) status: Option<RunStatus>,
    /// Whether a stop was requested.
    pub(crate) cancelling: Option<bool>,
    /// The retry number.
    pub(crate) generation: Option<u32>,
    /// Another version of the playbook.
    pub(crate) playbook: Option<(u32, PlaybookHash)>,
    /// When and why it ended, or that it is active again.
    pub(crate) end: Option<GenerationEnd>,
    /// The step scheduled last.
    pub(crate) current: Option<CurrentStep>,
}

/// The current step of an execution.
#[derive(Debug, Clone)]
pub(crate) enum CurrentStep {
    /// This step.
    At(Name),
    /// None: the execution has ended.
    NoStep,
}

impl CurrentStep {
    pub(crate) fn name(&self) -> Option<&Name> {
        match self {
            Self::At(step) => Some(step),
            Self::NoStep => None,
        }
    }
}

/// When a generation ended, and why it failed; empty while it is active.
#[derive(Debug, Clone, Default)]
pub(crate) struct GenerationEnd {
    pub(crate) ended_at: Option<Time>,
    pub(crate) error: Option<String>,
}

impl ExecutionPatch {
    /// Whether only the current step changes.
    pub(crate) fn changes_only_current_step(&self) -> bool {
        self.status.is_none()
            && self.cancelling.is_none()
            && self.generation.is_none()
            && self.playbook.is_none()
            && self.end.is_none()
    }

    fn retry(&mut self, generation: u32) {
        self.generation = Some(generation);
        self.status = Some(RunStatus::Running);
        self.cancelling = Some(false);
        self.end = Some(GenerationEnd::default());
    }

    fn finish(&mut self, finished: &ExecutionFinished, ended_at: Time) {
        let error = finished.error.as_ref();
        self.generation = Some(finished.generation);
        self.status = Some(finished.ended.into());
        self.cancelling = Some(false);
        self.current = Some(CurrentStep::NoStep);
        self.end = Some(GenerationEnd {
            ended_at: Some(ended_at),
            error: error.map(|error| format!("{}: {}", error.code, error.message)),
        });
    }
}

/// Changes to one row of `step_state`.
#[derive(Debug)]
pub(crate) struct StepChange {
    pub(crate) step: Name,
    pub(crate) run: Option<u32>,
    pub(crate) status: Option<EventStatus>,
    pub(crate) last_result_ref: Option<RawJson>,
    pub(crate) aggregate_result_ref: Option<RawJson>,
    pub(crate) seq: Seq,
}

impl ProjectionDelta {
    /// Computes the changes that these events make.
    pub(crate) fn from_events(events: &[Event]) -> Self {
        let mut delta = Self::default();
        for event in events {
            delta.add(event);
            delta.waits.extend(WaitChange::of_event(event));
        }
        delta
    }

    fn add(&mut self, event: &Event) {
        match &event.body {
            EventBody::ExecutionRequested(request) => self.labels = request.labels.clone(),
            EventBody::PlaybookPaused(_) => self.patch.status = Some(RunStatus::Paused),
            EventBody::PlaybookResumed(_) => self.patch.status = Some(RunStatus::Running),
            EventBody::CancelRequested(_) => self.patch.cancelling = Some(true),
            EventBody::ExecutionRetried(retried) => self.patch.retry(retried.generation),
            EventBody::PlaybookSwitched(switched) => {
                self.patch.playbook = Some((switched.version, switched.hash.clone()));
            }
            EventBody::PlaybookFinished(finished) => self.patch.finish(finished, event.recorded_at),
            EventBody::StepScheduled(_) => self.schedule_step(event),
            EventBody::StepDone(_) | EventBody::StepFailed(_) | EventBody::LoopDone(_) | EventBody::StepReused(_) => {
                self.change_step(event, |change| change.status = Some(event.status()));
            }
            EventBody::TaskDone(ended) | EventBody::TaskFailed(ended) => {
                if let Some(result_ref) = &ended.result_ref {
                    let result_ref = RawJson::from_serializable(result_ref);
                    self.add_result(event, &result_ref);
                    self.change_step(event, |change| change.last_result_ref = Some(result_ref));
                }
            }
            EventBody::ManifestUpdated(stored) => {
                let result_ref = RawJson::from_serializable(&stored.result_ref);
                self.add_result(event, &result_ref);
                self.change_step(event, |change| {
                    change.aggregate_result_ref = Some(result_ref);
                });
            }
            events!(
                RequestEvaluated PlaybookStarted PlaybookProcessed WorkflowStarted WorkflowFinished SignalReceived
                TimerSet TimerFired AdmitEvaluated NextEvaluated CtxPatched CommandIssued CommandClaimed
                CommandExpired CommandFailed StepStarted TaskStarted AttemptStarted AttemptDone AttemptFailed
                PolicyEvaluated LoopStarted FrameClaimed IterationScheduled IterationStarted IterationDone
                IterationFailed ResultStored BatchAccepted BatchProcessing BatchCompleted BatchFailed
            ) => {}
        }
    }

    fn schedule_step(&mut self, event: &Event) {
        if let Some(step) = &event.location.step {
            self.patch.current = Some(CurrentStep::At(step.clone()));
        }
        self.change_step(event, |change| {
            change.run = Some(event.location.run);
            change.status = Some(EventStatus::InProgress);
        });
    }

    fn change_step(&mut self, event: &Event, change: impl FnOnce(&mut StepChange)) {
        let Some(step) = &event.location.step else {
            return;
        };
        let position = self.steps.iter().position(|change| change.step == *step);
        let index = position.unwrap_or_else(|| {
            self.steps.push(StepChange {
                step: step.clone(),
                run: None,
                status: None,
                last_result_ref: None,
                aggregate_result_ref: None,
                seq: event.seq,
            });
            self.steps.len() - 1
        });
        self.steps[index].seq = event.seq;
        change(&mut self.steps[index]);
    }

    fn add_result(&mut self, event: &Event, result_ref: &RawJson) {
        let Some(run) = event.location.step_run_id() else {
            return;
        };
        self.results.push(ResultRow {
            seq: event.seq,
            run,
            task: event.location.task.clone(),
            visit: event.location.visit,
            iteration: event.location.iteration,
            page: event.location.page,
            attempt: event.location.attempt,
            status: event.status(),
            result_ref: result_ref.clone(),
            created_at: event.recorded_at,
        });
    }
}

impl ExecutionRow {
    /// The row of a new execution, before its other events are applied.
    pub(crate) fn new(first: &Event, request: &ExecutionRequested, creation: &ExecutionCreation) -> Self {
        let name = creation.name.clone();
        Self {
            id: first.execution_id,
            version: first.seq,
            status: RunStatus::Running,
            cancelling: false,
            generation: 1,
            name: name.unwrap_or_else(|| request.path.clone()),
            path: request.path.clone(),
            playbook_version: request.version,
            hash: request.hash.clone(),
            parent: request.parent.as_ref().map(|parent| parent.execution_id),
            owner: creation.owner.clone(),
            started_at: first.recorded_at,
            finished_at: None,
            current: None,
            error: None,
        }
    }

    /// Applies the next events of a log to the rebuilt row of its execution; name and owner are those of `current`.
    pub(crate) fn rebuild(row: &mut Option<Self>, current: &Self, events: &[Event], delta: &ProjectionDelta) {
        if let (None, EventBody::ExecutionRequested(request)) = (&row, &events[0].body) {
            let creation = ExecutionCreation {
                name: Some(current.name.clone()),
                owner: current.owner.clone(),
            };
            *row = Some(Self::new(&events[0], request, &creation));
        }
        if let (Some(row), Some(end)) = (row, events.last()) {
            row.apply(delta, end.seq);
        }
    }

    /// Applies the changes of events.
    pub(crate) fn apply(&mut self, delta: &ProjectionDelta, version: Seq) {
        let patch = &delta.patch;
        self.version = version;
        self.status = patch.status.unwrap_or(self.status);
        self.cancelling = patch.cancelling.unwrap_or(self.cancelling);
        self.generation = patch.generation.unwrap_or(self.generation);
        if let Some((version, hash)) = &patch.playbook {
            self.playbook_version = *version;
            self.hash = hash.clone();
        }
        if let Some(end) = &patch.end {
            self.finished_at = end.ended_at;
            self.error.clone_from(&end.error);
        }
        if let Some(current) = &patch.current {
            self.current = current.name().cloned();
        }
    }
}
