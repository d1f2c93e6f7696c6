//! The worker's side of a claim: the events to report for a command, and what the worker may still do for it.
//!
//! Enters: events, in order. Leaves: reports, one at a time; events that pipelines push while a report is in flight go
//! into the next one. While the server is unavailable, reports are retried; no event is dropped before the server
//! responds.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::command::ReportEnd;
use model::event::{At, Body, Event, Failed};
use model::id::{CommandId, LeaseEpoch};
use model::outcome::{ErrorKind, TaskError};
use tokio_util::sync::CancellationToken;
use wire::{Claimed, Held, Report, Verdict};

use crate::hand::stamped;
use crate::patience::Backoff;
use crate::worker::Shared;

/// What the worker may still do under a lease. Each variant is stricter than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Order {
    /// Everything.
    Proceed,
    /// Finish running tasks, start nothing.
    Yield,
    /// Stop running tasks and release the command.
    Abandon,
    /// Stop running tasks: the server no longer needs them.
    Stop,
    /// Nothing: the lease is lost.
    Gone,
}

const ORDERS: [Order; 5] = [
    Order::Proceed,
    Order::Yield,
    Order::Abandon,
    Order::Stop,
    Order::Gone,
];

/// Lease on a command.
pub(crate) struct Lease {
    pub(crate) id: CommandId,
    epoch: LeaseEpoch,
    at: At,
    shared: Arc<Shared>,
    order: AtomicU8,
    /// Cancelled when nothing more may start.
    paused: CancellationToken,
    /// Cancelled when running tasks must stop.
    stopped: CancellationToken,
    outbox: Mutex<Outbox>,
    sent: AtomicU64,
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Outbox {
    pending: Vec<Event>,
    pushed: u64,
}

/// The lease is lost; the server rejects reports under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

impl Lease {
    pub(crate) fn new(shared: Arc<Shared>, claimed: &Claimed) -> Self {
        Self {
            id: claimed.command.id,
            epoch: claimed.lease_epoch,
            at: At::step_run(&claimed.command.run),
            shared,
            order: AtomicU8::new(Order::Proceed as u8),
            paused: CancellationToken::new(),
            stopped: CancellationToken::new(),
            outbox: Mutex::default(),
            sent: AtomicU64::new(0),
            sending: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the command and its lease epoch.
    pub(crate) fn held(&self) -> Held {
        Held {
            command: self.id,
            lease_epoch: self.epoch,
        }
    }

    /// Restricts the lease; an earlier, stricter order remains in effect.
    pub(crate) fn tell(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        if order >= Order::Yield {
            self.paused.cancel();
        }
        if order >= Order::Abandon {
            self.stopped.cancel();
        }
    }

    /// Applies a verdict of the server.
    pub(crate) fn hear(&self, verdict: Verdict) {
        match verdict {
            Verdict::Proceed => {}
            Verdict::Yield => self.tell(Order::Yield),
            Verdict::Stop => self.tell(Order::Stop),
        }
    }

    pub(crate) fn order(&self) -> Order {
        ORDERS[usize::from(self.order.load(Ordering::Acquire))]
    }

    /// Whether tasks may start.
    pub(crate) fn is_open(&self) -> bool {
        self.order() == Order::Proceed
    }

    /// Cancelled when nothing more may start.
    pub(crate) fn paused(&self) -> &CancellationToken {
        &self.paused
    }

    /// Cancelled when running tasks must stop.
    pub(crate) fn stopped(&self) -> &CancellationToken {
        &self.stopped
    }

    /// Adds events to the next report.
    pub(crate) fn push(&self, events: &mut Vec<Event>) {
        let mut outbox = self.outbox.lock().expect("the lock is not poisoned");
        outbox.pushed += events.len() as u64;
        outbox.pending.append(events);
    }

    /// Sends a report if necessary. Returns when all events pushed so far are durable.
    pub(crate) async fn flush(&self) -> Result<(), Gone> {
        let target = self.outbox.lock().expect("the lock is not poisoned").pushed;
        let _turn = self.sending.lock().await;
        if self.sent.load(Ordering::Acquire) >= target {
            return if self.order() == Order::Gone {
                Err(Gone)
            } else {
                Ok(())
            };
        }
        self.deliver(ReportEnd::Open).await.map(drop)
    }

    /// Sends the final report of the command and returns the commands that the server assigned in its reply.
    pub(crate) async fn finish(&self, end: ReportEnd) -> Vec<Claimed> {
        let _turn = self.sending.lock().await;
        let end = match self.order() {
            Order::Gone => return Vec::new(),
            Order::Stop => ReportEnd::Stopped,
            Order::Proceed | Order::Yield | Order::Abandon => end,
        };
        self.deliver(end).await.unwrap_or_default()
    }

    async fn deliver(&self, end: ReportEnd) -> Result<Vec<Claimed>, Gone> {
        let (events, upto) = {
            let mut outbox = self.outbox.lock().expect("the lock is not poisoned");
            (std::mem::take(&mut outbox.pending), outbox.pushed)
        };
        let next = self.send(self.report(events, end)).await?;
        self.sent.store(upto, Ordering::Release);
        Ok(next)
    }

    fn report(&self, events: Vec<Event>, end: ReportEnd) -> Report {
        let is_last = end != ReportEnd::Open && !self.shared.is_draining();
        Report {
            command: self.id,
            worker: self.shared.config.worker.clone(),
            lease_epoch: self.epoch,
            events,
            end,
            pool: self.shared.config.pool.clone(),
            kinds: self.shared.config.kinds.clone(),
            free: u32::from(is_last),
        }
    }

    /// Sends a report until the server accepts it or rejects it permanently.
    async fn send(&self, report: Report) -> Result<Vec<Claimed>, Gone> {
        let mut backoff = Backoff::default();
        let mut report = report;
        loop {
            if self.order() == Order::Gone {
                return Err(Gone);
            }
            match self.shared.transport.report(report.clone()).await {
                Ok(receipt) => {
                    self.hear(receipt.verdict);
                    return Ok(receipt.next);
                }
                Err(wire::Error::Unavailable(error)) => {
                    tracing::debug!(command = %self.id, %error, "server unavailable; retrying report");
                    backoff.wait().await;
                }
                Err(
                    wire::Error::Fenced(_)
                    | wire::Error::NotFound(_)
                    | wire::Error::SessionReplaced(_),
                ) => {
                    self.tell(Order::Gone);
                    return Err(Gone);
                }
                Err(wire::Error::Refused(why)) if report.events.is_empty() => {
                    tracing::error!(command = %self.id, why, "server rejected the empty report too; dropping lease");
                    self.tell(Order::Gone);
                    return Err(Gone);
                }
                Err(wire::Error::Refused(why) | wire::Error::Denied { detail: why, .. }) => {
                    tracing::error!(command = %self.id, why, "report rejected; failing step");
                    report = self.refused(&report, why);
                }
            }
        }
    }

    /// Builds the replacement of a rejected report: without one the command would never end.
    fn refused(&self, report: &Report, why: String) -> Report {
        let is_second = report.events.len() == 1
            && matches!(&report.events[0].body, Body::StepFailed(failed) if failed.error.code == "REPORT_REFUSED");
        self.tell(Order::Abandon);
        let events = if is_second {
            Vec::new()
        } else {
            let error = TaskError::new(ErrorKind::Unknown, "REPORT_REFUSED", why);
            let body = Body::StepFailed(Box::new(Failed {
                error,
                set_ctx: None,
            }));
            vec![stamped(
                &self.shared,
                self.id.execution,
                self.at.clone(),
                body,
            )]
        };
        self.report(events, ReportEnd::Released)
    }
}
