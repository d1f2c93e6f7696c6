//! Deliberate bugs: each violates one invariant, and a checker must report it.

use std::time::Duration;

use engine::{Decision, ExecutionState, Input, Phase};
use language::playbook::Playbook;
use language::template::Tree;
use model::command::Command;
use model::command::TimerChange;
use model::event::{CtxPatched, Event, EventBody, EventLocation, EventSource};
use model::id::{EventId, LeaseEpoch, Seq};
use model::playbook::RouteMode;
use model::raw::RawJson;
use model::time::Time;
use serde_json::Value;

use crate::world::Tamper;

/// A bug to inject into a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A decided command is not offered.
    LoseCommand,
    /// A decided timer is not set.
    LoseTimer,
    /// Messages between executions are lost.
    LoseMessage,
    /// The server loses writes to `ctx`.
    LoseCtxPatch,
    /// A step ends twice.
    DuplicateBoundary,
    /// An iteration ends twice.
    DuplicateIteration,
    /// Reports with an expired claim are accepted for the current claim.
    SkipFence,
    /// More iterations run at once than the limit allows.
    WidenInFlight,
    /// A claim reuses an epoch.
    ReuseEpoch,
    /// An exclusive step takes every arc.
    RouteTwoArcs,
    /// An unhandled failure is dropped.
    ForgetHeld,
    /// An ended execution accepts inputs.
    EndIsNoEnd,
    /// Tokens that meet at a join do not merge.
    NeverJoin,
    /// Commands are offered while the execution is paused.
    IgnorePause,
    /// Work continues after a cancel request.
    IgnoreCancel,
    /// Timers fire before their time.
    FireEarly,
    /// A report is acknowledged, but dropped.
    LoseReport,
    /// A task has more attempts than its policy allows.
    RetryMore,
    /// A token disappears.
    LoseToken,
    /// An event is missing from a commit.
    DropEvent,
    /// The end of a child is delivered twice.
    HearTwice,
    /// A loop starts twice.
    StartLoopTwice,
    /// A repeated report is recorded again.
    RecordAgain,
    /// Events have no cause.
    CauseNothing,
    /// The end of an execution is not recorded.
    NeverEnd,
    /// The number of runs of a step is not limited.
    RunForever,
    /// The state is not reloaded after a commit with an unknown result.
    TrustUnknown,
}

impl Bug {
    /// All bugs.
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
        Bug::HearTwice,
        Bug::StartLoopTwice,
        Bug::RecordAgain,
        Bug::CauseNothing,
        Bug::NeverEnd,
        Bug::RunForever,
        Bug::TrustUnknown,
    ];

    /// Number of the invariant that the bug violates.
    pub fn broken_check(self) -> u32 {
        match self {
            Bug::RecordAgain => 1,
            Bug::DropEvent => 2,
            Bug::CauseNothing => 7,
            Bug::NeverEnd => 11,
            Bug::LoseCtxPatch => 24,
            Bug::RunForever => 35,
            Bug::LoseCommand | Bug::LoseTimer => 5,
            Bug::EndIsNoEnd => 10,
            Bug::ForgetHeld => 12,
            Bug::IgnorePause | Bug::IgnoreCancel => 14,
            Bug::HearTwice => 15,
            Bug::NeverJoin => 17,
            Bug::RouteTwoArcs => 18,
            Bug::DuplicateBoundary => 19,
            Bug::StartLoopTwice => 20,
            Bug::DuplicateIteration => 21,
            Bug::WidenInFlight => 22,
            Bug::ReuseEpoch => 26,
            Bug::SkipFence => 27,
            Bug::RetryMore => 32,
            Bug::LoseReport => 33,
            Bug::FireEarly => 34,
            Bug::LoseToken | Bug::TrustUnknown => 44,
            Bug::LoseMessage => 50,
        }
    }
}

/// Injects a bug into a world.
pub(crate) struct Mutant {
    bug: Bug,
    /// The state before the change, so that the change is not visible in what is kept.
    original: Option<ExecutionState>,
    /// Reports that have arrived before.
    past_reports: Vec<(Seq, Vec<Event>)>,
    /// Whether the input is a report that has arrived before.
    is_repeat: bool,
}

impl Mutant {
    pub(crate) fn new(bug: Bug) -> Self {
        Self {
            bug,
            original: None,
            past_reports: Vec::new(),
            is_repeat: false,
        }
    }
}

