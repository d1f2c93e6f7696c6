//! Background sweeps: fire due timers, release claims of dead workers, adopt executions. Notifications only make them
//! run earlier.

use std::sync::Arc;
use std::time::Duration;

use engine::Input;
use store::{MessageKey, OldRows, Priority, RemovedRows};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::ServerShared;
use crate::control;
use crate::driver::{DriverRequest, InputAttachments};
use crate::error::Error;
use crate::inbox;
use crate::publish;
use crate::transport::SESSION_TTL;

/// How long a sweep sleeps if no notification arrives.
pub(crate) const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a check for offered commands.
const POLL_PAUSE: Duration = Duration::from_millis(5);
/// If a claim sweep is this late, the store or this process was stalled.
const STANDSTILL: Duration = Duration::from_secs(5);
/// Maximum number of timers or messages per sweep.
pub(crate) const BATCH_MAX: usize = 256;

/// How often old rows are removed, and how many of each kind at once.
const OLD_ROWS_EVERY: Duration = Duration::from_secs(600);
const OLD_ROWS_AT_ONCE: u32 = 1_000;
/// While old rows remain, the removal pauses for this multiple of its own duration.
const REMOVAL_PAUSE: u32 = 4;
/// How long the session of a worker is retained after its end, so that lists can show what happened to the worker.
const SESSIONS_RETAINED: Duration = Duration::from_secs(24 * 3_600);
/// How long records of external requests are retained: a `dedup` key after the end of its execution, the state and
/// idempotency key of an asynchronous batch after its end, and the response to a control request. Clients repeat a
/// request within minutes or hours; a key that is used again after a week belongs to another request.
const REQUESTS_RETAINED: Duration = Duration::from_secs(7 * 24 * 3_600);
/// How long the key of a consumed message between executions is retained. Only the server that committed the message
/// can send it again, during the seconds in which it retries a commit whose response was lost.
const MESSAGES_RETAINED: Duration = Duration::from_secs(3_600);

/// Notifications that wake the sweeps early.
#[derive(Default)]
pub(crate) struct SweepSignals {
    /// A timer was set or removed.
    pub(crate) timers: Notify,
    /// A message was sent.
    pub(crate) messages: Notify,
    /// Events are ready to be published.
    pub(crate) outbox: Notify,
}

/// Starts the sweeps; they end when the server stops.
pub(crate) fn spawn_tasks(shared: &Arc<ServerShared>) -> Vec<BackgroundTask> {
    let mut parts = vec![
        BackgroundTask::spawn("timer sweep", shared, run_timers(shared.clone())),
        BackgroundTask::spawn("message sweep", shared, inbox::run_inbox(shared.clone())),
        BackgroundTask::spawn("claim sweep", shared, run_claim_sweep(shared.clone())),
    ];
    if shared.may_adopt {
        let old_rows = remove_old_rows(shared.clone());
        parts.push(BackgroundTask::spawn("removal of old rows", shared, old_rows));
        let adoption = adopt_abandoned(shared.clone());
        parts.push(BackgroundTask::spawn("adoption sweep", shared, adoption));
    }
    if let Some(bus) = &shared.bus {
        let publishing = publish::run_publisher(shared.clone(), bus.clone());
        parts.push(BackgroundTask::spawn("event publisher", shared, publishing));
        let notification_forwarding = publish::forward_notifications(shared.clone(), bus.clone());
        parts.push(BackgroundTask::spawn("bus listener", shared, notification_forwarding));
    }
    let offers = watch_offers(shared.clone());
    parts.push(BackgroundTask::spawn("offer sweep", shared, offers));
    parts
}

/// A background task that runs until the server stops.
pub(crate) struct BackgroundTask {
    name: &'static str,
    task: JoinHandle<()>,
}

impl BackgroundTask {
    /// Spawns the task.
    pub(crate) fn spawn(
        name: &'static str,
        shared: &Arc<ServerShared>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let task = tokio::spawn(run_until_stopped(shared.clone(), work));
        Self { name, task }
    }

    /// Name of the task, if it ended while the server is running.
    pub(crate) fn dead_name(&self) -> Option<&'static str> {
        self.task.is_finished().then_some(self.name)
    }
}

