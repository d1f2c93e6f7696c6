//! Claims: which worker holds which command, which workers wait for commands, and the notices for workers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use wire::api::ClaimRequest;

use model::cache::BoundedCache;
use model::command::Command;
use model::command::{ClaimId, serves_kinds};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use tokio::sync::oneshot;
use wire::{ClaimedCommand, CommandNotice};

use crate::driver::actor::{DriverEvent, ExecutionDriver};
use crate::driver::handle::{Assignments, WorkerCapacity};
use crate::driver::remote_commands::{RemoteCommands, fetch_remote_commands};
use crate::error::Error;

/// What the driver knows about workers and their claims.
pub(super) struct ClaimTable {
    /// Holder of each claimed command.
    holders: HashMap<CommandId, WorkerId>,
    /// Claim requests that wait for commands, in order of arrival.
    waiting_claims: VecDeque<WaitingClaim>,
    /// Upper bound of the unclaimed commands in the store, by pool.
    offer_hints: HashMap<Name, usize>,
    /// Commands that this process offered and that no worker has claimed, by pool, oldest first.
    offers: HashMap<Name, VecDeque<OfferEntry>>,
    /// Workers that wait for notices, and undelivered notices of workers that do not wait at the moment.
    listeners: HashMap<WorkerId, WorkerListener>,
    /// Counter for `Listener::used`.
    listener_uses: u64,
    /// Workers of this server that hold commands of executions owned by other processes.
    remote_claims: BoundedCache<CommandId, WorkerId>,
}

impl Default for ClaimTable {
    fn default() -> Self {
        Self {
            holders: HashMap::new(),
            waiting_claims: VecDeque::new(),
            offer_hints: HashMap::new(),
            offers: HashMap::new(),
            listeners: HashMap::new(),
            listener_uses: 0,
            remote_claims: BoundedCache::new(REMOTE_CLAIMS_MAX),
        }
    }
}

/// Capacity of `elsewhere`. If an entry is evicted, the worker learns from its next report that the command has ended.
const REMOTE_CLAIMS_MAX: u64 = 4_096;

/// An offered command and the tool kinds its step needs.
type OfferEntry = (CommandId, Arc<[Name]>);

struct WaitingClaim {
    request: ClaimRequest,
    reply: oneshot::Sender<Result<Vec<ClaimedCommand>, Error>>,
    /// Assigned commands that are not durable yet.
    assigned: Vec<CommandId>,
    ready_commands: Vec<ClaimedCommand>,
}

impl WaitingClaim {
    /// Whether it still waits and can take a command of this pool and these kinds.
    fn may_take(&self, pool: &Name, kinds: &[Name]) -> bool {
        !self.reply.is_closed()
            && self.request.pool == *pool
            && self.assigned.len() + self.ready_commands.len() < self.request.max as usize
            && serves_kinds(self.request.kinds.as_deref(), kinds)
    }
}

#[derive(Default)]
struct WorkerListener {
    reply: Option<oneshot::Sender<Vec<CommandNotice>>>,
    pending_notices: Vec<CommandNotice>,
    /// Value of `ClaimTable::uses` at the latest use; the smallest is the least recently used.
    last_use: u64,
}

impl WorkerListener {
    fn is_listening(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }
}

/// How many workers without an open long poll are remembered. A worker that is evicted learns of its notices from its
/// next report or heartbeat.
const IDLE_LISTENERS_MAX: usize = 256;

/// Pause before a released command is offered again.
const RELEASE_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Maximum number of pools in `on_offer`. For a pool that is not in it, the store is queried.
const POOLS_MAX: usize = 1_024;

/// Minimum length at which a pool's offers are checked for ended commands; checked again whenever the length has
/// doubled.
const OFFERS_CHECKED_MIN: usize = 1_024;

