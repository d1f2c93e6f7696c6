//! Claims: who holds which command, who waits for work, and what workers are told.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::cache::BoundedCache;
use model::command::Command;
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use tokio::sync::oneshot;
use wire::{Ask, Claimed, Told};

use crate::drive::actor::{Done, Drive};
use crate::drive::fetch::{Fetched, fetch};
use crate::drive::handle::{Assignments, Hands};
use crate::error::Error;

/// What the drive knows of workers.
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
    /// How often a listener was used.
    uses: u64,
    /// Who here has taken which command of an execution that another process drives.
    elsewhere: BoundedCache<CommandId, WorkerId>,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            holders: HashMap::new(),
            asks: VecDeque::new(),
            on_offer: HashMap::new(),
            shelf: HashMap::new(),
            listeners: HashMap::new(),
            uses: 0,
            elsewhere: BoundedCache::new(ELSEWHERE_MAX),
        }
    }
}

/// So many commands of executions that others drive are remembered, with who has taken them here. A worker whose command
/// is forgotten learns from its next report that it is over.
const ELSEWHERE_MAX: u64 = 4_096;

/// A command on the shelf, and the kinds its step needs.
type Shelved = (CommandId, Arc<[Name]>);

struct Parked {
    ask: Ask,
    reply: oneshot::Sender<Result<Vec<Claimed>, Error>>,
    /// Commands assigned to it that are not durable yet.
    assigned: Vec<CommandId>,
    ready: Vec<Claimed>,
}

