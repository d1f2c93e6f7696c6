//! Monitoring reads of a store in memory.

use async_trait::async_trait;
use model::id::{Name, WorkerId};

use crate::Store as _;
use crate::access::AuditRow;
use crate::error::Error;
use crate::memory::MemoryStore;
use crate::monitoring::{
    ClaimedCommandRow, MonitoringStore, PendingCommand, PendingScope, StoreSize, WorkerSessionRow,
};
use crate::rows::SessionHolder;

#[async_trait]
impl MonitoringStore for MemoryStore {
    async fn describe_worker(&self, worker: &WorkerId, holder: &SessionHolder, description: &str) -> Result<(), Error> {
        self.state().describe_worker(worker, holder, description);
        Ok(())
    }

    async fn worker_sessions(&self, limit: usize) -> Result<Vec<WorkerSessionRow>, Error> {
        Ok(self.state().worker_sessions(limit, self.now()))
    }

    async fn pending_pools(&self, limit: usize) -> Result<Vec<Name>, Error> {
        let pools = self.state().pending_pools();
        Ok(pools.into_iter().take(limit).collect())
    }

    async fn pending_commands(&self, scope: &PendingScope, limit: usize) -> Result<Vec<PendingCommand>, Error> {
        Ok(self.state().pending_commands(scope, limit))
    }

    async fn claimed_commands(&self, limit: usize) -> Result<Vec<ClaimedCommandRow>, Error> {
        Ok(self.state().claimed_commands(limit))
    }

    async fn audit_entries_before(&self, before: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        let state = self.state();
        let entries = state.admin.audit_trail.iter().rev().filter(|row| row.id < before);
        Ok(entries.take(limit).cloned().collect())
    }

    async fn size(&self, executions_max: u64) -> Result<StoreSize, Error> {
        let executions = self.state().executions.len() as u64;
        Ok(StoreSize {
            bytes: 0,
            executions: executions.min(executions_max),
        })
    }
}