impl ClaimTable {
    /// Chooses a worker for a command that is being issued: the reporting worker (flag true) or one that waits (flag
    /// false).
    pub(super) fn assign(
        &mut self,
        command: &Command,
        kinds: &[Name],
        hands: Option<&WorkerCapacity>,
        handed: usize,
    ) -> Option<(WorkerId, bool)> {
        if let Some(hands) = hands
            && hands.pool == command.pool
            && handed < hands.free as usize
            && serves_kinds(hands.kinds.as_deref(), kinds)
        {
            self.holders.insert(command.id, hands.worker.clone());
            return Some((hands.worker.clone(), true));
        }
        let fits = |parked: &&mut WaitingClaim| parked.may_take(&command.pool, kinds);
        let parked = self.waiting_claims.iter_mut().find(fits)?;
        parked.assigned.push(command.id);
        self.holders
            .insert(command.id, parked.request.worker.clone());
        Some((parked.request.worker.clone(), false))
    }

    /// Returns all assignments.
    pub(super) fn assignments(&self) -> Assignments {
        let waiting = self
            .waiting_claims
            .iter()
            .flat_map(|parked| &parked.assigned);
        Assignments {
            pending: waiting.copied().collect(),
            claimed: self.holders.keys().copied().collect(),
        }
    }

