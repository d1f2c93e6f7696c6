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

use super::TaskLogSink;

/// A batch is sent when it has this many bytes.
const BATCH_BYTES: usize = 64 * 1024;
/// A batch is also sent when its first line has waited this long.
const BATCH_AGE: Duration = Duration::from_millis(500);
/// Maximum number of queued bytes.
const QUEUED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of executions for which lost lines are counted.
const LOSSES_TRACKED_MAX: usize = 1024;
/// Overhead of a line in addition to its text, in bytes.
const LINE_OVERHEAD_BYTES: usize = 200;
/// Delay between retries.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum time to send the remaining lines on close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Queues lines and sends them to a store.
pub struct LogShipper {
    buffer: Arc<LineBuffer>,
    stop: CancellationToken,
    shipping_task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct LineBuffer {
    queue: Mutex<QueuedLines>,
    /// Notified when a line is queued.
    line_added: Notify,
    /// Notified when a full batch is queued.
    batch_ready: Notify,
}

#[derive(Default)]
struct QueuedLines {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// Number of lost lines of each execution, and the last lost line.
    lost_lines: BTreeMap<ExecutionId, (u64, LogLine)>,
}

impl LogShipper {
    /// Starts a background task that sends lines to `logs`.
    pub fn start(logs: Arc<dyn TaskLogs>) -> Self {
        let buffer = Arc::new(LineBuffer::default());
        let stop = CancellationToken::new();
        let shipping = tokio::spawn(ship_lines(Arc::clone(&buffer), logs, stop.clone()));
        Self {
            buffer,
            stop,
            shipping_task: Mutex::new(Some(shipping)),
        }
    }

    /// Sends the queued lines; gives up after `CLOSE_TIMEOUT`.
    pub async fn close(&self) {
        self.stop.cancel();
        let shipping = self.shipping_task.lock().expect("the lock is not poisoned").take();
        if let Some(shipping) = shipping {
            // Lines that cannot be sent now are lost.
            let _ = timeout(CLOSE_TIMEOUT, shipping).await;
        }
    }
}

impl TaskLogSink for LogShipper {
    fn write_line(&self, line: &LogLine) {
        let bytes = {
            let mut queue = self.buffer.queue();
            queue.push(line.clone());
            queue.bytes
        };
        self.buffer.line_added.notify_one();
        if bytes >= BATCH_BYTES {
            self.buffer.batch_ready.notify_one();
        }
    }
}

impl LineBuffer {
    fn queue(&self) -> MutexGuard<'_, QueuedLines> {
        self.queue.lock().expect("the lock is not poisoned")
    }

    fn is_empty(&self) -> bool {
        self.queue().lines.is_empty()
    }
}

impl QueuedLines {
    fn push(&mut self, line: LogLine) {
        self.bytes += line_bytes(&line);
        self.lines.push_back(line);
        while self.bytes > QUEUED_BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= line_bytes(&oldest);
            let is_tracked = self.lost_lines.len() < LOSSES_TRACKED_MAX;
            match self.lost_lines.get_mut(&oldest.execution) {
                Some(lost) => *lost = (lost.0 + 1, oldest),
                None if is_tracked => {
                    self.lost_lines.insert(oldest.execution, (1, oldest));
                }
                None => {}
            }
        }
    }

    /// Returns the next batch, preceded by one line per execution with the number of lost lines.
    fn take_batch(&mut self) -> Vec<LogLine> {
        let lost = std::mem::take(&mut self.lost_lines).into_values();
        let mut batch: Vec<LogLine> = lost
            .map(|(count, line)| line.annotation(format!("{count} lines lost here: cannot connect to the server")))
            .collect();
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && let Some(line) = self.lines.pop_front()
        {
            bytes += line_bytes(&line);
            batch.push(line);
        }
        self.bytes -= bytes;
        batch
    }
}

fn line_bytes(line: &LogLine) -> usize {
    line.text.len() + LINE_OVERHEAD_BYTES
}

async fn ship_lines(buffer: Arc<LineBuffer>, logs: Arc<dyn TaskLogs>, stop: CancellationToken) {
    loop {
        if buffer.is_empty() {
            tokio::select! {
                biased;
                () = buffer.line_added.notified() => {}
                () = stop.cancelled() => return,
            }
        }
        tokio::select! {
            () = buffer.batch_ready.notified() => {}
            () = sleep(BATCH_AGE) => {}
            () = stop.cancelled() => {}
        }
        let batch = buffer.queue().take_batch();
        if !batch.is_empty() && !send_batch(&batch, &*logs, &stop).await {
            return;
        }
    }
}

/// Sends a batch and retries until it is accepted; returns false if the worker stops first.
async fn send_batch(batch: &[LogLine], logs: &dyn TaskLogs, stop: &CancellationToken) -> bool {
    loop {
        let error = match logs.append(batch).await {
            Ok(()) => return true,
            Err(error) => error,
        };
        if !error.is_retryable() {
            tracing::warn!(%error, lines = batch.len(), "task log lines rejected");
            return true;
        }
        tracing::debug!(%error, "failed to send task log lines; retrying");
        tokio::select! {
            () = sleep(RETRY_DELAY) => {}
            () = stop.cancelled() => return false,
        }
    }
}

#[cfg(test)]
mod tests;
