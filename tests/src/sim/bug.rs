//! Deliberate bugs: each violates one invariant, and a checker must report it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{Decision, ExecutionState, Input, Phase};
use model::command::TimerChange;
use model::event::{Event, EventBody};
use model::id::{CommandId, EventId, Seq};
use model::time::Time;
use server::{DriverBug, DriverTamper};

use crate::sim::observer::SimObserver;

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
    DropFailure,
    /// An ended execution accepts inputs.
    AcceptAfterEnd,
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
    RepeatChildEnd,
    /// A loop starts twice.
    StartLoopTwice,
    /// Events have no cause.
    OmitCause,
    /// The end of an execution is not recorded.
    NeverEnd,
    /// The number of runs of a step is not limited.
    RunForever,
    /// A bug in the bookkeeping of the driver.
    Driver(DriverBug),
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
        Bug::DropFailure,
        Bug::AcceptAfterEnd,
        Bug::NeverJoin,
        Bug::IgnorePause,
        Bug::IgnoreCancel,
        Bug::FireEarly,
        Bug::LoseReport,
        Bug::RetryMore,
        Bug::LoseToken,
        Bug::DropEvent,
        Bug::RepeatChildEnd,
        Bug::StartLoopTwice,
        Bug::OmitCause,
        Bug::NeverEnd,
        Bug::RunForever,
        Bug::Driver(DriverBug::OverwriteExecution),
        Bug::Driver(DriverBug::ReplyBeforeCommit),
        Bug::Driver(DriverBug::DropFailedInputs),
        Bug::Driver(DriverBug::KeepFailedAssignments),
        Bug::Driver(DriverBug::DecideConfirmedInputs),
        Bug::Driver(DriverBug::TrustUnknownCommit),
        Bug::Driver(DriverBug::CommitTwiceAtOnce),
        Bug::Driver(DriverBug::PublishRefusedCommit),
    ];

    /// Numbers of the invariants that the bug violates.
    pub fn violated_invariants(self) -> &'static [u32] {
        match self {
            Bug::DropEvent => &[2],
            Bug::OmitCause => &[7],
            Bug::NeverEnd => &[11],
            Bug::LoseCtxPatch => &[24],
            Bug::RunForever => &[35],
            Bug::LoseCommand | Bug::LoseTimer => &[5],
            Bug::AcceptAfterEnd => &[10],
            Bug::DropFailure => &[12],
            Bug::IgnorePause | Bug::IgnoreCancel => &[14],
            Bug::RepeatChildEnd => &[15],
            Bug::NeverJoin => &[17],
            Bug::RouteTwoArcs => &[18],
            Bug::DuplicateBoundary => &[19],
            Bug::StartLoopTwice => &[20],
            Bug::DuplicateIteration => &[21],
            Bug::WidenInFlight => &[22],
            Bug::ReuseEpoch => &[26],
            Bug::SkipFence => &[27],
            Bug::RetryMore => &[32],
            Bug::LoseReport => &[33],
            Bug::FireEarly => &[34],
            Bug::LoseToken => &[44],
            Bug::LoseMessage => &[50],
            Bug::Driver(bug) => match bug {
                DriverBug::OverwriteExecution
                | DriverBug::ReplyBeforeCommit
                | DriverBug::DropFailedInputs
                | DriverBug::CommitTwiceAtOnce => &[4],
                DriverBug::KeepFailedAssignments => &[26],
                DriverBug::DecideConfirmedInputs => &[1],
                DriverBug::PublishRefusedCommit | DriverBug::TrustUnknownCommit => &[49],
            },
        }
    }

    /// The playbook that the servers get; the checkers get the original.
    pub(crate) fn change_playbook(self, text: &str) -> String {
        match self {
            Bug::RouteTwoArcs => text.replace("mode: exclusive", "mode: inclusive"),
            Bug::NeverJoin => {
                let lines = text.lines().map(|line| {
                    let is_step = line.starts_with("  - step: ");
                    let indent = if is_step { "\n    " } else { "" };
                    match line.strip_prefix("    spec: {") {
                        Some(spec) if !spec.contains("join:") => {
                            format!("    spec: {{join: each, {spec}")
                        }
                        _ if is_step => format!("{line}{indent}# no join"),
                        _ => line.to_owned(),
                    }
                });
                let text: Vec<String> = lines.collect();
                add_missing_joins(&text.join("\n"))
            }
            Bug::WidenInFlight => {
                let mut text = text.to_owned();
                for width in 1..=8 {
                    text = text.replace(&format!("max_in_flight: {width}}}"), "max_in_flight: 9}");
                }
                text
            }
            Bug::RetryMore => text.replace("attempts: 3", "attempts: 9"),
            _ => text.to_owned(),
        }
    }
}

/// Gives every step that has no `spec` one that runs it once per token.
fn add_missing_joins(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut remaining_lines = text.lines().peekable();
    while let Some(line) = remaining_lines.next() {
        if line.trim() == "# no join" {
            let has_spec = remaining_lines
                .peek()
                .is_some_and(|next| next.starts_with("    spec: {"));
            if !has_spec {
                lines.push("    spec: {join: each}".to_owned());
            }
            continue;
        }
        lines.push(line.to_owned());
    }
    lines.join("\n") + "\n"
}

