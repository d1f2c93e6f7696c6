//! The servers of a world: decide inputs, commit the decisions, and process what follows from the commit.
//!
//! Several servers can share the store. Each caches states, which commits of another server make stale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use engine::{
    CommandChange, Decision, Input, Limits, Net, Refusal, Stamp, State, Submit, Undecided,
};
use model::event::Event;
use model::id::{CommandId, ExecutionId, IdBlock, Name, PlaybookHash, Seq, WorkerId};
use model::raw::Raw;
use model::template::Loaded;
use model::time::Time;
use results::Bodies as _;
use store::{Commit, Committed, Fence, Issue, Memory, Message, MessageKey, Store as _};

use crate::world::hand::Order;
use crate::world::kept::Kept;
use crate::world::load::{load, log, now};
use crate::world::tamper::Tamper;

/// Start time of every world: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600_000_000;
/// Number of IDs a decision may use in addition to those of its report.
const IDS_PER_DECISION: u32 = 4_096;
/// How often an input is decided again after a conflict or because data had to be loaded.
const ROUNDS_MAX: usize = 32;

/// An error that must never happen in a world.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The store rejected a commit permanently.
    #[error("the store rejected a commit: {0}")]
    Store(#[from] store::Error),
    /// A decision keeps requesting more data.
    #[error("no decision after {ROUNDS_MAX} rounds")]
    Undecidable,
    /// A log cannot be replayed.
    #[error("cannot replay the log of {0}")]
    Log(ExecutionId),
}

/// Result of an input.
#[derive(Debug, Clone)]
pub enum Posted {
    /// These events are now in the log.
    Done(Vec<Event>),
    /// The input was refused and recorded nothing.
    Refused(Refusal),
}

/// The control plane of a world.
pub struct Server {
    /// The store.
    pub store: Kept,
    /// The limits in force.
    pub limits: Limits,
    /// Maximum number of jumps of a pipeline.
    pub jumps_max: u32,
    /// What happened since this was last read.
    pub fresh: Vec<(ExecutionId, Vec<Event>)>,
    /// Orders for the holders of commands.
    pub told: Vec<(CommandId, Order)>,
    /// What happens to the next commit, if its response is lost.
    pub cut: Option<Cut>,
    /// Hooks that inject bugs.
    pub tamper: Box<dyn Tamper>,
    clock: Arc<AtomicI64>,
    nets: BTreeMap<PlaybookHash, Arc<Net>>,
    pub(super) states: Vec<BTreeMap<ExecutionId, State>>,
    pub(super) pools: BTreeSet<Name>,
}

enum Written {
    Done {
        events: Vec<Event>,
        more: bool,
    },
    Again,
    Fenced,
    /// The response was lost; the commit may or may not have happened.
    Unknown,
}

/// What happens to a commit whose response is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It did not happen.
    Before,
    /// It happened.
    After,
}

impl Server {
    /// Creates this number of servers on an empty store.
    pub fn new(count: usize, limits: Limits, tamper: Box<dyn Tamper>) -> Self {
        let clock = Arc::new(AtomicI64::new(BEGINNING));
        let ticking = clock.clone();
        Self {
            store: Kept::new(Memory::new(Arc::new(move || {
                Time(ticking.load(Ordering::Relaxed))
            }))),
            limits,
            jumps_max: pipeline::JUMPS_MAX,
            fresh: Vec::new(),
            told: Vec::new(),
            cut: None,
            tamper,
            clock,
            nets: BTreeMap::new(),
            states: vec![BTreeMap::new(); count],
            pools: BTreeSet::new(),
        }
    }

