//! The shell around the machine: receives requests, performs the effects of the machine, and returns their results
//! to it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use model::command::ClaimId;
use model::id::EventId;
use model::time::Time;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::ServerShared;
use crate::driver::effect::{DecisionTask, DriverInput, Effect, Reply, StampSource, Sweep, Ticket};
use crate::driver::handle::{CommitNotice, DriverRequest, PendingClaim};
use crate::driver::hooks::Hooks;
use crate::driver::machine::{DriverMachine, DriverSettings};
use crate::driver::remote_commands::fetch_remote_commands;
use crate::driver::write_batch::write_batch;
use crate::error::Error;
use crate::loading;

/// Maximum number of requests that are handled before their decisions are committed together.
const REQUESTS_AT_ONCE_MAX: usize = 256;

/// Pause before a released command is offered again. Its execution may still be loading; offering the command at once
/// would lead to useless claims in a loop.
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// Performs the effects of the machine.
struct DriverShell {
    shared: Arc<ServerShared>,
    pending_work: FuturesUnordered<BoxFuture<'static, DriverInput>>,
}

/// Runs until every handle is dropped or the server stops.
pub(crate) async fn run(shared: Arc<ServerShared>, mut requests: mpsc::Receiver<DriverRequest>, hooks: Hooks) {
    let stop = shared.stop.clone();
    let mut machine = DriverMachine::new(
        DriverSettings {
            owner: shared.owner.clone(),
            has_peers: shared.peer_clients.is_some(),
            has_bus: shared.bus.is_some(),
            hooks,
        },
        Box::new(StoreStamps {
            store: shared.store.clone(),
            started_at: Instant::now(),
        }),
    );
    let mut shell = DriverShell {
        shared,
        pending_work: FuturesUnordered::new(),
    };
    // This future never completes. Without it, `FuturesUnordered` wakes its task again after polling all futures, and
    // a single pending future would be polled twice, often by another thread the second time.
    shell.pending_work.push(Box::pin(std::future::pending()));
    let mut received = Vec::with_capacity(REQUESTS_AT_ONCE_MAX);
    let in_memory = metrics::gauge!(crate::metrics::EXECUTIONS_IN_MEMORY);
    loop {
        tokio::select! {
            biased;
            Some(input) = shell.pending_work.next() => machine.handle(input),
            count = requests.recv_many(&mut received, REQUESTS_AT_ONCE_MAX) => {
                if count == 0 {
                    break;
                }
                for request in received.drain(..) {
                    machine.handle(DriverInput::Request(request));
                }
            }
            () = stop.cancelled() => break,
        }
        shell.perform_effects(&mut machine);
        in_memory.set(f64::from(u32::try_from(machine.execution_count()).unwrap_or(u32::MAX)));
    }
}

