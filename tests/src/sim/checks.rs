//! The checkers: each invariant that can be observed in a world, by its number in the list of invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{ExecutionState, Graph};
use language::playbook::Playbook;
use language::template::Tree;
use model::event::{Event, EventBody};
use model::id::{CommandId, ExecutionId, LeaseEpoch, PlaybookHash, Seq};
use model::playbook::LoopMode;
use model::time::Time;

use crate::sim::log_checker::LogChecker;
use crate::sim::simulation::{Violation, into_violation};
use crate::world::{InputResult, WorldServer, read_log};

pub(crate) type CheckResult = Result<(), Violation>;

/// `Ok` if the invariant holds.
pub(crate) fn check_promise(
    number: u32,
    holds: bool,
    what: impl FnOnce() -> String,
) -> CheckResult {
    if holds {
        return Ok(());
    }
    Err(Violation {
        number,
        what: what(),
    })
}

/// Data about all executions so far.
#[derive(Default)]
pub(crate) struct ExecutionChecks {
    checkers: BTreeMap<ExecutionId, LogChecker>,
    replayed: BTreeMap<ExecutionId, ExecutionState>,
    claims: BTreeMap<CommandId, LeaseEpoch>,
    playbooks: BTreeMap<PlaybookHash, Arc<CheckedPlaybook>>,
}

/// The playbook parsed from its text, independent of the server.
pub(crate) struct CheckedPlaybook {
    pub(crate) playbook: Playbook,
    pub(crate) graph: Graph,
}

impl ExecutionChecks {
    /// Checks the events of one commit.
    pub(crate) fn check_commit(
        &mut self,
        server: &mut WorldServer,
        execution: ExecutionId,
        events: &[Event],
    ) -> CheckResult {
        for event in events {
            self.check_event(server, execution, event)?;
        }
        self.c24_servers_hold_the_ctx_of_the_log(server, execution)?;
        self.c44_state_is_the_fold(server, execution)?;
        self.c15_children_are_heard_once(events)
    }

    fn check_event(
        &mut self,
        server: &WorldServer,
        execution: ExecutionId,
        event: &Event,
    ) -> CheckResult {
        let before = self.replayed.remove(&execution);
        if let EventBody::ExecutionRequested(requested) = &event.body {
            let plan = self.checked_playbook(server, &requested.hash);
            self.checkers.insert(execution, LogChecker::new(plan));
        }
        let watch = self.checkers.get_mut(&execution).ok_or_else(|| Violation {
            number: 7,
            what: format!("the first event of {execution} is not its request"),
        })?;
        watch.check_event(event, before.as_ref(), server.now())?;
        let after = engine::fold(before, event).ok_or_else(|| Violation {
            number: 44,
            what: format!("cannot replay event {} of {execution}", event.seq),
        })?;
        c22_widths_stay_within_bounds(&watch.playbook, &after)?;
        c17_tokens_are_conserved(watch, &after)?;
        self.replayed.insert(execution, after);
        Ok(())
    }

    fn checked_playbook(
        &mut self,
        server: &WorldServer,
        hash: &PlaybookHash,
    ) -> Arc<CheckedPlaybook> {
        let made = self.playbooks.entry(hash.clone()).or_insert_with(|| {
            let text = server.playbook_text(hash);
            let parsed = language::playbook::parse("drawn", text.as_bytes());
            let playbook = parsed.playbook.expect("a generated playbook is valid");
            let graph = Graph::from_playbook(&playbook);
            Arc::new(CheckedPlaybook { playbook, graph })
        });
        made.clone()
    }

    fn c24_servers_hold_the_ctx_of_the_log(
        &self,
        server: &WorldServer,
        execution: ExecutionId,
    ) -> CheckResult {
        let watch = &self.checkers[&execution];
        for known in (0..server.count()).filter_map(|number| server.cached_state(number, execution))
        {
            check_promise(
                24,
                known.seq != watch.seq || *known.ctx == watch.ctx,
                || {
                    format!(
                        "ctx is {:?}, but its patches result in {:?}",
                        known.ctx, watch.ctx
                    )
                },
            )?;
        }
        Ok(())
    }

    fn c44_state_is_the_fold(&self, server: &WorldServer, execution: ExecutionId) -> CheckResult {
        let replayed = &self.replayed[&execution];
        for known in (0..server.count()).filter_map(|number| server.cached_state(number, execution))
        {
            if known.seq == replayed.seq {
                check_promise(44, known == replayed, || {
                    format!(
                        "the state of {execution} at {} differs from the replay of its log",
                        known.seq
                    )
                })?;
            }
        }
        Ok(())
    }

    fn c15_children_are_heard_once(&mut self, events: &[Event]) -> CheckResult {
        for event in events {
            let EventBody::SignalReceived(signal) = &event.body else {
                continue;
            };
            let Some(end) = &signal.child else { continue };
            let ends = self
                .checkers
                .get(&end.execution_id)
                .map_or(0, |watch| watch.ends);
            let watch = self.checkers.get_mut(&event.execution_id);
            let heard = watch.map_or(0, |watch| {
                let heard = watch.child_ends.entry(end.execution_id).or_insert(0);
                *heard += 1;
                *heard
            });
            check_promise(15, heard <= ends, || {
                format!(
                    "{} was reported {heard} times and ended {ends} times",
                    end.execution_id
                )
            })?;
        }
        Ok(())
    }