impl Parked {
    /// Whether it still waits, and could take a command of this pool and these kinds.
    fn takes(&self, pool: &Name, kinds: &[Name]) -> bool {
        !self.reply.is_closed()
            && self.ask.pool == *pool
            && self.assigned.len() + self.ready.len() < self.ask.max as usize
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
    /// Counts up with each use, so that those of workers that went away long ago can be told.
    used: u64,
}

impl Listener {
    fn listens(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }
}

/// So many workers are remembered that do not listen at the moment. One that is forgotten learns from its next report or
/// heartbeat what it would have been told.
const SILENT_LISTENERS_MAX: usize = 256;

/// How long a command that was given back is not looked for.
const GIVE_BACK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// So many pools are remembered as having nothing on offer; of one that is forgotten the store is asked.
const POOLS_MAX: usize = 1_024;

/// A shelf of this length is looked through for commands that are over, and again whenever it has doubled.
const SHELF_CHECKED_MIN: usize = 1_024;

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
        parked.assigned.push(command.id);
        self.holders.insert(command.id, parked.ask.worker.clone());
        Some((parked.ask.worker.clone(), false))
    }

    /// Every assignment.
    pub(super) fn assignments(&self) -> Assignments {
        let waiting = self.asks.iter().flat_map(|parked| &parked.assigned);
        Assignments {
            waiting: waiting.copied().collect(),
            held: self.holders.keys().copied().collect(),
        }
    }

    /// Takes a command out of the request it was assigned to; tells where that request stands in line.
    fn take_assigned(&mut self, command: CommandId) -> Option<usize> {
        for (position, parked) in self.asks.iter_mut().enumerate() {
            let found = parked.assigned.iter().position(|id| *id == command);
            if let Some(index) = found {
                parked.assigned.swap_remove(index);
                return Some(position);
            }
        }
        None
    }

    /// An execution was loaded anew: commands that its log has closed are held by nobody.
    pub(super) fn forget_closed(&mut self, execution: ExecutionId, is_live: impl Fn(Seq) -> bool) {
        self.holders
            .retain(|command, _| command.execution != execution || is_live(command.seq));
    }

    /// Another process drives an execution: who holds its commands is known there.
    pub(super) fn forget_execution(&mut self, execution: ExecutionId) {
        self.holders
            .retain(|command, _| command.execution != execution);
    }

    pub(super) fn forget(&mut self, command: CommandId) {
        self.holders.remove(&command);
        self.elsewhere.remove(&command);
    }

    /// A worker's listener. Those that were used longest ago and do not listen make room for it.
    fn listener(&mut self, worker: WorkerId) -> &mut Listener {
        self.uses += 1;
        if self.listeners.len() >= 2 * SILENT_LISTENERS_MAX && !self.listeners.contains_key(&worker)
        {
            let silent = self.listeners.values().filter(|known| !known.listens());
            let mut used: Vec<u64> = silent.map(|known| known.used).collect();
            if used.len() > SILENT_LISTENERS_MAX {
                used.sort_unstable();
                let oldest_kept = used[used.len() - SILENT_LISTENERS_MAX];
                self.listeners
                    .retain(|_, known| known.listens() || known.used >= oldest_kept);
            }
        }
        let listener = self.listeners.entry(worker).or_default();
        listener.used = self.uses;
        listener
    }

    fn is_held(&self, command: CommandId) -> bool {
        self.holders.contains_key(&command)
    }

    /// Who holds a command, as far as this process knows.
    pub(super) fn holder(&self, command: CommandId) -> Option<WorkerId> {
        self.holders.get(&command).cloned()
    }

    /// A worker here has taken these commands of executions that others drive.
    pub(super) fn take_elsewhere(&mut self, worker: &WorkerId, commands: Vec<CommandId>) {
        for command in commands {
            self.elsewhere.insert(command, worker.clone(), 1);
        }
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

    /// What a worker here has taken of executions that others drive, as far as is remembered.
    pub(super) fn held_elsewhere(&self, worker: &WorkerId) -> Vec<CommandId> {
        let held = self.elsewhere.iter();
        let held = held.filter(|(_, holder)| *holder == worker);
        held.map(|(command, _)| *command).collect()
    }

    pub(super) fn listen(&mut self, worker: WorkerId, reply: oneshot::Sender<Vec<Told>>) {
        let listener = self.listener(worker);
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
        let listener = self.listener(worker.clone());
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
            .retain(|parked| !parked.reply.is_closed() || !parked.assigned.is_empty());
        // Of a pool that nobody has asked for yet, the store may hold commands from before this process began.
        let on_offer = self.claims.on_offer.get(&ask.pool).copied().unwrap_or(1);
        if on_offer == 0 {
            let parked = Parked {
                ask,
                reply,
                assigned: Vec::new(),
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
        if self.claims.on_offer.len() >= POOLS_MAX {
            self.claims.on_offer.clear();
        }
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
            if let Some(claimed) = self.build_from(&claim.command, claim.lease_epoch) {
                self.claims.holders.insert(id, ask.worker.clone());
                ready.push(claimed);
                continue;
            }
            self.forget_stale(id.execution);
            if self.shared.peers.is_some() {
                self.claims.take_elsewhere(&ask.worker, vec![id]);
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
    pub(super) fn give_back(&mut self, command: CommandId, epoch: LeaseEpoch) {
        self.claims.forget(command);
        self.open_if_absent(command.execution);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            if let Err(error) = shared.store.release(command, epoch).await {
                tracing::warn!(%command, %error, "cannot give a command back; its lease will lapse");
            }
            // Its execution may be loading: to offer the command at once would be to claim it in vain again and again.
            tokio::time::sleep(GIVE_BACK_PAUSE).await;
            // A drive that is gone needs no hint.
            let _ = shared
                .drive
                .send(crate::drive::handle::Order::Offered)
                .await;
        });
    }

    /// A command that was assigned to a waiting worker is durable; it goes to the worker.
    pub(super) fn hand(&mut self, command: CommandId, epoch: LeaseEpoch) {
        let position = self.claims.take_assigned(command);
        // A command that was closed meanwhile goes to nobody.
        let claimed = self.build(command.execution, command.seq, epoch);
        match (position, claimed) {
            (Some(position), claimed) => {
                self.claims.asks[position].ready.extend(claimed);
                self.answer_if_complete(position);
            }
            (None, Some(_)) => self.give_back(command, epoch),
            (None, None) => {}
        }
    }

    /// The commit that would have assigned a command did not happen; the worker's request goes on without it.
    pub(super) fn unassign(&mut self, command: CommandId) {
        self.claims.forget(command);
        if let Some(position) = self.claims.take_assigned(command) {
            self.answer_if_complete(position);
        }
    }

    /// Answers a request once everything assigned to it is durable; one that has got nothing goes on waiting.
    fn answer_if_complete(&mut self, position: usize) {
        let parked = &self.claims.asks[position];
        if !parked.assigned.is_empty() || parked.ready.is_empty() {
            return;
        }
        let parked = self.claims.asks.remove(position);
        let Some(parked) = parked else { return };
        if let Err(Ok(unwanted)) = parked.reply.send(Ok(parked.ready)) {
            for claimed in unwanted {
                self.give_back(claimed.command.id, claimed.lease_epoch);
            }
        }
    }

    /// A command is on offer to whoever asks.
    pub(super) fn offer(&mut self, pool: &Name, kinds: Arc<[Name]>, command: CommandId) {
        let offered = self.claims.shelf.entry(pool.clone()).or_default();
        offered.push_back((command, kinds));
        if offered.len() >= SHELF_CHECKED_MIN && offered.len().is_power_of_two() {
            self.clear_shelf(pool);
        }
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
            parked.assigned.push(command);
            let worker = parked.ask.worker.clone();
            self.claims.holders.insert(command, worker.clone());
            self.gather_hand(command, worker);
        }
        left.append(&mut offered);
        if !left.is_empty() {
            self.claims.shelf.insert(pool.clone(), left);
        }
    }

    /// Takes off a shelf what may not be handed out any more.
    fn clear_shelf(&mut self, pool: &Name) {
        let Some(mut offered) = self.claims.shelf.remove(pool) else {
            return;
        };
        offered.retain(|(command, _)| self.is_on_offer(*command));
        self.claims.shelf.insert(pool.clone(), offered);
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
            parked.ask.pool == *pool && parked.assigned.is_empty() && parked.ready.is_empty()
        };
        let position = self.claims.asks.iter().position(idle);
        if let Some(parked) = position.and_then(|position| self.claims.asks.remove(position)) {
            self.ask(parked.ask, parked.reply);
        }
    }
}
