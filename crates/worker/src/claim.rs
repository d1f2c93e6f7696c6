//! The claim loop: claims commands for free slots. Each slot runs one command after another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::{Ask, Claimed};

use crate::lease::Order;
use crate::patience::Backoff;
use crate::worker::{Shared, WorkEnd};
use crate::{command, pulse};

/// How long a claim request waits for work.
const CLAIM_WAIT: Duration = Duration::from_secs(10);
/// How long running tasks may continue after the worker was stopped.
const DRAIN_GRACE: Duration = Duration::from_secs(10);
/// Timeout of the request that deregisters the worker.
const LEAVE: Duration = Duration::from_secs(2);
/// How long tasks may take to stop after `DRAIN_GRACE`, including their final reports.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// Runs until `stop` is cancelled, then drains. Ends at once if another process replaces the worker's session.
pub(crate) async fn work(shared: Arc<Shared>, stop: CancellationToken) -> WorkEnd {
    let (ended, replaced) = (CancellationToken::new(), CancellationToken::new());
    let beat = pulse::beat(shared.clone(), ended.clone(), replaced.clone());
    let pulse = tokio::spawn(beat);
    let ears = tokio::spawn(pulse::listen(shared.clone(), ended.clone()));
    let mut slots = JoinSet::new();
    tokio::select! {
        () = claim(&shared, &mut slots) => {}
        () = stop.cancelled() => {}
        () = replaced.cancelled() => {}
    }
    drain(&shared, slots).await;
    ended.cancel();
    let _ = tokio::join!(pulse, ears);
    if replaced.is_cancelled() {
        return WorkEnd::Replaced;
    }
    // Deregistering returns unfinished commands to the queue at once, also those of a claim that was still in flight.
    let left = shared.transport.leave(&shared.config.worker);
    if !matches!(tokio::time::timeout(LEAVE, left).await, Ok(Ok(()))) {
        tracing::debug!("failed to deregister worker; its session will expire");
    }
    WorkEnd::Stopped
}

/// Claims commands for free slots for as long as the future is polled.
async fn claim(shared: &Arc<Shared>, slots: &mut JoinSet<()>) {
    let free = Arc::new(Semaphore::new(shared.config.slots.max(1) as usize));
    let mut backoff = Backoff::default();
    loop {
        while slots.try_join_next().is_some() {}
        let mut permits = take_free(&free).await;
        let ask = Ask {
            worker: shared.config.worker.clone(),
            pool: shared.config.pool.clone(),
            kinds: shared.config.kinds.clone(),
            max: u32::try_from(permits.len()).unwrap_or(u32::MAX),
            wait: CLAIM_WAIT,
        };
        match shared.transport.claim(&ask).await {
            Ok(claimed) => {
                backoff.reset();
                for claimed in claimed {
                    slots.spawn(slot(shared.clone(), permits.pop(), claimed));
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
async fn take_free(free: &Arc<Semaphore>) -> Vec<OwnedSemaphorePermit> {
    let first = free.clone().acquire_owned().await;
    let mut permits = vec![first.expect("the semaphore is never closed")];
    while let Ok(permit) = free.clone().try_acquire_owned() {
        permits.push(permit);
    }
    permits
}

/// Runs a command, then the commands that the server assigned in reply to its final report.
async fn slot(shared: Arc<Shared>, permit: Option<OwnedSemaphorePermit>, first: Claimed) {
    let mut waiting = VecDeque::from([first]);
    while let Some(claimed) = waiting.pop_front() {
        waiting.extend(command::run(&shared, claimed).await);
    }
    drop(permit);
}

/// Waits for running commands, stops those that exceed `DRAIN_GRACE`, and aborts those that exceed `STOP_GRACE` too.
async fn drain(shared: &Shared, mut slots: JoinSet<()>) {
    shared.drain();
    for (grace, order) in [(DRAIN_GRACE, Order::Abandon), (STOP_GRACE, Order::Gone)] {
        let all = async { while slots.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_ok() {
            return;
        }
        shared.tell_all(order);
    }
    slots.shutdown().await;
}
