//! The checkers: each invariant that can be observed in a simulation, by its number in `docs/contributing/invariants.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{ExecutionState, Graph, PendingWait};
use language::playbook::Playbook;
use language::template::Tree;
use model::event::{AwaitTarget, Event, EventBody, EventSource};
use model::id::{CommandId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, WorkerId};
use model::playbook::LoopMode;
use model::time::Time;

use store::{ExecutionRow, OpenCommand, WaitEntry};
use wire::ClaimedCommand;

use crate::sim::log_checker::LogChecker;
use crate::sim::simulation::Violation;

pub(crate) type CheckResult = Result<(), Violation>;

/// `Ok` if the invariant with this number is fulfilled. A function that checks one is named after the number, such as `c27_…`.
pub(crate) fn check_invariant(number: u32, is_fulfilled: bool, message: impl FnOnce() -> String) -> CheckResult {
    if is_fulfilled {
        return Ok(());
    }
    Err(Violation {
        number,
        description: message(),
    })
}

/// Data about all executions so far.
#[derive(Default)]
pub(crate) struct ExecutionChecks {
    checkers: BTreeMap<ExecutionId, LogChecker>,
    replayed: BTreeMap<ExecutionId, ExecutionState>,
    /// The latest claim on each command that a worker received.
    claims: BTreeMap<CommandId, (LeaseEpoch, WorkerId)>,
    playbooks: BTreeMap<PlaybookHash, Arc<CheckedPlaybook>>,
}

/// The rows of an execution in the store.
pub(crate) struct StoredRows {
    pub(crate) row: Option<ExecutionRow>,
    pub(crate) open_commands: Vec<OpenCommand>,
    /// Due time of the earliest timer of all executions.
    pub(crate) next_timer: Option<Time>,
    /// Its tasks that wait for signals.
    pub(crate) waits: Vec<WaitEntry>,
}

/// The playbook parsed from its text, independent of the server.
pub(crate) struct CheckedPlaybook {
    pub(crate) playbook: Playbook,
    pub(crate) graph: Graph,
}

impl ExecutionChecks {
    /// Executions of this playbook are checked against this text.
    pub(crate) fn add_playbook(&mut self, hash: PlaybookHash, text: &str) {
        let parsed = language::playbook::parse("drawn", text.as_bytes());
        let playbook = parsed.playbook.expect("a generated playbook is valid");
        let graph = Graph::from_playbook(&playbook);
        self.playbooks
            .insert(hash, Arc::new(CheckedPlaybook { playbook, graph }));
    }

    /// Checks an event that was written.
    pub(crate) fn check_event(&mut self, event: &Event, now: Time) -> CheckResult {
        let execution = event.execution_id;
        self.c27_claims_are_recorded_as_received(event)?;
        let before = self.replayed.remove(&execution);
        if let EventBody::ExecutionRequested(requested) = &event.body {
            let playbook = self.playbooks.get(&requested.hash);
            let playbook = playbook.expect("the playbook is known").clone();
            self.checkers.insert(execution, LogChecker::new(playbook));
        }
        let checker = self.checkers.get_mut(&execution).ok_or_else(|| Violation {
            number: 7,
            description: format!("the first event of {execution} is not its request"),
        })?;
        checker.check_event(event, before.as_ref(), now)?;
        c27_reports_come_from_the_claimant(event, before.as_ref())?;
        let after = engine::fold(before, event).ok_or_else(|| Violation {
            number: 44,
            description: format!("cannot replay event {} of {execution}", event.seq),
        })?;
        c22_widths_stay_within_bounds(&checker.playbook, &after)?;
        c17_tokens_are_conserved(checker, &after)?;
        self.replayed.insert(execution, after);
        Ok(())
    }

    /// Checks the state in the memory of a driver after a decision that was written.
    pub(crate) fn check_decided(&self, decided: &ExecutionState) -> CheckResult {
        let execution = decided.execution;
        let checker = &self.checkers[&execution];
        check_invariant(24, *decided.ctx == checker.ctx, || {
            format!("ctx is {:?}, but its patches result in {:?}", decided.ctx, checker.ctx)
        })?;
        check_invariant(44, *decided == self.replayed[&execution], || {
            format!(
                "the state of {execution} at {} differs from the replay of its log",
                decided.seq
            )
        })
    }

