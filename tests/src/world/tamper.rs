//! Where a world can be made to misbehave, so that its checkers are seen to catch it.

use engine::{Decision, Input, State};
use model::command::Command;
use model::id::LeaseEpoch;
use model::playbook::Playbook;
use model::time::Time;

/// Changes what a world does. Each hook does nothing unless it is overridden.
pub trait Tamper {
    /// Changes the playbook that decisions are made from.
    fn playbook(&mut self, _playbook: &mut Playbook) {}

    /// Changes the state before a decision is made from it.
    fn state(&mut self, _state: &mut State) {}

    /// Changes the input, or the time it is decided at.
    fn input(&mut self, _state: Option<&State>, _input: &mut Input, _now: &mut Time) {}

    /// Changes a decision before it is committed.
    fn decision(&mut self, _before: Option<&State>, _decision: &mut Decision) {}

    /// Whether an input is acknowledged without being decided.
    fn drops(&mut self, _input: &Input) -> bool {
        false
    }

    /// Whether a state is kept although nobody knows if its commit happened.
    fn trusts_unknown(&self) -> bool {
        false
    }

    /// Changes the epoch of a claim that is handed out.
    fn claim(&mut self, _command: &Command, _epoch: &mut LeaseEpoch) {}
}

/// Changes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Honest;

impl Tamper for Honest {}
