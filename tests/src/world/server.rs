//! The servers of a world: decide inputs, commit the decisions, and process what follows from the commit.
//!
//! Several servers can share the store. Each caches states, which commits of another server make stale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use engine::{
    DecideError, Decision, ExecutionLimits, ExecutionRequest, ExecutionState, Input, PlaybookNet,
    Refusal, Stamp,
};
use language::template::LoadedValues;
use model::event::Event;
use model::id::{CommandId, ExecutionId, IdBlock, Name, PlaybookHash, Seq, WorkerId};
use model::raw::RawJson;
use model::time::Time;
use results::BodyStore as _;
use store::{
    CommandChange, Commit, CommitStatus, IssuedCommand, MemoryStore, Message, MessageKey,
    Store as _,
};

use crate::world::load::{block_on_ready, load_needs, read_log};
use crate::world::tamper::Tamper;
use crate::world::world_command::Order;
use crate::world::world_store::WorldStore;

/// Start time of every world: 2026-01-01T00:00:00Z.
const START_MICROS: i64 = 1_767_225_600_000_000;
/// Number of IDs a decision may use in addition to those of its report.
const IDS_PER_DECISION: u32 = 4_096;
/// How often an input is decided again after a conflict or because data had to be loaded.
const ROUNDS_MAX: usize = 32;

/// An error that must never happen in a world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
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
pub enum InputResult {
    /// These events are now in the log.
    Committed(Vec<Event>),
    /// The input was refused and recorded nothing.
    Refused(Refusal),
}

/// The control plane of a world.
pub struct WorldServer {
    /// The store.
    pub store: WorldStore,
    /// The limits in force.
    pub limits: ExecutionLimits,
    /// Maximum number of jumps of a pipeline.
    pub jumps_max: u32,
    /// What happened since this was last read.
    pub new_events: Vec<(ExecutionId, Vec<Event>)>,
    /// Orders for the holders of commands.
    pub notices: Vec<(CommandId, Order)>,
    /// What happens to the next commit, if its response is lost.
    pub lost_reply: Option<LostReply>,
    /// Hooks that inject bugs.
    pub tamper: Box<dyn Tamper>,
    clock: Arc<AtomicI64>,
    nets: BTreeMap<PlaybookHash, Arc<PlaybookNet>>,
    pub(super) states: Vec<BTreeMap<ExecutionId, ExecutionState>>,
    pub(super) pools: BTreeSet<Name>,
}

enum CommitAttempt {
    Committed {
        events: Vec<Event>,
        more: bool,
    },
    Conflict,
    Fenced,
    /// The response was lost; the commit may or may not have happened.
    Unknown,
}

/// What happens to a commit whose response is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostReply {
    /// It did not happen.
    BeforeCommit,
    /// It happened.
    AfterCommit,
}

