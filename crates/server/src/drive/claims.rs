//! Claims: who holds which command, who waits for work, and what workers are told.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::command::{Command, Work};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use tokio::sync::oneshot;
use wire::{Ask, Claimed, Resume, Told};

use crate::drive::actor::{Done, Drive};
use crate::drive::fetch::{Fetched, fetch};
use crate::drive::handle::Hands;
use crate::error::Error;

/// What the drive knows of workers.
#[derive(Default)]
pub(super) struct Claims {
    /// Who holds which command.
    holders: HashMap<CommandId, WorkerId>,
    /// Workers that wait for work, in the order they asked.
    asks: VecDeque<Parked>,
    /// Commands on offer that nobody was waiting for, by pool; possibly more than there are.
    on_offer: HashMap<Name, usize>,
    /// Commands that this process put on offer and nobody has taken, by pool, oldest first.
    shelf: HashMap<Name, VecDeque<Shelved>>,
    /// Workers that listen, and what there is to tell those that do not at the moment.
    listeners: HashMap<WorkerId, Listener>,
}

/// A command on the shelf, and the kinds its step needs.
type Shelved = (CommandId, Arc<[Name]>);

struct Parked {
    ask: Ask,
    reply: oneshot::Sender<Result<Vec<Claimed>, Error>>,
    /// Commands assigned to it that are not durable yet.
    assigned: u32,
    ready: Vec<Claimed>,
}

impl Parked {
    /// Whether it still waits, and could take a command of this pool and these kinds.
    fn takes(&self, pool: &Name, kinds: &[Name]) -> bool {
        !self.reply.is_closed()
            && self.ask.pool == *pool
            && self.assigned < self.ask.max
            && serves(self.ask.kinds.as_deref(), kinds)
    }
}

/// Whether a worker that calls these kinds can run a step that needs those.
fn serves(calls: Option<&[Name]>, needs: &[Name]) -> bool {
    calls.is_none_or(|calls| needs.iter().all(|kind| calls.contains(kind)))
}

#[derive(Default)]
struct Listener {
    reply: Option<oneshot::Sender<Vec<Told>>>,
    untold: Vec<Told>,
}

impl Claims {
    /// Who gets a command that is being issued: the worker that reports, or one that waits. The flag says which.
    pub(super) fn assign(
        &mut self,
        command: &Command,
        kinds: &[Name],
        hands: Option<&Hands>,
        handed: usize,
    ) -> Option<(WorkerId, bool)> {
        if let Some(hands) = hands
            && hands.pool == command.pool
            && handed < hands.free as usize
            && serves(hands.kinds.as_deref(), kinds)
        {
            self.holders.insert(command.id, hands.worker.clone());
            return Some((hands.worker.clone(), true));
        }
        let fits = |parked: &&mut Parked| parked.takes(&command.pool, kinds);
        let parked = self.asks.iter_mut().find(fits)?;
        parked.assigned += 1;
        self.holders.insert(command.id, parked.ask.worker.clone());
        Some((parked.ask.worker.clone(), false))
    }

    /// The commit that would have handed these to waiting workers did not happen.
    pub(super) fn unhand(
        &mut self,
        execution: ExecutionId,
        handed: &[(WorkerId, Seq, LeaseEpoch)],
    ) {
        for (worker, seq, _) in handed {
            self.holders.remove(&CommandId {
                execution,
                seq: *seq,
            });
            let mut asks = self.asks.iter_mut();
            if let Some(parked) =
                asks.find(|parked| parked.ask.worker == *worker && parked.assigned > 0)
            {
                parked.assigned -= 1;
            }
        }
    }

    /// The commit that would have handed these over did not happen.
    pub(super) fn unassign(&mut self, execution: ExecutionId, handed: &[(Seq, LeaseEpoch)]) {
        for (seq, _) in handed {
            self.holders.remove(&CommandId {
                execution,
                seq: *seq,
            });
        }
    }

    pub(super) fn forget(&mut self, command: CommandId) {
        self.holders.remove(&command);
    }

    fn is_held(&self, command: CommandId) -> bool {
        self.holders.contains_key(&command)
    }

    /// Who holds a command, as far as this process knows.
    pub(super) fn holder(&self, command: CommandId) -> Option<WorkerId> {
        self.holders.get(&command).cloned()
    }

    /// A worker holds these now.
    pub(super) fn take(&mut self, worker: &WorkerId, commands: Vec<CommandId>) {
        let taken = commands.into_iter();
        self.holders
            .extend(taken.map(|command| (command, worker.clone())));
    }

