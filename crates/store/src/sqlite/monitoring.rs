//! Monitoring reads of the store's SQLite database.

use async_trait::async_trait;
use model::id::{Name, WorkerId};
use rusqlite::params;

use crate::Store as _;
use crate::access::AuditRow;
use crate::columns::Columns as _;
use crate::error::Error;
use crate::monitoring::{
    ClaimedCommandRow, MonitoringStore, PendingCommand, PendingScope, StoreSize, WorkerSessionRow,
};
use crate::rows::SessionHolder;
use crate::sqlite::SqliteStore;
use crate::sqlite::rows::{query_row, query_rows, read_row, to_i64};

const PENDING_COLUMNS: &str = "c.body, c.kinds, c.issued_at, e.name, e.status, e.cancelling, e.owner";

#[async_trait]
impl MonitoringStore for SqliteStore {
    async fn describe_worker(&self, worker: &WorkerId, holder: &SessionHolder, description: &str) -> Result<(), Error> {
        let (worker, holder, description) = (worker.clone(), holder.clone(), description.to_owned());
        self.write(move |db| {
            db.prepare_cached("UPDATE session SET description = ?3 WHERE worker = ?1 AND holder = ?2")?
                .execute(params![&*worker.0, &*holder.0, description])?;
            Ok(())
        })
        .await
    }

    async fn worker_sessions(&self, limit: usize) -> Result<Vec<WorkerSessionRow>, Error> {
        const SESSIONS: &str = "SELECT worker, description, expires_at, expires_at > ?1 FROM session
             ORDER BY expires_at DESC, worker LIMIT ?2";
        let now = self.now();
        self.read(move |db| {
            let values = params![now.0, to_i64(limit as u64)];
            Ok(query_rows(db, SESSIONS, values, read_row)?)
        })
        .await
    }

    async fn pending_pools(&self, limit: usize) -> Result<Vec<Name>, Error> {
        const POOLS: &str = "WITH RECURSIVE pools (pool) AS (
                 SELECT min(pool) FROM command WHERE worker IS NULL
                 UNION ALL
                 SELECT (SELECT min(c.pool) FROM command c WHERE c.worker IS NULL AND c.pool > pools.pool)
                 FROM pools WHERE pools.pool IS NOT NULL
             )
             SELECT pool FROM pools WHERE pool IS NOT NULL LIMIT ?1";
        self.read(move |db| Ok(query_rows(db, POOLS, [to_i64(limit as u64)], |row| row.name(0))?))
            .await
    }

    async fn pending_commands(&self, scope: &PendingScope, limit: usize) -> Result<Vec<PendingCommand>, Error> {
        let from = format!("SELECT {PENDING_COLUMNS} FROM command c JOIN execution e USING (execution_id)");
        let limit = to_i64(limit as u64);
        let scope = scope.clone();
        self.read(move |db| {
            Ok(match scope {
                PendingScope::Pool(pool) => {
                    let sql = format!(
                        "{from} WHERE c.worker IS NULL AND c.pool = ?1
                         ORDER BY c.issued_at, c.execution_id, c.seq LIMIT ?2"
                    );
                    query_rows(db, &sql, params![pool.as_str(), limit], read_row)?
                }
                PendingScope::Execution(id) => {
                    // `+` keeps the planner from reading the pending commands of all executions.
                    let sql = format!("{from} WHERE +c.worker IS NULL AND c.execution_id = ?1 ORDER BY c.seq LIMIT ?2");
                    query_rows(db, &sql, params![id.0, limit], read_row)?
                }
            })
        })
        .await
    }

    async fn claimed_commands(&self, limit: usize) -> Result<Vec<ClaimedCommandRow>, Error> {
        const CLAIMED: &str =
            "SELECT c.body, c.worker, nullif(coalesce(c.claimed_at, c.issued_at), 0), s.expires_at, e.name
             FROM command c JOIN execution e USING (execution_id) LEFT JOIN session s USING (worker)
             WHERE c.worker IS NOT NULL ORDER BY c.worker, c.execution_id, c.seq LIMIT ?1";
        self.read(move |db| Ok(query_rows(db, CLAIMED, [to_i64(limit as u64)], read_row)?))
            .await
    }

    async fn audit_entries_before(&self, before: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        const PAGE: &str = "SELECT id, at, body, hash FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
        self.read(move |db| {
            let values = params![to_i64(before), to_i64(limit as u64)];
            Ok(query_rows(db, PAGE, values, read_row)?)
        })
        .await
    }

    async fn size(&self, executions_max: u64) -> Result<StoreSize, Error> {
        const SIZE: &str =
            "SELECT (SELECT page_count FROM pragma_page_count()) * (SELECT page_size FROM pragma_page_size()),
                 (SELECT count(*) FROM (SELECT 1 FROM execution LIMIT ?1))";
        self.read(move |db| {
            let size = query_row(db, SIZE, [to_i64(executions_max)], read_row)?;
            Ok(size.expect("a query without FROM has one row"))
        })
        .await
    }
}