    /// Checks that the executions and the store agree, which must hold at any time.
    pub(crate) fn check_all(&mut self, server: &WorldServer) -> CheckResult {
        let open = into_violation(server.open_commands())?;
        for (execution, state) in &self.replayed {
            let row = into_violation(server.execution_row(*execution))?;
            let status = row.as_ref().map(|row| row.status);
            check_promise(12, status == Some(state.status()), || {
                format!(
                    "{execution} is {:?}, but listed as {status:?}",
                    state.status()
                )
            })?;
            let seq = row.map_or(Seq(0), |row| row.version);
            check_promise(2, seq == state.seq, || {
                format!("{execution} is at {seq}, its log at {}", state.seq)
            })?;
            let own = open
                .iter()
                .filter(|open| open.command.id.execution == *execution);
            let own: BTreeSet<Seq> = own.map(|open| open.command.id.seq).collect();
            let live: BTreeSet<Seq> = state.commands.keys().copied().collect();
            check_promise(5, own == live, || {
                format!("{execution} has commands {live:?}, but the store has {own:?}")
            })?;
            c11_ends_if_and_only_if_nothing_is_left(*execution, state)?;
        }
        let timers = self
            .replayed
            .values()
            .flat_map(|state| state.timers.values());
        let earliest: Option<Time> = timers.map(|timer| timer.due).min();
        let stored = into_violation(server.next_timer())?;
        check_promise(5, stored == earliest, || {
            format!("the next timer is {earliest:?}, but {stored:?} in the store")
        })
    }

    /// Checks a new claim.
    pub(crate) fn check_claim(&mut self, command: CommandId, epoch: LeaseEpoch) -> CheckResult {
        let before = self.claims.insert(command, epoch);
        check_promise(26, before.is_none_or(|before| before < epoch), || {
            format!("{command} was claimed with {before:?}, then with {epoch:?}")
        })
    }

    /// Checks ended executions: their logs can be replayed, with or without a snapshot at any position.
    pub(crate) fn check_end(&self, server: &mut WorldServer) -> CheckResult {
        for (execution, state) in &self.replayed {
            let events = read_log(&server.store, *execution);
            let middle = events.len() / 2;
            let first = events[..middle].iter().fold(None, engine::fold);
            let mut bytes = Vec::new();
            if let Some(first) = &first {
                ciborium::into_writer(first, &mut bytes).map_err(|error| Violation {
                    number: 44,
                    what: format!("cannot write a snapshot: {error}"),
                })?;
            }
            let thawed: Option<ExecutionState> = ciborium::from_reader(bytes.as_slice()).ok();
            let resumed = events[middle..].iter().fold(thawed.or(first), engine::fold);
            check_promise(44, resumed.as_ref() == Some(state), || {
                format!("a snapshot of {execution} and the events after it differ from its log")
            })?;
        }
        Ok(())
    }

    pub(crate) fn event_count(&self) -> usize {
        self.checkers.values().map(|watch| watch.events).sum()
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

    pub(crate) fn all_ended(&self) -> bool {
        self.replayed.values().all(ExecutionState::is_ended)
    }

    pub(crate) fn unfinished(&self) -> String {
        let live = self.replayed.values().filter(|state| !state.is_ended());
        let shown = live.map(|state| {
            let runs: Vec<String> = state.runs.keys().map(ToString::to_string).collect();
            format!("{} at {} with {runs:?}", state.execution, state.seq)
        });
        shown.collect::<Vec<_>>().join("; ")
    }
}

/// Checks that a report with an expired claim records nothing.
pub(crate) fn c27_stale_reports_leave_nothing(
    is_current: bool,
    result: &InputResult,
) -> CheckResult {
    let left = match result {
        InputResult::Committed(events) => events.len(),
        InputResult::Refused(_) => 0,
    };
    check_promise(27, is_current || left == 0, || {
        format!("a fenced report recorded {left} events")
    })
}

/// Checks that a report that is already in the log records nothing.
pub(crate) fn c01_repeated_reports_leave_nothing(result: &InputResult) -> CheckResult {
    let left: Vec<String> = match result {
        InputResult::Committed(events) => events
            .iter()
            .map(|event| event.kind().to_string())
            .collect(),
        InputResult::Refused(_) => Vec::new(),
    };
    check_promise(1, left.is_empty(), || {
        format!("a repeated report recorded {left:?}")
    })
}

fn c17_tokens_are_conserved(checker: &LogChecker, state: &ExecutionState) -> CheckResult {
    let live = i64::try_from(state.tokens.len()).expect("the number of tokens fits");
    check_promise(17, checker.tokens == live, || {
        format!("expected {} live tokens, found {live}", checker.tokens)
    })
}

fn c22_widths_stay_within_bounds(
    playbook: &CheckedPlaybook,
    state: &ExecutionState,
) -> CheckResult {
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
        check_promise(22, used <= bound, || {
            format!("{id} has {used} iterations in flight, but the limit is {bound}")
        })?;
    }
    Ok(())
}

fn c11_ends_if_and_only_if_nothing_is_left(
    execution: ExecutionId,
    state: &ExecutionState,
) -> CheckResult {
    let waits = state.runs.values().any(|run| !run.waits.is_empty());
    let under_way = !state.commands.is_empty() || !state.timers.is_empty();
    if state.is_ended() {
        return check_promise(11, !under_way, || {
            format!("{execution} has ended, but has commands or timers")
        });
    }
    let is_stuck = !state.paused && !under_way && !waits;
    check_promise(11, !is_stuck, || {
        format!("{execution} is unfinished, but nothing can move it forward")
    })
}
