//! Hooks that inject bugs into a world, to show that its checkers report them.

use engine::{Decision, ExecutionState, Input};
use language::playbook::Playbook;
use model::command::Command;
use model::id::LeaseEpoch;
use model::time::Time;

/// Changes the behavior of a world. Each hook does nothing by default.
pub trait Tamper {
    /// Changes the playbook that decisions use.
    fn playbook(&mut self, _playbook: &mut Playbook) {}

    /// Changes the state before a decision.
    fn state(&mut self, _state: &mut ExecutionState) {}

    /// Changes the input or its time.
    fn input(&mut self, _state: Option<&ExecutionState>, _input: &mut Input, _now: &mut Time) {}

    /// Changes a decision before it is committed.
    fn decision(&mut self, _before: Option<&ExecutionState>, _decision: &mut Decision) {}

    /// Whether an input is acknowledged without being decided.
    fn drops_input(&mut self, _input: &Input) -> bool {
        false
    }

    /// Whether a state is kept although the result of its commit is unknown.
    fn trusts_unknown(&self) -> bool {
        false
    }

    /// Changes the epoch of a new claim.
    fn claim(&mut self, _command: &Command, _epoch: &mut LeaseEpoch) {}
}

/// Changes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTamper;

impl Tamper for NoTamper {}