    /// The commit that would have closed these did not happen.
    pub(super) fn hold_again(&mut self, execution: ExecutionId, stops: &[(Seq, Option<WorkerId>)]) {
        for (seq, holder) in stops {
            if let Some(worker) = holder {
                let command = CommandId {
                    execution,
                    seq: *seq,
                };
                self.holders.insert(command, worker.clone());
            }
        }
    }

    /// What a worker holds, as far as this process knows.
    pub(super) fn held_by(&self, worker: &WorkerId) -> Vec<CommandId> {
        let held = self.holders.iter().filter(|(_, holder)| *holder == worker);
        held.map(|(command, _)| *command).collect()
    }

    pub(super) fn listen(&mut self, worker: WorkerId, reply: oneshot::Sender<Vec<Told>>) {
        let listener = self.listeners.entry(worker).or_default();
        if listener.untold.is_empty() {
            listener.reply = Some(reply);
        } else {
            let _ = reply.send(std::mem::take(&mut listener.untold));
        }
    }

    /// Tells the holder of a command.
    pub(super) fn tell(&mut self, told: Told) {
        if let Some(worker) = self.holder(told.command) {
            self.tell_worker(&worker, told);
        }
    }

    /// Tells a worker.
    pub(super) fn tell_worker(&mut self, worker: &WorkerId, told: Told) {
        let listener = self.listeners.entry(worker.clone()).or_default();
        listener.untold.push(told);
        if let Some(reply) = listener.reply.take()
            && let Err(untold) = reply.send(std::mem::take(&mut listener.untold))
        {
            listener.untold = untold;
        }
    }
}

impl Drive {
    /// A worker asks. What is on offer goes to it at once; else it waits its turn.
    pub(super) fn ask(&mut self, ask: Ask, reply: oneshot::Sender<Result<Vec<Claimed>, Error>>) {
        self.claims
            .asks
            .retain(|parked| !parked.reply.is_closed() || parked.assigned > 0);
        // Of a pool that nobody has asked for yet, the store may hold commands from before this process began.
        let on_offer = self.claims.on_offer.get(&ask.pool).copied().unwrap_or(1);
        if on_offer == 0 {
            let parked = Parked {
                ask,
                reply,
                assigned: 0,
                ready: Vec::new(),
            };
            let pool = parked.ask.pool.clone();
            self.claims.asks.push_back(parked);
            return self.serve(&pool);
        }
        let shared = self.shared.clone();
        self.work.push(Box::pin(async move {
            let wanted = store::Ask {
                worker: ask.worker.clone(),
                pool: ask.pool.clone(),
                max: ask.max,
                // Servers on one store share their workers; a process alone leaves others' work to them.
                owner: shared.peers.is_none().then(|| shared.owner.clone()),
                kinds: ask.kinds.clone(),
            };
            let claims = shared.store.claim(&wanted).await.map_err(Error::from);
            Done::Claimed(claims, ask, reply)
        }));
    }

