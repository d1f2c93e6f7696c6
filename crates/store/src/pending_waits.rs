//! Waits for signals: when they begin and end.
//!
//! Pure logic. Input: the events of an append. Output: [`WaitChange`]s of the tables `pending_wait` and `early_signal`,
//! which list what waits in all executions without folding them. The changes follow the rules by which the engine
//! delivers signals: the oldest wait takes a signal, and a signal without a wait is stored for the next one. Events that
//! neither begin nor end such a wait make no change, so they cost nothing.

use model::event::{AwaitTarget, EndStatus, Event, EventBody, TaskStarted};
use model::events;
use model::id::{Name, Seq, StepRunId};

use crate::rows::PendingSignalWait;

/// Waits for longer names of signals are not listed, because an index of Postgres cannot contain them.
const SIGNAL_BYTES_MAX: usize = 1_024;

/// A change to the waits of one execution. The order of changes counts.
#[derive(Debug, PartialEq)]
pub(crate) enum WaitChange {
    /// A task waits for a signal, unless one is stored.
    Begin(Box<PendingSignalWait>),
    /// A signal ends the oldest wait for its name, or is stored.
    Signal { name: Name, seq: Seq },
    /// A pipeline no longer waits: its timer fired.
    EndPipeline { run: StepRunId, iteration: Option<u64> },
    /// A step run ended.
    EndRun { run: StepRunId },
    /// Nothing waits: the execution ended, starts again, or runs its final step.
    EndAll,
}

impl WaitChange {
    /// What an event changes.
    pub(crate) fn of_event(event: &Event) -> Option<Self> {
        match &event.body {
            EventBody::TaskStarted(started) => begin(started, event).map(|wait| Self::Begin(Box::new(wait))),
            EventBody::SignalReceived(signal) => {
                let is_listed = signal.child.is_none() && is_listed(&signal.name);
                let name = is_listed.then(|| signal.name.clone())?;
                Some(Self::Signal { name, seq: event.seq })
            }
            EventBody::TimerFired(_) => Some(Self::EndPipeline {
                run: event.location.step_run_id()?,
                iteration: event.location.iteration,
            }),
            EventBody::StepFailed(_) | EventBody::LoopDone(_) => Some(Self::EndRun {
                run: event.location.step_run_id()?,
            }),
            EventBody::StepScheduled(scheduled) => scheduled.is_final.then_some(Self::EndAll),
            EventBody::PlaybookFinished(finished) => (finished.ended != EndStatus::Success).then_some(Self::EndAll),
            EventBody::ExecutionRetried(_) => Some(Self::EndAll),
            events!(
                ExecutionRequested RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched
                PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested StepReused TimerSet
                AdmitEvaluated NextEvaluated CtxPatched CommandIssued CommandClaimed CommandExpired CommandFailed
                StepStarted StepDone AttemptStarted AttemptDone AttemptFailed TaskDone TaskFailed PolicyEvaluated
                LoopStarted FrameClaimed IterationScheduled IterationStarted IterationDone IterationFailed ResultStored
                ManifestUpdated BatchAccepted BatchProcessing BatchCompleted BatchFailed
            ) => None,
        }
    }
}

fn begin(started: &TaskStarted, event: &Event) -> Option<PendingSignalWait> {
    let Some(AwaitTarget::Wait(wait)) = started.awaits.as_deref() else {
        return None;
    };
    Some(PendingSignalWait {
        execution: event.execution_id,
        seq: event.seq,
        run: event.location.step_run_id()?,
        task: event.location.task.clone(),
        iteration: event.location.iteration,
        signal: wait.signal.clone().filter(is_listed)?,
        since: event.recorded_at,
        deadline: wait.until.filter(|_| wait.times_out),
        approval: started.approval.clone(),
    })
}

fn is_listed(signal: &Name) -> bool {
    signal.as_str().len() <= SIGNAL_BYTES_MAX
}
