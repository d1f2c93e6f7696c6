//! Why a command waits: compares it with the workers of the cluster, with the matching of claims.
//!
//! Pure logic. Enters: pending commands, worker sessions, leases and processes, as the store has them. Leaves: a reason
//! for each command, and the queues by pool and kinds.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::command::serves_kinds;
use model::id::{Name, WorkerId};
use model::status::RunStatus;
use store::{ClaimedCommandRow, OwnerId, PendingCommand, StoreProcess, WorkerSessionRow};
use wire::api::{QueueEntry, WaitingCause, WaitingCommand, WaitingReason, WorkerDescription};

/// What decides whether a command can be claimed.
pub(crate) struct WorkerFleet {
    workers: Vec<LiveWorker>,
    live_owners: HashSet<OwnerId>,
}

/// A worker whose session has not expired.
struct LiveWorker {
    description: WorkerDescription,
    leases: u32,
}

impl LiveWorker {
    fn serves_pool(&self, pool: &Name) -> bool {
        self.description.pool.as_ref() == Some(pool)
    }

    fn serves(&self, pool: &Name, kinds: &[Name]) -> bool {
        self.serves_pool(pool) && serves_kinds(self.description.kinds.as_deref(), kinds)
    }

    fn slots(&self) -> u32 {
        self.description.slots.unwrap_or(u32::MAX)
    }
}

