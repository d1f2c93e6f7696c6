//! The checkers: each promise that can be seen in a world, by its number in the list of invariants.

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

/// A promise holds, or it does not.
pub(crate) fn must(number: u32, holds: bool, what: impl FnOnce() -> String) -> Done {
    if holds {
        return Ok(());
    }
    Err(Violation {
        number,
        what: what(),
    })
}

/// What is true of all executions so far.
#[derive(Default)]
pub(crate) struct Checks {
    watches: BTreeMap<ExecutionId, Watch>,
    replayed: BTreeMap<ExecutionId, State>,
    claims: BTreeMap<CommandId, LeaseEpoch>,
    plans: BTreeMap<PlaybookHash, Arc<Plan>>,
}

/// A playbook as its text says, whatever the server makes of it.
pub(crate) struct Plan {
    pub(crate) playbook: Playbook,
    pub(crate) graph: Graph,
}

impl Checks {
    /// Looks at the events of one commit.
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
            what: format!("{execution} does not begin with its request"),
        })?;
        watch.see(event, before.as_ref(), server.now())?;
        let after = engine::fold(before, event).ok_or_else(|| Violation {
            number: 44,
            what: format!("event {} of {execution} does not fold", event.seq),
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
            let playbook = parsed.playbook.expect("a drawn playbook is valid");
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
                || format!("ctx is {:?}, its patches give {:?}", known.ctx, watch.ctx),
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
                        "the state of {execution} at {} is not the fold of its log",
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
                    "{} was heard of {heard} times and ended {ends} times",
                    end.execution_id
                )
            })?;
        }
        Ok(())
    }

    /// What must hold between the executions and the store at any time.
    pub(crate) fn everything(&mut self, server: &Server) -> Done {
        let open = solid(server.open_commands())?;
        for (execution, state) in &self.replayed {
            let row = solid(server.row(*execution))?;
            let status = row.as_ref().map(|row| row.status);
            must(12, status == Some(state.status()), || {
                format!(
                    "{execution} is {:?} and shown as {status:?}",
                    state.status()
                )
            })?;
            let seq = row.map_or(Seq(0), |row| row.version);
            must(2, seq == state.seq, || {
                format!("{execution} stands at {seq}, its log at {}", state.seq)
            })?;
            let own = open
                .iter()
                .filter(|open| open.command.id.execution == *execution);
            let own: BTreeSet<Seq> = own.map(|open| open.command.id.seq).collect();
            let live: BTreeSet<Seq> = state.commands.keys().copied().collect();
            must(5, own == live, || {
                format!("{execution} has commands {live:?}, the store {own:?}")
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
            format!("the next timer is {earliest:?}, in the store {stored:?}")
        })
    }

    /// A claim is handed out.
    pub(crate) fn claimed(&mut self, command: CommandId, epoch: LeaseEpoch) -> Done {
        let before = self.claims.insert(command, epoch);
        must(26, before.is_none_or(|before| before < epoch), || {
            format!("{command} was claimed under {before:?}, then {epoch:?}")
        })
    }

    /// Everything has ended: the logs replay, and a snapshot anywhere does not matter.
    pub(crate) fn at_the_end(&self, server: &mut Server) -> Done {
        for (execution, state) in &self.replayed {
            let events = log(&server.store, *execution);
            let middle = events.len() / 2;
            let first = events[..middle].iter().fold(None, engine::fold);
            let mut bytes = Vec::new();
            if let Some(first) = &first {
                ciborium::into_writer(first, &mut bytes).map_err(|error| Violation {
                    number: 44,
                    what: format!("a snapshot cannot be written: {error}"),
                })?;
            }
            let thawed: Option<State> = ciborium::from_reader(bytes.as_slice()).ok();
            let resumed = events[middle..].iter().fold(thawed.or(first), engine::fold);
            must(44, resumed.as_ref() == Some(state), || {
                format!("a snapshot of {execution} and its tail are not its log")
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

/// A report under a claim that is not current leaves nothing.
pub(crate) fn c27_stale_reports_leave_nothing(is_current: bool, posted: &Posted) -> Done {
    let left = match posted {
        Posted::Done(events) => events.len(),
        Posted::Refused(_) => 0,
    };
    must(27, is_current || left == 0, || {
        format!("a fenced report left {left} events")
    })
}

/// What is in the log already leaves nothing when it comes again.
pub(crate) fn c01_repeated_reports_leave_nothing(posted: &Posted) -> Done {
    let left: Vec<String> = match posted {
        Posted::Done(events) => events
            .iter()
            .map(|event| event.kind().to_string())
            .collect(),
        Posted::Refused(_) => Vec::new(),
    };
    must(1, left.is_empty(), || {
        format!("a repeated report left {left:?}")
    })
}

fn c17_tokens_are_conserved(watch: &Watch, state: &State) -> Done {
    let live = i64::try_from(state.tokens.len()).expect("few tokens");
    must(17, watch.tokens == live, || {
        format!("{} tokens should be live, {live} are", watch.tokens)
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
            format!("{id} has {used} in flight, {bound} may be")
        })?;
    }
    Ok(())
}

fn c11_ends_if_and_only_if_nothing_is_left(execution: ExecutionId, state: &State) -> Done {
    let waits = state.runs.values().any(|run| !run.waits.is_empty());
    let under_way = !state.commands.is_empty() || !state.timers.is_empty();
    if state.is_ended() {
        return must(11, !under_way, || {
            format!("{execution} has ended with commands or timers")
        });
    }
    let is_stuck = !state.paused && !under_way && !waits;
    must(11, !is_stuck, || {
        format!("{execution} lives and nothing will move it")
    })
}
