//! Projections: what events change in the rows that people and API read.
//!
//! Pure. The same function runs in the transaction that appends and in a rebuild, so both give the same rows.

use model::event::{Body, Event, Requested, Status};
use model::id::{Name, PlaybookHash, Seq};
use model::raw::Raw;
use model::status::RunStatus;
use model::time::Time;

use crate::commit::Creation;
use crate::rows::{ExecutionRow, ResultRow, StepState};

/// What some events of one execution change.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// Changes to the execution's row, in order.
    pub(crate) life: Vec<Life>,
    /// The step scheduled last.
    pub(crate) current: Option<Name>,
    /// New rows of `result_index`.
    pub(crate) results: Vec<ResultRow>,
    /// Changes to `step_state`, one per step.
    pub(crate) steps: Vec<StepChange>,
}

/// A turn in an execution's life.
#[derive(Debug)]
pub(crate) enum Life {
    Paused,
    Resumed,
    CancelRequested,
    Retried { generation: u32 },
    Switched { version: u32, hash: PlaybookHash },
    Finished(End),
}

/// How a generation ended.
#[derive(Debug)]
pub(crate) struct End {
    generation: u32,
    status: RunStatus,
    at: Time,
    error: Option<String>,
}

/// What changes in one row of `step_state`.
#[derive(Debug)]
pub(crate) struct StepChange {
    pub(crate) step: Name,
    pub(crate) run: Option<u32>,
    pub(crate) status: Option<Status>,
    pub(crate) last_result_ref: Option<Raw>,
    pub(crate) aggregate_result_ref: Option<Raw>,
    pub(crate) seq: Seq,
}

impl Delta {
    /// What these events change.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut delta = Self::default();
        for event in events {
            delta.add(event);
        }
        delta
    }

    fn add(&mut self, event: &Event) {
        match &event.body {
            Body::PlaybookPaused(_) => self.life.push(Life::Paused),
            Body::PlaybookResumed(_) => self.life.push(Life::Resumed),
            Body::CancelRequested(_) => self.life.push(Life::CancelRequested),
            Body::ExecutionRetried(retried) => self.life.push(Life::Retried {
                generation: retried.generation,
            }),
            Body::PlaybookSwitched(switched) => self.life.push(Life::Switched {
                version: switched.version,
                hash: switched.hash.clone(),
            }),
            Body::PlaybookFinished(finished) => self.life.push(Life::Finished(End {
                generation: finished.generation,
                status: finished.ended.into(),
                at: event.recorded_at,
                error: finished
                    .error
                    .as_ref()
                    .map(|error| format!("{}: {}", error.code, error.message)),
            })),
            Body::StepScheduled(_) => {
                self.current.clone_from(&event.at.step);
                self.step(event, |change| {
                    change.run = Some(event.at.run);
                    change.status = Some(Status::InProgress);
                });
            }
            Body::StepDone(_) | Body::StepFailed(_) | Body::LoopDone(_) | Body::StepReused(_) => {
                self.step(event, |change| change.status = Some(event.status()));
            }
            Body::TaskDone(ended) | Body::TaskFailed(ended) => {
                if let Some(result_ref) = &ended.result_ref {
                    let result_ref = Raw::of(result_ref);
                    self.result(event, &result_ref);
                    self.step(event, |change| change.last_result_ref = Some(result_ref));
                }
            }
            Body::ManifestUpdated(stored) => {
                let result_ref = Raw::of(&stored.result_ref);
                self.result(event, &result_ref);
                self.step(event, |change| {
                    change.aggregate_result_ref = Some(result_ref);
                });
            }
            _ => {}
        }
    }

    fn step(&mut self, event: &Event, change: impl FnOnce(&mut StepChange)) {
        let Some(step) = &event.at.step else { return };
        let place = self.steps.iter().position(|change| change.step == *step);
        let index = place.unwrap_or_else(|| {
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

    fn result(&mut self, event: &Event, result_ref: &Raw) {
        let Some(run) = event.at.step_run_id() else {
            return;
        };
        self.results.push(ResultRow {
            seq: event.seq,
            run,
            task: event.at.task.clone(),
            visit: event.at.visit,
            iteration: event.at.iteration,
            page: event.at.page,
            attempt: event.at.attempt,
            status: event.status(),
            result_ref: result_ref.clone(),
            created_at: event.recorded_at,
        });
    }
}

impl ExecutionRow {
    /// The row of a new execution, before its other events are applied.
    pub(crate) fn new(first: &Event, request: &Requested, creation: &Creation) -> Self {
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

    /// Applies what events change.
    pub(crate) fn apply(&mut self, delta: &Delta, version: Seq) {
        self.version = version;
        if delta.current.is_some() {
            self.current.clone_from(&delta.current);
        }
        for turn in &delta.life {
            self.turn(turn);
        }
    }

    fn turn(&mut self, turn: &Life) {
        match turn {
            Life::Paused => self.status = RunStatus::Paused,
            Life::Resumed => self.status = RunStatus::Running,
            Life::CancelRequested => self.cancelling = true,
            Life::Switched { version, hash } => {
                self.playbook_version = *version;
                self.hash = hash.clone();
            }
            Life::Retried { generation } => {
                self.generation = *generation;
                self.status = RunStatus::Running;
                self.cancelling = false;
                self.finished_at = None;
                self.error = None;
            }
            Life::Finished(end) => {
                self.generation = end.generation;
                self.status = end.status;
                self.cancelling = false;
                self.finished_at = Some(end.at);
                self.error.clone_from(&end.error);
                self.current = None;
            }
        }
    }
}

impl StepState {
    /// The row as this change makes it, from nothing or from what was there.
    pub(crate) fn after(before: Option<&Self>, change: &StepChange) -> Self {
        let was = |field: fn(&Self) -> Option<Raw>| before.and_then(field);
        Self {
            step: change.step.clone(),
            run: change
                .run
                .or(before.map(|before| before.run))
                .unwrap_or_default(),
            status: change
                .status
                .or(before.map(|before| before.status))
                .unwrap_or(Status::InProgress),
            last_result_ref: change
                .last_result_ref
                .clone()
                .or_else(|| was(|before| before.last_result_ref.clone())),
            aggregate_result_ref: change
                .aggregate_result_ref
                .clone()
                .or_else(|| was(|before| before.aggregate_result_ref.clone())),
            seq: change.seq,
        }
    }
}
