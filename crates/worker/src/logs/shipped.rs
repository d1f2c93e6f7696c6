//! Sends task logs to a remote store in batches.
//!
//! Printing never blocks. While the store is unavailable, new lines replace the oldest ones, and a line in the log
//! reports the loss.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::id::ExecutionId;
use model::task_log::LogLine;
use results::TaskLogs;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Logs;

/// A batch is sent when it has this many bytes.
const BATCH_BYTES: usize = 64 * 1024;
/// A batch is also sent when its first line has waited this long.
const BATCH_AGE: Duration = Duration::from_millis(500);
/// Maximum number of queued bytes.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of executions for which lost lines are counted.
const MISSED_MAX: usize = 1024;
/// Overhead of a line in addition to its text, in bytes.
const LINE_BYTES: usize = 200;
/// Delay between retries.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum time to send the remaining lines on close.
const CLOSING: Duration = Duration::from_secs(5);

/// Queues lines and sends them to a store.
pub struct ShippedLogs {
    buffer: Arc<Buffer>,
    stop: CancellationToken,
    shipping: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Buffer {
    waiting: Mutex<Waiting>,
    /// Notified when a line is queued.
    some: Notify,
    /// Notified when a full batch is queued.
    enough: Notify,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// Number of lost lines of each execution, and the last lost line.
    missed: BTreeMap<ExecutionId, (u64, LogLine)>,
}

impl ShippedLogs {
    /// Starts a background task that sends lines to `to`.
    pub fn start(to: Arc<dyn TaskLogs>) -> Self {
        let buffer = Arc::new(Buffer::default());
        let stop = CancellationToken::new();
        let shipping = tokio::spawn(ship(Arc::clone(&buffer), to, stop.clone()));
        Self {
            buffer,
            stop,
            shipping: Mutex::new(Some(shipping)),
        }
    }

    /// Sends the queued lines; gives up after `CLOSING`.
    pub async fn close(&self) {
        self.stop.cancel();
        let shipping = self
            .shipping
            .lock()
            .expect("the lock is not poisoned")
            .take();
        if let Some(shipping) = shipping {
            // Lines that cannot be sent now are lost.
            let _ = timeout(CLOSING, shipping).await;
        }
    }
}

impl Logs for ShippedLogs {
    fn line(&self, line: &LogLine) {
        let bytes = {
            let mut waiting = self.buffer.waiting();
            waiting.push(line.clone());
            waiting.bytes
        };
        self.buffer.some.notify_one();
        if bytes >= BATCH_BYTES {
            self.buffer.enough.notify_one();
        }
    }
}

impl Buffer {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("the lock is not poisoned")
    }

    fn is_empty(&self) -> bool {
        self.waiting().lines.is_empty()
    }
}

impl Waiting {
    fn push(&mut self, line: LogLine) {
        self.bytes += size(&line);
        self.lines.push_back(line);
        while self.bytes > WAITING_BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= size(&oldest);
            let has_room = self.missed.len() < MISSED_MAX;
            match self.missed.get_mut(&oldest.execution) {
                Some(missed) => *missed = (missed.0 + 1, oldest),
                None if has_room => {
                    self.missed.insert(oldest.execution, (1, oldest));
                }
                None => {}
            }
        }
    }

    /// Returns the next batch, preceded by one line per execution with the number of lost lines.
    fn take(&mut self) -> Vec<LogLine> {
        let missed = std::mem::take(&mut self.missed).into_values();
        let mut batch: Vec<LogLine> = missed
            .map(|(count, line)| {
                line.remark(format!(
                    "{count} lines lost here: cannot connect to the server"
                ))
            })
            .collect();
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && let Some(line) = self.lines.pop_front()
        {
            bytes += size(&line);
            batch.push(line);
        }
        self.bytes -= bytes;
        batch
    }
}

fn size(line: &LogLine) -> usize {
    line.text.len() + LINE_BYTES
}

async fn ship(buffer: Arc<Buffer>, to: Arc<dyn TaskLogs>, stop: CancellationToken) {
    loop {
        if buffer.is_empty() {
            tokio::select! {
                biased;
                () = buffer.some.notified() => {}
                () = stop.cancelled() => return,
            }
        }
        tokio::select! {
            () = buffer.enough.notified() => {}
            () = sleep(BATCH_AGE) => {}
            () = stop.cancelled() => {}
        }
        let batch = buffer.waiting().take();
        if !batch.is_empty() && !send(&batch, &*to, &stop).await {
            return;
        }
    }
}

/// Sends a batch and retries until it is accepted; returns false if the worker stops first.
async fn send(batch: &[LogLine], to: &dyn TaskLogs, stop: &CancellationToken) -> bool {
    loop {
        let error = match to.append(batch).await {
            Ok(()) => return true,
            Err(error) => error,
        };
        if !error.is_retryable() {
            tracing::warn!(%error, lines = batch.len(), "task log lines rejected");
            return true;
        }
        tracing::debug!(%error, "failed to send task log lines; retrying");
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = stop.cancelled() => return false,
        }
    }
}

#[cfg(test)]
mod tests;
