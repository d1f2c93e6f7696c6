//! The server's part of a world: inputs are decided, committed, and what follows from the commit is done.
//!
//! Several servers may share the store; each keeps states of its own, which another's commits make stale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use engine::{
    CommandChange, Decision, Input, Limits, MessageBody, Net, Refusal, Stamp, State, Submit,
    Undecided,
};
use model::event::Event;
use model::id::{CommandId, ExecutionId, IdBlock, Name, PlaybookHash, Seq, WorkerId};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::Raw;
use model::template::Loaded;
use model::time::Time;
use store::{Ask, Commit, Committed, Fence, Issue, Memory, Message, MessageKey, Store as _};

use crate::world::hand::{Hand, Order};
use crate::world::load::{load, log, now};
use crate::world::tamper::Tamper;

/// When worlds begin: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600_000_000;
/// Ids one decision may use beside those of its report.
const IDS_PER_DECISION: u32 = 4_096;
/// How often an input is decided again because the log had moved or something had to be loaded.
const ROUNDS_MAX: usize = 32;

/// Something that must never happen in a world.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The store refused a commit for good.
    #[error("the store refused a commit: {0}")]
    Store(#[from] store::Error),
    /// A decision asks for more and more.
    #[error("no decision after {ROUNDS_MAX} rounds")]
    Undecidable,
    /// A log does not fold.
    #[error("the log of {0} does not fold")]
    Log(ExecutionId),
}

/// What became of an input.
#[derive(Debug, Clone)]
pub enum Posted {
    /// These events are in the log now.
    Done(Vec<Event>),
    /// The input was refused and left nothing.
    Refused(Refusal),
}

/// The control plane of a world.
pub struct Server {
    /// The store.
    pub store: Memory,
    /// The bounds that hold.
    pub limits: Limits,
    /// What happened to whom since this was last taken.
    pub fresh: Vec<(ExecutionId, Vec<Event>)>,
    /// Orders for the holders of commands.
    pub told: Vec<(CommandId, Order)>,
    /// Where it is made to misbehave.
    pub tamper: Box<dyn Tamper>,
    clock: Arc<AtomicI64>,
    nets: BTreeMap<PlaybookHash, Arc<Net>>,
    states: Vec<BTreeMap<ExecutionId, State>>,
    pools: BTreeSet<Name>,
}

enum Written {
    Done { events: Vec<Event>, more: bool },
    Again,
    Fenced,
}

impl Server {
    /// So many servers on an empty store.
    pub fn new(count: usize, limits: Limits, tamper: Box<dyn Tamper>) -> Self {
        let clock = Arc::new(AtomicI64::new(BEGINNING));
        let ticking = clock.clone();
        Self {
            store: Memory::new(Arc::new(move || Time(ticking.load(Ordering::Relaxed)))),
            limits,
            fresh: Vec::new(),
            told: Vec::new(),
            tamper,
            clock,
            nets: BTreeMap::new(),
            states: vec![BTreeMap::new(); count],
            pools: BTreeSet::new(),
        }
    }

