//! Claims: which worker holds which command, which workers wait for commands, and the notices for workers.

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

/// What the driver knows about workers and their claims.
pub(super) struct Claims {
    /// Holder of each claimed command.
    holders: HashMap<CommandId, WorkerId>,
    /// Claim requests that wait for commands, in order of arrival.
    asks: VecDeque<Parked>,
    /// Upper bound of the unclaimed commands in the store, by pool.
    on_offer: HashMap<Name, usize>,
    /// Commands that this process offered and that no worker has claimed, by pool, oldest first.
    shelf: HashMap<Name, VecDeque<Shelved>>,
    /// Workers that wait for notices, and undelivered notices of workers that do not wait at the moment.
    listeners: HashMap<WorkerId, Listener>,
    /// Counter for `Listener::used`.
    uses: u64,
    /// Workers of this server that hold commands of executions owned by other processes.
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

/// Capacity of `elsewhere`. If an entry is evicted, the worker learns from its next report that the command has ended.
const ELSEWHERE_MAX: u64 = 4_096;

/// An offered command and the tool kinds its step needs.
type Shelved = (CommandId, Arc<[Name]>);

struct Parked {
    ask: Ask,
    reply: oneshot::Sender<Result<Vec<Claimed>, Error>>,
    /// Assigned commands that are not durable yet.
    assigned: Vec<CommandId>,
    ready: Vec<Claimed>,
}

impl Parked {
    /// Whether it still waits and can take a command of this pool and these kinds.
    fn takes(&self, pool: &Name, kinds: &[Name]) -> bool {
        !self.reply.is_closed()
            && self.ask.pool == *pool
            && self.assigned.len() + self.ready.len() < self.ask.max as usize
            && serves(self.ask.kinds.as_deref(), kinds)
    }
}

/// Whether a worker that calls the kinds `calls` can run a step that needs the kinds `needs`.
fn serves(calls: Option<&[Name]>, needs: &[Name]) -> bool {
    calls.is_none_or(|calls| needs.iter().all(|kind| calls.contains(kind)))
}

#[derive(Default)]
struct Listener {
    reply: Option<oneshot::Sender<Vec<Told>>>,
    untold: Vec<Told>,
    /// Value of `Claims::uses` at the latest use; the smallest is the least recently used.
    used: u64,
}

impl Listener {
    fn listens(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }
}

/// How many workers without an open long poll are remembered. A worker that is evicted learns of its notices from its
/// next report or heartbeat.
const SILENT_LISTENERS_MAX: usize = 256;

/// Pause before a released command is offered again.
const GIVE_BACK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Maximum number of pools in `on_offer`. For a pool that is not in it, the store is queried.
const POOLS_MAX: usize = 1_024;

/// Minimum length at which a pool's offers are checked for ended commands; checked again whenever the length has
/// doubled.
const SHELF_CHECKED_MIN: usize = 1_024;

impl Claims {
    /// Chooses a worker for a command that is being issued: the reporting worker (flag true) or one that waits (flag
    /// false).
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

    /// Returns all assignments.
    pub(super) fn assignments(&self) -> Assignments {
        let waiting = self.asks.iter().flat_map(|parked| &parked.assigned);
        Assignments {
            waiting: waiting.copied().collect(),
            held: self.holders.keys().copied().collect(),
        }
    }

    /// Removes a command from the claim request it was assigned to, and returns the position of that request.
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

    /// Removes holders of commands that the reloaded log has closed.
    pub(super) fn forget_closed(&mut self, execution: ExecutionId, is_live: impl Fn(Seq) -> bool) {
        self.holders
            .retain(|command, _| command.execution != execution || is_live(command.seq));
    }

    /// Removes all holders of an execution that another process owns now.
    pub(super) fn forget_execution(&mut self, execution: ExecutionId) {
        self.holders
            .retain(|command, _| command.execution != execution);
    }

    pub(super) fn forget(&mut self, command: CommandId) {
        self.holders.remove(&command);
        self.elsewhere.remove(&command);
    }

    /// Returns a worker's listener. Evicts the least recently used listeners without an open long poll.
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

    /// Holder of a command, as far as this process knows.
    pub(super) fn holder(&self, command: CommandId) -> Option<WorkerId> {
        self.holders.get(&command).cloned()
    }

    /// Records that a worker of this server holds these commands of executions owned elsewhere.
    pub(super) fn take_elsewhere(&mut self, worker: &WorkerId, commands: Vec<CommandId>) {
        for command in commands {
            self.elsewhere.insert(command, worker.clone(), 1);
        }
    }