impl DriverShell {
    /// Performs effects until the machine has no more of them.
    fn perform_effects(&mut self, machine: &mut DriverMachine) {
        loop {
            let effects = machine.finish_step();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                if let Some(input) = self.perform(effect) {
                    machine.handle(input);
                }
            }
        }
    }

    /// Performs an effect. Returns an input if the result is known at once.
    fn perform(&mut self, effect: Effect) -> Option<DriverInput> {
        match effect {
            Effect::LoadExecution(ticket, checks) => {
                let shared = self.shared.clone();
                self.await_input(async move {
                    let result = loading::reload_execution(&shared, ticket.execution, checks);
                    DriverInput::ExecutionLoaded(ticket, result.await)
                });
            }
            Effect::LoadNeeds(ticket, needs, loaded) => {
                let shared = self.shared.clone();
                self.await_input(async move {
                    let result = loading::load_needs(&shared, ticket.execution, needs, loaded);
                    DriverInput::NeedsLoaded(ticket, result.await)
                });
            }
            Effect::WriteBatch(batch) => {
                let shared = self.shared.clone();
                self.await_input(async move { DriverInput::BatchWritten(write_batch(&shared, batch).await) });
            }
            Effect::DecideOnThread(ticket, task) => self.decide_on_thread(ticket, *task),
            Effect::ClaimCommands(claim) => self.claim_commands(claim),
            Effect::FetchCommands {
                claim,
                mut ready,
                missing,
            } => {
                let shared = self.shared.clone();
                self.await_input(async move {
                    let worker = &claim.request.worker;
                    let mut fetched = fetch_remote_commands(&shared, worker, missing).await;
                    fetched.commands.append(&mut ready);
                    DriverInput::CommandsFetched(claim, fetched)
                });
            }
            Effect::ReleaseClaim(claim) => self.release_claim(claim),
            Effect::ArmTimer(after, timer) => self.await_input(async move {
                tokio::time::sleep(after).await;
                DriverInput::TimerDue(timer)
            }),
            Effect::Reply(reply) => return send_reply(reply),
            Effect::Wake(sweep) => self.wake(sweep),
            Effect::NotifyPool(pool) => {
                if let Some(bus) = self.shared.bus.clone() {
                    tokio::spawn(async move { bus.notify_pool(&pool).await });
                }
            }
            Effect::PublishCommit(notice) => self.publish_commit(notice),
        }
        None
    }

    fn await_input(&mut self, work: impl Future<Output = DriverInput> + Send + 'static) {
        self.pending_work.push(Box::pin(work));
    }

    fn decide_on_thread(&mut self, ticket: Ticket, task: DecisionTask) {
        let deciding = tokio::task::spawn_blocking(move || task.decide());
        self.await_input(async move {
            match deciding.await {
                Ok(decision) => DriverInput::Decided(ticket, Box::new(decision)),
                Err(error) => match error.try_into_panic() {
                    // A decision that panics must end the driver, on whichever thread it runs.
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is shutting down.
                    Err(_) => std::future::pending().await,
                },
            }
        });
    }

    fn claim_commands(&mut self, claim: PendingClaim) {
        let shared = self.shared.clone();
        self.await_input(async move {
            let request = &claim.request;
            let query = store::ClaimQuery {
                worker: request.worker.clone(),
                pool: request.pool.clone(),
                max: request.max,
                // Servers on one store share their workers; a single process leaves the commands of others alone.
                owner: shared.peer_clients.is_none().then(|| shared.owner.clone()),
                kinds: request.kinds.clone(),
            };
            let claims = shared.store.claim_commands(&query).await;
            DriverInput::CommandsClaimed(claim, claims.map_err(Error::from))
        });
    }

    fn release_claim(&mut self, claim: ClaimId) {
        let shared = self.shared.clone();
        let ClaimId { command, lease_epoch } = claim;
        self.await_input(async move {
            if let Err(error) = shared.store.release_claim(command, lease_epoch).await {
                tracing::warn!(%command, %error, "failed to release command; its lease will expire");
            }
            tokio::time::sleep(RELEASE_PAUSE).await;
            DriverInput::ClaimReleased
        });
    }

    fn wake(&self, sweep: Sweep) {
        let signals = &self.shared.sweep_signals;
        match sweep {
            Sweep::Messages => signals.messages.notify_one(),
            Sweep::Timers => signals.timers.notify_one(),
            Sweep::Outbox => signals.outbox.notify_one(),
        }
    }

    fn publish_commit(&self, notice: CommitNotice) {
        let (execution, status) = (notice.execution, notice.status);
        // There may be no subscribers.
        let _ = self.shared.commit_notices.send(Arc::new(notice));
        if status.is_terminal() {
            let _ = self.shared.ended_executions.send(execution);
        }
    }
}

/// Sends a reply. Returns what the machine must take back because the caller no longer waits.
fn send_reply(reply: Reply) -> Option<DriverInput> {
    match reply {
        Reply::Input(sender, result) => match sender.send(result) {
            Err(Ok(unsent)) => Some(DriverInput::CommandsUndelivered(unsent.next_commands)),
            _ => None,
        },
        Reply::Claim(sender, result) => match sender.send(result) {
            Err(Ok(unsent)) => Some(DriverInput::CommandsUndelivered(unsent)),
            _ => None,
        },
        Reply::Notices(worker, sender, notices) => {
            let unsent = sender.send(notices).err()?;
            Some(DriverInput::NoticesUndelivered(worker, unsent))
        }
        // If the caller no longer waits for built commands, their claims expire with its session.
        Reply::BuiltCommands(sender, commands) => {
            let _ = sender.send(commands);
            None
        }
        Reply::RemoteClaims(sender, commands) => {
            let _ = sender.send(commands);
            None
        }
        Reply::Assignments(sender, assignments) => {
            let _ = sender.send(assignments);
            None
        }
        Reply::State(sender, state) => {
            let _ = sender.send(state);
            None
        }
        Reply::Drained(sender) => {
            let _ = sender.send(());
            None
        }
    }
}

/// Time and IDs of the store.
struct StoreStamps {
    store: Arc<dyn store::Store>,
    started_at: Instant,
}

impl StampSource for StoreStamps {
    fn now(&self) -> Time {
        self.store.now()
    }
    fn ids(&self, count: u32) -> EventId {
        self.store.ids(count)
    }
    fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }
}
