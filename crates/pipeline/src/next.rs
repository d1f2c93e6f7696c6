//! Determines the next action of a pipeline: run a task, wait until a time, or end.

use model::command::{Continuation, Cursor, Stage};
use model::id::{Name, Seq};
use model::playbook::{Step, Task};
use model::time::Time;

/// The next action of a pipeline.
#[derive(Debug, Clone)]
pub enum Next<'s> {
    /// Run this task.
    Run(TaskRun<'s>),
    /// The event that the task awaited is in the log; settle its outcome.
    Answered {
        /// The task.
        run: TaskRun<'s>,
        /// The event that the task awaited.
        by: Seq,
        /// The `task.started` event that records what the task awaits.
        since: Seq,
    },
    /// Wait until this time and keep the slot.
    WaitUntil(Time),
    /// Do nothing until the server offers the pipeline again.
    Suspended,
    /// The pipeline succeeded.
    Done,
    /// The pipeline failed.
    Failed,
}

/// One attempt of one visit of a task.
#[derive(Debug, Clone)]
pub struct TaskRun<'s> {
    /// The task.
    pub task: &'s Task,
    /// Number of entries into this label, from 1.
    pub visit: u32,
    /// Attempt number within this visit, from 1.
    pub attempt: u32,
    /// What the log already contains about this attempt.
    pub entry: Entry,
}

/// What the log already contains about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nothing: the visit starts.
    Fresh,
    /// Earlier attempts of the visit.
    Retry,
    /// The start of this same attempt; its effect is unknown.
    Again,
}

/// Returns the pipeline's next action at `now`.
pub fn next<'s>(step: &'s Step, continuation: &Continuation, now: Time) -> Next<'s> {
    let index = match &continuation.cursor {
        Cursor::Start => 0,
        Cursor::At(label) => index_of(step, label),
        Cursor::After(label) => index_of(step, label) + 1,
    };
    let Some(task) = step.tasks.get(index) else {
        return match continuation.stage {
            Stage::Failed => Next::Failed,
            _ => Next::Done,
        };
    };
    let visit = continuation.visits.get(&task.label).copied().unwrap_or(0);
    let run = |visit, attempt, entry| TaskRun {
        task,
        visit,
        attempt,
        entry,
    };
    match continuation.stage {
        Stage::Ready => Next::Run(run(visit + 1, 1, Entry::Fresh)),
        Stage::Started => Next::Run(run(visit, continuation.attempt, Entry::Again)),
        Stage::Retrying { due, .. } if due <= now => {
            Next::Run(run(visit, continuation.attempt + 1, Entry::Retry))
        }
        Stage::Retrying {
            suspended: true, ..
        }
        | Stage::Awaiting { .. } => Next::Suspended,
        Stage::Retrying { due, .. } => Next::WaitUntil(due),
        Stage::Answered { by, since } => Next::Answered {
            run: run(visit, continuation.attempt, Entry::Again),
            by,
            since,
        },
        Stage::Done => Next::Done,
        Stage::Failed => Next::Failed,
    }
}

/// Index of a label. If a playbook switch removed the label, the index is past the end, so that the pipeline ends and
/// does not panic.
fn index_of(step: &Step, label: &Name) -> usize {
    step.task(label.as_str())
        .map_or(step.tasks.len(), |(index, _)| index)
}
