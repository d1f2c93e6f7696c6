//! The entry point of every decision: applies the input, then advances the state until no event is missing.

use model::template::{Loaded, Need};

use crate::decide::turn::Turn;
use crate::decide::{Net, Refusal, Undecided};
use crate::decision::Decision;
use crate::input::{Input, Stamp};
use crate::state::State;

/// Returns the events and effects that follow from an input. `state` is `None` only for a submission.
pub fn decide(
    net: &Net,
    state: Option<&State>,
    input: Input,
    stamp: Stamp,
    loaded: &Loaded,
) -> Result<Decision, Undecided> {
    let mut turn = match (state, input) {
        (None, Input::Submit(submit)) => Turn::begin(net, *submit, stamp, loaded)?,
        (None, _) => return Err(Refusal::Ended.into()),
        (Some(state), input) => {
            let mut turn = Turn::on(net, state, stamp, loaded);
            turn.take(input)?;
            turn
        }
    };
    turn.advance()?;
    Ok(turn.decision())
}

/// Returns what must be loaded before `decide` can run; empty if nothing is missing.
pub fn needs(
    net: &Net,
    state: Option<&State>,
    input: Input,
    stamp: Stamp,
    loaded: &Loaded,
) -> Vec<Need> {
    match decide(net, state, input, stamp, loaded) {
        Err(Undecided::Needs(needs)) => needs,
        _ => Vec::new(),
    }
}

impl Turn<'_> {
    fn take(&mut self, input: Input) -> Result<(), Undecided> {
        match input {
            Input::Submit(_) => Err(Refusal::Ended.into()),
            Input::Report(report) => self.report(report),
            Input::Timer(timer) => self.timer_due(timer),
            Input::Signal { name, payload } => self.signal(name, payload),
            Input::ChildEnded {
                child,
                seq,
                outcome,
            } => self.child_ended(child, seq, &outcome),
            Input::Cancel(request) => self.cancel(request),
            Input::Pause { reason } => self.pause(reason),
            Input::Resume => self.resume(),
            Input::Retry { switch } => self.retry(switch.as_deref()),
            Input::Patch(patch) => self.patch_from_outside(&patch),
            Input::Lost {
                command,
                worker,
                lease_epoch,
                is_strike,
            } => self.lost(command, &worker, lease_epoch, is_strike),
            Input::Unclaimed(command) => self.unclaimed(command),
            Input::Record(body) => self.note_down(*body),
            Input::GoOn => {
                self.looks_at_all = true;
                Ok(())
            }
        }
    }

    /// Emits the events that the state requires, until none is missing.
    fn advance(&mut self) -> Result<(), Undecided> {
        loop {
            if self.state.is_ended() || self.is_long() || self.rests {
                return Ok(());
            }
            if self.state.stop.is_some() {
                if self.go_on_stopping()? {
                    continue;
                }
                return Ok(());
            }
            let moved = self.route_ended()?
                || self.move_loops()?
                || self.pass_routing_steps()?
                || self.start_step()?;
            if moved {
                continue;
            }
            self.offer_commands();
            if !self.complete()? {
                return Ok(());
            }
        }
    }
}