    /// How many servers there are.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.store.now()
    }

    /// Moves the time on; it never goes back.
    pub fn move_on_to(&self, time: Time) {
        self.clock.fetch_max(time.0, Ordering::Relaxed);
    }

    /// A server forgets everything that is not in the store.
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
        };
        self.post(0, execution, Input::Submit(Box::new(submit)), None)?;
        Ok(Some(execution))
    }

    /// An execution's state as this server knows it, loaded if it does not.
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

    /// The playbook of an execution, ready to be decided about.
    pub fn net(&mut self, hash: &PlaybookHash) -> Result<Arc<Net>, Broken> {
        if let Some(net) = self.nets.get(hash) {
            return Ok(net.clone());
        }
        let entry = now(self.store.playbook(hash))?.expect("an execution's text is in the catalog");
        let parsed = model::playbook::parse(entry.path.as_str(), entry.text.as_bytes());
        let mut playbook = parsed
            .playbook
            .expect("a text in the catalog is a playbook");
        self.tamper.playbook(&mut playbook);
        let net = Arc::new(Net::new(Arc::new(playbook), self.limits));
        self.nets.insert(hash.clone(), net.clone());
        Ok(net)
    }

    /// Decides an input and commits what follows, and what follows from that.
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
                // A refusal is only worth what the state is it was made from.
                Err(_) if self.is_stale(server, execution)? => {
                    self.states[server].remove(&execution);
                    continue;
                }
                Err(refusal) => {
                    self.consume(execution, consumed)?;
                    return Ok(Posted::Refused(refusal));
                }
            };
            match self.commit(server, execution, decision, consumed)? {
                Written::Again => {}
                Written::Fenced => return Ok(Posted::Refused(Refusal::Fenced)),
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

    fn decide(
        &mut self,
        server: usize,
        execution: ExecutionId,
        mut input: Input,
    ) -> Result<Result<Decision, Refusal>, Broken> {
        let state = self.state(server, execution)?.cloned();
        let hash = match (&state, &input) {
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
        match now(self.store.commit(commit))? {
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

    /// Holders of commands that should stop are told; a command nobody holds is withdrawn at once.
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

    /// A message whose input was refused is consumed all the same.
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

    fn is_stale(&self, server: usize, execution: ExecutionId) -> Result<bool, Broken> {
        let row = now(self.store.execution(execution))?;
        let version = row.map_or(Seq(0), |row| row.version);
        let known = self.states[server].get(&execution);
        Ok(known.is_some_and(|state| state.seq != version))
    }

    /// Hands pending commands to a worker.
    pub fn claim(
        &mut self,
        server: usize,
        worker: &WorkerId,
        max: u32,
    ) -> Result<Vec<Hand>, Broken> {
        let mut hands = Vec::new();
        for pool in self.pools.clone() {
            let ask = Ask {
                worker: worker.clone(),
                pool,
                max,
                owner: None,
                kinds: None,
            };
            for mut claim in now(self.store.claim(&ask))? {
                self.tamper.claim(&claim.command, &mut claim.lease_epoch);
                let execution = claim.command.id.execution;
                if self.is_stale(server, execution)? {
                    self.states[server].remove(&execution);
                }
                let Some(state) = self.state(server, execution)?.cloned() else {
                    continue;
                };
                let playbook = self.net(&state.hash)?.playbook.clone();
                hands.push(Hand::new(claim, worker, playbook, &state, &self.store));
            }
        }
        Ok(hands)
    }

    /// How the holder of a command goes on.
    pub fn verdict(&mut self, server: usize, command: CommandId) -> Result<Order, Broken> {
        let Some(state) = self.state(server, command.execution)? else {
            return Ok(Order::Stop);
        };
        let Some(live) = state.commands.get(&command.seq) else {
            return Ok(Order::Stop);
        };
        if state.stop.is_some() || state.is_ended() {
            return Ok(Order::Stop);
        }
        let loop_ = state.run(&live.run).and_then(|run| run.loop_.as_ref());
        let stopped = loop_.is_some_and(engine::LoopRun::is_stopped);
        Ok(if state.paused || stopped {
            Order::Yield
        } else {
            Order::Proceed
        })
    }

    /// Messages between executions that are not consumed, oldest first.
    pub fn inbox(&self) -> Result<Vec<Message>, Broken> {
        Ok(now(self.store.inbox(None, usize::MAX))?)
    }

    /// Delivers one message.
    pub fn deliver(&mut self, server: usize, message: &Message) -> Result<Posted, Broken> {
        let body: MessageBody = message.body.read().expect("a world's messages are its own");
        let key = Some(message.key);
        let input = match body {
            MessageBody::Start {
                path,
                version,
                input,
                parent,
                depth,
                ..
            } => {
                let Some(entry) = now(self.store.latest(&path, version))? else {
                    let input = Input::ChildEnded {
                        child: message.to,
                        seq: parent.seq,
                        outcome: Box::new(Outcome::error(not_found(&path))),
                    };
                    return self.post(server, parent.execution_id, input, key);
                };
                Input::Submit(Box::new(Submit {
                    execution: message.to,
                    path: entry.path,
                    version: entry.version,
                    hash: entry.hash,
                    payload: Some(input),
                    parent: Some(parent),
                    depth,
                    trace_id: None,
                }))
            }
            MessageBody::ChildEnded { seq, outcome } => Input::ChildEnded {
                child: message.key.from,
                seq,
                outcome,
            },
            MessageBody::Cancel { reason } => Input::Cancel { reason },
            MessageBody::Retry => Input::Retry,
            MessageBody::Pause { reason } => Input::Pause { reason },
            MessageBody::Resume => Input::Resume,
            MessageBody::Signal { name, payload } => Input::Signal { name, payload },
        };
        self.post(server, message.to, input, key)
    }

    /// Timers that are due.
    pub fn due_timers(&mut self) -> Result<Vec<(ExecutionId, Seq)>, Broken> {
        Ok(now(self.store.due_timers(None, usize::MAX))?)
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Result<Option<Time>, Broken> {
        Ok(now(self.store.next_timer(None))?)
    }

    /// Keeps a worker's claims for a while.
    pub fn renew(&self, worker: &WorkerId, ttl: Duration) -> Result<(), Broken> {
        Ok(now(self.store.renew(worker, ttl))?)
    }

    /// The text of a playbook in the catalog.
    pub fn text(&self, hash: &PlaybookHash) -> Arc<str> {
        let entry = now(self.store.playbook(hash)).expect("a store in memory is readable");
        entry.expect("an execution's text is in the catalog").text
    }

    /// The state that a server has at hand, stale or not.
    pub fn known(&self, server: usize, execution: ExecutionId) -> Option<&State> {
        self.states.get(server)?.get(&execution)
    }

    /// Offers a claimed command again.
    pub fn release(&self, command: CommandId, epoch: model::id::LeaseEpoch) -> Result<(), Broken> {
        Ok(now(self.store.release(command, epoch))?)
    }

    /// An execution as lists show it.
    pub fn row(&self, execution: ExecutionId) -> Result<Option<store::ExecutionRow>, Broken> {
        Ok(now(self.store.execution(execution))?)
    }

    /// Claims whose holder is gone.
    pub fn lost_claims(&self) -> Result<Vec<store::LostClaim>, Broken> {
        Ok(now(self.store.lost_claims(None))?)
    }

    /// Whether a worker other than this one holds a command.
    pub fn has_stray_claims(&self, worker: &WorkerId) -> Result<bool, Broken> {
        let open = self.open_commands()?;
        Ok(open
            .iter()
            .any(|open| open.worker.as_ref().is_some_and(|held| held != worker)))
    }

    /// Every command that is not over.
    pub fn open_commands(&self) -> Result<Vec<store::OpenCommand>, Broken> {
        let filter = store::Filter {
            limit: usize::MAX,
            ..store::Filter::default()
        };
        let mut open = Vec::new();
        for row in now(self.store.executions(&filter))? {
            open.extend(now(self.store.open_commands(row.id))?);
        }
        Ok(open)
    }

    /// When the first of the commands that nobody took is overdue.
    pub fn next_overdue(&self) -> Result<Option<Time>, Broken> {
        let pending = self
            .open_commands()?
            .into_iter()
            .filter(|open| open.worker.is_none());
        Ok(pending
            .map(|open| open.issued_at.after(self.limits.schedule_to_start))
            .min())
    }

    /// Gives up commands that nobody took in time.
    pub fn sweep_overdue(&mut self, server: usize) -> Result<(), Broken> {
        for command in now(self.store.overdue_commands(None))? {
            self.post(
                server,
                command.execution,
                Input::Unclaimed(command.seq),
                None,
            )?;
        }
        Ok(())
    }

    /// Registers a playbook.
    pub fn register(&self, path: &str, text: &str) -> Result<(), Broken> {
        now(self.store.put_playbook(path, text))?;
        Ok(())
    }

    /// Takes what happened since the last time.
    pub fn take_fresh(&mut self) -> Vec<(ExecutionId, Vec<Event>)> {
        std::mem::take(&mut self.fresh)
    }
}

fn not_found(path: &str) -> TaskError {
    TaskError {
        retryable: false,
        ..TaskError::new(
            ErrorKind::NotFound,
            "PLAYBOOK_NOT_FOUND",
            format!("playbook `{path}` is not in the catalog"),
        )
    }
}