    /// Restores the holders of commands whose closing commit failed.
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

    /// Commands of executions owned elsewhere that a worker of this server holds, as far as recorded.
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

    /// Sends a notice to the holder of a command.
    pub(super) fn tell(&mut self, told: Told) {
        if let Some(worker) = self.holder(told.command) {
            self.tell_worker(&worker, told);
        }
    }

    /// Sends a notice to a worker.
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
    /// Handles a claim request: claims commands from the store if there may be some, otherwise the request waits.
    pub(super) fn ask(&mut self, ask: Ask, reply: oneshot::Sender<Result<Vec<Claimed>, Error>>) {
        self.claims
            .asks
            .retain(|parked| !parked.reply.is_closed() || !parked.assigned.is_empty());
        // For a pool without an entry, the store may have commands from before this process started.
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
                // Servers on one store share their workers; a single process leaves the commands of others alone.
                owner: shared.peers.is_none().then(|| shared.owner.clone()),
                kinds: ask.kinds.clone(),
            };
            let claims = shared.store.claim(&wanted).await.map_err(Error::from);
            Done::Claimed(claims, ask, reply)
        }));
    }

    /// Handles the commands that the store returned for a claim request.
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

    /// Handles the commands fetched from other servers.
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

    /// Sends commands to the worker that requested them; if there are none, the request waits again.
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

    /// Releases a claim that cannot be used, and loads the execution for the next claim request.
    pub(super) fn give_back(&mut self, command: CommandId, epoch: LeaseEpoch) {
        self.claims.forget(command);
        self.open_if_absent(command.execution);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            if let Err(error) = shared.store.release(command, epoch).await {
                tracing::warn!(%command, %error, "failed to release command; its lease will expire");
            }
            // The execution may still be loading. Offering the command at once would lead to useless claims in a loop.
            tokio::time::sleep(GIVE_BACK_PAUSE).await;
            // If the driver has stopped, no notification is needed.
            let _ = shared
                .drive
                .send(crate::drive::handle::Order::Offered)
                .await;
        });
    }

    /// Delivers a command to the waiting worker it was assigned to; the assignment is durable now.
    pub(super) fn hand(&mut self, command: CommandId, epoch: LeaseEpoch) {
        let position = self.claims.take_assigned(command);
        // A command that was closed meanwhile is not delivered.
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

    /// Undoes an assignment whose commit failed; the claim request continues without it.
    pub(super) fn unassign(&mut self, command: CommandId) {
        self.claims.forget(command);
        if let Some(position) = self.claims.take_assigned(command) {
            self.answer_if_complete(position);
        }
    }

    /// Replies to a claim request once all its assignments are durable; a request without commands keeps waiting.
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

    /// Offers a command to the next claim request.
    pub(super) fn offer(&mut self, pool: &Name, kinds: Arc<[Name]>, command: CommandId) {
        let offered = self.claims.shelf.entry(pool.clone()).or_default();
        offered.push_back((command, kinds));
        if offered.len() >= SHELF_CHECKED_MIN && offered.len().is_power_of_two() {
            self.clear_shelf(pool);
        }
        self.serve(pool);
    }

    /// Assigns offered commands to waiting workers; the assignment is part of the execution's next commit.
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

    /// Removes offers that are no longer valid.
    fn clear_shelf(&mut self, pool: &Name) {
        let Some(mut offered) = self.claims.shelf.remove(pool) else {
            return;
        };
        offered.retain(|(command, _)| self.is_on_offer(*command));
        self.claims.shelf.insert(pool.clone(), offered);
    }

    /// Builds commands for a worker of another server that holds them.
    pub(super) fn build_for(
        &mut self,
        worker: &WorkerId,
        commands: &[(CommandId, LeaseEpoch)],
    ) -> Vec<Claimed> {
        let mut built = Vec::with_capacity(commands.len());
        for (command, epoch) in commands {
            // If the execution is not in memory or its state is stale, the next request finds it loaded.
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

    /// Whether a command may be assigned: it is live and unclaimed, and its execution is neither paused nor stopping.
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

    /// Checks the store for offered commands in every pool that workers wait for.
    pub(super) fn offered(&mut self) {
        // Workers that are busy at the moment send their claim requests later.
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

    /// Repeats the first claim request of the pool that has no assignments.
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
