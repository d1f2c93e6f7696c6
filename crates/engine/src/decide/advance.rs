//! The entry point of every decision: applies the input, then advances the state until no event is missing.

use language::template::{LoadedValues, Need};

use crate::decide::decision_builder::DecisionBuilder;
use crate::decide::{DecideError, PlaybookNet, Refusal};
use crate::decision::Decision;
use crate::input::{Input, Stamp};
use crate::state::ExecutionState;

/// Returns the events and effects that follow from an input. `state` is `None` only for a submission.
pub fn decide(
    net: &PlaybookNet,
    state: Option<&ExecutionState>,
    input: Input,
    stamp: Stamp,
    loaded: &LoadedValues,
) -> Result<Decision, DecideError> {
    let mut turn = match (state, input) {
        (None, Input::Submit(submit)) => DecisionBuilder::start_execution(net, *submit, stamp, loaded)?,
        (None, _) => return Err(Refusal::ExecutionEnded.into()),
        (Some(state), input) => {
            let mut turn = DecisionBuilder::new(net, state, stamp, loaded);
            turn.apply_input(input)?;
            turn
        }
    };
    turn.advance()?;
    Ok(turn.into_decision())
}

/// Returns what must be loaded before `decide` can run; empty if nothing is missing.
pub fn needs(
    net: &PlaybookNet,
    state: Option<&ExecutionState>,
    input: Input,
    stamp: Stamp,
    loaded: &LoadedValues,
) -> Vec<Need> {
    match decide(net, state, input, stamp, loaded) {
        Err(DecideError::Needs(needs)) => needs,
        _ => Vec::new(),
    }
}

impl DecisionBuilder<'_> {
    fn apply_input(&mut self, input: Input) -> Result<(), DecideError> {
        match input {
            Input::Submit(_) => Err(Refusal::ExecutionEnded.into()),
            Input::Report(report) => self.apply_report(report),
            Input::TimerDue(timer) => self.on_timer_due(timer),
            Input::Signal { name, payload } => self.signal(name, payload),
            Input::ChildEnded { child, seq, outcome } => self.on_child_ended(child, seq, &outcome),
            Input::Cancel(request) => self.cancel(request),
            Input::Pause { reason } => self.pause(reason),
            Input::Resume => self.resume(),
            Input::Retry { switch } => self.retry(switch.as_deref()),
            Input::Patch(patch) => self.apply_external_patch(&patch),
            Input::ClaimLost {
                command,
                worker,
                lease_epoch,
                is_strike,
            } => self.on_claim_lost(command, &worker, lease_epoch, is_strike),
            Input::CommandOverdue(command) => self.on_command_overdue(command),
            Input::RecordEvent(body) => self.record_server_event(*body),
            Input::Continue => {
                self.rechecks_parked = true;
                Ok(())
            }
        }
    }

    /// Emits the events that the state requires, until none is missing.
    fn advance(&mut self) -> Result<(), DecideError> {
        loop {
            if self.state.is_ended() || self.is_full() || self.defers_remaining {
                return Ok(());
            }
            if self.state.stop.is_some() {
                if self.advance_stop()? {
                    continue;
                }
                return Ok(());
            }
            let has_advanced = self.route_ended_run()?
                || self.advance_loops()?
                || self.complete_routing_step()?
                || self.start_step()?;
            if has_advanced {
                continue;
            }
            self.offer_commands();
            if !self.complete_execution()? {
                return Ok(());
            }
        }
    }
}
