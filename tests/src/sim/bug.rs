//! Bugs on purpose: each breaks one promise, and some checker must notice.

use std::time::Duration;

use engine::{CommandChange, Decision, Input, Phase, State, TimerChange};
use model::command::Command;
use model::event::{Body, Event};
use model::id::{LeaseEpoch, Seq};
use model::playbook::{Playbook, RouteMode};
use model::template::Tree;
use model::time::Time;
use serde_json::Value;

use crate::world::Tamper;

/// A bug to put into a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A command that was decided is not offered.
    LoseCommand,
    /// A timer that was decided is not set.
    LoseTimer,
    /// Messages between executions are lost.
    LoseMessage,
    /// The server forgets what was written to `ctx`.
    LoseCtxPatch,
    /// A step ends twice.
    DuplicateBoundary,
    /// An iteration ends twice.
    DuplicateIteration,
    /// Reports under an old claim count for the current one.
    SkipFence,
    /// More iterations run at once than may.
    WidenInFlight,
    /// A claim is handed out under an epoch that was used before.
    ReuseEpoch,
    /// An exclusive router fires every arc.
    RouteTwoArcs,
    /// A failure that nothing handles is forgotten.
    ForgetHeld,
    /// An ended execution takes inputs.
    EndIsNoEnd,
    /// Tokens that meet do not merge.
    NeverJoin,
    /// Work is offered while paused.
    IgnorePause,
    /// Work goes on after the request to cancel.
    IgnoreCancel,
    /// Timers fire before their time.
    FireEarly,
    /// A report is acknowledged and dropped.
    LoseReport,
    /// There are more tries than the policy allows.
    RetryMore,
    /// A token disappears.
    LoseToken,
    /// An event is left out of a commit.
    DropEvent,
}

impl Bug {
    /// Every bug.
    pub const ALL: &[Bug] = &[
        Bug::LoseCommand,
        Bug::LoseTimer,
        Bug::LoseMessage,
        Bug::LoseCtxPatch,
        Bug::DuplicateBoundary,
        Bug::DuplicateIteration,
        Bug::SkipFence,
        Bug::WidenInFlight,
        Bug::ReuseEpoch,
        Bug::RouteTwoArcs,
        Bug::ForgetHeld,
        Bug::EndIsNoEnd,
        Bug::NeverJoin,
        Bug::IgnorePause,
        Bug::IgnoreCancel,
        Bug::FireEarly,
        Bug::LoseReport,
        Bug::RetryMore,
        Bug::LoseToken,
        Bug::DropEvent,
    ];
}

/// A world with a bug.
pub(crate) struct Mutant {
    bug: Bug,
    count: u32,
}

impl Mutant {
    pub(crate) fn new(bug: Bug) -> Self {
        Self { bug, count: 0 }
    }
}

impl Tamper for Mutant {
    fn playbook(&mut self, playbook: &mut Playbook) {
        for step in &mut playbook.steps {
            match self.bug {
                Bug::RouteTwoArcs => step.next.mode = RouteMode::Inclusive,
                Bug::NeverJoin => step.joins = false,
                Bug::WidenInFlight => {
                    if let Some(loop_) = &mut step.loop_ {
                        loop_.max_in_flight = Some(Tree::Literal(Value::from(9)));
                    }
                }
                Bug::RetryMore => {
                    let rules = step
                        .tasks
                        .iter_mut()
                        .flat_map(|task| &mut task.policy.rules);
                    rules.for_each(|rule| {
                        rule.then.retry.attempts = Some(Tree::Literal(Value::from(9)))
                    });
                }
                _ => {}
            }
        }
    }

    fn state(&mut self, state: &mut State) {
        match self.bug {
            Bug::IgnorePause => state.paused = false,
            Bug::IgnoreCancel => state.stop = None,
            Bug::EndIsNoEnd => state.phase = Phase::Live,
            _ => {}
        }
    }

    fn input(&mut self, state: Option<&State>, input: &mut Input, now: &mut Time) {
        match (self.bug, input) {
            (Bug::FireEarly, Input::Timer(_)) => *now = now.after(Duration::from_secs(3600)),
            (Bug::SkipFence, Input::Report(report)) => {
                let Some(state) = state else { return };
                let run = report
                    .events
                    .first()
                    .and_then(|event| event.at.step_run_id());
                let mut live = state.commands.iter();
                let current = live.find(|(_, command)| Some(&command.run) == run.as_ref());
                if let Some((seq, command)) = current {
                    report.command = *seq;
                    report.lease_epoch = command
                        .claimed
                        .as_ref()
                        .map_or(LeaseEpoch(1), |(_, epoch)| *epoch);
                }
            }
            _ => {}
        }
    }

    fn decision(&mut self, before: Option<&State>, decision: &mut Decision) {
        match self.bug {
            Bug::LoseCommand => {
                decision
                    .commands
                    .retain(|change| matches!(change, CommandChange::Close { .. }));
            }
            Bug::LoseTimer => decision
                .timers
                .retain(|change| matches!(change, TimerChange::Clear { .. })),
            Bug::LoseMessage => decision.messages.clear(),
            Bug::LoseCtxPatch => {
                if let Some(before) = before {
                    decision.state.ctx = before.ctx.clone();
                }
            }
            Bug::LoseToken => {
                decision.state.tokens.pop_last();
            }
            Bug::DuplicateBoundary => repeat(decision, |body| matches!(body, Body::StepDone(_))),
            Bug::DuplicateIteration => {
                repeat(decision, |body| matches!(body, Body::IterationDone(_)))
            }
            Bug::ForgetHeld => forget_held(before, decision),
            Bug::FireEarly => {
                for change in &mut decision.timers {
                    if let TimerChange::Set { due, .. } = change {
                        *due = Time(due.0 - 5_000_000);
                    }
                }
            }
            Bug::DropEvent => {
                if decision.events.len() > 6 {
                    decision.events.remove(3);
                }
            }
            _ => {}
        }
    }

    fn drops(&mut self, input: &Input) -> bool {
        let is_report = matches!(input, Input::Report(report) if !report.events.is_empty());
        self.count += u32::from(is_report);
        self.bug == Bug::LoseReport && is_report && self.count % 3 == 0
    }

    fn claim(&mut self, _command: &Command, epoch: &mut LeaseEpoch) {
        if self.bug == Bug::ReuseEpoch {
            *epoch = LeaseEpoch(1);
        }
    }
}

/// Says something once more at the end of a decision.
fn repeat(decision: &mut Decision, which: impl Fn(&Body) -> bool) {
    let found = decision.events.iter().find(|event| which(&event.body));
    let Some(event) = found.cloned() else { return };
    let again = Event {
        seq: Seq(decision.state.seq.0 + 1),
        ..event
    };
    decision.state.apply(&again);
    decision.events.push(again);
}

fn forget_held(before: Option<&State>, decision: &mut Decision) {
    let mut found = false;
    for event in &mut decision.events {
        if let Body::NextEvaluated(next) = &mut event.body {
            found |= next.held;
            next.held = false;
        }
    }
    if let (true, Some(before)) = (found, before) {
        let mut state = before.clone();
        decision.events.iter().for_each(|event| state.apply(event));
        decision.state = state;
    }
}