/// Reads the description in a session; an older worker has none.
pub(crate) fn parse_description(session: &WorkerSessionRow) -> WorkerDescription {
    let text = session.description.as_deref();
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Counts the commands that each worker holds.
pub(crate) fn count_leases(claimed: &[ClaimedCommandRow]) -> HashMap<&WorkerId, u32> {
    let mut leases = HashMap::new();
    for row in claimed {
        *leases.entry(&row.worker).or_default() += 1;
    }
    leases
}

impl WorkerFleet {
    pub(crate) fn new(
        sessions: &[WorkerSessionRow],
        claimed: &[ClaimedCommandRow],
        processes: &[StoreProcess],
    ) -> Self {
        let leases = count_leases(claimed);
        let live = sessions.iter().filter(|session| session.is_alive);
        let workers = live.map(|session| LiveWorker {
            description: parse_description(session),
            leases: leases.get(&session.worker).copied().unwrap_or(0),
        });
        let live_processes = processes.iter().filter(|process| process.is_alive);
        Self {
            workers: workers.collect(),
            live_owners: live_processes.map(|process| process.owner.clone()).collect(),
        }
    }

    /// Why a command waits: the first cause that applies.
    pub(crate) fn waiting_reason(&self, pending: &PendingCommand) -> WaitingReason {
        self.execution_reason(pending)
            .unwrap_or_else(|| self.worker_reason(pending))
    }

    /// The reason in the state of the execution, if there is one.
    fn execution_reason(&self, pending: &PendingCommand) -> Option<WaitingReason> {
        if pending.status == RunStatus::Paused {
            let remedy = format!("resume it: `noetl resume {}`", pending.command.id.execution);
            return Some(reason(WaitingCause::RunPaused, "the run is paused", Some(remedy)));
        }
        if pending.is_cancelling || pending.status.is_terminal() {
            let detail = "the run is being cancelled or has ended";
            return Some(reason(WaitingCause::RunStopping, detail, None));
        }
        let owner = pending.owner.as_ref()?;
        if self.live_owners.contains(owner) {
            return None;
        }
        let detail = format!("the server `{owner}`, which owns the run, has stopped; another server adopts the run");
        let remedy = "start a server on this store: `noetl serve`".to_owned();
        Some(reason(WaitingCause::OwnerGone, detail, Some(remedy)))
    }

    /// The reason in the workers.
    fn worker_reason(&self, pending: &PendingCommand) -> WaitingReason {
        let (pool, kinds) = (&pending.command.pool, &*pending.kinds);
        let in_pool: Vec<&LiveWorker> = self.workers.iter().filter(|worker| worker.serves_pool(pool)).collect();
        if in_pool.is_empty() {
            return self.pool_reason(pool);
        }
        let matching: Vec<&LiveWorker> = in_pool
            .iter()
            .copied()
            .filter(|worker| worker.serves(pool, kinds))
            .collect();
        if matching.is_empty() {
            return kinds_reason(pool, kinds, &in_pool);
        }
        if matching.iter().all(|worker| worker.leases >= worker.slots()) {
            let slots: u32 = matching
                .iter()
                .map(|worker| worker.slots())
                .fold(0, u32::saturating_add);
            let detail = format!(
                "all {slots} slots of the {} that can run it are in use",
                count_workers(matching.len())
            );
            let remedy = format!("wait, or start another worker: `noetl worker --server URL --pool {pool}`");
            return reason(WaitingCause::NoFreeSlot, detail, Some(remedy));
        }
        let detail = "a worker with a free slot is about to claim it";
        reason(WaitingCause::Starting, detail, None)
    }

    fn pool_reason(&self, pool: &Name) -> WaitingReason {
        let older = self
            .workers
            .iter()
            .filter(|worker| worker.description.pool.is_none())
            .count();
        let mut detail = format!("no worker serves the pool `{pool}`");
        if older > 0 {
            detail += &format!(
                "; {} of an older version may serve it without reporting it",
                count_workers(older)
            );
        }
        let remedy = format!("start one: `noetl worker --server URL --pool {pool}`");
        reason(WaitingCause::NoWorkerInPool, detail, Some(remedy))
    }
}

fn kinds_reason(pool: &Name, kinds: &[Name], in_pool: &[&LiveWorker]) -> WaitingReason {
    let is_served = |kind: &&Name| {
        let kind = std::slice::from_ref(*kind);
        in_pool
            .iter()
            .any(|worker| serves_kinds(worker.description.kinds.as_deref(), kind))
    };
    let missing: Vec<&Name> = kinds.iter().filter(|kind| !is_served(kind)).collect();
    let detail = if missing.is_empty() {
        format!("no worker of the pool `{pool}` serves all of {}", quote(kinds))
    } else {
        format!("no worker of the pool `{pool}` serves {}", quote(missing))
    };
    let names: Vec<&str> = kinds.iter().map(Name::as_str).collect();
    let remedy = format!(
        "start a worker for these kinds: `noetl worker --server URL --pool {pool} --kinds {}`",
        names.join(",")
    );
    reason(WaitingCause::NoWorkerForKinds, detail, Some(remedy))
}

fn quote<'n>(names: impl IntoIterator<Item = &'n Name>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn count_workers(count: usize) -> String {
    match count {
        1 => "1 worker".to_owned(),
        count => format!("{count} workers"),
    }
}

fn reason(cause: WaitingCause, detail: impl Into<String>, remedy: Option<String>) -> WaitingReason {
    WaitingReason {
        cause,
        detail: detail.into(),
        remedy,
    }
}

/// A pending command for responses.
pub(crate) fn to_waiting_command(pending: &PendingCommand, fleet: &WorkerFleet) -> WaitingCommand {
    let command = &pending.command;
    WaitingCommand {
        command_id: command.id,
        execution_id: command.id.execution,
        name: pending.name.clone(),
        step: command.run.step.clone(),
        pool: command.pool.clone(),
        kinds: pending.kinds.clone(),
        issued_at: pending.issued_at,
        reason: fleet.waiting_reason(pending),
    }
}

/// Groups the commands of a pool, oldest first, by the kinds that they need.
pub(crate) fn group_by_kinds(pool: &Name, pending: &[PendingCommand], fleet: &WorkerFleet) -> Vec<QueueEntry> {
    let mut groups: BTreeMap<&[Name], (u32, &PendingCommand)> = BTreeMap::new();
    for command in pending {
        groups.entry(&command.kinds).or_insert((0, command)).0 += 1;
    }
    let to_entry = |(kinds, (commands, oldest)): (&[Name], (u32, &PendingCommand))| QueueEntry {
        pool: pool.clone(),
        kinds: kinds.to_vec(),
        commands,
        oldest_at: oldest.issued_at,
        reason: fleet.waiting_reason(oldest),
    };
    groups.into_iter().map(to_entry).collect()
}

#[cfg(test)]
mod tests;
