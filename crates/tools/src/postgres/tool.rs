//! Runs one `postgres` call: binds the command, gets a connection, runs the statements and cancels them on request.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use language::playbook::Effect;
use model::outcome::Outcome;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult, cancelled_error, timeout_error, wait_for_timeout};
use crate::postgres::failure::{PostgresError, connect_timeout_error, timeout_outcome};
use crate::postgres::pool::{PooledConnection, PostgresPools};
use crate::postgres::rows::RowSpool;
use crate::postgres::target::target_from_call;
use crate::postgres::{effect, run, session};
use crate::sql::{SqlDialect, SqlStatement, bind_statements};

/// Default connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the server to cancel a statement.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Settings of the `postgres` tool.
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    /// Maximum number of connections per credential.
    pub connections_max: usize,
    /// Idle connections are closed after this time.
    pub idle_max: Duration,
    /// Databases of NoETL stores that tasks may use: names, or `host:port/name`.
    pub allow: Vec<String>,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            connections_max: 16,
            idle_max: Duration::from_secs(60),
            allow: Vec::new(),
        }
    }
}

/// The `postgres` tool.
pub(crate) struct PostgresTool {
    pools: PostgresPools,
    scratch_dir: PathBuf,
}

/// Why a call is interrupted.
enum InterruptReason {
    Stop,
    Timeout(Duration),
}

/// Flags that the call and its interruption share.
#[derive(Default)]
struct InterruptFlags {
    is_interrupted: AtomicBool,
    /// Whether the connection was returned to the pool; another call may use it, so its statements must not be
    /// cancelled.
    is_released: AtomicBool,
}

impl PostgresTool {
    pub(crate) fn new(config: PostgresConfig, scratch_dir: PathBuf) -> Self {
        Self {
            pools: PostgresPools::new(config),
            scratch_dir,
        }
    }

    /// Runs the statements. The connection is reused only if it is certainly idle: a cancel request may arrive late.
    async fn run_statements(
        &self,
        call: &Call,
        connection: PooledConnection,
        statements: &[SqlStatement],
        flags: &InterruptFlags,
    ) -> Result<Outcome, PostgresError> {
        let is_reusable = session::is_reusable(statements);
        let mut spool = RowSpool::new(call, self.scratch_dir.clone());
        session::prepare_session(connection.client(), call).await?;
        let end = if call.effect == Effect::Transactional {
            let end = effect::run_once(connection.client(), call, statements, spool).await;
            end.map(|outcome| StatementsEnd::Outcome(Box::new(outcome)))
        } else {
            let end = run::run_statements(connection.client(), statements, &mut spool).await;
            end.map(|answers| StatementsEnd::Answers(answers, spool))
        };
        let is_session_intact = end.as_ref().map_or_else(PostgresError::is_server_error, |_| true);
        if is_session_intact && is_reusable && !flags.is_interrupted.load(Ordering::Relaxed) {
            flags.is_released.store(true, Ordering::Relaxed);
            connection.release();
        }
        match end? {
            StatementsEnd::Outcome(outcome) => Ok(*outcome),
            StatementsEnd::Answers(answers, spool) => {
                let outcome = spool.into_outcome(&answers, call.result_writer.as_ref()).await;
                Ok(outcome?)
            }
        }
    }
}

/// Result of the statements.
enum StatementsEnd {
    Outcome(Box<Outcome>),
    Answers(Vec<crate::postgres::rows::StatementAnswer>, RowSpool),
}

#[async_trait]
impl Tool for PostgresTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        let call = &call;
        let target = target_from_call(call)?;
        let statements = bind_statements(call, SqlDialect::Postgres)?;
        run::check_statements(&statements)?;
        if call.effect == Effect::Transactional {
            effect::check_transactional(&statements)?;
        }
        let location = target.location();
        let connect_max = call.timeout.connect.unwrap_or(CONNECT_TIMEOUT);
        let mut timeout = pin!(wait_for_timeout(call.timeout.total));
        let connection = tokio::select! {
            biased;
            connection = self.pools.acquire(target, connect_max) => connection?,
            () = stop.cancelled() => return Err(cancelled_error().with_detail("sent", false)),
            _ = &mut timeout => return Err(connect_timeout_error(&location)),
        };
        let stopper = connection.canceller();
        let flags = InterruptFlags::default();
        let mut work = pin!(self.run_statements(call, connection, &statements, &flags));
        let reason = tokio::select! {
            biased;
            done = &mut work => return Ok(done.unwrap_or_else(PostgresError::into_outcome)),
            () = stop.cancelled() => InterruptReason::Stop,
            limit = &mut timeout => InterruptReason::Timeout(limit),
        };
        flags.is_interrupted.store(true, Ordering::Relaxed);
        if !flags.is_released.load(Ordering::Relaxed) {
            stopper.cancel().await;
        }
        let ended = tokio::time::timeout(STOP_GRACE, work).await;
        Ok(match (ended, reason) {
            // The statements finished before the interruption took effect.
            (Ok(Ok(outcome)), _) => outcome,
            (Ok(Err(failure)), InterruptReason::Timeout(limit)) if failure.is_cancelled() => timeout_outcome(limit),
            (Ok(Err(failure)), _) if !failure.is_cancelled() => failure.into_outcome(),
            (_, InterruptReason::Stop) => Outcome::error(cancelled_error()),
            (_, InterruptReason::Timeout(limit)) => Outcome::error(timeout_error(limit)),
        })
    }
}