impl WorldServer {
    /// Creates this number of servers on an empty store.
    pub fn new(count: usize, limits: ExecutionLimits, tamper: Box<dyn Tamper>) -> Self {
        let clock = Arc::new(AtomicI64::new(START_MICROS));
        let ticking = clock.clone();
        Self {
            store: WorldStore::new(MemoryStore::new(Arc::new(move || {
                Time(ticking.load(Ordering::Relaxed))
            }))),
            limits,
            jumps_max: pipeline::JUMPS_MAX,
            new_events: Vec::new(),
            notices: Vec::new(),
            lost_reply: None,
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
    pub fn advance_time(&self, time: Time) {
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
        payload: Option<RawJson>,
    ) -> Result<Option<ExecutionId>, WorldError> {
        let execution = ExecutionId(self.store.ids(1).0);
        let Some(entry) = block_on_ready(self.store.catalog_entry(path, None))? else {
            return Ok(None);
        };
        let submit = ExecutionRequest {
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
        self.apply_input(0, execution, Input::Submit(Box::new(submit)), None)?;
        Ok(Some(execution))
    }

    /// The state of an execution, from the server's cache or loaded from the store.
    pub fn state(
        &mut self,
        server: usize,
        execution: ExecutionId,
    ) -> Result<Option<&ExecutionState>, WorldError> {
        if !self.states[server].contains_key(&execution) {
            let events = read_log(&self.store, execution);
            if events.is_empty() {
                return Ok(None);
            }
            let state = events.iter().fold(None, engine::fold);
            let state = state.ok_or(WorldError::Log(execution))?;
            self.states[server].insert(execution, state);
        }
        Ok(self.states[server].get(&execution))
    }

    /// The playbook of an execution, prepared for decisions.
    pub fn load_net(&mut self, hash: &PlaybookHash) -> Result<Arc<PlaybookNet>, WorldError> {
        if let Some(net) = self.nets.get(hash) {
            return Ok(net.clone());
        }
        let entry = block_on_ready(self.store.playbook(hash))?
            .expect("the catalog has the playbook of every execution");
        let parsed = language::playbook::parse(entry.path.as_str(), entry.text.as_bytes());
        let mut playbook = parsed
            .playbook
            .expect("the catalog contains only valid playbooks");
        self.tamper.playbook(&mut playbook);
        let net = Arc::new(PlaybookNet::new(Arc::new(playbook), self.limits));
        self.nets.insert(hash.clone(), net.clone());
        Ok(net)
    }

    /// Decides an input, commits the decision, and processes what follows from it.
    pub fn apply_input(
        &mut self,
        server: usize,
        execution: ExecutionId,
        input: Input,
        consumed: Option<MessageKey>,
    ) -> Result<InputResult, WorldError> {
        if self.tamper.drops_input(&input) {
            return Ok(InputResult::Committed(Vec::new()));
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
                    self.consume_refused(execution, consumed)?;
                    return Ok(InputResult::Refused(refusal));
                }
            };
            let written = self.commit(server, execution, decision, consumed)?;
            if matches!(written, CommitAttempt::Unknown) && !matches!(input, Input::Continue) {
                // What must follow if the commit happened.
                self.apply_input(server, execution, Input::Continue, None)?;
            }
            match written {
                CommitAttempt::Conflict => {}
                CommitAttempt::Fenced => return Ok(InputResult::Refused(Refusal::Fenced)),
                // The result of the commit is unknown. Inputs that are safe to repeat are decided again.
                CommitAttempt::Unknown
                    if !must_not_repeat(&input) && self.is_unconsumed(consumed)? => {}
                CommitAttempt::Unknown => return Ok(InputResult::Committed(all)),
                CommitAttempt::Committed { events, more } => {
                    consumed = None;
                    all.extend(events);
                    if !more {
                        return Ok(InputResult::Committed(all));
                    }
                    input = Input::Continue;
                }
            }
        }
        Err(WorldError::Undecidable)
    }

    /// Whether a message is unconsumed; true for inputs that did not come from a message.
    fn is_unconsumed(&self, consumed: Option<MessageKey>) -> Result<bool, WorldError> {
        let Some(key) = consumed else { return Ok(true) };
        Ok(self.inbox()?.iter().any(|message| message.key == key))
    }

    fn decide(
        &mut self,
        server: usize,
        execution: ExecutionId,
        mut input: Input,
    ) -> Result<Result<Decision, Refusal>, WorldError> {
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
            (None, _) => return Ok(Err(Refusal::ExecutionEnded)),
        };
        let net = self.load_net(&hash)?;
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
        let mut loaded = LoadedValues::default();
        for _ in 0..ROUNDS_MAX {
            match engine::decide(&net, state.as_ref(), input.clone(), stamp, &loaded) {
                Ok(mut decision) => {
                    self.tamper.decision(state.as_ref(), &mut decision);
                    return Ok(Ok(decision));
                }
                Err(DecideError::Refused(refusal)) => return Ok(Err(refusal)),
                Err(DecideError::Needs(needs)) => {
                    load_needs(&self.store, execution, needs, &mut loaded);
                }
            }
        }
        Err(WorldError::Undecidable)
    }

