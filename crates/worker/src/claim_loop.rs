//! The claim loop: claims commands for free slots. Each slot runs one command after another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::ClaimedCommand;
use wire::api::ClaimRequest;

use crate::backoff::RetryBackoff;
use crate::lease::LeaseState;
use crate::worker::{WorkEnd, WorkerShared};
use crate::{command, heartbeat};

/// How long a claim request waits for work.
const CLAIM_WAIT_MS: u64 = 10_000;
/// How long running tasks may continue after the worker was stopped.
const DRAIN_GRACE: Duration = Duration::from_secs(10);
/// Timeout of the request that deregisters the worker.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long tasks may take to stop after `DRAIN_GRACE`, including their final reports.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// Runs until `stop` is cancelled, then drains. Ends at once if another process replaces the worker's session.
pub(crate) async fn run_claim_loop(shared: Arc<WorkerShared>, stop: CancellationToken) -> WorkEnd {
    let (ended, replaced) = (CancellationToken::new(), CancellationToken::new());
    let heartbeats = heartbeat::send_heartbeats(shared.clone(), ended.clone(), replaced.clone());
    let heartbeat_task = tokio::spawn(heartbeats);
    let notice_task = tokio::spawn(heartbeat::receive_notices(shared.clone(), ended.clone()));
    let mut slots = JoinSet::new();
    tokio::select! {
        () = fill_slots(&shared, &mut slots) => {}
        () = stop.cancelled() => {}
        () = replaced.cancelled() => {}
    }
    drain(&shared, slots).await;
    ended.cancel();
    let _ = tokio::join!(heartbeat_task, notice_task);
    if replaced.is_cancelled() {
        return WorkEnd::Replaced;
    }
    // Deregistering returns unfinished commands to the queue at once, also those of a claim that was still in flight.
    let leave = shared.transport.leave(&shared.config.worker);
    if !matches!(tokio::time::timeout(LEAVE_TIMEOUT, leave).await, Ok(Ok(()))) {
        tracing::debug!("failed to deregister worker; its session will expire");
    }
    WorkEnd::Stopped
}

/// Claims commands for free slots for as long as the future is polled.
async fn fill_slots(shared: &Arc<WorkerShared>, slots: &mut JoinSet<()>) {
    let free = Arc::new(Semaphore::new(shared.config.slots.max(1) as usize));
    let mut backoff = RetryBackoff::default();
    loop {
        while slots.try_join_next().is_some() {}
        let mut permits = acquire_slots(&free).await;
        let request = ClaimRequest {
            worker: shared.config.worker.clone(),
            pool: shared.config.pool.clone(),
            kinds: shared.config.kinds.clone(),
            max: u32::try_from(permits.len()).unwrap_or(u32::MAX),
            wait_ms: CLAIM_WAIT_MS,
        };
        match shared.transport.claim(&request).await {
            Ok(claimed) => {
                backoff.reset();
                for claimed in claimed {
                    slots.spawn(run_slot(shared.clone(), permits.pop(), claimed));
                }
            }
            Err(error) => {
                tracing::debug!(%error, "failed to claim commands; retrying");
                drop(permits);
                backoff.wait().await;
            }
        }
    }
}

/// Waits for a free slot, then takes all free slots.
async fn acquire_slots(free: &Arc<Semaphore>) -> Vec<OwnedSemaphorePermit> {
    let first = free.clone().acquire_owned().await;
    let mut permits = vec![first.expect("the semaphore is never closed")];
    while let Ok(permit) = free.clone().try_acquire_owned() {
        permits.push(permit);
    }
    permits
}

/// Runs a command, then the commands that the server assigned in reply to its final report.
async fn run_slot(shared: Arc<WorkerShared>, permit: Option<OwnedSemaphorePermit>, first: ClaimedCommand) {
    let mut waiting = VecDeque::from([first]);
    while let Some(claimed) = waiting.pop_front() {
        waiting.extend(command::run_command(&shared, claimed).await);
    }
    drop(permit);
}

/// Waits for running commands, stops those that exceed `DRAIN_GRACE`, and aborts those that exceed `STOP_GRACE` too.
async fn drain(shared: &WorkerShared, mut slots: JoinSet<()>) {
    shared.drain();
    for (grace, state) in [(DRAIN_GRACE, LeaseState::Abandoned), (STOP_GRACE, LeaseState::Lost)] {
        let all_ended = async { while slots.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all_ended).await.is_ok() {
            return;
        }
        shared.restrict_all(state);
    }
    slots.shutdown().await;
}
