//! Deciding the inputs of an execution: at once, or on a thread of its own where a decision takes long.
//!
//! Enters: the inputs in line. Leaves: decisions that are gathered for the next commit, refusals, and what has to be loaded
//! before an input can be decided.

use std::sync::Arc;
use std::time::Duration;

use engine::{Decision, Input, Net, Undecided};
use model::id::{ExecutionId, IdBlock};
use tokio::time::Instant;

use crate::Shared;
use crate::drive::actor::{Done, Drive};
use crate::drive::handle::Posted;
use crate::drive::slot::{DecisionId, Slot, Waiting};

/// Ids that one decision may draw beyond those of the events reported to it.
const IDS_PER_DECISION: usize = 1_200;

/// After a decision that took longer, the execution's next one is made on a thread of its own.
const DECISION_TIME_MAX: Duration = Duration::from_millis(5);

/// What was decided on a thread of its own.
pub(super) struct TimedDecision {
    result: Result<Decision, Undecided>,
    is_slow: bool,
}

impl Drive {
    /// Decides the inputs in line, until one needs something loaded.
    pub(super) fn decide(&mut self, execution: ExecutionId) {
        loop {
            let Some(slot) = self.slots.get_mut(&execution) else {
                return;
            };
            if slot.is_loading || slot.waits_for_commit || slot.deciding.is_some() {
                return;
            }
            let Some(waiting) = slot.queue.front() else {
                return;
            };
            let is_submission = matches!(waiting.input, Input::Submit(_));
            if is_submission && slot.state.is_some() {
                if let Some(waiting) = slot.queue.pop_front() {
                    slot.join_submission(waiting);
                }
                continue;
            }
            if !is_submission && slot.state.is_none() {
                // The submission before it was refused; the store knows whether there is such an execution.
                if let Some(slot) = self.slots.remove(&execution) {
                    self.reopen(execution, slot);
                }
                return;
            }
            if !slot.may_join_gathered(waiting) {
                slot.waits_for_commit = true;
                return;
            }
            let Some((net, input)) = slot.decided_with(waiting) else {
                return;
            };
            let stamp = stamp(&self.shared, &waiting.input);
            if slot.needs_thread() {
                return self.decide_on_thread(execution, net, input, stamp);
            }
            let start = Instant::now();
            let result = engine::decide(&net, slot.state.as_ref(), input, stamp, &slot.loaded);
            slot.is_slow = start.elapsed() > DECISION_TIME_MAX;
            if !self.take_decision(execution, result) {
                return;
            }
        }
    }

    /// Decides the input in front while other executions go on.
    fn decide_on_thread(
        &mut self,
        execution: ExecutionId,
        net: Arc<Net>,
        input: Input,
        stamp: engine::Stamp,
    ) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        self.decisions += 1;
        let id = DecisionId(self.decisions);
        slot.deciding = Some(id);
        let state = slot.state.clone();
        let loaded = slot.loaded.clone();
        let deciding = tokio::task::spawn_blocking(move || {
            let start = Instant::now();
            let result = engine::decide(&net, state.as_ref(), input, stamp, &loaded);
            TimedDecision {
                result,
                is_slow: start.elapsed() > DECISION_TIME_MAX,
            }
        });
        self.work.push(Box::pin(async move {
            match deciding.await {
                Ok(decision) => Done::Decided(execution, id, Box::new(decision)),
                Err(error) => match error.try_into_panic() {
                    // A decision that panics ends the drive, wherever it is made.
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The process ends.
                    Err(_) => std::future::pending().await,
                },
            }
        }));
    }

    pub(super) fn decided(
        &mut self,
        execution: ExecutionId,
        id: DecisionId,
        decision: TimedDecision,
    ) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        // The slot was loaded anew meanwhile; its inputs are still in line.
        if slot.deciding != Some(id) {
            return;
        }
        slot.deciding = None;
        slot.is_slow = decision.is_slow;
        if self.take_decision(execution, decision.result) {
            self.decide(execution);
        }
    }

    /// Takes up what was decided about the input in front. False: the slot waits for something.
    fn take_decision(
        &mut self,
        execution: ExecutionId,
        result: Result<Decision, Undecided>,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return false;
        };
        let decision = match result {
            Ok(decision) => decision,
            Err(Undecided::Needs(needs)) => {
                self.load(execution, needs);
                return false;
            }
            Err(Undecided::Refused(refusal)) => {
                let is_known = slot.state.is_some();
                let Some(waiting) = slot.queue.pop_front() else {
                    return false;
                };
                if is_known && self.may_lag(&waiting) {
                    self.check(execution, waiting);
                    return false;
                }
                self.refuse(execution, waiting, refusal);
                return true;
            }
        };
        let Some(waiting) = slot.queue.pop_front() else {
            return false;
        };
        slot.loaded = model::template::Loaded::default();
        if let Some((net, _)) = slot.decided_with(&waiting) {
            slot.net = Some(net);
        }
        if matches!(waiting.input, Input::GoOn) && decision.is_nothing() {
            waiting.done();
        } else {
            self.gather(execution, waiting, decision);
        }
        true
    }

    /// Whether others may have moved what the input was decided on.
    fn may_lag(&self, waiting: &Waiting) -> bool {
        self.shared.peers.is_some() && !waiting.is_checked
    }

    /// What does not fit the state in memory may fit the store's: another server may have driven the execution since.
    fn check(&mut self, execution: ExecutionId, waiting: Waiting) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        slot.queue.push_front(waiting);
        if slot.under_way.is_some() || slot.gathered.is_some() {
            // The commit shows whether the state is current; its end asks again.
            slot.waits_for_commit = true;
        } else if let Some(slot) = self.slots.remove(&execution) {
            self.open(execution, slot.queue);
        }
    }

    /// An input that does not fit changes nothing, but the message that brought it is done with.
    pub(super) fn refuse(
        &mut self,
        execution: ExecutionId,
        waiting: Waiting,
        refusal: engine::Refusal,
    ) {
        if waiting.extras.consumed.is_some() && !waiting.extras.answers_refusal {
            self.gather_consumed(execution, &waiting);
        }
        if let Some(reply) = waiting.reply {
            // Nobody waits for the answer any more: nothing to do.
            let _ = reply.send(Err(Posted::Refused(refusal)));
        }
        // A submission that is refused leaves nothing behind.
        let is_nothing = |slot: &Slot| slot.state.is_none() && slot.is_idle();
        if self.slots.get(&execution).is_some_and(is_nothing) {
            self.slots.remove(&execution);
        }
    }
}

fn stamp(shared: &Shared, input: &Input) -> engine::Stamp {
    let reported = match input {
        Input::Report(report) => report.events.len(),
        Input::Submit(submit) => submit.reuse.as_ref().map_or(0, |reuse| reuse.events_max()),
        _ => 0,
    };
    let count = u32::try_from(reported + IDS_PER_DECISION).unwrap_or(u32::MAX);
    let ids = IdBlock::starting_at(shared.store.ids(count));
    engine::Stamp {
        now: shared.store.now(),
        ids,
    }
}
