//! The worker's side of a claim: the events to report for a command, and what the worker may still do for it.
//!
//! Input: events, in order. Output: reports, one at a time; events that pipelines push while a report is in flight go
//! into the next one. While the server is unavailable, reports are retried; no event is dropped before the server
//! responds.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::command::{ClaimId, ReportEnd};
use model::event::{EventBody, EventLocation, FailurePayload, ReportedEvent};
use model::id::{CommandId, LeaseEpoch};
use model::outcome::{ErrorKind, TaskError};
use tokio_util::sync::CancellationToken;
use wire::{ClaimedCommand, ReportRequest, Verdict};

use crate::backoff::RetryBackoff;
use crate::command_context::worker_event;
use crate::worker::WorkerShared;

/// What the worker may still do under a lease. Each variant is stricter than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum LeaseState {
    /// Everything.
    Active,
    /// Finish running tasks, start nothing.
    Yielding,
    /// Stop running tasks and release the command.
    Abandoned,
    /// Stop running tasks: the server no longer needs them.
    Stopped,
    /// Nothing: the lease is lost.
    Lost,
}

const LEASE_STATES: [LeaseState; 5] = [
    LeaseState::Active,
    LeaseState::Yielding,
    LeaseState::Abandoned,
    LeaseState::Stopped,
    LeaseState::Lost,
];

