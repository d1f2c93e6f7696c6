//! Decides the inputs of an execution, inline or on a thread of its own if decisions are slow.
//!
//! Input: the queued inputs. Output: decisions for the next commit, refusals, and requests to load the data that an
//! input needs.

use std::time::Duration;

use engine::{DecideError, Decision, Input};
use model::id::{ExecutionId, IdBlock};
use tokio::time::Instant;

use crate::driver::effect::{DecisionTask, Effect, StampSource, Ticket};
use crate::driver::handle::InputError;
use crate::driver::loaded_execution::{DecisionStage, LoadedExecution, Stage};
use crate::driver::machine::DriverMachine;
use crate::driver::queued_input::QueuedInput;

/// Maximum number of IDs that one decision may use, in addition to those of reported events.
const IDS_PER_DECISION: usize = 1_200;

/// After a slower decision, the next one of the execution is made on a thread of its own.
const DECISION_TIME_MAX: Duration = Duration::from_millis(5);

/// A decision, and whether it was slow.
pub(super) struct TimedDecision {
    result: Result<Decision, DecideError>,
    is_slow: bool,
}

impl DecisionTask {
    /// Makes the decision on the current thread.
    pub(super) fn decide(self) -> TimedDecision {
        let start = Instant::now();
        let state = self.state.as_ref();
        let (input, stamp) = (self.input, self.stamp);
        let result = self.hooks.decide(&self.net, state, input, stamp, &self.loaded);
        TimedDecision {
            result,
            is_slow: start.elapsed() > DECISION_TIME_MAX,
        }
    }
}

/// What can be done with the first input.
enum NextStep {
    /// Nothing, until something arrives.
    Wait,
    /// It repeats the submission of an execution that exists.
    JoinSubmission,
    /// Its execution must be loaded, because the submission before it was refused. Only the store knows whether the
    /// execution exists.
    Load,
    /// It must wait until everything decided so far is durable.
    WaitForCommit,
    /// It is decided.
    Decide,
}

impl NextStep {
    fn of(loaded: &LoadedExecution) -> Self {
        let (Some(open), Some(queued)) = (loaded.open(), loaded.queue.front()) else {
            return Self::Wait;
        };
        if !matches!(open.decision, DecisionStage::Ready(_)) {
            return Self::Wait;
        }
        let is_submission = matches!(queued.input, Input::Submit(_));
        match (is_submission, open.progress.is_some()) {
            (true, true) => Self::JoinSubmission,
            (false, false) if open.commit.is_clean() => Self::Load,
            (false, false) => Self::WaitForCommit,
            _ if !open.may_join_commit(queued) => Self::WaitForCommit,
            _ => Self::Decide,
        }
    }
}

impl DriverMachine {
    /// Decides the queued inputs until one has to wait.
    pub(super) fn decide(&mut self, execution: ExecutionId) {
        loop {
            let Some(loaded) = self.executions.get_mut(&execution) else {
                return;
            };
            match NextStep::of(loaded) {
                NextStep::Wait => return,
                NextStep::Decide => {
                    if !self.decide_first(execution) {
                        return;
                    }
                }
                NextStep::JoinSubmission => {
                    let queued = loaded.queue.pop_front();
                    let open = loaded.open_mut();
                    let durable = queued.zip(open).and_then(|(queued, open)| open.join_submission(queued));
                    self.effects.extend(durable.and_then(QueuedInput::into_unchanged_reply));
                }
                NextStep::Load => {
                    let queue = std::mem::take(&mut loaded.queue);
                    return self.load_execution(execution, queue);
                }
                NextStep::WaitForCommit => {
                    if let Some(open) = loaded.open_mut() {
                        open.decision.wait_for_commit();
                    }
                    return;
                }
            }
        }
    }

    /// Decides the first input. Returns false if it has to wait.
    fn decide_first(&mut self, execution: ExecutionId) -> bool {
        let ticket = self.new_ticket(execution);
        let Some(loaded) = self.executions.get_mut(&execution) else {
            return false;
        };
        let (Some(queued), Stage::Open(open)) = (loaded.queue.front(), &mut loaded.stage) else {
            return false;
        };
        let Some(net) = open.decision_net(queued) else {
            return false;
        };
        let input = open.decision_input(queued);
        let stamp = create_stamp(&*self.stamps, &queued.input);
        if open.needs_thread() {
            let values = open.decision.take_values();
            let task = DecisionTask {
                net,
                state: open.state().cloned(),
                input,
                stamp,
                loaded: values.clone(),
                hooks: self.settings.hooks.clone(),
            };
            open.decision = DecisionStage::OnThread(ticket, values);
            let effect = Effect::DecideOnThread(ticket, Box::new(task));
            self.effects.push(effect);
            return false;
        }
        let DecisionStage::Ready(values) = &open.decision else {
            return false;
        };
        let start = self.stamps.elapsed();
        let hooks = &self.settings.hooks;
        let result = hooks.decide(&net, open.state(), input, stamp, values);
        open.is_slow = self.stamps.elapsed().saturating_sub(start) > DECISION_TIME_MAX;
        self.apply_decision(execution, result)
    }

