//! The claim table: which worker holds which command, which workers wait for commands, and the notices for workers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::cache::BoundedCache;
use model::command::{Command, serves_kinds};
use model::id::{CommandId, ExecutionId, Name, Seq, WorkerId};
use tokio::sync::oneshot;
use wire::{ClaimedCommand, CommandNotice};

use crate::driver::effect::{Effect, Reply};
use crate::driver::handle::{Assignments, PendingClaim, WorkerCapacity};

/// What the driver knows about workers and their claims.
pub(super) struct ClaimTable {
    /// Holder of each claimed command.
    pub(super) holders: HashMap<CommandId, WorkerId>,
    /// Claim requests that wait for commands, in order of arrival.
    pub(super) waiting_claims: VecDeque<WaitingClaim>,
    /// Upper bound of the unclaimed commands in the store, by pool.
    pub(super) offer_hints: HashMap<Name, usize>,
    /// Commands that this process offered and that no worker has claimed, by pool, oldest first.
    pub(super) offers: HashMap<Name, VecDeque<OfferEntry>>,
    /// Workers that wait for notices, and undelivered notices of workers that do not wait at the moment.
    listeners: HashMap<WorkerId, WorkerListener>,
    /// Counter for `WorkerListener::last_use`.
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

/// Capacity of `ClaimTable::remote_claims`. If an entry is evicted, the worker learns from its next report that the command has ended.
const REMOTE_CLAIMS_MAX: u64 = 4_096;

/// An offered command and the tool kinds its step needs.
pub(super) type OfferEntry = (CommandId, Arc<[Name]>);

/// A claim request that waits for commands.
pub(super) struct WaitingClaim {
    pub(super) claim: PendingClaim,
    /// Assigned commands that are not durable yet.
    pub(super) assigned: Vec<CommandId>,
    pub(super) ready_commands: Vec<ClaimedCommand>,
}

impl WaitingClaim {
    /// Whether it still waits and can take a command of this pool and these kinds.
    pub(super) fn accepts(&self, pool: &Name, kinds: &[Name]) -> bool {
        let request = &self.claim.request;
        !self.claim.reply.is_closed()
            && request.pool == *pool
            && self.assigned.len() + self.ready_commands.len() < request.max as usize
            && serves_kinds(request.kinds.as_deref(), kinds)
    }
}

#[derive(Default)]
struct WorkerListener {
    reply: Option<oneshot::Sender<Vec<CommandNotice>>>,
    pending_notices: Vec<CommandNotice>,
    /// Value of `ClaimTable::listener_uses` at the latest use; the smallest is the least recently used.
    last_use: u64,
}

impl WorkerListener {
    fn is_listening(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// The reply to the worker, if it waits and there are notices for it.
    fn take_reply(&mut self, worker: WorkerId) -> Option<Effect> {
        if self.pending_notices.is_empty() || !self.is_listening() {
            return None;
        }
        let notices = std::mem::take(&mut self.pending_notices);
        let reply = self.reply.take()?;
        Some(Effect::Reply(Reply::Notices(worker, reply, notices)))
    }
}

/// How many workers without an open long poll are remembered. A worker that is evicted learns of its notices from its
/// next report or heartbeat.
const IDLE_LISTENERS_MAX: usize = 256;

impl ClaimTable {
    /// Chooses a worker for a command that is being issued: the reporting worker (flag true) or one that waits (flag
    /// false).
    pub(super) fn assign(
        &mut self,
        command: &Command,
        kinds: &[Name],
        reporter: Option<&WorkerCapacity>,
        assigned_to_reporter: usize,
    ) -> Option<(WorkerId, bool)> {
        if let Some(reporter) = reporter
            && reporter.pool == command.pool
            && assigned_to_reporter < reporter.free as usize
            && serves_kinds(reporter.kinds.as_deref(), kinds)
        {
            self.holders.insert(command.id, reporter.worker.clone());
            return Some((reporter.worker.clone(), true));
        }
        let fits = |waiting: &&mut WaitingClaim| waiting.accepts(&command.pool, kinds);
        let waiting = self.waiting_claims.iter_mut().find(fits)?;
        waiting.assigned.push(command.id);
        let worker = waiting.claim.request.worker.clone();
        self.holders.insert(command.id, worker.clone());
        Some((worker, false))
    }