    /// Commands came from the store for a worker that asked.
    pub(super) fn claimed(
        &mut self,
        claims: Result<Vec<store::Claim>, Error>,
        ask: Ask,
        reply: oneshot::Sender<Result<Vec<Claimed>, Error>>,
    ) {
        let claims = match claims {
            Ok(claims) => claims,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        let on_offer = self.claims.on_offer.entry(ask.pool.clone()).or_default();
        if claims.len() < ask.max as usize {
            *on_offer = 0;
        } else {
            *on_offer = on_offer.saturating_sub(claims.len());
        }
        if claims.is_empty() {
            return self.ask(ask, reply);
        }
        let mut ready = Vec::new();
        let mut foreign = Vec::new();
        for claim in claims {
            let id = claim.command.id;
            self.claims.holders.insert(id, ask.worker.clone());
            if let Some(claimed) = self.build_from(&claim.command, claim.lease_epoch) {
                ready.push(claimed);
                continue;
            }
            self.forget_stale(id.execution);
            if self.shared.peers.is_some() {
                foreign.push((id, claim.lease_epoch));
            } else {
                self.give_back(id, claim.lease_epoch);
            }
        }
        if foreign.is_empty() {
            return self.deliver(ready, ask, reply);
        }
        let shared = self.shared.clone();
        self.work.push(Box::pin(async move {
            let mut fetched = fetch(&shared, &ask.worker, foreign).await;
            fetched.ready.append(&mut ready);
            Done::Fetched(fetched, ask, reply)
        }));
    }

    /// What could be fetched from the drivers of claimed commands is here.
    pub(super) fn fetched(
        &mut self,
        fetched: Fetched,
        ask: Ask,
        reply: oneshot::Sender<Result<Vec<Claimed>, Error>>,
    ) {
        for (command, epoch) in fetched.missed {
            self.give_back(command, epoch);
        }
        self.deliver(fetched.ready, ask, reply);
    }

    /// Commands go to the worker that asked; if there are none it goes on waiting.
    fn deliver(
        &mut self,
        ready: Vec<Claimed>,
        ask: Ask,
        reply: oneshot::Sender<Result<Vec<Claimed>, Error>>,
    ) {
        if ready.is_empty() {
            return self.ask(ask, reply);
        }
        if let Err(Ok(unwanted)) = reply.send(Ok(ready)) {
            for claimed in unwanted {
                self.give_back(claimed.command.id, claimed.lease_epoch);
            }
        }
    }

    /// A claim nobody can use: the command is offered again, and its execution brought into memory for the next ask.
    fn give_back(&mut self, command: CommandId, epoch: LeaseEpoch) {
        self.claims.forget(command);
        self.open_if_absent(command.execution);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            if let Err(error) = shared.store.release(command, epoch).await {
                tracing::warn!(%command, %error, "cannot give a command back; its lease will lapse");
            }
            // A drive that is gone needs no hint.
            let _ = shared
                .drive
                .send(crate::drive::handle::Order::Offered)
                .await;
        });
    }

    /// A command that was assigned to a waiting worker is durable; it goes to the worker.
    pub(super) fn hand(
        &mut self,
        execution: ExecutionId,
        worker: &WorkerId,
        seq: Seq,
        epoch: LeaseEpoch,
    ) {
        let Some(claimed) = self.build(execution, seq, epoch) else {
            return;
        };
        let position = self
            .claims
            .asks
            .iter()
            .position(|parked| parked.ask.worker == *worker && parked.assigned > 0);
        let Some(position) = position else {
            return self.give_back(claimed.command.id, epoch);
        };
        let parked = &mut self.claims.asks[position];
        parked.assigned -= 1;
        parked.ready.push(claimed);
        if parked.assigned == 0 {
            let parked = self
                .claims
                .asks
                .remove(position)
                .expect("the position was just found");
            if let Err(Ok(unwanted)) = parked.reply.send(Ok(parked.ready)) {
                for claimed in unwanted {
                    self.give_back(claimed.command.id, claimed.lease_epoch);
                }
            }
        }
    }

    /// A command is on offer to whoever asks.
    pub(super) fn offer(&mut self, pool: &Name, kinds: Arc<[Name]>, command: CommandId) {
        self.claims
            .shelf
            .entry(pool.clone())
            .or_default()
            .push_back((command, kinds));
        self.serve(pool);
    }

    /// Hands what is on the shelf to workers that wait; the hand-over rides in the execution's next commit.
    fn serve(&mut self, pool: &Name) {
        let Some(mut offered) = self.claims.shelf.remove(pool) else {
            return;
        };
        let mut left = VecDeque::new();
        while let Some((command, kinds)) = offered.pop_front() {
            if !self.is_on_offer(command) {
                continue;
            }
            let takes = |parked: &Parked| parked.takes(pool, &kinds);
            let Some(position) = self.claims.asks.iter().position(takes) else {
                left.push_back((command, kinds));
                if self
                    .claims
                    .asks
                    .iter()
                    .any(|parked| parked.takes(pool, &[]))
                {
                    continue;
                }
                break;
            };
            let parked = &mut self.claims.asks[position];
            parked.assigned += 1;
            let worker = parked.ask.worker.clone();
            self.claims.holders.insert(command, worker.clone());
            self.gather_hand(command, worker);
        }
        left.append(&mut offered);
        self.claims.shelf.insert(pool.clone(), left);
    }

    /// What a worker elsewhere needs to run commands that it holds.
    pub(super) fn build_for(
        &mut self,
        worker: &WorkerId,
        commands: &[(CommandId, LeaseEpoch)],
    ) -> Vec<Claimed> {
        let mut built = Vec::with_capacity(commands.len());
        for (command, epoch) in commands {
            // An execution that is not in memory, or not as the store has it, is there the next time it is asked for.
            self.open_if_absent(command.execution);
            if let Some(claimed) = self.build(command.execution, command.seq, *epoch) {
                self.claims.holders.insert(*command, worker.clone());
                built.push(claimed);
            } else {
                self.forget_stale(command.execution);
            }
        }
        built
    }

    /// Whether a command may be handed out: it is live, nobody holds it, and its run goes on.
    fn is_on_offer(&self, command: CommandId) -> bool {
        let state = self
            .slots
            .get(&command.execution)
            .and_then(|slot| slot.state.as_ref());
        let is_live = state.is_some_and(|state| {
            !state.paused && state.stop.is_none() && state.commands.contains_key(&command.seq)
        });
        is_live && !self.claims.is_held(command)
    }

    /// There may be commands on offer in any pool that is asked for.
    pub(super) fn offered(&mut self) {
        // Workers that are busy at this moment ask later.
        for on_offer in self.claims.on_offer.values_mut() {
            *on_offer = (*on_offer).max(1);
        }
        let pools: Vec<Name> = self
            .claims
            .asks
            .iter()
            .map(|parked| parked.ask.pool.clone())
            .collect();
        for pool in pools {
            let on_offer = self.claims.on_offer.entry(pool.clone()).or_default();
            *on_offer = (*on_offer).max(1);
            self.wake_one(&pool);
        }
    }

    /// A worker that waits and has nothing assigned asks again.
    fn wake_one(&mut self, pool: &Name) {
        let idle = |parked: &Parked| {
            parked.ask.pool == *pool && parked.assigned == 0 && parked.ready.is_empty()
        };
        let position = self.claims.asks.iter().position(idle);
        if let Some(parked) = position.and_then(|position| self.claims.asks.remove(position)) {
            self.ask(parked.ask, parked.reply);
        }
    }

    /// A live command as a worker gets it.
    pub(super) fn build(
        &mut self,
        execution: ExecutionId,
        seq: Seq,
        epoch: LeaseEpoch,
    ) -> Option<Claimed> {
        let slot = self.slots.get_mut(&execution)?;
        let state = slot.state.as_ref()?;
        let live = state.commands.get(&seq)?;
        let run = state.run(&live.run)?;
        let command = Command {
            id: CommandId { execution, seq },
            playbook: state.hash.clone(),
            run: live.run.clone(),
            work: live.work_left(),
            dispatch: run.dispatches.max(1),
            pool: "".into(),
            args: run.args.clone(),
            loop_started: run.loop_.as_ref().map(|loop_| loop_.holder_of(live.work)),
        };
        self.build_from(&command, epoch)
    }

    fn build_from(&mut self, command: &Command, lease_epoch: LeaseEpoch) -> Option<Claimed> {
        let slot = self.slots.get_mut(&command.id.execution)?;
        let context = slot.context(&command.run)?;
        let state = slot.state.as_ref()?;
        state.commands.get(&command.id.seq)?;
        let run = state.run(&command.run)?;
        metrics::counter!(crate::metrics::CLAIMED).increment(1);
        let mut resume = Vec::new();
        let mut over = Vec::new();
        match (command.work, &run.loop_) {
            (Work::Range { from, to, .. }, Some(loop_)) => {
                let live = loop_
                    .live
                    .range(from..to)
                    .filter(|(index, _)| !loop_.suspended.contains(index));
                resume.extend(live.map(|(index, continuation)| Resume {
                    iteration: Some(*index),
                    continuation: continuation.clone(),
                    started: true,
                }));
                let is_over = |index: &u64| {
                    loop_.has_ended(*index)
                        || loop_.suspended.contains(index)
                        || loop_.awake.contains(index)
                };
                if loop_.ended() > 0 || !loop_.suspended.is_empty() || !loop_.awake.is_empty() {
                    over.extend((from..to).filter(is_over));
                }
            }
            (Work::Iteration { index }, Some(loop_)) => {
                let continuation = loop_.live.get(&index).cloned().unwrap_or_default();
                let started = loop_.live.contains_key(&index);
                resume.push(Resume {
                    iteration: Some(index),
                    continuation,
                    started,
                });
            }
            (Work::Pipeline, _) if run.started => resume.push(own(run)),
            (Work::Prepare, _) if !run.pipeline.visits.is_empty() => resume.push(own(run)),
            _ => {}
        }
        Some(Claimed {
            command: command.clone(),
            lease_epoch,
            context,
            resume,
            over,
        })
    }
}

/// How far the run's own pipeline came.
fn own(run: &engine::Run) -> Resume {
    Resume {
        iteration: None,
        continuation: run.pipeline.clone(),
        started: true,
    }
}