/// Removes rows whose retention has passed, in batches with pauses between them, so that commits are not delayed.
async fn remove_old_rows(shared: Arc<ServerShared>) {
    loop {
        let now = shared.store.now();
        let old = OldRows {
            sessions_before: now.before(SESSIONS_RETAINED),
            requests_before: now.before(REQUESTS_RETAINED),
            messages_before: now.before(MESSAGES_RETAINED),
            limit: OLD_ROWS_AT_ONCE,
        };
        let started = Instant::now();
        let wait = match shared.store.remove_old_rows(old).await {
            Ok(rows) => {
                metrics::counter!(crate::metrics::OLD_ROWS_REMOVED).increment(rows.removed);
                if rows == RemovedRows::default() {
                    OLD_ROWS_EVERY
                } else {
                    started.elapsed() * REMOVAL_PAUSE
                }
            }
            Err(error) => {
                tracing::warn!(%error, "failed to remove old rows; retrying later");
                OLD_ROWS_EVERY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Adopts the executions of dead servers.
async fn adopt_abandoned(shared: Arc<ServerShared>) {
    loop {
        match shared.store.abandoned_executions().await {
            Ok(abandoned) => {
                for execution in abandoned {
                    if let Err(error) = control::adopt(&shared, execution, Priority::Normal).await {
                        tracing::warn!(%execution, %error, "failed to adopt execution; retrying");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "failed to list abandoned executions; retrying"),
        }
        tokio::time::sleep(IDLE_PAUSE).await;
    }
}

/// Notifies waiting workers of this server when other processes offer or release commands.
async fn watch_offers(shared: Arc<ServerShared>) {
    let has_peers = shared.peer_clients.is_some();
    loop {
        tokio::select! {
            () = tokio::time::sleep(IDLE_PAUSE) => {}
            // A server without peers claims only commands of its own executions, and its driver knows those. Only a
            // process that owned such an execution before can release one.
            () = shared.store.wait_for_change(), if has_peers => {}
        }
        if shared.driver.send(DriverRequest::RecheckOffers).await.is_err() {
            return;
        }
        // Under load, one check covers many changes.
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

async fn run_until_stopped(shared: Arc<ServerShared>, sweep: impl Future<Output = ()>) {
    tokio::select! {
        () = sweep => {}
        () = shared.stop.cancelled() => {}
    }
}

/// Fires due timers.
async fn run_timers(shared: Arc<ServerShared>) {
    loop {
        if let Err(error) = fire_due_timers(&shared).await {
            tracing::warn!(%error, "failed to fire due timers; retrying");
        }
        let until = shared.store.now().after(IDLE_PAUSE);
        let next = shared.store.next_timer(Some(&shared.owner), until).await;
        let next = next.ok().flatten();
        let wait = next.map_or(IDLE_PAUSE, |due| due.since(shared.store.now()).min(IDLE_PAUSE));
        tokio::select! {
            () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
            () = shared.sweep_signals.timers.notified() => {}
        }
    }
}

async fn fire_due_timers(shared: &ServerShared) -> Result<(), Error> {
    for (execution, timer) in shared.store.due_timers(Some(&shared.owner), BATCH_MAX).await? {
        let fired = Input::TimerDue(timer);
        let delivered = shared
            .driver
            .apply_if_valid(execution, fired, InputAttachments::default());
        delivered.await?;
    }
    Ok(())
}

/// Applies an input to an execution and consumes the message that carried it, if any.
pub(crate) async fn apply_input(
    shared: &ServerShared,
    to: model::id::ExecutionId,
    input: Input,
    consumed: Option<MessageKey>,
) -> Result<(), Error> {
    let extras = InputAttachments::from_message(consumed);
    shared.driver.apply_if_valid(to, input, extras).await
}

/// Finds claims of dead workers and commands that no worker has claimed in time.
async fn run_claim_sweep(shared: Arc<ServerShared>) {
    let mut last = Instant::now();
    let mut spared_until = None;
    loop {
        tokio::time::sleep(IDLE_PAUSE).await;
        // While the store was not writable, workers could not renew their sessions, so each session gets one more TTL.
        if last.elapsed() > STANDSTILL {
            spared_until = Some(Instant::now() + SESSION_TTL);
        }
        let is_sparing = spared_until.is_some_and(|until| Instant::now() < until);
        match sweep_claims(&shared, is_sparing).await {
            Ok(()) => last = Instant::now(),
            Err(error) => tracing::warn!(%error, "failed to look for lost claims; retrying"),
        }
    }
}

async fn sweep_claims(shared: &ServerShared, is_sparing: bool) -> Result<(), Error> {
    let lost_claims = shared.store.lost_claims(Some(&shared.owner)).await?;
    for claim in lost_claims.into_iter().filter(|_| !is_sparing) {
        metrics::counter!(crate::metrics::CLAIMS_LOST).increment(1);
        let input = Input::ClaimLost {
            command: claim.command.seq,
            worker: claim.worker,
            lease_epoch: claim.lease_epoch,
            is_strike: true,
        };
        shared.driver.send(DriverRequest::ForgetHolder(claim.command)).await?;
        apply_input(shared, claim.command.execution, input, None).await?;
    }
    for command in shared.store.overdue_commands(Some(&shared.owner)).await? {
        apply_input(shared, command.execution, Input::CommandOverdue(command.seq), None).await?;
    }
    Ok(())
}
