//! Loop iterations: which appends record them, how many ended and how, and which appends contain nothing else.
//!
//! Pure logic. Input: the events of one append. Output: [`IterationDelta`], the changes to the rows of
//! `loop_progress`, `loop_task`, `iteration_index` and `iteration_span`. Readers find an iteration, or skip all of
//! them, without scanning the log.

use std::collections::BTreeMap;
use std::ops::Range;

use model::event::{Event, EventBody, EventHead, EventKind, RecordedResult};
use model::events;
use model::id::{Name, Seq, StepRunId};
use model::playbook::Directive;

/// Number of iterations that a row of `iteration_index` covers, one bit each.
pub const ITERATION_BLOCK: u64 = 64;

/// The changes that the events of one append make.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct IterationDelta {
    /// Changes to `loop_progress`, in order.
    pub(crate) progress: Vec<ProgressChange>,
    /// Changes to `loop_task`.
    pub(crate) tasks: Vec<TaskEnds>,
    /// New rows of `iteration_index`.
    pub(crate) blocks: Vec<IterationBlock>,
    /// The sequence numbers of the append, if it records only iterations.
    pub(crate) span: Option<SeqSpan>,
}

/// A change to `loop_progress`.
#[derive(Debug, PartialEq)]
pub(crate) enum ProgressChange {
    /// A new generation starts: a loop that continues resets its failure count.
    NewGeneration,
    /// Iterations of one loop run are recorded.
    Count(ProgressCount),
}

/// How many iterations of a loop run ended in one append, and how often tasks in them were retried.
#[derive(Debug, PartialEq)]
pub(crate) struct ProgressCount {
    pub(crate) run: StepRunId,
    /// The first event that is counted.
    pub(crate) seq: Seq,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) retries: u64,
}

impl ProgressCount {
    /// What an event adds to the progress of its loop run; the counts are 0 if it only belongs to an iteration.
    fn of_event(event: &Event) -> Option<Self> {
        let is_indexed = is_indexed(EventHead::from_event(event));
        let (succeeded, failed, retries) = match &event.body {
            EventBody::IterationDone(_) => (1, 0, 0),
            EventBody::IterationFailed(_) => (0, 1, 0),
            EventBody::PolicyEvaluated(policy) if is_indexed => {
                let is_retry = policy.action.directive == Directive::Retry;
                (0, 0, u64::from(is_retry))
            }
            events!(
                ExecutionRequested RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched
                PlaybookFinished PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested StepReused
                ExecutionRetried SignalReceived TimerSet TimerFired AdmitEvaluated StepScheduled NextEvaluated
                CtxPatched CommandIssued CommandClaimed CommandExpired CommandFailed StepStarted StepDone StepFailed
                TaskStarted AttemptStarted AttemptDone AttemptFailed TaskDone TaskFailed PolicyEvaluated LoopStarted
                FrameClaimed IterationScheduled IterationStarted LoopDone ResultStored ManifestUpdated BatchAccepted
                BatchProcessing BatchCompleted BatchFailed
            ) => is_indexed.then_some((0, 0, 0))?,
        };
        Some(Self {
            run: event.location.step_run_id()?,
            seq: event.seq,
            succeeded,
            failed,
            retries,
        })
    }
}

/// The last ends of a task in the iterations that an append records.
#[derive(Debug, PartialEq)]
pub(crate) struct TaskEnds {
    pub(crate) run: StepRunId,
    pub(crate) task: Name,
    /// The last event that records a result.
    pub(crate) succeeded: Option<Seq>,
    /// The last event that records a failure.
    pub(crate) failed: Option<Seq>,
}

/// The iterations of one block that an append records.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IterationBlock {
    pub(crate) run: StepRunId,
    /// The first iteration divided by the block size.
    pub(crate) block: u64,
    /// The first event that records one of them.
    pub(crate) seq: Seq,
    /// The recorded iterations of the block, one bit each.
    pub(crate) iterations: u64,
    /// The failed ones among them.
    pub(crate) failed: u64,
}

/// The first and the last event of consecutive appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeqSpan {
    pub(crate) first: Seq,
    pub(crate) last: Seq,
}

impl IterationDelta {
    /// Computes the changes that the events of one append make.
    pub(crate) fn from_events(events: &[Event]) -> Self {
        let mut delta = Self::default();
        let mut blocks = BTreeMap::new();
        let mut has_iteration = false;
        for event in events {
            has_iteration |= event.location.iteration.is_some();
            delta.count_event(event);
            delta.add_task_end(event);
            add_to_block(&mut blocks, event);
        }
        delta.blocks = blocks.into_values().collect();
        if let (Some(first), Some(last)) = (events.first(), events.last())
            && has_iteration
            && events.iter().all(is_detail)
        {
            let (first, last) = (first.seq, last.seq);
            delta.span = Some(SeqSpan { first, last });
        }
        delta
    }

    fn count_event(&mut self, event: &Event) {
        if let EventBody::ExecutionRetried(_) = event.body {
            self.progress.push(ProgressChange::NewGeneration);
            return;
        }
        let Some(added) = ProgressCount::of_event(event) else {
            return;
        };
        let generation = self.progress.iter_mut().rev();
        let mut counts = generation.map_while(|change| match change {
            ProgressChange::Count(count) => Some(count),
            ProgressChange::NewGeneration => None,
        });
        if let Some(count) = counts.find(|count| count.run == added.run) {
            count.succeeded += added.succeeded;
            count.failed += added.failed;
            count.retries += added.retries;
            return;
        }
        self.progress.push(ProgressChange::Count(added));
    }