    /// Removes a command from the claim request it was assigned to, and returns the position of that request.
    fn take_assigned(&mut self, command: CommandId) -> Option<usize> {
        for (position, parked) in self.waiting_claims.iter_mut().enumerate() {
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

    pub(super) fn forget_holder(&mut self, command: CommandId) {
        self.holders.remove(&command);
        self.remote_claims.remove(&command);
    }

    /// Returns a worker's listener. Evicts the least recently used listeners without an open long poll.
    fn listener(&mut self, worker: WorkerId) -> &mut WorkerListener {
        self.listener_uses += 1;
        if self.listeners.len() >= 2 * IDLE_LISTENERS_MAX && !self.listeners.contains_key(&worker) {
            let silent = self
                .listeners
                .values()
                .filter(|known| !known.is_listening());
            let mut used: Vec<u64> = silent.map(|known| known.last_use).collect();
            if used.len() > IDLE_LISTENERS_MAX {
                used.sort_unstable();
                let oldest_kept = used[used.len() - IDLE_LISTENERS_MAX];
                self.listeners
                    .retain(|_, known| known.is_listening() || known.last_use >= oldest_kept);
            }
        }
        let listener = self.listeners.entry(worker).or_default();
        listener.last_use = self.listener_uses;
        listener
    }

    fn is_claimed(&self, command: CommandId) -> bool {
        self.holders.contains_key(&command)
    }

    /// Holder of a command, as far as this process knows.
    pub(super) fn holder(&self, command: CommandId) -> Option<WorkerId> {
        self.holders.get(&command).cloned()
    }

    /// Records that a worker of this server holds these commands of executions owned elsewhere.
    pub(super) fn record_remote_claims(&mut self, worker: &WorkerId, commands: Vec<CommandId>) {
        for command in commands {
            self.remote_claims.insert(command, worker.clone(), 1);
        }
    }

    /// Restores the holders of commands whose closing commit failed.
    pub(super) fn restore_holders(
        &mut self,
        execution: ExecutionId,
        stops: &[(Seq, Option<WorkerId>)],
    ) {
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
    pub(super) fn remote_claims_of(&self, worker: &WorkerId) -> Vec<CommandId> {
        let held = self.remote_claims.iter();
        let held = held.filter(|(_, holder)| *holder == worker);
        held.map(|(command, _)| *command).collect()
    }

    pub(super) fn add_listener(
        &mut self,
        worker: WorkerId,
        reply: oneshot::Sender<Vec<CommandNotice>>,
    ) {
        let listener = self.listener(worker);
        if listener.pending_notices.is_empty() {
            listener.reply = Some(reply);
        } else {
            let _ = reply.send(std::mem::take(&mut listener.pending_notices));
        }
    }

    /// Sends a notice to the holder of a command.
    pub(super) fn notify_holder(&mut self, told: CommandNotice) {
        if let Some(worker) = self.holder(told.command) {
            self.notify_worker(&worker, told);
        }
    }

    /// Sends a notice to a worker.
    pub(super) fn notify_worker(&mut self, worker: &WorkerId, told: CommandNotice) {
        let listener = self.listener(worker.clone());
        listener.pending_notices.push(told);
        if let Some(reply) = listener.reply.take()
            && let Err(untold) = reply.send(std::mem::take(&mut listener.pending_notices))
        {
            listener.pending_notices = untold;
        }
    }
}

impl ExecutionDriver {
    /// Handles a claim request: claims commands from the store if there may be some, otherwise the request waits.
    pub(super) fn claim_commands(
        &mut self,
        ask: ClaimRequest,
        reply: oneshot::Sender<Result<Vec<ClaimedCommand>, Error>>,
    ) {
        self.claim_table
            .waiting_claims
            .retain(|parked| !parked.reply.is_closed() || !parked.assigned.is_empty());
        // For a pool without an entry, the store may have commands from before this process started.
        let on_offer = self
            .claim_table
            .offer_hints
            .get(&ask.pool)
            .copied()
            .unwrap_or(1);
        if on_offer == 0 {
            let parked = WaitingClaim {
                request: ask,
                reply,
                assigned: Vec::new(),
                ready_commands: Vec::new(),
            };
            let pool = parked.request.pool.clone();
            self.claim_table.waiting_claims.push_back(parked);
            return self.assign_offers(&pool);
        }
        let shared = self.shared.clone();
        self.pending_work.push(Box::pin(async move {
            let wanted = store::ClaimQuery {
                worker: ask.worker.clone(),
                pool: ask.pool.clone(),
                max: ask.max,
                // Servers on one store share their workers; a single process leaves the commands of others alone.
                owner: shared.peer_clients.is_none().then(|| shared.owner.clone()),
                kinds: ask.kinds.clone(),
            };
            let claims = shared
                .store
                .claim_commands(&wanted)
                .await
                .map_err(Error::from);
            DriverEvent::CommandsClaimed(claims, ask, reply)
        }));
    }

    /// Handles the commands that the store returned for a claim request.
    pub(super) fn on_claimed(
        &mut self,
        claims: Result<Vec<store::CommandClaim>, Error>,
        ask: ClaimRequest,
        reply: oneshot::Sender<Result<Vec<ClaimedCommand>, Error>>,
    ) {
        let claims = match claims {
            Ok(claims) => claims,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        if self.claim_table.offer_hints.len() >= POOLS_MAX {
            self.claim_table.offer_hints.clear();
        }
        let on_offer = self
            .claim_table
            .offer_hints
            .entry(ask.pool.clone())
            .or_default();
        if claims.len() < ask.max as usize {
            *on_offer = 0;
        } else {
            *on_offer = on_offer.saturating_sub(claims.len());
        }
        if claims.is_empty() {
            return self.claim_commands(ask, reply);
        }
        let mut ready = Vec::new();
        let mut foreign = Vec::new();
        for claim in claims {
            let id = claim.command.id;
            if let Some(claimed) = self.build_claimed(&claim.command, claim.lease_epoch) {
                self.claim_table.holders.insert(id, ask.worker.clone());
                ready.push(claimed);
                continue;
            }
            self.unload_stale(id.execution);
            if self.shared.peer_clients.is_some() {
                self.claim_table.record_remote_claims(&ask.worker, vec![id]);
                foreign.push(ClaimId {
                    command: id,
                    lease_epoch: claim.lease_epoch,
                });
            } else {
                self.release_claim(id, claim.lease_epoch);
            }
        }
        if foreign.is_empty() {
            return self.deliver_commands(ready, ask, reply);
        }
        let shared = self.shared.clone();
        self.pending_work.push(Box::pin(async move {
            let mut fetched = fetch_remote_commands(&shared, &ask.worker, foreign).await;
            fetched.commands.append(&mut ready);
            DriverEvent::CommandsFetched(fetched, ask, reply)
        }));
    }

    /// Handles the commands fetched from other servers.
    pub(super) fn on_commands_fetched(
        &mut self,
        fetched: RemoteCommands,
        ask: ClaimRequest,
        reply: oneshot::Sender<Result<Vec<ClaimedCommand>, Error>>,
    ) {
        for ClaimId {
            command,
            lease_epoch: epoch,
        } in fetched.missing
        {
            self.release_claim(command, epoch);
        }
        self.deliver_commands(fetched.commands, ask, reply);
    }

    /// Sends commands to the worker that requested them; if there are none, the request waits again.
    fn deliver_commands(
        &mut self,
        ready: Vec<ClaimedCommand>,
        ask: ClaimRequest,
        reply: oneshot::Sender<Result<Vec<ClaimedCommand>, Error>>,
    ) {
        if ready.is_empty() {
            return self.claim_commands(ask, reply);
        }
        if let Err(Ok(unwanted)) = reply.send(Ok(ready)) {
            for claimed in unwanted {
                self.release_claim(claimed.command.id, claimed.lease_epoch);
            }
        }
    }

    /// Releases a claim that cannot be used, and loads the execution for the next claim request.
    pub(super) fn release_claim(&mut self, command: CommandId, epoch: LeaseEpoch) {
        self.claim_table.forget_holder(command);
        self.load_if_absent(command.execution);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            if let Err(error) = shared.store.release_claim(command, epoch).await {
                tracing::warn!(%command, %error, "failed to release command; its lease will expire");
            }
            // The execution may still be loading. Offering the command at once would lead to useless claims in a loop.
            tokio::time::sleep(RELEASE_PAUSE).await;
            // If the driver has stopped, no notification is needed.
            let _ = shared
                .driver
                .send(crate::driver::handle::DriverRequest::RecheckOffers)
                .await;
        });
    }

    /// Delivers a command to the waiting worker it was assigned to; the assignment is durable now.
    pub(super) fn deliver_assigned(&mut self, claim: ClaimId) {
        let position = self.claim_table.take_assigned(claim.command);
        // A command that was closed meanwhile is not delivered.
        let claimed = self.build_command(claim);
        match (position, claimed) {
            (Some(position), claimed) => {
                self.claim_table.waiting_claims[position]
                    .ready_commands
                    .extend(claimed);
                self.reply_if_complete(position);
            }
            (None, Some(_)) => self.release_claim(claim.command, claim.lease_epoch),
            (None, None) => {}
        }
    }

    /// Undoes an assignment whose commit failed; the claim request continues without it.
    pub(super) fn unassign(&mut self, command: CommandId) {
        self.claim_table.forget_holder(command);
        if let Some(position) = self.claim_table.take_assigned(command) {
            self.reply_if_complete(position);
        }
    }

    /// Replies to a claim request once all its assignments are durable; a request without commands keeps waiting.
    fn reply_if_complete(&mut self, position: usize) {
        let parked = &self.claim_table.waiting_claims[position];
        if !parked.assigned.is_empty() || parked.ready_commands.is_empty() {
            return;
        }
        let parked = self.claim_table.waiting_claims.remove(position);
        let Some(parked) = parked else { return };
        if let Err(Ok(unwanted)) = parked.reply.send(Ok(parked.ready_commands)) {
            for claimed in unwanted {
                self.release_claim(claimed.command.id, claimed.lease_epoch);
            }
        }
    }

    /// Offers a command to the next claim request.
    pub(super) fn offer_command(&mut self, pool: &Name, kinds: Arc<[Name]>, command: CommandId) {
        let offered = self.claim_table.offers.entry(pool.clone()).or_default();
        offered.push_back((command, kinds));
        if offered.len() >= OFFERS_CHECKED_MIN && offered.len().is_power_of_two() {
            self.remove_stale_offers(pool);
        }
        self.assign_offers(pool);
    }

    /// Assigns offered commands to waiting workers; the assignment is part of the execution's next commit.
    fn assign_offers(&mut self, pool: &Name) {
        let Some(mut offered) = self.claim_table.offers.remove(pool) else {
            return;
        };
        let mut left = VecDeque::new();
        while let Some((command, kinds)) = offered.pop_front() {
            if !self.is_assignable(command) {
                continue;
            }
            let takes = |parked: &WaitingClaim| parked.may_take(pool, &kinds);
            let Some(position) = self.claim_table.waiting_claims.iter().position(takes) else {
                left.push_back((command, kinds));
                if self
                    .claim_table
                    .waiting_claims
                    .iter()
                    .any(|parked| parked.may_take(pool, &[]))
                {
                    continue;
                }
                break;
            };
            let parked = &mut self.claim_table.waiting_claims[position];
            parked.assigned.push(command);
            let worker = parked.request.worker.clone();
            self.claim_table.holders.insert(command, worker.clone());
            self.add_assignment(command, worker);
        }
        left.append(&mut offered);
        if !left.is_empty() {
            self.claim_table.offers.insert(pool.clone(), left);
        }
    }

    /// Removes offers that are no longer valid.
    fn remove_stale_offers(&mut self, pool: &Name) {
        let Some(mut offered) = self.claim_table.offers.remove(pool) else {
            return;
        };
        offered.retain(|(command, _)| self.is_assignable(*command));
        self.claim_table.offers.insert(pool.clone(), offered);
    }

    /// Builds commands for a worker of another server that holds them.
    pub(super) fn build_commands_for(
        &mut self,
        worker: &WorkerId,
        claims: &[ClaimId],
    ) -> Vec<ClaimedCommand> {
        let mut built = Vec::with_capacity(claims.len());
        for claim in claims {
            let command = claim.command;
            // If the execution is not in memory or its state is stale, the next request finds it loaded.
            self.load_if_absent(command.execution);
            if let Some(claimed) = self.build_command(*claim) {
                self.claim_table.holders.insert(command, worker.clone());
                built.push(claimed);
            } else {
                self.unload_stale(command.execution);
            }
        }
        built
    }

    /// Whether a command may be assigned: it is live and unclaimed, and its execution is neither paused nor stopping.
    fn is_assignable(&self, command: CommandId) -> bool {
        let state = self
            .executions
            .get(&command.execution)
            .and_then(|slot| slot.state.as_ref());
        let is_live = state.is_some_and(|state| {
            !state.paused && state.stop.is_none() && state.commands.contains_key(&command.seq)
        });
        is_live && !self.claim_table.is_claimed(command)
    }

    /// Checks the store for offered commands in every pool that workers wait for.
    pub(super) fn recheck_offers(&mut self) {
        // Workers that are busy at the moment send their claim requests later.
        for on_offer in self.claim_table.offer_hints.values_mut() {
            *on_offer = (*on_offer).max(1);
        }
        let pools: Vec<Name> = self
            .claim_table
            .waiting_claims
            .iter()
            .map(|parked| parked.request.pool.clone())
            .collect();
        for pool in pools {
            let on_offer = self
                .claim_table
                .offer_hints
                .entry(pool.clone())
                .or_default();
            *on_offer = (*on_offer).max(1);
            self.wake_waiting_worker(&pool);
        }
    }

    /// Repeats the first claim request of the pool that has no assignments.
    fn wake_waiting_worker(&mut self, pool: &Name) {
        let idle = |parked: &WaitingClaim| {
            parked.request.pool == *pool
                && parked.assigned.is_empty()
                && parked.ready_commands.is_empty()
        };
        let position = self.claim_table.waiting_claims.iter().position(idle);
        if let Some(parked) =
            position.and_then(|position| self.claim_table.waiting_claims.remove(position))
        {
            self.claim_commands(parked.request, parked.reply);
        }
    }
}