    /// Checks that the end of a child is reported to its parent once.
    pub(crate) fn check_children(&mut self, events: &[Event]) -> CheckResult {
        for event in events {
            let EventBody::SignalReceived(signal) = &event.body else {
                continue;
            };
            let Some(end) = &signal.child else { continue };
            let child = self.checkers.get(&end.execution_id);
            let ends = child.map_or(0, |checker| checker.ends);
            let parent = self.checkers.get_mut(&event.execution_id);
            let reported = parent.map_or(0, |checker| {
                let reported = checker.child_ends.entry(end.execution_id).or_insert(0);
                *reported += 1;
                *reported
            });
            check_invariant(15, reported <= ends, || {
                format!(
                    "{} was reported {reported} times and ended {ends} times",
                    end.execution_id
                )
            })?;
        }
        Ok(())
    }

    /// Checks that an execution and the store agree after a commit.
    pub(crate) fn check_rows(&self, execution: ExecutionId, rows: &StoredRows) -> CheckResult {
        let Some(state) = self.replayed.get(&execution) else {
            return Ok(());
        };
        let status = rows.row.as_ref().map(|row| row.status);
        check_invariant(12, status == Some(state.status()), || {
            format!("{execution} is {:?}, but listed as {status:?}", state.status())
        })?;
        let seq = rows.row.as_ref().map_or(Seq(0), |row| row.version);
        check_invariant(2, seq == state.seq, || {
            format!("{execution} is at {seq}, its log at {}", state.seq)
        })?;
        let open = rows.open_commands.iter();
        let open: BTreeSet<Seq> = open.map(|open| open.command.id.seq).collect();
        let live: BTreeSet<Seq> = state.commands.keys().copied().collect();
        check_invariant(5, open == live, || {
            format!("{execution} has commands {live:?}, but the store has {open:?}")
        })?;
        let timers = self.replayed.values().flat_map(|state| state.timers.values());
        let earliest: Option<Time> = timers.map(|timer| timer.due).min();
        check_invariant(5, rows.next_timer == earliest, || {
            let stored = rows.next_timer;
            format!("the next timer is {earliest:?}, but {stored:?} in the store")
        })?;
        let is_listed = |row: &ExecutionRow| !row.status.is_terminal() && !row.cancelling;
        if rows.row.as_ref().is_some_and(is_listed) {
            let listed: BTreeSet<Seq> = rows.waits.iter().map(|entry| entry.wait.seq).collect();
            let pending = signal_waits(state);
            check_invariant(12, listed == pending, || {
                format!("{execution} waits for signals since {pending:?}, but {listed:?} is listed")
            })?;
        }
        c11_nothing_is_left_at_the_end(execution, state)
    }

    /// Checks that something can move each unfinished execution forward, once all decisions are made.
    pub(crate) fn check_stuck(&self) -> CheckResult {
        for (execution, state) in &self.replayed {
            let waits = state.runs.values().any(|run| !run.waits.is_empty());
            let is_under_way = !state.commands.is_empty() || !state.timers.is_empty();
            let is_moving = state.is_ended() || state.paused || is_under_way || waits;
            check_invariant(11, is_moving, || {
                format!("{execution} is unfinished, but nothing can move it forward")
            })?;
        }
        Ok(())
    }

    /// Checks a new claim.
    pub(crate) fn check_claim(&mut self, claimed: &ClaimedCommand, worker: &str) -> CheckResult {
        let (command, epoch) = (claimed.command.id, claimed.lease_epoch);
        let claim = (epoch, WorkerId(worker.into()));
        let before = self.claims.insert(command, claim);
        let increases = before.as_ref().is_none_or(|(before, _)| *before < epoch);
        check_invariant(26, increases, || {
            format!("{command} was claimed with {before:?}, then with {epoch:?}")
        })
    }

    /// A recorded claim must be that of the worker which received it.
    fn c27_claims_are_recorded_as_received(&self, event: &Event) -> CheckResult {
        let EventBody::CommandClaimed(recorded) = &event.body else {
            return Ok(());
        };
        let command = CommandId {
            execution: event.execution_id,
            seq: recorded.command,
        };
        let received = self.claims.get(&command);
        let received = received.filter(|(epoch, _)| *epoch == recorded.lease_epoch);
        let agrees = received.is_none_or(|(_, worker)| *worker == recorded.worker);
        check_invariant(27, agrees, || {
            let recorded = &recorded.worker;
            format!("{command} was claimed as {received:?}, but a report of {recorded} was accepted")
        })
    }

