//! Claims: commands for workers that request them, and notices for workers that hold them.

use std::collections::VecDeque;
use std::sync::Arc;

use model::command::ClaimId;
use model::id::{CommandId, Name, WorkerId};
use wire::{ClaimedCommand, CommandNotice};

use crate::driver::claim_table::WaitingClaim;
use crate::driver::effect::{Effect, Reply};
use crate::driver::handle::PendingClaim;
use crate::driver::loaded_execution::LoadedExecution;
use crate::driver::machine::DriverMachine;
use crate::driver::remote_commands::RemoteCommands;
use crate::error::Error;

/// Maximum number of pools in `ClaimTable::offer_hints`. For a pool that is not in it, the store is queried.
const POOLS_MAX: usize = 1_024;

/// Minimum length at which a pool's offers are checked for ended commands; checked again whenever the length has
/// doubled.
const OFFERS_CHECKED_MIN: usize = 1_024;

impl DriverMachine {
    /// Handles a claim request: claims commands from the store if there may be some, otherwise the request waits.
    pub(super) fn claim_commands(&mut self, claim: PendingClaim) {
        self.claim_table
            .waiting_claims
            .retain(|waiting| !waiting.claim.reply.is_closed() || !waiting.assigned.is_empty());
        let pool = claim.request.pool.clone();
        // For a pool without an entry, the store may have commands from before this process started.
        if self.claim_table.offer_hints.get(&pool) != Some(&0) {
            return self.effects.push(Effect::ClaimCommands(claim));
        }
        self.claim_table.waiting_claims.push_back(WaitingClaim {
            claim,
            assigned: Vec::new(),
            ready_commands: Vec::new(),
        });
        self.assign_offers(&pool);
    }

    /// Handles the commands that the store returned for a claim request.
    pub(super) fn on_claimed(&mut self, claim: PendingClaim, result: Result<Vec<store::CommandClaim>, Error>) {
        let commands = match result {
            Ok(commands) => commands,
            Err(error) => return self.send(Reply::Claim(claim.reply, Err(error))),
        };
        self.update_offer_hint(&claim, commands.len());
        if commands.is_empty() {
            return self.claim_commands(claim);
        }
        let mut ready = Vec::new();
        let mut missing = Vec::new();
        for store::CommandClaim { command, lease_epoch } in commands {
            let id = command.id;
            let claim_id = ClaimId {
                command: id,
                lease_epoch,
            };
            let worker = &claim.request.worker;
            if let Some(claimed) = self.build_claimed(&command, lease_epoch) {
                self.claim_table.holders.insert(id, worker.clone());
                ready.push(claimed);
                continue;
            }
            self.unload_stale(id.execution);
            if self.settings.has_peers {
                self.claim_table.record_remote_claims(worker, vec![id]);
                missing.push(claim_id);
            } else {
                self.release_claim(claim_id);
            }
        }
        if missing.is_empty() {
            return self.deliver_commands(claim, ready);
        }
        self.effects.push(Effect::FetchCommands { claim, ready, missing });
    }

    /// Updates the upper bound of the pool's unclaimed commands in the store after a claim.
    fn update_offer_hint(&mut self, claim: &PendingClaim, claimed: usize) {
        let hints = &mut self.claim_table.offer_hints;
        if hints.len() >= POOLS_MAX {
            hints.clear();
        }
        let hint = hints.entry(claim.request.pool.clone()).or_default();
        *hint = if claimed < claim.request.max as usize {
            0
        } else {
            hint.saturating_sub(claimed)
        };
    }

    /// Handles the commands fetched from other servers.
    pub(super) fn on_commands_fetched(&mut self, claim: PendingClaim, fetched: RemoteCommands) {
        for claim in fetched.missing {
            self.release_claim(claim);
        }
        self.deliver_commands(claim, fetched.commands);
    }

    /// Sends commands to the worker that requested them; if there are none, the request waits again.
    fn deliver_commands(&mut self, claim: PendingClaim, ready: Vec<ClaimedCommand>) {
        if ready.is_empty() {
            self.claim_commands(claim);
        } else {
            self.send(Reply::Claim(claim.reply, Ok(ready)));
        }
    }

    /// Releases a claim that cannot be used, and loads the execution for the next claim request.
    pub(super) fn release_claim(&mut self, claim: ClaimId) {
        self.claim_table.forget_holder(claim.command);
        self.load_if_absent(claim.command.execution);
        self.effects.push(Effect::ReleaseClaim(claim));
    }

    /// Sends a notice to the holder of a command.
    pub(super) fn notify_holder(&mut self, notice: CommandNotice) {
        if let Some(worker) = self.claim_table.holder(notice.command) {
            self.notify_worker(&worker, notice);
        }
    }

