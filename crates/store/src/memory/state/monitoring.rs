//! Pending and claimed commands, and the sessions of workers, for operators.

use std::collections::BTreeSet;

use model::id::{Name, WorkerId};
use model::time::Time;

use crate::memory::state::{CommandRecord, ExecutionRecord, MemoryState, REPLACED_CLAIM_TIME};
use crate::monitoring::{ClaimedCommandRow, PendingCommand, PendingScope, WorkerSessionRow};
use crate::rows::SessionHolder;

impl MemoryState {
    pub(in crate::memory) fn describe_worker(&mut self, worker: &WorkerId, holder: &SessionHolder, description: &str) {
        let session = self.sessions.get_mut(worker);
        if let Some(session) = session.filter(|session| session.holder == *holder) {
            session.description = Some(description.to_owned());
        }
    }

    pub(in crate::memory) fn worker_sessions(&self, limit: usize, now: Time) -> Vec<WorkerSessionRow> {
        let sessions = self.sessions.iter().map(|(worker, session)| WorkerSessionRow {
            worker: worker.clone(),
            description: session.description.clone(),
            expires_at: session.expires_at,
            is_alive: session.expires_at > now,
        });
        let mut sessions: Vec<WorkerSessionRow> = sessions.collect();
        sessions.sort_by(|a, b| b.expires_at.cmp(&a.expires_at).then(a.worker.cmp(&b.worker)));
        sessions.truncate(limit);
        sessions
    }

    pub(in crate::memory) fn pending_pools(&self) -> BTreeSet<Name> {
        let pending = self.commands(None).filter(|record| record.worker.is_none());
        pending.map(|record| record.issue.command.pool.clone()).collect()
    }

    pub(in crate::memory) fn pending_commands(&self, scope: &PendingScope, limit: usize) -> Vec<PendingCommand> {
        let is_selected = |record: &CommandRecord| match scope {
            PendingScope::Pool(pool) => record.issue.command.pool == *pool,
            PendingScope::Execution(id) => record.issue.command.id.execution == *id,
        };
        let mut pending: Vec<(&ExecutionRecord, &CommandRecord)> = self
            .executions
            .values()
            .flat_map(|execution| execution.commands.values().map(move |record| (execution, record)))
            .filter(|(_, record)| record.worker.is_none() && is_selected(record))
            .collect();
        pending.sort_by_key(|(_, record)| match scope {
            PendingScope::Pool(_) => record.issue_order,
            PendingScope::Execution(_) => record.issue.command.id.seq.0,
        });
        pending.truncate(limit);
        let to_row = |(execution, record): (&ExecutionRecord, &CommandRecord)| PendingCommand {
            command: record.issue.command.clone(),
            kinds: record.issue.kinds.clone(),
            issued_at: record.issued_at,
            name: execution.row.name.clone(),
            status: execution.row.status,
            is_cancelling: execution.row.cancelling,
            owner: execution.row.owner.clone(),
        };
        pending.into_iter().map(to_row).collect()
    }

    pub(in crate::memory) fn claimed_commands(&self, limit: usize) -> Vec<ClaimedCommandRow> {
        let executions = self.executions.values();
        let records =
            executions.flat_map(|execution| execution.commands.values().map(move |record| (execution, record)));
        let claimed = records.filter_map(|(execution, record)| {
            let worker = record.worker.clone()?;
            Some(ClaimedCommandRow {
                command: record.issue.command.clone(),
                expires_at: self.sessions.get(&worker).map(|session| session.expires_at),
                claimed_at: Some(record.claimed_at).filter(|time| *time != REPLACED_CLAIM_TIME),
                name: execution.row.name.clone(),
                worker,
            })
        });
        let mut claimed: Vec<ClaimedCommandRow> = claimed.collect();
        claimed.sort_by(|a, b| (&a.worker, a.command.id).cmp(&(&b.worker, b.command.id)));
        claimed.truncate(limit);
        claimed
    }
}