    pub(super) fn on_decided(&mut self, ticket: Ticket, decision: TimedDecision) {
        // If the execution was loaded again meanwhile, its inputs are still queued.
        let Some(open) = self.open_waiting_for(ticket) else {
            return;
        };
        open.decision = DecisionStage::Ready(open.decision.take_values());
        open.is_slow = decision.is_slow;
        if self.apply_decision(ticket.execution, decision.result) {
            self.decide(ticket.execution);
        }
    }

    /// Applies the decision about the first input. Returns false if the input has to wait.
    fn apply_decision(&mut self, execution: ExecutionId, result: Result<Decision, DecideError>) -> bool {
        match result {
            Ok(decision) => self.accept_decision(execution, decision),
            Err(DecideError::Needs(needs)) => {
                self.load_needs(execution, needs);
                false
            }
            Err(DecideError::Refused(refusal)) => self.apply_refusal(execution, refusal),
        }
    }

    fn accept_decision(&mut self, execution: ExecutionId, decision: Decision) -> bool {
        let Some(loaded) = self.executions.get_mut(&execution) else {
            return false;
        };
        let Some(queued) = loaded.queue.pop_front() else {
            return false;
        };
        if matches!(queued.input, Input::Continue) && decision.is_empty() {
            if let Some(open) = loaded.open_mut() {
                open.decision = DecisionStage::default();
            }
            self.effects.extend(queued.into_unchanged_reply());
        } else {
            self.add_decision(execution, queued, decision);
        }
        true
    }

    fn apply_refusal(&mut self, execution: ExecutionId, refusal: engine::Refusal) -> bool {
        let may_be_stale = self.settings.has_peers;
        let Some(loaded) = self.executions.get_mut(&execution) else {
            return false;
        };
        let queued = loaded.queue.pop_front();
        let (Some(queued), Some(open)) = (queued, loaded.open_mut()) else {
            return false;
        };
        let is_loaded = open.progress.is_some();
        if is_loaded && !open.commit.is_clean() {
            // The reason for the refusal may be in a commit that is not durable yet. The caller must be able to read
            // it, and the commit may fail; when it ends, the input is decided again.
            open.decision.wait_for_commit();
            loaded.queue.push_front(queued);
            return false;
        }
        if is_loaded && may_be_stale && !queued.is_checked {
            // Another server may have changed the execution since its state was loaded.
            loaded.queue.push_front(queued);
            let queue = std::mem::take(&mut loaded.queue);
            self.load_execution(execution, queue);
            return false;
        }
        open.decision = DecisionStage::default();
        self.refuse_input(execution, queued, refusal);
        true
    }

    /// Refuses an input. It changes nothing, but the message that carried it is consumed.
    pub(super) fn refuse_input(&mut self, execution: ExecutionId, queued: QueuedInput, refusal: engine::Refusal) {
        let attachments = &queued.attachments;
        if attachments.consumed_message.is_some() && !attachments.has_refusal_handler {
            self.add_consumed_message(execution, &queued);
        }
        let reply = queued.into_reply(Err(InputError::Refused(refusal)));
        self.effects.extend(reply);
        // A refused submission leaves nothing behind.
        let is_nothing = |loaded: &LoadedExecution| loaded.state().is_none() && loaded.is_idle();
        if self.executions.get(&execution).is_some_and(is_nothing) {
            self.executions.remove(&execution);
        }
    }
}

fn create_stamp(stamps: &dyn StampSource, input: &Input) -> engine::Stamp {
    let reported = match input {
        Input::Report(report) => report.events.len(),
        Input::Submit(submit) => submit.reuse.as_ref().map_or(0, |reuse| reuse.events_max()),
        _ => 0,
    };
    let count = u32::try_from(reported + IDS_PER_DECISION).unwrap_or(u32::MAX);
    engine::Stamp {
        now: stamps.now(),
        ids: IdBlock::starting_at(stamps.ids(count)),
    }
}
