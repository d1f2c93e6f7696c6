//! Runs one `postgres` call: binds the command, gets a connection, runs the statements and cancels them on request.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{Outcome, TaskError};
use model::playbook::Effect;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, cancelled, elapsed, timed_out};
use crate::postgres::failure::{Failure, silent, too_slow};
use crate::postgres::pool::{Lease, Pools};
use crate::postgres::rows::Spool;
use crate::postgres::target::Target;
use crate::postgres::{effect, run, session};
use crate::sql::{Dialect, Statement, statements};

/// Default connect timeout.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Time that the server gets to cancel a statement.
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
pub(crate) struct Postgres {
    pools: Pools,
    scratch_dir: PathBuf,
}

/// Why a call is interrupted.
enum Why {
    Stop,
    Time(Duration),
}

/// Flags that the call and its interruption share.
#[derive(Default)]
struct Hold {
    interrupted: AtomicBool,
    /// Whether the connection was returned to the pool; another call may use it, so its statements must not be
    /// cancelled.
    given_back: AtomicBool,
}

impl Postgres {
    pub(crate) fn new(config: PostgresConfig, scratch_dir: PathBuf) -> Self {
        Self {
            pools: Pools::new(config),
            scratch_dir,
        }
    }

    async fn run(&self, call: &Call, stop: &CancellationToken) -> Result<Outcome, TaskError> {
        let target = Target::of(call)?;
        let statements = statements(call, Dialect::Postgres)?;
        run::check(&statements)?;
        if call.effect == Effect::Transactional {
            effect::check(&statements)?;
        }
        let place = target.place();
        let connect_max = call.timeout.connect.unwrap_or(CONNECT_MAX);
        let mut over = pin!(elapsed(call.timeout.total));
        let lease = tokio::select! {
            biased;
            lease = self.pools.lease(target, connect_max) => lease?,
            () = stop.cancelled() => return Err(cancelled().with("sent", false)),
            _ = &mut over => return Err(silent(&place)),
        };
        let stopper = lease.stopper();
        let hold = Hold::default();
        let mut work = pin!(self.work(call, lease, &statements, &hold));
        let why = tokio::select! {
            biased;
            done = &mut work => return Ok(done.unwrap_or_else(Failure::outcome)),
            () = stop.cancelled() => Why::Stop,
            limit = &mut over => Why::Time(limit),
        };
        hold.interrupted.store(true, Ordering::Relaxed);
        if !hold.given_back.load(Ordering::Relaxed) {
            stopper.stop().await;
        }
        let ended = tokio::time::timeout(STOP_GRACE, work).await;
        Ok(match (ended, why) {
            // The statements finished before the interruption took effect.
            (Ok(Ok(outcome)), _) => outcome,
            (Ok(Err(failure)), Why::Time(limit)) if failure.is_stop() => too_slow(limit),
            (Ok(Err(failure)), _) if !failure.is_stop() => failure.outcome(),
            (_, Why::Stop) => Outcome::error(cancelled()),
            (_, Why::Time(limit)) => Outcome::error(timed_out(limit)),
        })
    }

    /// Runs the statements. The connection is reused only if it is certainly idle: a cancel request may arrive late.
    async fn work(
        &self,
        call: &Call,
        lease: Lease,
        statements: &[Statement],
        hold: &Hold,
    ) -> Result<Outcome, Failure> {
        let is_reusable = session::is_reusable(statements);
        let mut spool = Spool::new(call, self.scratch_dir.clone());
        session::prepare(lease.client(), call).await?;
        let done = if call.effect == Effect::Transactional {
            let done = effect::once(lease.client(), call, statements, spool).await;
            done.map(|outcome| Done::Outcome(Box::new(outcome)))
        } else {
            let done = run::run(lease.client(), statements, &mut spool).await;
            done.map(|answers| Done::Answers(answers, spool))
        };
        let is_well = done.as_ref().map_or_else(Failure::is_answer, |_| true);
        if is_well && is_reusable && !hold.interrupted.load(Ordering::Relaxed) {
            hold.given_back.store(true, Ordering::Relaxed);
            lease.give_back();
        }
        match done? {
            Done::Outcome(outcome) => Ok(*outcome),
            Done::Answers(answers, spool) => {
                let outcome = spool.outcome(&answers, call.keeper.as_ref()).await;
                Ok(outcome?)
            }
        }
    }
}

/// Result of the statements.
enum Done {
    Outcome(Box<Outcome>),
    Answers(Vec<crate::postgres::rows::Answer>, Spool),
}

#[async_trait]
impl Tool for Postgres {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, _log: &dyn LogSink) -> Outcome {
        match self.run(&call, &stop).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::error(error),
        }
    }
}
