//! The checkers: each invariant that can be observed in a world, by its number in the list of invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{Graph, State};
use model::event::{Body, Event};
use model::id::{CommandId, ExecutionId, LeaseEpoch, PlaybookHash, Seq};
use model::playbook::{LoopMode, Playbook};
use model::template::Tree;
use model::time::Time;

use crate::sim::run::{Violation, solid};
use crate::sim::watch::Watch;
use crate::world::{Posted, Server, log};

pub(crate) type Done = Result<(), Violation>;

/// `Ok` if the invariant holds.
pub(crate) fn must(number: u32, holds: bool, what: impl FnOnce() -> String) -> Done {
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
pub(crate) struct Checks {
    watches: BTreeMap<ExecutionId, Watch>,
    replayed: BTreeMap<ExecutionId, State>,
    claims: BTreeMap<CommandId, LeaseEpoch>,
    plans: BTreeMap<PlaybookHash, Arc<Plan>>,
}

/// The playbook parsed from its text, independent of the server.
pub(crate) struct Plan {
    pub(crate) playbook: Playbook,
    pub(crate) graph: Graph,
}

impl Checks {
    /// Checks the events of one commit.
    pub(crate) fn committed(
        &mut self,
        server: &mut Server,
        execution: ExecutionId,
        events: &[Event],
    ) -> Done {
        for event in events {
            self.see(server, execution, event)?;
        }
        self.c24_servers_hold_the_ctx_of_the_log(server, execution)?;
        self.c44_state_is_the_fold(server, execution)?;
        self.c15_children_are_heard_once(events)
    }

    fn see(&mut self, server: &Server, execution: ExecutionId, event: &Event) -> Done {
        let before = self.replayed.remove(&execution);
        if let Body::ExecutionRequested(requested) = &event.body {
            let plan = self.plan(server, &requested.hash);
            self.watches.insert(execution, Watch::new(plan));
        }
        let watch = self.watches.get_mut(&execution).ok_or_else(|| Violation {
            number: 7,
            what: format!("the first event of {execution} is not its request"),
        })?;
        watch.see(event, before.as_ref(), server.now())?;
        let after = engine::fold(before, event).ok_or_else(|| Violation {
            number: 44,
            what: format!("cannot replay event {} of {execution}", event.seq),
        })?;
        c22_widths_stay_within_bounds(&watch.plan, &after)?;
        c17_tokens_are_conserved(watch, &after)?;
        self.replayed.insert(execution, after);
        Ok(())
    }

    fn plan(&mut self, server: &Server, hash: &PlaybookHash) -> Arc<Plan> {
        let made = self.plans.entry(hash.clone()).or_insert_with(|| {
            let text = server.text(hash);
            let parsed = model::playbook::parse("drawn", text.as_bytes());
            let playbook = parsed.playbook.expect("a generated playbook is valid");
            let graph = Graph::of(&playbook);
            Arc::new(Plan { playbook, graph })
        });
        made.clone()
    }

    fn c24_servers_hold_the_ctx_of_the_log(&self, server: &Server, execution: ExecutionId) -> Done {
        let watch = &self.watches[&execution];
        for known in (0..server.count()).filter_map(|number| server.known(number, execution)) {
            must(
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

    fn c44_state_is_the_fold(&self, server: &Server, execution: ExecutionId) -> Done {
        let replayed = &self.replayed[&execution];
        for known in (0..server.count()).filter_map(|number| server.known(number, execution)) {
            if known.seq == replayed.seq {
                must(44, known == replayed, || {
                    format!(
                        "the state of {execution} at {} differs from the replay of its log",
                        known.seq
                    )
                })?;
            }
        }
        Ok(())
    }

    fn c15_children_are_heard_once(&mut self, events: &[Event]) -> Done {
        for event in events {
            let Body::SignalReceived(signal) = &event.body else {
                continue;
            };
            let Some(end) = &signal.child else { continue };
            let ends = self
                .watches
                .get(&end.execution_id)
                .map_or(0, |watch| watch.ends);
            let watch = self.watches.get_mut(&event.execution_id);
            let heard = watch.map_or(0, |watch| {
                let heard = watch.heard.entry(end.execution_id).or_insert(0);
                *heard += 1;
                *heard
            });
            must(15, heard <= ends, || {
                format!(
                    "{} was reported {heard} times and ended {ends} times",
                    end.execution_id
                )
            })?;
        }
        Ok(())
    }

    /// Checks that the executions and the store agree, which must hold at any time.
    pub(crate) fn everything(&mut self, server: &Server) -> Done {
        let open = solid(server.open_commands())?;
        for (execution, state) in &self.replayed {
            let row = solid(server.row(*execution))?;
            let status = row.as_ref().map(|row| row.status);
            must(12, status == Some(state.status()), || {
                format!(
                    "{execution} is {:?}, but listed as {status:?}",
                    state.status()
                )
            })?;
            let seq = row.map_or(Seq(0), |row| row.version);
            must(2, seq == state.seq, || {
                format!("{execution} is at {seq}, its log at {}", state.seq)
            })?;
            let own = open
                .iter()
                .filter(|open| open.command.id.execution == *execution);
            let own: BTreeSet<Seq> = own.map(|open| open.command.id.seq).collect();
            let live: BTreeSet<Seq> = state.commands.keys().copied().collect();
            must(5, own == live, || {
                format!("{execution} has commands {live:?}, but the store has {own:?}")
            })?;
            c11_ends_if_and_only_if_nothing_is_left(*execution, state)?;
        }
        let timers = self
            .replayed
            .values()
            .flat_map(|state| state.timers.values());
        let earliest: Option<Time> = timers.map(|timer| timer.due).min();
        let stored = solid(server.next_timer())?;
        must(5, stored == earliest, || {
            format!("the next timer is {earliest:?}, but {stored:?} in the store")
        })
    }

    /// Checks a new claim.
    pub(crate) fn claimed(&mut self, command: CommandId, epoch: LeaseEpoch) -> Done {
        let before = self.claims.insert(command, epoch);
        must(26, before.is_none_or(|before| before < epoch), || {
            format!("{command} was claimed with {before:?}, then with {epoch:?}")
        })
    }

    /// Checks ended executions: their logs can be replayed, with or without a snapshot at any position.
    pub(crate) fn at_the_end(&self, server: &mut Server) -> Done {
        for (execution, state) in &self.replayed {
            let events = log(&server.store, *execution);
            let middle = events.len() / 2;
            let first = events[..middle].iter().fold(None, engine::fold);
            let mut bytes = Vec::new();
            if let Some(first) = &first {
                ciborium::into_writer(first, &mut bytes).map_err(|error| Violation {
                    number: 44,
                    what: format!("cannot write a snapshot: {error}"),
                })?;
            }
            let thawed: Option<State> = ciborium::from_reader(bytes.as_slice()).ok();
            let resumed = events[middle..].iter().fold(thawed.or(first), engine::fold);
            must(44, resumed.as_ref() == Some(state), || {
                format!("a snapshot of {execution} and the events after it differ from its log")
            })?;
        }
        Ok(())
    }

    pub(crate) fn events(&self) -> usize {
        self.watches.values().map(|watch| watch.events).sum()
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
        self.replayed.values().all(State::is_ended)
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
pub(crate) fn c27_stale_reports_leave_nothing(is_current: bool, posted: &Posted) -> Done {
    let left = match posted {
        Posted::Done(events) => events.len(),
        Posted::Refused(_) => 0,
    };
    must(27, is_current || left == 0, || {
        format!("a fenced report recorded {left} events")
    })
}

/// Checks that a report that is already in the log records nothing.
pub(crate) fn c01_repeated_reports_leave_nothing(posted: &Posted) -> Done {
    let left: Vec<String> = match posted {
        Posted::Done(events) => events
            .iter()
            .map(|event| event.kind().to_string())
            .collect(),
        Posted::Refused(_) => Vec::new(),
    };
    must(1, left.is_empty(), || {
        format!("a repeated report recorded {left:?}")
    })
}

fn c17_tokens_are_conserved(watch: &Watch, state: &State) -> Done {
    let live = i64::try_from(state.tokens.len()).expect("the number of tokens fits");
    must(17, watch.tokens == live, || {
        format!("expected {} live tokens, found {live}", watch.tokens)
    })
}

fn c22_widths_stay_within_bounds(plan: &Plan, state: &State) -> Done {
    for (id, run) in state.runs.iter() {
        let Some(progress) = &run.loop_ else { continue };
        let loop_ = plan
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
        must(22, used <= bound, || {
            format!("{id} has {used} iterations in flight, but the limit is {bound}")
        })?;
    }
    Ok(())
}

fn c11_ends_if_and_only_if_nothing_is_left(execution: ExecutionId, state: &State) -> Done {
    let waits = state.runs.values().any(|run| !run.waits.is_empty());
    let under_way = !state.commands.is_empty() || !state.timers.is_empty();
    if state.is_ended() {
        return must(11, !under_way, || {
            format!("{execution} has ended, but has commands or timers")
        });
    }
    let is_stuck = !state.paused && !under_way && !waits;
    must(11, !is_stuck, || {
        format!("{execution} is unfinished, but nothing can move it forward")
    })
}
