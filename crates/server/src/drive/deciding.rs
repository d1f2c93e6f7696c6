//! Decides the inputs of an execution, inline or on a thread of its own if decisions are slow.
//!
//! Input: the queued inputs. Output: decisions for the next commit, refusals, and requests to load the data that an
//! input needs.

use std::sync::Arc;
use std::time::Duration;

use engine::{Decision, Input, Net, Undecided};
use model::id::{ExecutionId, IdBlock};
use tokio::time::Instant;

use crate::Shared;
use crate::drive::actor::{Done, Drive};
use crate::drive::handle::Posted;
use crate::drive::slot::{DecisionId, Slot, Waiting};

/// Maximum number of IDs that one decision may use, in addition to those of reported events.
const IDS_PER_DECISION: usize = 1_200;

/// After a slower decision, the next one of the execution is made on a thread of its own.
const DECISION_TIME_MAX: Duration = Duration::from_millis(5);

/// A decision from a thread of its own.
pub(super) struct TimedDecision {
    result: Result<Decision, Undecided>,
    is_slow: bool,
}

impl Drive {
    /// Decides the queued inputs until one has to wait.
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
                // The submission before it was refused. Only the store knows whether the execution exists.
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

    /// Decides the first input on another thread, so that other executions are not delayed.
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
                    // A decision that panics must end the driver, on whichever thread it runs.
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is shutting down.
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
        // The slot was loaded again meanwhile, and its inputs are still queued.
        if slot.deciding != Some(id) {
            return;
        }
        slot.deciding = None;
        slot.is_slow = decision.is_slow;
        if self.take_decision(execution, decision.result) {
            self.decide(execution);
        }
    }

    /// Applies the decision about the first input. Returns false if the slot has to wait.
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
                if is_known && slot.has_pending_commit() {
                    // The reason for the refusal may be in a commit that is not durable yet. The caller must be able
                    // to read it, and the commit may fail; when it ends, the input is decided again.
                    slot.waits_for_commit = true;
                    return false;
                }
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

    /// Whether another server may have changed the execution since its state was loaded.
    fn may_lag(&self, waiting: &Waiting) -> bool {
        self.shared.peers.is_some() && !waiting.is_checked
    }

    /// Reloads the state before an input is refused, because another server may have changed the execution.
    fn check(&mut self, execution: ExecutionId, waiting: Waiting) {
        if let Some(mut slot) = self.slots.remove(&execution) {
            slot.queue.push_front(waiting);
            self.open(execution, slot.queue);
        }
    }

    /// Refuses an input. It changes nothing, but the message that carried it is consumed.
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
            // The caller may have stopped waiting.
            let _ = reply.send(Err(Posted::Refused(refusal)));
        }
        // A refused submission leaves no slot behind.
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
