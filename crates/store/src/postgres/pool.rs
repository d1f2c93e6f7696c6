//! The store's pools of connections; their errors become errors of the store.

use std::time::Duration;

use postgres::{
    ConnectTarget, ConnectionPool, Connector, PgSession, PlanMode, PoolOptions, PooledSession, QueryError,
    RESPONSE_MAX, RetrySafety, SqlQuery, SqlValues, TypedValues, durable_settings, limit_response,
};
use tokio_postgres::Row;

use crate::error::Error;
use crate::postgres::query_error::IntoStoreError as _;

/// Maximum time that a caller waits for a pooled connection.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Opens a connection outside of the pools. Its commits are durable when they return.
pub(super) async fn open_session(connector: &Connector, statement_max: Duration) -> Result<PgSession, Error> {
    let settings = durable_settings(statement_max, PlanMode::Custom);
    let opened = connector.open(&settings).await;
    let client = opened.map_err(|error| error.into_store_error(&connector.target))?;
    Ok(PgSession::new(client, PlanMode::Custom))
}

/// Limits the time for a response that the server normally returns at once.
pub(super) async fn limit_wait<T>(connector: &Connector, response: impl Future<Output = T>) -> Result<T, Error> {
    let received = limit_response(response).await;
    received.map_err(|error| error.into_store_error(&connector.target))
}

/// A pool of connections for one kind of caller.
pub(super) struct SessionPool(ConnectionPool);

impl SessionPool {
    pub(super) fn new(connector: Connector, size: usize, statement_max: Duration, plan_mode: PlanMode) -> Self {
        let options = PoolOptions {
            size,
            permit_wait_max: PERMIT_WAIT_MAX,
            settings: durable_settings(statement_max, plan_mode),
            plan_mode,
            statement_max,
            check_after: None,
        };
        Self(ConnectionPool::new(connector, options))
    }

    /// The database.
    pub(super) fn target(&self) -> &ConnectTarget {
        &self.0.connector().target
    }

    /// Takes a connection; waits while all are in use.
    pub(super) async fn acquire(&self) -> Result<PooledSession, QueryError> {
        self.0.acquire(RESPONSE_MAX).await
    }

    /// Runs one statement, once.
    pub(super) async fn query_once(&self, sql: &'static str, values: SqlValues<'_>) -> Result<Vec<Row>, QueryError> {
        self.0.query_once(SqlQuery::Prepared(sql, values)).await
    }

    /// Runs a statement that only reads and is not prepared.
    pub(super) async fn query_typed(&self, sql: &str, values: TypedValues<'_>) -> Result<Vec<Row>, Error> {
        let rows = self
            .0
            .query(RetrySafety::Idempotent, SqlQuery::Typed(sql, values))
            .await;
        rows.map_err(|error| error.into_store_error(self.target()))
    }

    /// Runs one statement, with retries if they can succeed and are safe.
    pub(super) async fn query(
        &self,
        safety: RetrySafety,
        sql: &'static str,
        values: SqlValues<'_>,
    ) -> Result<Vec<Row>, Error> {
        let rows = self.0.query(safety, SqlQuery::Prepared(sql, values)).await;
        rows.map_err(|error| error.into_store_error(self.target()))
    }
}