    /// Sends a notice to a worker.
    pub(super) fn notify_worker(&mut self, worker: &WorkerId, notice: CommandNotice) {
        let reply = self.claim_table.add_notice(worker, notice);
        self.effects.extend(reply);
    }

    /// Delivers a command to the waiting worker it was assigned to; the assignment is durable now.
    pub(super) fn deliver_assigned(&mut self, claim: ClaimId) {
        let position = self.claim_table.take_assigned(claim.command);
        // A command that was closed meanwhile is not delivered.
        let claimed = self.build_command(claim);
        match (position, claimed) {
            (Some(position), claimed) => {
                self.claim_table.waiting_claims[position].ready_commands.extend(claimed);
                self.reply_if_complete(position);
            }
            (None, Some(_)) => self.release_claim(claim),
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
        let waiting = &self.claim_table.waiting_claims[position];
        if !waiting.assigned.is_empty() || waiting.ready_commands.is_empty() {
            return;
        }
        if let Some(waiting) = self.claim_table.waiting_claims.remove(position) {
            let commands = Ok(waiting.ready_commands);
            self.send(Reply::Claim(waiting.claim.reply, commands));
        }
    }

    /// Offers a command to the next claim request.
    pub(super) fn offer_command(&mut self, pool: &Name, kinds: Arc<[Name]>, command: CommandId) {
        let offers = self.claim_table.offers.entry(pool.clone()).or_default();
        offers.push_back((command, kinds));
        if offers.len() >= OFFERS_CHECKED_MIN && offers.len().is_power_of_two() {
            self.remove_stale_offers(pool);
        }
        self.assign_offers(pool);
    }

    /// Assigns offered commands to waiting workers; the assignment is part of the execution's next commit.
    fn assign_offers(&mut self, pool: &Name) {
        let Some(mut offers) = self.claim_table.offers.remove(pool) else {
            return;
        };
        let mut unassigned = VecDeque::new();
        while let Some((command, kinds)) = offers.pop_front() {
            if !self.is_assignable(command) {
                continue;
            }
            let accepts = |waiting: &WaitingClaim| waiting.accepts(pool, &kinds);
            let Some(position) = self.claim_table.waiting_claims.iter().position(accepts) else {
                unassigned.push_back((command, kinds));
                if self
                    .claim_table
                    .waiting_claims
                    .iter()
                    .any(|waiting| waiting.accepts(pool, &[]))
                {
                    continue;
                }
                break;
            };
            let waiting = &mut self.claim_table.waiting_claims[position];
            waiting.assigned.push(command);
            let worker = waiting.claim.request.worker.clone();
            self.claim_table.holders.insert(command, worker.clone());
            self.add_assignment(command, worker);
        }
        unassigned.append(&mut offers);
        if !unassigned.is_empty() {
            self.claim_table.offers.insert(pool.clone(), unassigned);
        }
    }

    /// Removes offers that are no longer valid.
    fn remove_stale_offers(&mut self, pool: &Name) {
        let Some(mut offers) = self.claim_table.offers.remove(pool) else {
            return;
        };
        offers.retain(|(command, _)| self.is_assignable(*command));
        self.claim_table.offers.insert(pool.clone(), offers);
    }

    /// Builds commands for a worker of another server that holds them.
    pub(super) fn build_commands_for(&mut self, worker: &WorkerId, claims: &[ClaimId]) -> Vec<ClaimedCommand> {
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
        let loaded = self.executions.get(&command.execution);
        let state = loaded.and_then(LoadedExecution::state);
        let is_live = state
            .is_some_and(|state| !state.paused && state.stop.is_none() && state.commands.contains_key(&command.seq));
        is_live && !self.claim_table.is_claimed(command)
    }

    /// Checks the store for offers commands in every pool that workers wait for.
    pub(super) fn recheck_offers(&mut self) {
        // Workers that are busy at the moment send their claim requests later.
        for hint in self.claim_table.offer_hints.values_mut() {
            *hint = (*hint).max(1);
        }
        let pools: Vec<Name> = self
            .claim_table
            .waiting_claims
            .iter()
            .map(|waiting| waiting.claim.request.pool.clone())
            .collect();
        for pool in pools {
            let hint = self.claim_table.offer_hints.entry(pool.clone()).or_default();
            *hint = (*hint).max(1);
            self.wake_waiting_worker(&pool);
        }
    }

    /// Repeats the first claim request of the pool that has no assignments.
    fn wake_waiting_worker(&mut self, pool: &Name) {
        let idle = |waiting: &WaitingClaim| {
            waiting.claim.request.pool == *pool && waiting.assigned.is_empty() && waiting.ready_commands.is_empty()
        };
        let position = self.claim_table.waiting_claims.iter().position(idle);
        if let Some(waiting) = position.and_then(|position| self.claim_table.waiting_claims.remove(position)) {
            self.claim_commands(waiting.claim);
        }
    }
}
