//! Updates the schema with numbered migration files, one process at a time.

use std::time::Duration;

use postgres::{ConnectTarget, Connector, QueryError};
use tokio_postgres::Client;

use crate::error::Error;
use crate::postgres::iterations;
use crate::postgres::pool::open_session;
use crate::postgres::query_error::IntoStoreError as _;
use crate::postgres::waits;

/// Numbered from 1; never edited.
const MIGRATIONS: [&str; 14] = [
    include_str!("../../migrations/postgres/0001_log_commands_projections.sql"),
    include_str!("../../migrations/postgres/0002_bodies_and_task_logs.sql"),
    include_str!("../../migrations/postgres/0003_credentials_keychain.sql"),
    include_str!("../../migrations/postgres/0004_append_one.sql"),
    include_str!("../../migrations/postgres/0005_rows_by_key.sql"),
    include_str!("../../migrations/postgres/0006_traces_and_task_runs.sql"),
    include_str!("../../migrations/postgres/0007_retention_plans_clock.sql"),
    include_str!("../../migrations/postgres/0008_session_holders.sql"),
    include_str!("../../migrations/postgres/0009_iterations.sql"),
    include_str!("../../migrations/postgres/0010_loop_tasks_and_keychain.sql"),
    include_str!("../../migrations/postgres/0011_publishers.sql"),
    include_str!("../../migrations/postgres/0012_worker_descriptions.sql"),
    include_str!("../../migrations/postgres/0013_labels_and_list_indexes.sql"),
    include_str!("../../migrations/postgres/0014_pending_waits.sql"),
];

/// Earlier schemas have no index of iterations, or only a part of it.
const FIRST_WITH_ITERATIONS: u32 = 10;

/// Earlier schemas do not list what waits for a signal.
const FIRST_WITH_WAITS: u32 = 14;

/// Lock of the process that migrates.
const LOCK: &str = "SELECT pg_advisory_xact_lock(5642813375)";

/// Maximum duration of a migration.
const MIGRATION_MAX: Duration = Duration::from_secs(600);

/// Updates the schema; refuses one that is newer than this binary.
pub(super) async fn migrate(connector: &Connector) -> Result<(), Error> {
    let target = &connector.target;
    let mut session = open_session(connector, MIGRATION_MAX).await?;
    let latest_version = u32::try_from(MIGRATIONS.len()).expect("the number of migrations fits into u32");
    let to_store_error = |error: tokio_postgres::Error| QueryError::from(error).into_store_error(target);
    let mut version = schema_version(&session.client).await.map_err(to_store_error)?;
    if version < latest_version {
        let transaction = session.client.transaction().await.map_err(to_store_error)?;
        transaction.batch_execute(LOCK).await.map_err(to_store_error)?;
        version = schema_version(transaction.client()).await.map_err(to_store_error)?;
        for (number, sql) in (1_i32..).zip(MIGRATIONS).skip(version as usize) {
            if number == 1 {
                let begin_sql =
                    "CREATE SCHEMA IF NOT EXISTS noetl; CREATE TABLE noetl.migration (version integer PRIMARY KEY)";
                transaction.batch_execute(begin_sql).await.map_err(to_store_error)?;
            }
            transaction.batch_execute(sql).await.map_err(to_store_error)?;
            let done = "INSERT INTO noetl.migration (version) VALUES ($1)";
            transaction.execute(done, &[&number]).await.map_err(to_store_error)?;
        }
        if (1..FIRST_WITH_ITERATIONS).contains(&version) {
            let indexed = iterations::index_old_logs(&transaction).await;
            indexed.map_err(|query_error| query_error.into_store_error(target))?;
        }
        if (1..FIRST_WITH_WAITS).contains(&version) {
            let listed = waits::list_old_waits(&transaction).await;
            listed.map_err(|query_error| query_error.into_store_error(target))?;
        }
        transaction.commit().await.map_err(to_store_error)?;
    }
    check_version(target, version, latest_version)
}

fn check_version(target: &ConnectTarget, version: u32, latest_version: u32) -> Result<(), Error> {
    if version > latest_version {
        return Err(Error::SchemaTooNew {
            file: target.location().into(),
            version,
            supported: latest_version,
        });
    }
    Ok(())
}

/// The number of the last migration; 0 in an empty database.
async fn schema_version(client: &Client) -> Result<u32, tokio_postgres::Error> {
    // Queries the catalog, because a name lookup may use data that was cached before the lock was acquired.
    let table = "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'noetl' AND c.relname = 'migration')";
    let exists: bool = client.query_one(table, &[]).await?.try_get(0)?;
    if !exists {
        return Ok(0);
    }
    let latest = "SELECT coalesce(max(version), 0) FROM noetl.migration";
    let version: i32 = client.query_one(latest, &[]).await?.try_get(0)?;
    Ok(u32::try_from(version).unwrap_or(0))
}