    /// Number of servers.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.store.now()
    }

    /// Advances the time; it never goes back.
    pub fn move_on_to(&self, time: Time) {
        self.clock.fetch_max(time.0, Ordering::Relaxed);
    }

    /// Restarts a server, which loses everything that is not in the store.
    pub fn restart(&mut self, server: usize) {
        self.states[server].clear();
    }

    /// Submits a playbook that the catalog has under `path`.
    pub fn submit(
        &mut self,
        path: &str,
        payload: Option<Raw>,
    ) -> Result<Option<ExecutionId>, Broken> {
        let execution = ExecutionId(self.store.ids(1).0);
        let Some(entry) = now(self.store.latest(path, None))? else {
            return Ok(None);
        };
        let submit = Submit {
            execution,
            path: entry.path,
            version: entry.version,
            hash: entry.hash,
            payload,
            parent: None,
            depth: 0,
            trace_id: None,
            reuse: None,
            env: None,
        };
        self.post(0, execution, Input::Submit(Box::new(submit)), None)?;
        Ok(Some(execution))
    }

    /// The state of an execution, from the server's cache or loaded from the store.
    pub fn state(
        &mut self,
        server: usize,
        execution: ExecutionId,
    ) -> Result<Option<&State>, Broken> {
        if !self.states[server].contains_key(&execution) {
            let events = log(&self.store, execution);
            if events.is_empty() {
                return Ok(None);
            }
            let state = events.iter().fold(None, engine::fold);
            let state = state.ok_or(Broken::Log(execution))?;
            self.states[server].insert(execution, state);
        }
        Ok(self.states[server].get(&execution))
    }

    /// The playbook of an execution, prepared for decisions.
    pub fn net(&mut self, hash: &PlaybookHash) -> Result<Arc<Net>, Broken> {
        if let Some(net) = self.nets.get(hash) {
            return Ok(net.clone());
        }
        let entry = now(self.store.playbook(hash))?
            .expect("the catalog has the playbook of every execution");
        let parsed = model::playbook::parse(entry.path.as_str(), entry.text.as_bytes());
        let mut playbook = parsed
            .playbook
            .expect("the catalog contains only valid playbooks");
        self.tamper.playbook(&mut playbook);
        let net = Arc::new(Net::new(Arc::new(playbook), self.limits));
        self.nets.insert(hash.clone(), net.clone());
        Ok(net)
    }

    /// Decides an input, commits the decision, and processes what follows from it.
    pub fn post(
        &mut self,
        server: usize,
        execution: ExecutionId,
        input: Input,
        consumed: Option<MessageKey>,
    ) -> Result<Posted, Broken> {
        if self.tamper.drops(&input) {
            return Ok(Posted::Done(Vec::new()));
        }
        let mut all = Vec::new();
        let mut input = input;
        let mut consumed = consumed;
        for _ in 0..ROUNDS_MAX {
            let decided = self.decide(server, execution, input.clone())?;
            let decision = match decided {
                Ok(decision) => decision,
                // A refusal is only valid for the state it was decided on.
                Err(_) if self.is_stale(server, execution)? => {
                    self.states[server].remove(&execution);
                    continue;
                }
                Err(refusal) => {
                    self.consume(execution, consumed)?;
                    return Ok(Posted::Refused(refusal));
                }
            };
            let written = self.commit(server, execution, decision, consumed)?;
            if matches!(written, Written::Unknown) && !matches!(input, Input::GoOn) {
                // What must follow if the commit happened.
                self.post(server, execution, Input::GoOn, None)?;
            }
            match written {
                Written::Again => {}
                Written::Fenced => return Ok(Posted::Refused(Refusal::Fenced)),
                // The result of the commit is unknown. Inputs that are safe to repeat are decided again.
                Written::Unknown if !is_told_once(&input) && self.is_left(consumed)? => {}
                Written::Unknown => return Ok(Posted::Done(all)),
                Written::Done { events, more } => {
                    consumed = None;
                    all.extend(events);
                    if !more {
                        return Ok(Posted::Done(all));
                    }
                    input = Input::GoOn;
                }
            }
        }
        Err(Broken::Undecidable)
    }

    /// Whether a message is unconsumed; true for inputs that did not come from a message.
    fn is_left(&self, consumed: Option<MessageKey>) -> Result<bool, Broken> {
        let Some(key) = consumed else { return Ok(true) };
        Ok(self.inbox()?.iter().any(|message| message.key == key))
    }

    fn decide(
        &mut self,
        server: usize,
        execution: ExecutionId,
        mut input: Input,
    ) -> Result<Result<Decision, Refusal>, Broken> {
        let state = self.state(server, execution)?.cloned();
        let hash = match (&state, &input) {
            (
                Some(_),
                Input::Retry {
                    switch: Some(switch),
                },
            ) => switch.hash.clone(),
            (Some(state), _) => state.hash.clone(),
            (None, Input::Submit(submit)) => submit.hash.clone(),
            (None, _) => return Ok(Err(Refusal::Ended)),
        };
        let net = self.net(&hash)?;
        let mut state = state;
        if let Some(state) = &mut state {
            self.tamper.state(state);
        }
        let mut at = self.now();
        self.tamper.input(state.as_ref(), &mut input, &mut at);
        let stamp = Stamp {
            now: at,
            ids: IdBlock::starting_at(self.store.ids(IDS_PER_DECISION)),
        };
        let mut loaded = Loaded::default();
        for _ in 0..ROUNDS_MAX {
            match engine::decide(&net, state.as_ref(), input.clone(), stamp, &loaded) {
                Ok(mut decision) => {
                    self.tamper.decision(state.as_ref(), &mut decision);
                    return Ok(Ok(decision));
                }
                Err(Undecided::Refused(refusal)) => return Ok(Err(refusal)),
                Err(Undecided::Needs(needs)) => load(&self.store, execution, needs, &mut loaded),
            }
        }
        Err(Broken::Undecidable)
    }

    fn commit(
        &mut self,
        server: usize,
        execution: ExecutionId,
        decision: Decision,
        consumed: Option<MessageKey>,
    ) -> Result<Written, Broken> {
        let expected = self.states[server]
            .get(&execution)
            .map_or(Seq(0), |state| state.seq);
        let commit = self.commit_of(execution, expected, &decision, consumed);
        for body in &decision.bodies {
            let bytes = Vec::from(body.text.text()).into();
            now(self.store.put(results::Source::Bytes(bytes))).expect("a world keeps its bodies");
        }
        let cut = self.cut.take();
        if cut.is_some() && !self.tamper.trusts_unknown() {
            self.states[server].remove(&execution);
        }
        if cut == Some(Cut::Before) {
            if self.tamper.trusts_unknown() {
                self.states[server].insert(execution, decision.state);
            }
            return Ok(Written::Unknown);
        }
        match now(self.store.commit(commit))? {
            Committed::Done if cut.is_some() => {
                self.fresh.push((execution, decision.events));
                Ok(Written::Unknown)
            }
            Committed::Moved { .. } => {
                self.states[server].remove(&execution);
                Ok(Written::Again)
            }
            Committed::Fenced => {
                self.states[server].remove(&execution);
                Ok(Written::Fenced)
            }
            Committed::Done => {
                self.states[server].insert(execution, decision.state);
                self.fresh.push((execution, decision.events.clone()));
                self.tell(server, execution, &decision.stops)?;
                Ok(Written::Done {
                    events: decision.events,
                    more: decision.more,
                })
            }
        }
    }

    fn commit_of(
        &mut self,
        execution: ExecutionId,
        expected: Seq,
        decision: &Decision,
        consumed: Option<MessageKey>,
    ) -> Commit {
        let mut commit = Commit::new(execution, expected, decision.events.clone());
        for change in &decision.commands {
            commit.commands.push(match change {
                CommandChange::Close { seq } => store::CommandChange::Close { seq: *seq },
                CommandChange::Issue {
                    command,
                    schedule_to_start,
                } => {
                    self.pools.insert(command.pool.clone());
                    store::CommandChange::Issue(Box::new(Issue {
                        command: (**command).clone(),
                        claimed: None,
                        start_by: Some(self.store.now().after(*schedule_to_start)),
                        kinds: Vec::new(),
                    }))
                }
            });
        }
        commit.timers.clone_from(&decision.timers);
        commit.messages = decision
            .messages
            .iter()
            .map(|message| Message {
                key: MessageKey {
                    from: execution,
                    seq: message.seq,
                    n: message.n,
                },
                to: message.to,
                body: Raw::of(&message.body),
            })
            .collect();
        commit.consumed = consumed.into_iter().collect();
        commit.keys = decision
            .keys
            .iter()
            .map(|key| match key {
                engine::Key::Terminal { generation } => store::Key::Terminal {
                    generation: *generation,
                },
                engine::Key::Boundary { run, generation } => store::Key::Boundary {
                    run: run.clone(),
                    generation: *generation,
                },
            })
            .collect();
        commit.fences = decision
            .fences
            .iter()
            .map(|(command, lease_epoch)| Fence {
                command: *command,
                lease_epoch: *lease_epoch,
            })
            .collect();
        commit
    }

    /// Sends a stop order to the holders of commands; withdraws unclaimed commands at once.
    fn tell(
        &mut self,
        server: usize,
        execution: ExecutionId,
        stops: &[(Seq, WorkerId)],
    ) -> Result<(), Broken> {
        for (seq, _) in stops {
            let open = now(self.store.open_commands(execution))?;
            let found = open.iter().find(|open| open.command.id.seq == *seq);
            match found {
                Some(open) if open.worker.is_some() => {
                    self.told.push((open.command.id, Order::Stop));
                }
                Some(_) => {
                    self.post(server, execution, Input::Unclaimed(*seq), None)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Consumes a message even if its input was refused.
    fn consume(
        &mut self,
        execution: ExecutionId,
        consumed: Option<MessageKey>,
    ) -> Result<(), Broken> {
        let Some(key) = consumed else { return Ok(()) };
        let row = now(self.store.execution(execution))?;
        let Some(row) = row else { return Ok(()) };
        let mut commit = Commit::new(execution, row.version, Vec::new());
        commit.consumed.push(key);
        now(self.store.commit(commit))?;
        Ok(())
    }

    pub(super) fn is_stale(&self, server: usize, execution: ExecutionId) -> Result<bool, Broken> {
        let row = now(self.store.execution(execution))?;
        let version = row.map_or(Seq(0), |row| row.version);
        let known = self.states[server].get(&execution);
        Ok(known.is_some_and(|state| state.seq != version))
    }
}

/// Control requests of users have no ID, so repeating one would apply it twice.
fn is_told_once(input: &Input) -> bool {
    matches!(
        input,
        Input::Signal { .. } | Input::Patch(_) | Input::Retry { .. } | Input::Cancel(_)
    )
}