    /// Returns all assignments.
    pub(super) fn assignments(&self) -> Assignments {
        let pending = self.waiting_claims.iter().flat_map(|waiting| &waiting.assigned);
        Assignments {
            pending: pending.copied().collect(),
            claimed: self.holders.keys().copied().collect(),
        }
    }

    /// Removes a command from the claim request it was assigned to, and returns the position of that request.
    pub(super) fn take_assigned(&mut self, command: CommandId) -> Option<usize> {
        for (position, waiting) in self.waiting_claims.iter_mut().enumerate() {
            let index = waiting.assigned.iter().position(|id| *id == command);
            if let Some(index) = index {
                waiting.assigned.swap_remove(index);
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
        self.holders.retain(|command, _| command.execution != execution);
    }

    pub(super) fn forget_holder(&mut self, command: CommandId) {
        self.holders.remove(&command);
        self.remote_claims.remove(&command);
    }

    /// Returns a worker's listener. Evicts the least recently used listeners without an open long poll.
    fn listener(&mut self, worker: WorkerId) -> &mut WorkerListener {
        self.listener_uses += 1;
        if self.listeners.len() >= 2 * IDLE_LISTENERS_MAX && !self.listeners.contains_key(&worker) {
            let idle = self.listeners.values();
            let idle = idle.filter(|listener| !listener.is_listening());
            let mut uses: Vec<u64> = idle.map(|listener| listener.last_use).collect();
            if uses.len() > IDLE_LISTENERS_MAX {
                uses.sort_unstable();
                let oldest = uses[uses.len() - IDLE_LISTENERS_MAX];
                self.listeners
                    .retain(|_, listener| listener.is_listening() || listener.last_use >= oldest);
            }
        }
        let listener = self.listeners.entry(worker).or_default();
        listener.last_use = self.listener_uses;
        listener
    }

    pub(super) fn is_claimed(&self, command: CommandId) -> bool {
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
    pub(super) fn restore_holders(&mut self, execution: ExecutionId, stops: &[(Seq, Option<WorkerId>)]) {
        for (seq, holder) in stops {
            if let Some(worker) = holder {
                let command = CommandId { execution, seq: *seq };
                self.holders.insert(command, worker.clone());
            }
        }
    }

    /// Commands of executions owned elsewhere that a worker of this server holds, as far as recorded.
    pub(super) fn remote_claims_of(&self, worker: &WorkerId) -> Vec<CommandId> {
        let claims = self.remote_claims.iter();
        let claims = claims.filter(|(_, holder)| *holder == worker);
        claims.map(|(command, _)| *command).collect()
    }

    /// Lets a worker wait for notices. Returns the reply if there are undelivered ones.
    pub(super) fn add_listener(
        &mut self,
        worker: WorkerId,
        reply: oneshot::Sender<Vec<CommandNotice>>,
    ) -> Option<Effect> {
        let listener = self.listener(worker.clone());
        listener.reply = Some(reply);
        listener.take_reply(worker)
    }

    /// Adds a notice for a worker. Returns the reply if the worker waits for notices.
    pub(super) fn add_notice(&mut self, worker: &WorkerId, notice: CommandNotice) -> Option<Effect> {
        let listener = self.listener(worker.clone());
        listener.pending_notices.push(notice);
        listener.take_reply(worker.clone())
    }

    /// Takes back notices that did not reach their worker.
    pub(super) fn restore_notices(&mut self, worker: WorkerId, mut notices: Vec<CommandNotice>) {
        let listener = self.listener(worker);
        notices.append(&mut listener.pending_notices);
        listener.pending_notices = notices;
    }
}