    /// Checks ended executions: their logs can be replayed, with or without a snapshot at any position.
    pub(crate) fn check_end(&self, logs: &[(ExecutionId, Vec<Event>)]) -> CheckResult {
        for (execution, events) in logs {
            let state = &self.replayed[execution];
            let middle = events.len() / 2;
            let first = events[..middle].iter().fold(None, engine::fold);
            let mut bytes = Vec::new();
            if let Some(first) = &first {
                ciborium::into_writer(first, &mut bytes).map_err(|error| Violation {
                    number: 44,
                    description: format!("cannot write a snapshot: {error}"),
                })?;
            }
            let restored: Option<ExecutionState> = ciborium::from_reader(bytes.as_slice()).ok();
            let resumed = events[middle..].iter().fold(restored.or(first), engine::fold);
            check_invariant(44, resumed.as_ref() == Some(state), || {
                format!("a snapshot of {execution} and the events after it differ from its log")
            })?;
        }
        Ok(())
    }

    pub(crate) fn event_count(&self) -> usize {
        self.checkers.values().map(|checker| checker.events).sum()
    }

    pub(crate) fn executions(&self) -> Vec<ExecutionId> {
        self.replayed.keys().copied().collect()
    }

    pub(crate) fn paused(&self) -> Vec<ExecutionId> {
        let paused = self
            .replayed
            .iter()
            .filter(|(_, state)| state.paused && !state.is_ended());
        paused.map(|(execution, _)| *execution).collect()
    }

    pub(crate) fn unfinished(&self) -> String {
        let live = self.replayed.values().filter(|state| !state.is_ended());
        let descriptions = live.map(|state| {
            let runs: Vec<String> = state.runs.keys().map(ToString::to_string).collect();
            format!("{} at {} with {runs:?}", state.execution, state.seq)
        });
        descriptions.collect::<Vec<_>>().join("; ")
    }
}

fn c17_tokens_are_conserved(checker: &LogChecker, state: &ExecutionState) -> CheckResult {
    let live = i64::try_from(state.tokens.len()).expect("the number of tokens fits");
    check_invariant(17, checker.tokens == live, || {
        format!("expected {} live tokens, found {live}", checker.tokens)
    })
}

/// A worker's events are accepted only while it has the claim on a command of their step run.
fn c27_reports_come_from_the_claimant(event: &Event, before: Option<&ExecutionState>) -> CheckResult {
    let (EventSource::Worker, Some(state)) = (event.source, before) else {
        return Ok(());
    };
    let run = event.location.step_run_id();
    let mut commands = state.commands.values();
    let has_claim = commands.any(|command| {
        let claimant = command.claimed.as_ref().map(|(worker, _)| worker);
        Some(&command.run) == run.as_ref() && claimant == event.worker_id.as_ref()
    });
    check_invariant(27, has_claim, || {
        let (seq, worker) = (event.seq, &event.worker_id);
        format!("event {seq} is a report of {worker:?}, which has no claim on {run:?}")
    })
}

fn c22_widths_stay_within_bounds(playbook: &CheckedPlaybook, state: &ExecutionState) -> CheckResult {
    for (id, run) in state.runs.iter() {
        let Some(progress) = &run.loop_ else { continue };
        let loop_ = playbook
            .playbook
            .step(id.step.as_str())
            .and_then(|step| step.loop_.as_ref());
        let Some(loop_) = loop_ else { continue };
        let bound = match (&loop_.max_in_flight, loop_.mode) {
            (_, LoopMode::Sequential) => 1,
            (Some(Tree::Literal(value)), _) => value.as_u64().unwrap_or(16),
            _ => 16,
        };
        let commands = state.commands.values().filter(|command| command.run == *id);
        let widths: u64 = commands.map(|command| u64::from(command.width)).sum();
        let used = widths + progress.suspended.len() as u64;
        check_invariant(22, used <= bound, || {
            format!("{id} has {used} iterations in flight, but the limit is {bound}")
        })?;
    }
    Ok(())
}

/// An execution that has ended has nothing under way.
fn c11_nothing_is_left_at_the_end(execution: ExecutionId, state: &ExecutionState) -> CheckResult {
    let is_under_way = !state.commands.is_empty() || !state.timers.is_empty();
    check_invariant(11, !(state.is_ended() && is_under_way), || {
        format!("{execution} has ended, but has commands or timers")
    })
}

/// The events that began the waits of an execution for signals.
fn signal_waits(state: &ExecutionState) -> BTreeSet<Seq> {
    let waits = state.runs.values().flat_map(|run| run.waits.values());
    let is_signal =
        |waiting: &&PendingWait| matches!(&waiting.awaits, AwaitTarget::Wait(wait) if wait.signal.is_some());
    waits.filter(is_signal).map(|waiting| waiting.since).collect()
}
