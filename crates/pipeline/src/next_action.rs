//! Determines the next action of a pipeline: run a task, wait until a time, or end.

use language::playbook::{Step, Task};
use model::command::{Continuation, PipelineCursor, PipelineStage};
use model::id::{Name, Seq};
use model::time::Time;

/// The next action of a pipeline.
#[derive(Debug, Clone)]
pub enum NextAction<'s> {
    /// Run this task.
    Run(TaskAttempt<'s>),
    /// The event that the task awaited is in the log: record the outcome that it gives.
    EndWait {
        /// The task.
        attempt: TaskAttempt<'s>,
        /// The event that the task awaited.
        awaited_seq: Seq,
        /// The `task.started` event that records what the task awaits.
        started_seq: Seq,
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
pub struct TaskAttempt<'s> {
    /// The task.
    pub task: &'s Task,
    /// Number of entries into this label, from 1.
    pub visit: u32,
    /// Number of the attempt within this visit, from 1.
    pub number: u32,
    /// What the log already contains about this attempt.
    pub kind: AttemptKind,
}

/// What the log already contains about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptKind {
    /// Nothing: the visit starts.
    First,
    /// Earlier attempts of the visit.
    Retry,
    /// The start of this attempt; its effect is unknown.
    Resumed,
}

/// Returns the pipeline's next action at `now`.
pub fn next_action<'s>(step: &'s Step, continuation: &Continuation, now: Time) -> NextAction<'s> {
    let index = match &continuation.cursor {
        PipelineCursor::Start => 0,
        PipelineCursor::At(label) => index_of(step, label),
        PipelineCursor::After(label) => index_of(step, label) + 1,
    };
    let Some(task) = step.tasks.get(index) else {
        return match continuation.stage {
            PipelineStage::Failed => NextAction::Failed,
            _ => NextAction::Done,
        };
    };
    let visit = continuation.visits.get(&task.label).copied().unwrap_or(0);
    let new_attempt = |visit, number, kind| TaskAttempt {
        task,
        visit,
        number,
        kind,
    };
    match continuation.stage {
        PipelineStage::Ready => NextAction::Run(new_attempt(visit + 1, 1, AttemptKind::First)),
        PipelineStage::Started => NextAction::Run(new_attempt(visit, continuation.attempt, AttemptKind::Resumed)),
        PipelineStage::Retrying { due, .. } if due <= now => {
            NextAction::Run(new_attempt(visit, continuation.attempt + 1, AttemptKind::Retry))
        }
        PipelineStage::Retrying { suspended: true, .. } | PipelineStage::Awaiting { .. } => NextAction::Suspended,
        PipelineStage::Retrying { due, .. } => NextAction::WaitUntil(due),
        PipelineStage::WaitEnded { by, since } => NextAction::EndWait {
            attempt: new_attempt(visit, continuation.attempt, AttemptKind::Resumed),
            awaited_seq: by,
            started_seq: since,
        },
        PipelineStage::Done => NextAction::Done,
        PipelineStage::Failed => NextAction::Failed,
    }
}

/// Index of a label. If a playbook switch removed the label, the index is past the end, so that the pipeline ends and
/// does not panic.
fn index_of(step: &Step, label: &Name) -> usize {
    step.task(label.as_str()).map_or(step.tasks.len(), |(index, _)| index)
}