impl Tamper for Mutant {
    fn playbook(&mut self, playbook: &mut Playbook) {
        for step in &mut playbook.steps {
            match self.bug {
                Bug::RouteTwoArcs => step.next.mode = RouteMode::Inclusive,
                Bug::NeverJoin => step.is_joining = false,
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
                        rule.action.retry.attempts = Some(Tree::Literal(Value::from(9)));
                    });
                }
                _ => {}
            }
        }
    }

    fn state(&mut self, state: &mut ExecutionState) {
        self.original = Some(state.clone());
        match self.bug {
            Bug::IgnorePause => state.paused = false,
            Bug::IgnoreCancel => state.stop = None,
            Bug::EndIsNoEnd => state.phase = Phase::Live,
            _ => {}
        }
    }

    fn input(&mut self, state: Option<&ExecutionState>, input: &mut Input, now: &mut Time) {
        match (self.bug, input) {
            (Bug::FireEarly, input @ Input::Signal { .. }) => {
                let timers = state.map(|state| state.timers.keys());
                if let Some(timer) = timers.and_then(|mut timers| timers.next()) {
                    *input = Input::TimerDue(*timer);
                    *now = now.after(Duration::from_secs(3600));
                }
            }
            (Bug::RecordAgain, Input::Report(report)) if !report.events.is_empty() => {
                let said = (report.command, report.events.clone());
                self.is_repeat = self.past_reports.contains(&said);
                self.past_reports.push(said);
            }
            (Bug::SkipFence, Input::Report(report)) => {
                let Some(state) = state else { return };
                let run = report
                    .events
                    .first()
                    .and_then(|event| event.location.step_run_id());
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

    fn decision(&mut self, before: Option<&ExecutionState>, decision: &mut Decision) {
        match self.bug {
            Bug::LoseCommand => {
                decision.issued.clear();
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
            Bug::DuplicateBoundary => {
                repeat_event(decision, |body| matches!(body, EventBody::StepDone(_)));
            }
            Bug::DuplicateIteration => {
                repeat_event(decision, |body| matches!(body, EventBody::IterationDone(_)));
            }
            Bug::ForgetHeld => forget_held(before, decision),
            Bug::HearTwice => repeat_event(
                decision,
                |body| matches!(body, EventBody::SignalReceived(signal) if signal.child.is_some()),
            ),
            Bug::StartLoopTwice => {
                repeat_event(decision, |body| matches!(body, EventBody::LoopStarted(_)));
            }
            Bug::IgnorePause | Bug::IgnoreCancel | Bug::EndIsNoEnd => {
                decision.unique_keys.clear();
                let original = self.original.take().filter(|_| before.is_some());
                if let Some(mut state) = original {
                    decision.events.iter().for_each(|event| state.apply(event));
                    decision.state = state;
                }
            }
            Bug::RecordAgain if std::mem::take(&mut self.is_repeat) => {
                let patch = RawJson::from_serializable(&serde_json::json!({}));
                add_event(decision, EventBody::CtxPatched(CtxPatched { patch }));
            }
            Bug::CauseNothing => {
                let decided = decision.events.iter_mut().skip(1);
                decided.for_each(|event| event.cause_seq = None);
            }
            Bug::NeverEnd => never_end(before, decision),
            Bug::DropEvent if decision.events.len() > 6 => {
                decision.events.remove(3);
            }
            _ => {}
        }
    }

    fn trusts_unknown(&self) -> bool {
        self.bug == Bug::TrustUnknown
    }

    fn drops_input(&mut self, input: &Input) -> bool {
        let Input::Report(report) = input else {
            return false;
        };
        let is_unlucky = (report.command.0 + report.events.len() as u64).is_multiple_of(5);
        self.bug == Bug::LoseReport && is_unlucky && !report.events.is_empty()
    }

    fn claim(&mut self, _command: &Command, epoch: &mut LeaseEpoch) {
        if self.bug == Bug::ReuseEpoch {
            *epoch = LeaseEpoch(1);
        }
    }
}

/// Repeats an event at the end of a decision.
fn repeat_event(decision: &mut Decision, is_match: impl Fn(&EventBody) -> bool) {
    let found = decision.events.iter().find(|event| is_match(&event.body));
    let Some(event) = found.cloned() else { return };
    let again = Event {
        seq: Seq(decision.state.seq.0 + 1),
        ..event
    };
    decision.state.apply(&again);
    decision.events.push(again);
}

/// Adds an event at the end of a decision.
fn add_event(decision: &mut Decision, body: EventBody) {
    let seq = decision.state.seq.next();
    let event = Event {
        event_id: EventId(0),
        execution_id: decision.state.execution,
        seq,
        cause_seq: Some(decision.state.seq),
        timestamp: Time(0),
        recorded_at: Time(0),
        source: EventSource::Server,
        location: EventLocation::default(),
        duration_ms: None,
        worker_id: None,
        trace_id: None,
        meta: None,
        body,
    };
    decision.state.apply(&event);
    decision.events.push(event);
}

/// Removes the end of an execution.
fn never_end(before: Option<&ExecutionState>, decision: &mut Decision) {
    let is_end = |event: &Event| matches!(event.body, EventBody::WorkflowFinished(_));
    let end = decision.events.iter().position(is_end);
    let (Some(end), Some(before)) = (end, before) else {
        return;
    };
    decision.events.truncate(end);
    decision.unique_keys.clear();
    let mut state = before.clone();
    decision.events.iter().for_each(|event| state.apply(event));
    decision.state = state;
}

fn forget_held(before: Option<&ExecutionState>, decision: &mut Decision) {
    let mut found = false;
    for event in &mut decision.events {
        if let EventBody::NextEvaluated(next) = &mut event.body {
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