/// Injects a bug into a driver, and passes the decisions of the driver to the observer.
pub(crate) struct Mutant {
    bug: Option<Bug>,
    observer: Arc<SimObserver>,
    /// Whether the state that the engine gets differs from the true one.
    is_changed: Mutex<bool>,
}

impl Mutant {
    pub(crate) fn new(bug: Option<Bug>, observer: Arc<SimObserver>) -> Self {
        Self {
            bug,
            observer,
            is_changed: Mutex::new(false),
        }
    }
}

impl DriverTamper for Mutant {
    fn has_bug(&self, bug: DriverBug) -> bool {
        self.bug == Some(Bug::Driver(bug))
    }

    fn before_decision(&self, state: Option<&mut ExecutionState>, input: &mut Input, now: &mut Time) {
        let Some(state) = state else { return };
        let mut is_changed = self.is_changed.lock().expect("no holder panics");
        match (self.bug, input) {
            (Some(Bug::IgnorePause), _) => *is_changed = std::mem::take(&mut state.paused),
            (Some(Bug::IgnoreCancel), _) => *is_changed = state.stop.take().is_some(),
            (Some(Bug::AcceptAfterEnd), _) if state.is_ended() => {
                state.phase = Phase::Live;
                *is_changed = true;
            }
            (Some(Bug::FireEarly), input @ Input::Signal { .. }) => {
                if let Some(timer) = state.timers.keys().next() {
                    *input = Input::TimerDue(*timer);
                    *now = now.after(Duration::from_secs(3600));
                }
            }
            (Some(Bug::SkipFence), Input::Report(report)) => {
                let first = report.events.first();
                let run = first.and_then(|event| event.location.step_run_id());
                let mut live = state.commands.iter();
                let current = live.find_map(|(seq, command)| {
                    let id = CommandId {
                        execution: state.execution,
                        seq: *seq,
                    };
                    let epoch = self.observer.current_epoch(id)?;
                    (Some(&command.run) == run.as_ref()).then_some((*seq, epoch))
                });
                if let Some((command, epoch)) = current {
                    report.command = command;
                    report.lease_epoch = epoch;
                }
            }
            _ => {}
        }
    }

    fn after_decision(&self, before: Option<&ExecutionState>, decision: &mut Decision) {
        match self.bug {
            Some(Bug::LoseCommand) => decision.issued.clear(),
            Some(Bug::LoseTimer) => decision
                .timers
                .retain(|change| matches!(change, TimerChange::Clear { .. })),
            Some(Bug::LoseMessage) => decision.messages.clear(),
            Some(Bug::LoseCtxPatch) => {
                if let Some(before) = before {
                    decision.state.ctx = before.ctx.clone();
                }
            }
            Some(Bug::LoseToken) => {
                decision.state.tokens.pop_last();
            }
            Some(Bug::DuplicateBoundary) => {
                repeat_event(decision, |body| matches!(body, EventBody::StepDone(_)));
            }
            Some(Bug::DuplicateIteration) => {
                repeat_event(decision, |body| matches!(body, EventBody::IterationDone(_)));
            }
            Some(Bug::DropFailure) => drop_failure(before, decision),
            Some(Bug::RepeatChildEnd) => repeat_event(
                decision,
                |body| matches!(body, EventBody::SignalReceived(signal) if signal.child.is_some()),
            ),
            Some(Bug::StartLoopTwice) => {
                repeat_event(decision, |body| matches!(body, EventBody::LoopStarted(_)));
            }
            Some(Bug::IgnorePause | Bug::IgnoreCancel | Bug::AcceptAfterEnd) => {
                decision.unique_keys.clear();
                let is_changed = std::mem::take(&mut *self.is_changed.lock().expect("no holder panics"));
                if let Some(mut state) = before.filter(|_| is_changed).cloned() {
                    decision.events.iter().for_each(|event| state.apply(event));
                    decision.state = state;
                }
            }
            Some(Bug::OmitCause) => {
                let decided = decision.events.iter_mut().skip(1);
                decided.for_each(|event| event.cause_seq = None);
            }
            Some(Bug::NeverEnd) => never_end(before, decision),
            Some(Bug::DropEvent) if decision.events.len() > 6 => {
                decision.events.remove(3);
            }
            _ => {}
        }
        if let Some(last) = decision.events.last() {
            self.observer.add_decided(last.event_id, decision.state.clone());
        }
    }
}

/// Distinguishes the ID of a repeated event; IDs of events do not use this bit.
const REPEATED_EVENT: i64 = 1 << 62;

/// Repeats an event at the end of a decision.
fn repeat_event(decision: &mut Decision, is_match: impl Fn(&EventBody) -> bool) {
    let repeated = decision.events.iter().find(|event| is_match(&event.body));
    let Some(event) = repeated.cloned() else { return };
    let again = Event {
        event_id: EventId(event.event_id.0 | REPEATED_EVENT),
        seq: Seq(decision.state.seq.0 + 1),
        ..event
    };
    decision.state.apply(&again);
    decision.events.push(again);
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

fn drop_failure(before: Option<&ExecutionState>, decision: &mut Decision) {
    let mut was_held = false;
    for event in &mut decision.events {
        if let EventBody::NextEvaluated(next) = &mut event.body {
            was_held |= next.held;
            next.held = false;
        }
    }
    if let (true, Some(before)) = (was_held, before) {
        let mut state = before.clone();
        decision.events.iter().for_each(|event| state.apply(event));
        decision.state = state;
    }
}