    fn add_task_end(&mut self, event: &Event) {
        let is_ok = match event.body.recorded_result() {
            Some(RecordedResult::TaskDone(_) | RecordedResult::Manifest(_)) => true,
            Some(RecordedResult::TaskFailed(_)) => false,
            Some(RecordedResult::Attempt(_)) | None => return,
        };
        let location = &event.location;
        let (Some(_), Some(task), Some(step)) = (location.iteration, &location.task, &location.step) else {
            return;
        };
        let is_same = |ends: &TaskEnds| ends.task == *task && ends.run.run == location.run && ends.run.step == *step;
        let index = self.tasks.iter().position(is_same).unwrap_or_else(|| {
            self.tasks.push(TaskEnds {
                run: StepRunId {
                    step: step.clone(),
                    run: location.run,
                },
                task: task.clone(),
                succeeded: None,
                failed: None,
            });
            self.tasks.len() - 1
        });
        let ends = &mut self.tasks[index];
        if is_ok {
            ends.succeeded = Some(event.seq);
        } else {
            ends.failed = Some(event.seq);
        }
    }
}

impl IterationBlock {
    /// Whether one of these iterations is in the block.
    pub(crate) fn has_any(&self, iterations: &Range<u64>) -> bool {
        block_indices(self.block, self.iterations).any(|index| iterations.contains(&index))
    }
}

/// The block that an iteration is in.
pub(crate) fn block_of(iteration: u64) -> u64 {
    iteration / ITERATION_BLOCK
}

/// The iterations whose bits are set in a block, ascending.
pub(crate) fn block_indices(block: u64, bits: u64) -> impl Iterator<Item = u64> {
    let is_set = move |bit: &u64| bits & (1 << bit) != 0;
    let first = block * ITERATION_BLOCK;
    (0..ITERATION_BLOCK).filter(is_set).map(move |bit| first + bit)
}

/// Whether an event is found by its iteration: ends of tasks, attempts and iterations, manifests and retries.
pub(crate) fn is_indexed(head: EventHead<'_>) -> bool {
    let is_indexed_kind = match head.kind {
        EventKind::AttemptDone
        | EventKind::AttemptFailed
        | EventKind::TaskDone
        | EventKind::TaskFailed
        | EventKind::PolicyEvaluated
        | EventKind::IterationDone
        | EventKind::IterationFailed
        | EventKind::ManifestUpdated => true,
        EventKind::ExecutionRequested
        | EventKind::RequestEvaluated
        | EventKind::PlaybookStarted
        | EventKind::PlaybookPaused
        | EventKind::PlaybookResumed
        | EventKind::PlaybookSwitched
        | EventKind::PlaybookFinished
        | EventKind::PlaybookProcessed
        | EventKind::WorkflowStarted
        | EventKind::WorkflowFinished
        | EventKind::CancelRequested
        | EventKind::ExecutionRetried
        | EventKind::StepReused
        | EventKind::SignalReceived
        | EventKind::TimerSet
        | EventKind::TimerFired
        | EventKind::AdmitEvaluated
        | EventKind::StepScheduled
        | EventKind::NextEvaluated
        | EventKind::CtxPatched
        | EventKind::CommandIssued
        | EventKind::CommandClaimed
        | EventKind::CommandExpired
        | EventKind::CommandFailed
        | EventKind::StepStarted
        | EventKind::StepDone
        | EventKind::StepFailed
        | EventKind::TaskStarted
        | EventKind::AttemptStarted
        | EventKind::LoopStarted
        | EventKind::FrameClaimed
        | EventKind::IterationScheduled
        | EventKind::IterationStarted
        | EventKind::LoopDone
        | EventKind::ResultStored
        | EventKind::BatchAccepted
        | EventKind::BatchProcessing
        | EventKind::BatchCompleted
        | EventKind::BatchFailed => false,
    };
    head.iteration.is_some() && is_indexed_kind
}

/// Whether an event belongs to a run of a step.
pub(crate) fn is_of_run(head: EventHead<'_>, run: &StepRunId) -> bool {
    head.run == run.run && head.step == Some(run.step.as_str())
}

/// Whether an event is indexed under one of these iterations of a loop run.
pub(crate) fn is_of_iterations(head: EventHead<'_>, run: &StepRunId, iterations: &Range<u64>) -> bool {
    let is_selected = |index| iterations.contains(&index);
    head.iteration.is_some_and(is_selected) && is_indexed(head) && is_of_run(head, run)
}

/// Whether an outline of the execution can omit an event.
fn is_detail(event: &Event) -> bool {
    event.location.iteration.is_some()
        || matches!(
            event.body,
            EventBody::CommandIssued(_)
                | EventBody::CommandClaimed(_)
                | EventBody::IterationScheduled(_)
                | EventBody::CtxPatched(_)
                | EventBody::TimerSet(_)
                | EventBody::TimerFired(_)
        )
}

fn add_to_block(blocks: &mut BTreeMap<(StepRunId, u64), IterationBlock>, event: &Event) {
    let Some(iteration) = event
        .location
        .iteration
        .filter(|_| is_indexed(EventHead::from_event(event)))
    else {
        return;
    };
    let Some(run) = event.location.step_run_id() else {
        return;
    };
    let block = block_of(iteration);
    let bit = 1 << (iteration % ITERATION_BLOCK);
    let entry = blocks.entry((run.clone(), block));
    let entry_block = entry.or_insert_with(|| IterationBlock {
        run,
        block,
        seq: event.seq,
        iterations: 0,
        failed: 0,
    });
    entry_block.iterations |= bit;
    if let EventBody::IterationFailed(_) = event.body {
        entry_block.failed |= bit;
    }
}
