//! Where a pipeline goes now: the task to run, the time to wait for, or its end.

use model::command::{Continuation, Cursor, Stage};
use model::id::{Name, Seq};
use model::playbook::{Step, Task};
use model::time::Time;

/// What a pipeline does now.
#[derive(Debug, Clone)]
pub enum Next<'s> {
    /// Run this task.
    Run(TaskRun<'s>),
    /// The task's answer from outside has come, in this event; settle it.
    Answered {
        /// The task.
        run: TaskRun<'s>,
        /// The event that answers.
        by: Seq,
        /// The `task.started` event that says what was awaited.
        since: Seq,
    },
    /// Nothing before this time; the slot is kept.
    WaitUntil(Time),
    /// Nothing until the server offers the pipeline again.
    Suspended,
    /// It ended well.
    Done,
    /// It ended as a failure.
    Failed,
}

/// One attempt of one visit of a task.
#[derive(Debug, Clone)]
pub struct TaskRun<'s> {
    /// The task.
    pub task: &'s Task,
    /// Counts the entries of this label from 1.
    pub visit: u32,
    /// Counts the tries of this visit from 1.
    pub attempt: u32,
    /// What is already recorded of it.
    pub entry: Entry,
}

/// What the log already holds of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nothing: the visit begins.
    Fresh,
    /// Earlier attempts of the visit.
    Retry,
    /// That this very attempt began; its effect is unknown.
    Again,
}

/// Where the pipeline stands at `now`.
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

/// A label's place; past the end if a switched playbook lost it, so that the pipeline ends rather than panics.
fn index_of(step: &Step, label: &Name) -> usize {
    step.task(label.as_str())
        .map_or(step.tasks.len(), |(index, _)| index)
}
