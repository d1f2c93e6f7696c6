//! Task logs that are kept elsewhere: lines wait here for a moment and go in batches.
//!
//! Whoever prints never waits. While the keeper cannot be reached the oldest lines make room for new ones, and the log
//! says so.

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

/// A batch goes when it has so many bytes.
const BATCH_BYTES: usize = 64 * 1024;
/// Or when its first line has waited so long.
const BATCH_AGE: Duration = Duration::from_millis(500);
/// At most so many bytes wait.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// So many executions are told what they miss.
const MISSED_MAX: usize = 1024;
/// Beside its text a line takes so much.
const LINE_BYTES: usize = 200;
/// How long after a failure the next try comes.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the last lines may take to go.
const CLOSING: Duration = Duration::from_secs(5);

/// Sends lines to where they are kept.
pub struct ShippedLogs {
    buffer: Arc<Buffer>,
    stop: CancellationToken,
    shipping: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Buffer {
    waiting: Mutex<Waiting>,
    /// Told when a line comes.
    some: Notify,
    /// Told when there is a batch.
    enough: Notify,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// How many lines of an execution made room, and the last of them.
    missed: BTreeMap<ExecutionId, (u64, LogLine)>,
}

impl ShippedLogs {
    /// Sends lines there, from a task of its own.
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

    /// Sends what waits, if that can be done in a moment.
    pub async fn close(&self) {
        self.stop.cancel();
        let shipping = self.shipping.lock().expect("nobody panics here").take();
        if let Some(shipping) = shipping {
            // What cannot be sent now is lost with the process.
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
        self.waiting.lock().expect("keeping a line does not panic")
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

    /// The next lines, after a word about those that are missing before them.
    fn take(&mut self) -> Vec<LogLine> {
        let missed = std::mem::take(&mut self.missed).into_values();
        let mut batch: Vec<LogLine> = missed
            .map(|(count, line)| {
                line.remark(format!(
                    "{count} lines are lost here: the server could not be reached"
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

/// Sends a batch, again and again; false if the worker ends before.
async fn send(batch: &[LogLine], to: &dyn TaskLogs, stop: &CancellationToken) -> bool {
    loop {
        let error = match to.append(batch).await {
            Ok(()) => return true,
            Err(error) => error,
        };
        if !error.is_retryable() {
            tracing::warn!(%error, lines = batch.len(), "log lines were refused");
            return true;
        }
        tracing::debug!(%error, "log lines wait");
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = stop.cancelled() => return false,
        }
    }
}

#[cfg(test)]
mod tests;
