//! Decides the inputs of an execution, inline or on a thread of its own if decisions are slow.
//!
//! Input: the queued inputs. Output: decisions for the next commit, refusals, and requests to load the data that an
//! input needs.

use std::sync::Arc;
use std::time::Duration;

use engine::{DecideError, Decision, Input, PlaybookNet};
use model::id::{ExecutionId, IdBlock};
use tokio::time::Instant;

use crate::ServerShared;
use crate::driver::actor::{DriverEvent, ExecutionDriver};
use crate::driver::handle::InputError;
use crate::driver::loaded_execution::{DecisionId, LoadedExecution, QueuedInput};

/// Maximum number of IDs that one decision may use, in addition to those of reported events.
const IDS_PER_DECISION: usize = 1_200;

/// After a slower decision, the next one of the execution is made on a thread of its own.
const DECISION_TIME_MAX: Duration = Duration::from_millis(5);

/// A decision from a thread of its own.
pub(super) struct TimedDecision {
    result: Result<Decision, DecideError>,
    is_slow: bool,
}

impl ExecutionDriver {
    /// Decides the queued inputs until one has to wait.
    pub(super) fn decide(&mut self, execution: ExecutionId) {
        loop {
            let Some(slot) = self.executions.get_mut(&execution) else {
                return;
            };
            if slot.is_loading || slot.is_waiting_for_commit || slot.decision_in_progress.is_some()
            {
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
                if let Some(slot) = self.executions.remove(&execution) {
                    self.reload(execution, slot);
                }
                return;
            }
            if !slot.may_join_pending_commit(waiting) {
                slot.is_waiting_for_commit = true;
                return;
            }
            let Some((net, input)) = slot.decision_input(waiting) else {
                return;
            };
            let stamp = create_stamp(&self.shared, &waiting.input);
            if slot.needs_thread() {
                return self.decide_on_thread(execution, net, input, stamp);
            }
            let start = Instant::now();
            let result = engine::decide(&net, slot.state.as_ref(), input, stamp, &slot.loaded);
            slot.is_slow = start.elapsed() > DECISION_TIME_MAX;
            if !self.apply_decision(execution, result) {
                return;
            }
        }
    }

    /// Decides the first input on another thread, so that other executions are not delayed.
    fn decide_on_thread(
        &mut self,
        execution: ExecutionId,
        net: Arc<PlaybookNet>,
        input: Input,
        stamp: engine::Stamp,
    ) {
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        self.decision_count += 1;
        let id = DecisionId(self.decision_count);
        slot.decision_in_progress = Some(id);
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
        self.pending_work.push(Box::pin(async move {
            match deciding.await {
                Ok(decision) => DriverEvent::Decided(execution, id, Box::new(decision)),
                Err(error) => match error.try_into_panic() {
                    // A decision that panics must end the driver, on whichever thread it runs.
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is shutting down.
                    Err(_) => std::future::pending().await,
                },
            }
        }));
    }

    pub(super) fn on_decided(
        &mut self,
        execution: ExecutionId,
        id: DecisionId,
        decision: TimedDecision,
    ) {
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        // The slot was loaded again meanwhile, and its inputs are still queued.
        if slot.decision_in_progress != Some(id) {
            return;
        }
        slot.decision_in_progress = None;
        slot.is_slow = decision.is_slow;
        if self.apply_decision(execution, decision.result) {
            self.decide(execution);
        }
    }

    /// Applies the decision about the first input. Returns false if the slot has to wait.
    fn apply_decision(
        &mut self,
        execution: ExecutionId,
        result: Result<Decision, DecideError>,
    ) -> bool {
        let Some(slot) = self.executions.get_mut(&execution) else {
            return false;
        };
        let decision = match result {
            Ok(decision) => decision,
            Err(DecideError::Needs(needs)) => {
                self.load_needs(execution, needs);
                return false;
            }
            Err(DecideError::Refused(refusal)) => {
                let is_known = slot.state.is_some();
                if is_known && slot.has_pending_commit() {
                    // The reason for the refusal may be in a commit that is not durable yet. The caller must be able
                    // to read it, and the commit may fail; when it ends, the input is decided again.
                    slot.is_waiting_for_commit = true;
                    return false;
                }
                let Some(waiting) = slot.queue.pop_front() else {
                    return false;
                };
                if is_known && self.may_be_stale(&waiting) {
                    self.recheck_after_reload(execution, waiting);
                    return false;
                }
                self.refuse_input(execution, waiting, refusal);
                return true;
            }
        };
        let Some(waiting) = slot.queue.pop_front() else {
            return false;
        };
        slot.loaded = language::template::LoadedValues::default();
        if let Some((net, _)) = slot.decision_input(&waiting) {
            slot.net = Some(net);
        }
        if matches!(waiting.input, Input::Continue) && decision.is_empty() {
            waiting.reply_unchanged();
        } else {
            self.add_decision(execution, waiting, decision);
        }
        true
    }

    /// Whether another server may have changed the execution since its state was loaded.
    fn may_be_stale(&self, waiting: &QueuedInput) -> bool {
        self.shared.peer_clients.is_some() && !waiting.is_checked
    }

    /// Reloads the state before an input is refused, because another server may have changed the execution.
    fn recheck_after_reload(&mut self, execution: ExecutionId, waiting: QueuedInput) {
        if let Some(mut slot) = self.executions.remove(&execution) {
            slot.queue.push_front(waiting);
            self.load_execution(execution, slot.queue);
        }
    }

    /// Refuses an input. It changes nothing, but the message that carried it is consumed.
    pub(super) fn refuse_input(
        &mut self,
        execution: ExecutionId,
        waiting: QueuedInput,
        refusal: engine::Refusal,
    ) {
        if waiting.attachments.consumed_message.is_some()
            && !waiting.attachments.has_refusal_handler
        {
            self.add_consumed_message(execution, &waiting);
        }
        if let Some(reply) = waiting.reply {
            // The caller may have stopped waiting.
            let _ = reply.send(Err(InputError::Refused(refusal)));
        }
        // A refused submission leaves no slot behind.
        let is_nothing = |slot: &LoadedExecution| slot.state.is_none() && slot.is_idle();
        if self.executions.get(&execution).is_some_and(is_nothing) {
            self.executions.remove(&execution);
        }
    }
}

fn create_stamp(shared: &ServerShared, input: &Input) -> engine::Stamp {
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
