//! One connection: its settings, and the statements prepared on it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::query_error::QueryError;

/// How long generic plans are reused. A plan for a tiny table may be slow after the table has grown; a new plan uses
/// the current size.
const PLANS_AGE_MAX: Duration = Duration::from_secs(10);

/// The values of a prepared statement.
pub type SqlValues<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The values of a statement with their types.
pub type TypedValues<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A statement with its values.
#[derive(Clone, Copy)]
pub enum SqlQuery<'a> {
    /// Prepared once per connection.
    Prepared(&'static str, SqlValues<'a>),
    /// Sent with the types of its values, in one round trip.
    Typed(&'a str, TypedValues<'a>),
}

/// How the database plans prepared statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanMode {
    /// One generic plan: for statements that find rows by key.
    Generic,
    /// A plan for the given values: for lists with filters.
    Custom,
}

impl PlanMode {
    /// A generic plan may be made while a table is empty and must not depend on that. Without sorting, the planner can
    /// only use the index that provides the order of a statement.
    fn settings(self) -> &'static str {
        match self {
            Self::Generic => {
                "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;
                 SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off"
            }
            Self::Custom => "SET plan_cache_mode = auto",
        }
    }
}

/// Settings of a connection whose commits are durable when they return.
pub fn durable_settings(statement_max: Duration, plan_mode: PlanMode) -> String {
    format!(
        "SET synchronous_commit = on; SET statement_timeout = {}; SET default_transaction_isolation = 'read committed';
         SET jit = off; {}",
        statement_max.as_millis(),
        plan_mode.settings(),
    )
}

/// One connection and the statements prepared on it.
pub struct PgSession {
    /// The driver's client.
    pub client: Client,
    statements: HashMap<&'static str, Statement>,
    plan_mode: PlanMode,
    planned_at: Instant,
    /// When it was returned to its pool.
    pub(crate) idle_since: Instant,
    /// Set while a response is outstanding, so that a connection whose caller was cancelled is not reused.
    pub(crate) is_busy: bool,
}

impl PgSession {
    /// Wraps a new connection.
    pub fn new(client: Client, plan_mode: PlanMode) -> Self {
        Self {
            client,
            statements: HashMap::new(),
            plan_mode,
            planned_at: monotonic_now(),
            idle_since: monotonic_now(),
            is_busy: false,
        }
    }

    /// Runs a prepared statement.
    pub async fn query(&mut self, sql: &'static str, values: SqlValues<'_>) -> Result<Vec<Row>, QueryError> {
        self.run(SqlQuery::Prepared(sql, values)).await
    }

    pub(crate) async fn run(&mut self, query: SqlQuery<'_>) -> Result<Vec<Row>, QueryError> {
        self.is_busy = true;
        let rows = match query {
            SqlQuery::Prepared(sql, values) => self.query_prepared(sql, values).await,
            SqlQuery::Typed(sql, values) => self.client.query_typed(sql, values).await,
        };
        self.is_busy = false;
        Ok(rows?)
    }

    async fn query_prepared(
        &mut self,
        sql: &'static str,
        values: SqlValues<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if self.plan_mode == PlanMode::Generic && self.planned_at.elapsed() > PLANS_AGE_MAX {
            self.client.batch_execute("DISCARD PLANS").await?;
            self.planned_at = monotonic_now();
        }
        let statement = if let Some(cached) = self.statements.get(sql) {
            cached.clone()
        } else {
            let prepared = self.client.prepare(sql).await?;
            self.statements.insert(sql, prepared.clone());
            prepared
        };
        self.client.query(&statement, values).await
    }
}

/// This machine's monotonic clock.
#[expect(
    clippy::disallowed_methods,
    reason = "measures the age of plans and of idle connections"
)]
pub(crate) fn monotonic_now() -> Instant {
    Instant::now()
}
