//! Monitoring reads in the database. Each operation is one statement; all but the descriptions of workers use the
//! connections of lists, so that they do not delay commits.

use async_trait::async_trait;
use model::id::{Name, WorkerId};
use postgres::{RetrySafety, SqlValues};

use crate::Store as _;
use crate::access::AuditRow;
use crate::columns::Columns as _;
use crate::error::Error;
use crate::monitoring::{
    ClaimedCommandRow, MonitoringStore, PendingCommand, PendingScope, StoreSize, WorkerSessionRow,
};
use crate::postgres::PostgresStore;
use crate::postgres::queries::{query_row, query_rows};
use crate::postgres::rows::{read_row, to_i64};
use crate::rows::SessionHolder;

#[async_trait]
impl MonitoringStore for PostgresStore {
    async fn describe_worker(&self, worker: &WorkerId, holder: &SessionHolder, description: &str) -> Result<(), Error> {
        const DESCRIBE: &str = "UPDATE noetl.session SET description = $3 WHERE worker = $1 AND holder = $2";
        let values: SqlValues<'_> = &[&&*worker.0, &&*holder.0, &description];
        let written = self.work_pool().query(RetrySafety::Idempotent, DESCRIBE, values);
        written.await.map(drop)
    }

    async fn worker_sessions(&self, limit: usize) -> Result<Vec<WorkerSessionRow>, Error> {
        const SESSIONS: &str = "SELECT worker, description, expires_at, expires_at > $1 FROM noetl.session
            ORDER BY expires_at DESC, worker LIMIT $2";
        let values: SqlValues<'_> = &[&self.now().0, &to_i64(limit as u64)];
        query_rows(self.list_pool(), SESSIONS, values, read_row).await
    }

    async fn pending_pools(&self, limit: usize) -> Result<Vec<Name>, Error> {
        const POOLS: &str = "WITH RECURSIVE pools (pool) AS (
                (SELECT c.pool FROM noetl.command c WHERE c.worker IS NULL ORDER BY c.pool LIMIT 1)
                UNION ALL
                SELECT (
                    SELECT c.pool FROM noetl.command c WHERE c.worker IS NULL AND c.pool > p.pool
                    ORDER BY c.pool LIMIT 1
                ) FROM pools p WHERE p.pool IS NOT NULL
            )
            SELECT pool FROM pools WHERE pool IS NOT NULL LIMIT $1";
        query_rows(self.list_pool(), POOLS, &[&to_i64(limit as u64)], |row| row.name(0)).await
    }

    async fn pending_commands(&self, scope: &PendingScope, limit: usize) -> Result<Vec<PendingCommand>, Error> {
        const OF_POOL: &str = "SELECT c.body, array_to_json(c.kinds)::text, c.issued_at, e.name, e.status,
                e.cancelling, e.owner
            FROM noetl.command c JOIN noetl.execution e USING (execution_id)
            WHERE c.worker IS NULL AND c.pool = $1 ORDER BY c.issued_at, c.execution_id, c.seq LIMIT $2";
        const OF_EXECUTION: &str = "SELECT c.body, array_to_json(c.kinds)::text, c.issued_at, e.name, e.status,
                e.cancelling, e.owner
            FROM noetl.command c JOIN noetl.execution e USING (execution_id)
            WHERE c.worker IS NULL AND c.execution_id = $1 ORDER BY c.seq LIMIT $2";
        let limit = to_i64(limit as u64);
        match scope {
            PendingScope::Pool(pool) => {
                query_rows(self.list_pool(), OF_POOL, &[&pool.as_str(), &limit], read_row).await
            }
            PendingScope::Execution(id) => query_rows(self.list_pool(), OF_EXECUTION, &[&id.0, &limit], read_row).await,
        }
    }

    async fn claimed_commands(&self, limit: usize) -> Result<Vec<ClaimedCommandRow>, Error> {
        const CLAIMED: &str = "SELECT c.body, c.worker, nullif(coalesce(c.claimed_at, c.issued_at), 0), s.expires_at,
                e.name
            FROM noetl.command c JOIN noetl.execution e USING (execution_id)
                LEFT JOIN noetl.session s ON s.worker = c.worker
            WHERE c.worker IS NOT NULL ORDER BY c.worker, c.execution_id, c.seq LIMIT $1";
        query_rows(self.list_pool(), CLAIMED, &[&to_i64(limit as u64)], read_row).await
    }

    async fn audit_entries_before(&self, before: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        const PAGE: &str = "SELECT id, at, body, hash FROM noetl.audit WHERE id < $1 ORDER BY id DESC LIMIT $2";
        let values: SqlValues<'_> = &[&to_i64(before), &to_i64(limit as u64)];
        query_rows(self.list_pool(), PAGE, values, read_row).await
    }

    async fn size(&self, executions_max: u64) -> Result<StoreSize, Error> {
        const SIZE: &str = "SELECT (
                SELECT coalesce(sum(pg_total_relation_size(t.oid)), 0)::bigint FROM pg_class t
                WHERE t.relnamespace = 'noetl'::regnamespace AND t.relkind = 'r'
            ), (SELECT count(*) FROM (SELECT 1 FROM noetl.execution LIMIT $1) AS counted)";
        let size = query_row(self.list_pool(), SIZE, &[&to_i64(executions_max)], read_row).await?;
        size.ok_or_else(|| Error::Unavailable("the database returned no size".into()))
    }
}