/// Lease on a command.
pub(crate) struct CommandLease {
    pub(crate) id: CommandId,
    lease_epoch: LeaseEpoch,
    location: EventLocation,
    shared: Arc<WorkerShared>,
    state: AtomicU8,
    /// Cancelled when nothing more may start.
    yield_token: CancellationToken,
    /// Cancelled when running tasks must stop.
    stop_token: CancellationToken,
    outbox: Mutex<Outbox>,
    sent_count: AtomicU64,
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Outbox {
    pending: Vec<ReportedEvent>,
    pushed_count: u64,
}

/// The lease is lost; the server rejects reports under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseLost;

impl CommandLease {
    pub(crate) fn new(shared: Arc<WorkerShared>, claimed: &ClaimedCommand) -> Self {
        Self {
            id: claimed.command.id,
            lease_epoch: claimed.lease_epoch,
            location: EventLocation::of_step_run(&claimed.command.run),
            shared,
            state: AtomicU8::new(LeaseState::Active as u8),
            yield_token: CancellationToken::new(),
            stop_token: CancellationToken::new(),
            outbox: Mutex::default(),
            sent_count: AtomicU64::new(0),
            sending: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the command and its lease epoch.
    pub(crate) fn claim_id(&self) -> ClaimId {
        ClaimId {
            command: self.id,
            lease_epoch: self.lease_epoch,
        }
    }

    /// Restricts the lease; a stricter state that was set earlier remains in effect.
    pub(crate) fn restrict(&self, state: LeaseState) {
        self.state.fetch_max(state as u8, Ordering::AcqRel);
        if state >= LeaseState::Yielding {
            self.yield_token.cancel();
        }
        if state >= LeaseState::Abandoned {
            self.stop_token.cancel();
        }
    }

    /// Applies a verdict of the server.
    pub(crate) fn apply_verdict(&self, verdict: Verdict) {
        match verdict {
            Verdict::Proceed => {}
            Verdict::Yield => self.restrict(LeaseState::Yielding),
            Verdict::Stop => self.restrict(LeaseState::Stopped),
        }
    }

    pub(crate) fn state(&self) -> LeaseState {
        LEASE_STATES[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// Whether tasks may start.
    pub(crate) fn may_start(&self) -> bool {
        self.state() == LeaseState::Active
    }

    /// Cancelled when nothing more may start.
    pub(crate) fn yield_token(&self) -> &CancellationToken {
        &self.yield_token
    }

    /// Cancelled when running tasks must stop.
    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.stop_token
    }

    /// Adds events to the next report.
    pub(crate) fn push(&self, events: &mut Vec<ReportedEvent>) {
        let mut outbox = self.outbox.lock().expect("the lock is not poisoned");
        outbox.pushed_count += events.len() as u64;
        outbox.pending.append(events);
    }

    /// Sends a report if necessary. Returns when all events pushed so far are durable.
    pub(crate) async fn flush(&self) -> Result<(), LeaseLost> {
        let target = self.outbox.lock().expect("the lock is not poisoned").pushed_count;
        let _sending = self.sending.lock().await;
        if self.sent_count.load(Ordering::Acquire) >= target {
            return if self.state() == LeaseState::Lost {
                Err(LeaseLost)
            } else {
                Ok(())
            };
        }
        self.deliver(ReportEnd::Open).await.map(drop)
    }

    /// Sends the final report of the command and returns the commands that the server assigned in its reply.
    pub(crate) async fn finish(&self, end: ReportEnd) -> Vec<ClaimedCommand> {
        let _sending = self.sending.lock().await;
        let end = match self.state() {
            LeaseState::Lost => return Vec::new(),
            LeaseState::Stopped => ReportEnd::Stopped,
            LeaseState::Active | LeaseState::Yielding | LeaseState::Abandoned => end,
        };
        self.deliver(end).await.unwrap_or_default()
    }

    async fn deliver(&self, end: ReportEnd) -> Result<Vec<ClaimedCommand>, LeaseLost> {
        let (events, pushed_count) = {
            let mut outbox = self.outbox.lock().expect("the lock is not poisoned");
            (std::mem::take(&mut outbox.pending), outbox.pushed_count)
        };
        let next_commands = self.send_report(self.build_report(events, end)).await?;
        self.sent_count.store(pushed_count, Ordering::Release);
        Ok(next_commands)
    }

    fn build_report(&self, events: Vec<ReportedEvent>, end: ReportEnd) -> ReportRequest {
        let is_last = end != ReportEnd::Open && !self.shared.is_draining();
        ReportRequest {
            command: self.id,
            worker: self.shared.config.worker.clone(),
            lease_epoch: self.lease_epoch,
            events,
            end,
            pool: self.shared.config.pool.clone(),
            kinds: self.shared.config.kinds.clone(),
            free: u32::from(is_last),
        }
    }

    /// Sends a report until the server accepts it or rejects it permanently.
    async fn send_report(&self, report: ReportRequest) -> Result<Vec<ClaimedCommand>, LeaseLost> {
        let mut backoff = RetryBackoff::default();
        let mut report = report;
        loop {
            if self.state() == LeaseState::Lost {
                return Err(LeaseLost);
            }
            match self.shared.transport.report(report.clone()).await {
                Ok(receipt) => {
                    self.apply_verdict(receipt.verdict);
                    return Ok(receipt.next);
                }
                Err(wire::Error::Unavailable(error)) => {
                    tracing::debug!(command = %self.id, %error, "server unavailable; retrying report");
                    backoff.wait().await;
                }
                Err(wire::Error::Fenced(_) | wire::Error::NotFound(_) | wire::Error::SessionReplaced(_)) => {
                    self.restrict(LeaseState::Lost);
                    return Err(LeaseLost);
                }
                Err(wire::Error::Refused(reason)) if report.events.is_empty() => {
                    tracing::error!(command = %self.id, reason, "server rejected the empty report too; dropping lease");
                    self.restrict(LeaseState::Lost);
                    return Err(LeaseLost);
                }
                Err(wire::Error::Refused(reason) | wire::Error::SecretsRefused { detail: reason, .. }) => {
                    tracing::error!(command = %self.id, reason, "report rejected; failing step");
                    report = self.replacement_report(&report, reason);
                }
            }
        }
    }

    /// Builds the replacement of a rejected report: without one the command would never end.
    fn replacement_report(&self, report: &ReportRequest, reason: String) -> ReportRequest {
        let is_second = report.events.len() == 1
            && matches!(&report.events[0].body, EventBody::StepFailed(failed) if failed.error.code == "REPORT_REFUSED");
        self.restrict(LeaseState::Abandoned);
        let events = if is_second {
            Vec::new()
        } else {
            let error = TaskError::new(ErrorKind::Unknown, "REPORT_REFUSED", reason);
            let body = EventBody::StepFailed(Box::new(FailurePayload { error, set_ctx: None }));
            vec![worker_event(
                &self.shared,
                self.id.execution,
                self.location.clone(),
                body,
            )]
        };
        self.build_report(events, ReportEnd::Released)
    }
}
