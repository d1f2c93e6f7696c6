//! The run as a whole.

#[cfg(test)]
use model::event::Event;
use model::event::ResultPointer;
use model::id::{Name, PlaybookHash, Seq};
use model::outcome::TaskError;
use model::status::RunStatus;
use model::time::Time;
use server::ResultAddress;

use crate::view::steps::{Standing, StepView};

/// A run, as far as its events were folded.
#[derive(Debug, Clone)]
pub(crate) struct RunView {
    /// How many events were folded.
    pub(crate) events: u64,
    /// The last of them.
    pub(crate) last: Seq,
    /// When the last of them was recorded.
    pub(crate) seen_at: Time,
    /// How the run stands.
    pub(crate) status: RunStatus,
    /// Whether someone asked for its end.
    pub(crate) cancelling: bool,
    /// Which life of it this is.
    pub(crate) generation: u32,
    /// When it was asked for.
    pub(crate) started_at: Option<Time>,
    /// When this life of it began.
    pub(crate) generation_at: Option<Time>,
    /// When it ended.
    pub(crate) finished_at: Option<Time>,
    /// The playbook's path.
    pub(crate) path: Option<Name>,
    /// The playbook's text.
    pub(crate) hash: Option<PlaybookHash>,
    /// Runs of steps, in the order they were scheduled.
    pub(crate) steps: Vec<StepView>,
    /// Why it failed.
    pub(crate) error: Option<TaskError>,
    /// Where its result is.
    pub(crate) result: Option<ResultPointer>,
    /// Whether it comes from an outline: while the run continues, its counts may lag behind its last event.
    pub(crate) is_outlined: bool,
}

impl Default for RunView {
    fn default() -> Self {
        Self {
            events: 0,
            last: Seq(0),
            seen_at: Time::default(),
            status: RunStatus::Running,
            cancelling: false,
            generation: 1,
            started_at: None,
            generation_at: None,
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
    /// The view of a whole log.
    #[cfg(test)]
    pub(crate) fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut view = Self::default();
        for event in events {
            view.fold(event);
        }
        view
    }

    /// Where the run's result is; none if it has none, or has not ended well.
    pub(crate) fn result_address(&self) -> Option<ResultAddress> {
        let pointer = self.result.as_ref().filter(|_| self.error.is_none())?;
        Some(ResultAddress::of_step(pointer.step.clone()))
    }

    /// Steps that go on.
    pub(crate) fn active(&self) -> impl Iterator<Item = &StepView> {
        let is_active = |step: &&StepView| step.standing == Standing::Running;
        self.steps.iter().filter(is_active)
    }

    /// The step run whose failure is the run's: named by its error, else the last that failed.
    pub(crate) fn failed_step(&self) -> Option<&StepView> {
        let named = self
            .error
            .as_ref()
            .and_then(|error| error.details.get("step")?.as_str());
        let mut failed = self
            .steps
            .iter()
            .rev()
            .filter(|step| step.standing == Standing::Failed);
        match named {
            Some(name) => self.steps.iter().rev().find(|step| step.step == *name),
            None => failed.next(),
        }
    }

    /// How long this life of the run has taken, in milliseconds, up to its end or to `now`.
    pub(crate) fn elapsed_ms(&self, now: Time) -> u64 {
        let start = self.generation_at.or(self.started_at).unwrap_or(now);
        let span = self.finished_at.unwrap_or(now).since(start);
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
    }
}
