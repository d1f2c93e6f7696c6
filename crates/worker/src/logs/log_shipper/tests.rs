//! Lines arrive in order, printing never blocks, and lost lines are reported.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use results::{Error, LogPage, LogQuery};
use tokio::sync::mpsc;

use super::*;
use crate::tests::log_line;

/// Fake store that records batches, or fails like an unavailable server.
struct FakeTaskLogs {
    is_unreachable: AtomicBool,
    append_called: Notify,
    batches: mpsc::UnboundedSender<Vec<LogLine>>,
}

impl FakeTaskLogs {
    fn new(is_away: bool) -> (Arc<Self>, mpsc::UnboundedReceiver<Vec<LogLine>>) {
        let (batches, logs) = mpsc::unbounded_channel();
        let task_logs = Self {
            is_unreachable: AtomicBool::new(is_away),
            append_called: Notify::new(),
            batches,
        };
        (Arc::new(task_logs), logs)
    }
}

#[async_trait]
impl TaskLogs for FakeTaskLogs {
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error> {
        self.append_called.notify_one();
        if self.is_unreachable.load(Ordering::SeqCst) {
            let source = std::io::ErrorKind::ConnectionRefused.into();
            let file = "away".into();
            return Err(Error::Unavailable { file, source });
        }
        self.batches.send(lines.to_vec()).unwrap();
        Ok(())
    }

    async fn read(&self, _: ExecutionId, _: &LogQuery) -> Result<LogPage, Error> {
        unreachable!("these tests do not read logs")
    }
}

#[tokio::test(start_paused = true)]
async fn lines_are_sent_in_batches_and_in_order() {
    let (task_logs, mut batches) = FakeTaskLogs::new(false);
    let logs = LogShipper::start(task_logs);
    let start = tokio::time::Instant::now();
    logs.write_line(&log_line("one"));
    logs.write_line(&log_line("two"));
    assert_eq!(batches.recv().await.unwrap(), [log_line("one"), log_line("two")]);
    assert!(start.elapsed() <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn much_output_does_not_wait_for_the_clock() {
    let (task_logs, mut batches) = FakeTaskLogs::new(false);
    let logs = LogShipper::start(task_logs);
    let start = tokio::time::Instant::now();
    let long = "x".repeat(BATCH_BYTES);
    logs.write_line(&log_line(&long));
    assert_eq!(batches.recv().await.unwrap(), [log_line(&long)]);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn queued_lines_are_sent_when_the_worker_stops() {
    let (task_logs, mut batches) = FakeTaskLogs::new(false);
    let logs = LogShipper::start(task_logs);
    logs.write_line(&log_line("last"));
    logs.close().await;
    assert_eq!(batches.try_recv().unwrap(), [log_line("last")]);
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_the_oldest_lines_are_dropped_with_a_notice() {
    let (task_logs, mut batches) = FakeTaskLogs::new(true);
    let logs = LogShipper::start(task_logs.clone());
    logs.write_line(&log_line("under way"));
    task_logs.append_called.notified().await;
    let text = |n: usize| format!("{n:01000}");
    let lines = 2 * QUEUED_BYTES_MAX / 1200;
    for n in 0..lines {
        logs.write_line(&log_line(&text(n)));
    }
    assert!(logs.buffer.queue().bytes <= QUEUED_BYTES_MAX);
    task_logs.is_unreachable.store(false, Ordering::SeqCst);
    assert_eq!(batches.recv().await.unwrap(), [log_line("under way")]);
    let batch = batches.recv().await.unwrap();
    let lost = lines - QUEUED_BYTES_MAX / 1200;
    let notice = format!("{lost} lines lost here");
    assert!(batch[0].text.starts_with(&notice), "{}", batch[0].text);
    assert_eq!(batch[1].text, text(lost));
    let mut newest = batch;
    while newest.last().unwrap().text != text(lines - 1) {
        newest = batches.recv().await.unwrap();
    }
}
