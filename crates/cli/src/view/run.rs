//! View of a run.

#[cfg(test)]
use model::event::Event;
use model::event::ResultPointer;
use model::id::{Name, PlaybookHash, Seq};
use model::outcome::TaskError;
use model::status::RunStatus;
use model::time::Time;
use server::ResultAddress;

use crate::view::steps::{StepStatus, StepView};

/// State of a run after the events that were applied.
#[derive(Debug, Clone)]
pub(crate) struct RunView {
    /// Number of applied events.
    pub(crate) events: u64,
    /// Sequence number of the last event.
    pub(crate) last_seq: Seq,
    /// When the last event was recorded.
    pub(crate) last_event_at: Time,
    /// Status of the run.
    pub(crate) status: RunStatus,
    /// Whether its cancellation was requested.
    pub(crate) is_cancelling: bool,
    /// Generation of the run: 1, and one more for each retry.
    pub(crate) generation: u32,
    /// When it was requested.
    pub(crate) started_at: Option<Time>,
    /// When the current generation started; `None` in the first.
    pub(crate) generation_started_at: Option<Time>,
    /// When it ended.
    pub(crate) finished_at: Option<Time>,
    /// Path of the playbook.
    pub(crate) path: Option<Name>,
    /// Hash of the playbook text.
    pub(crate) hash: Option<PlaybookHash>,
    /// Step runs, in the order in which they were scheduled.
    pub(crate) steps: Vec<StepView>,
    /// Error of a failed run.
    pub(crate) error: Option<TaskError>,
    /// Location of its result.
    pub(crate) result: Option<ResultPointer>,
    /// Whether it was built from an outline. Then its counts may be older than its last event until the run ends.
    pub(crate) is_outlined: bool,
}

impl Default for RunView {
    fn default() -> Self {
        Self {
            events: 0,
            last_seq: Seq(0),
            last_event_at: Time::default(),
            status: RunStatus::Running,
            is_cancelling: false,
            generation: 1,
            started_at: None,
            generation_started_at: None,
            finished_at: None,
            path: None,
            hash: None,
            steps: Vec::new(),
            error: None,
            result: None,
            is_outlined: false,
        }
    }
}

impl RunView {
    /// Builds the view of a complete log.
    #[cfg(test)]
    pub(crate) fn from_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut view = Self::default();
        for event in events {
            view.fold(event);
        }
        view
    }

    /// Returns the address of the run's result; `None` if it has no result or failed.
    pub(crate) fn result_address(&self) -> Option<ResultAddress> {
        let pointer = self.result.as_ref().filter(|_| self.error.is_none())?;
        Some(ResultAddress::for_step(pointer.step.clone()))
    }

    /// Returns the active steps.
    pub(crate) fn active_steps(&self) -> impl Iterator<Item = &StepView> {
        let is_active = |step: &&StepView| step.status == StepStatus::Running;
        self.steps.iter().filter(is_active)
    }

    /// Returns the step run that made the run fail: the one named in its error, else the last failed one.
    pub(crate) fn failed_step(&self) -> Option<&StepView> {
        let named_step = self
            .error
            .as_ref()
            .and_then(|error| error.details.get("step")?.as_str());
        let mut failed = self.steps.iter().rev().filter(|step| step.status == StepStatus::Failed);
        match named_step {
            Some(name) => self.steps.iter().rev().find(|step| step.step == *name),
            None => failed.next(),
        }
    }

    /// Returns the duration of the current generation up to its end or `now`, in milliseconds.
    pub(crate) fn elapsed_ms(&self, now: Time) -> u64 {
        let start = self.generation_started_at.or(self.started_at).unwrap_or(now);
        let span = self.finished_at.unwrap_or(now).since(start);
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
    }
}
