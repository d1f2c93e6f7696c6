//! The connections to the database of bodies and task logs.

use std::time::Duration;

use postgres::{
    ConnectionPool, Connector, PlanMode, PoolOptions, QueryError, RetrySafety, SqlQuery, TypedValues, durable_settings,
};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::Error;

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 6;
/// How long a caller waits for a free connection.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(30);
/// Timeout of a statement; each transfers at most a few chunks.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Connection pool.
pub(super) struct StatementPool(ConnectionPool);

impl StatementPool {
    pub(super) fn new(connector: Connector) -> Self {
        let options = PoolOptions {
            size: CONNECTIONS_MAX,
            permit_wait_max: PERMIT_WAIT_MAX,
            settings: durable_settings(STATEMENT_TIMEOUT, PlanMode::Custom),
            plan_mode: PlanMode::Custom,
            statement_max: STATEMENT_TIMEOUT,
            check_after: None,
        };
        Self(ConnectionPool::new(connector, options))
    }

    /// Host, port and database.
    pub(super) fn location(&self) -> String {
        self.0.connector().target.location()
    }

    /// Runs an idempotent statement; retries transient errors.
    pub(super) async fn query(&self, sql: &str, values: TypedValues<'_>) -> Result<Vec<Row>, Error> {
        let query = SqlQuery::Typed(sql, values);
        let rows = self.0.query(RetrySafety::Idempotent, query).await;
        rows.map_err(|error| self.store_error(error))
    }

    fn store_error(&self, error: QueryError) -> Error {
        let file = self.location().into();
        match error {
            QueryError::Permanent(error) if error.code() == Some(&SqlState::DISK_FULL) => Error::Full { file },
            error => Error::Unavailable {
                file,
                source: std::io::Error::other(error),
            },
        }
    }
}