    fn commit(
        &mut self,
        server: usize,
        execution: ExecutionId,
        decision: Decision,
        consumed: Option<MessageKey>,
    ) -> Result<CommitAttempt, WorldError> {
        let expected = self.states[server]
            .get(&execution)
            .map_or(Seq(0), |state| state.seq);
        let commit = self.build_commit(execution, expected, &decision, consumed);
        for body in &decision.bodies {
            let bytes = Vec::from(body.text.text()).into();
            block_on_ready(self.store.put(results::BodySource::Bytes(bytes)))
                .expect("a world keeps its bodies");
        }
        let cut = self.lost_reply.take();
        if cut.is_some() && !self.tamper.trusts_unknown() {
            self.states[server].remove(&execution);
        }
        if cut == Some(LostReply::BeforeCommit) {
            if self.tamper.trusts_unknown() {
                self.states[server].insert(execution, decision.state);
            }
            return Ok(CommitAttempt::Unknown);
        }
        match block_on_ready(self.store.commit(commit))? {
            CommitStatus::Committed if cut.is_some() => {
                self.new_events.push((execution, decision.events));
                Ok(CommitAttempt::Unknown)
            }
            CommitStatus::VersionConflict { .. } => {
                self.states[server].remove(&execution);
                Ok(CommitAttempt::Conflict)
            }
            CommitStatus::Fenced => {
                self.states[server].remove(&execution);
                Ok(CommitAttempt::Fenced)
            }
            CommitStatus::Committed => {
                self.states[server].insert(execution, decision.state);
                self.new_events.push((execution, decision.events.clone()));
                self.notify_stops(server, execution, &decision.commands_to_stop)?;
                Ok(CommitAttempt::Committed {
                    events: decision.events,
                    more: decision.has_more,
                })
            }
        }
    }

    fn build_commit(
        &mut self,
        execution: ExecutionId,
        expected: Seq,
        decision: &Decision,
        consumed: Option<MessageKey>,
    ) -> Commit {
        let mut commit = Commit::new(execution, expected, decision.events.clone());
        for seq in &decision.closed {
            commit.commands.push(CommandChange::Close { seq: *seq });
        }
        for offer in &decision.issued {
            self.pools.insert(offer.command.pool.clone());
            commit
                .commands
                .push(CommandChange::Issue(Box::new(IssuedCommand {
                    command: offer.command.clone(),
                    claimed: None,
                    start_by: Some(self.store.now().after(offer.schedule_to_start)),
                    kinds: Vec::new(),
                })));
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
                body: RawJson::from_serializable(&message.body),
            })
            .collect();
        commit.consumed = consumed.into_iter().collect();
        commit.keys.clone_from(&decision.unique_keys);
        commit.fences.clone_from(&decision.fences);
        commit
    }

    /// Sends a stop order to the holders of commands; withdraws unclaimed commands at once.
    fn notify_stops(
        &mut self,
        server: usize,
        execution: ExecutionId,
        stops: &[(Seq, WorkerId)],
    ) -> Result<(), WorldError> {
        for (seq, _) in stops {
            let open = block_on_ready(self.store.open_commands(execution))?;
            let found = open.iter().find(|open| open.command.id.seq == *seq);
            match found {
                Some(open) if open.worker.is_some() => {
                    self.notices.push((open.command.id, Order::Stop));
                }
                Some(_) => {
                    self.apply_input(server, execution, Input::CommandOverdue(*seq), None)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Consumes a message even if its input was refused.
    fn consume_refused(
        &mut self,
        execution: ExecutionId,
        consumed: Option<MessageKey>,
    ) -> Result<(), WorldError> {
        let Some(key) = consumed else { return Ok(()) };
        let row = block_on_ready(self.store.execution(execution))?;
        let Some(row) = row else { return Ok(()) };
        let mut commit = Commit::new(execution, row.version, Vec::new());
        commit.consumed.push(key);
        block_on_ready(self.store.commit(commit))?;
        Ok(())
    }

    pub(super) fn is_stale(
        &self,
        server: usize,
        execution: ExecutionId,
    ) -> Result<bool, WorldError> {
        let row = block_on_ready(self.store.execution(execution))?;
        let version = row.map_or(Seq(0), |row| row.version);
        let known = self.states[server].get(&execution);
        Ok(known.is_some_and(|state| state.seq != version))
    }
}

/// Control requests of users have no ID, so repeating one would apply it twice.
fn must_not_repeat(input: &Input) -> bool {
    matches!(
        input,
        Input::Signal { .. } | Input::Patch(_) | Input::Retry { .. } | Input::Cancel(_)
    )
}
