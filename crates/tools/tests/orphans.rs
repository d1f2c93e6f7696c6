//! Tests that a thousand cancelled or timed-out calls leave no process behind, although their children try to escape.

#![expect(
    clippy::unwrap_used,
    clippy::items_after_statements,
    clippy::disallowed_methods,
    reason = "a test may panic, and polls the kernel until a deadline"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use language::template::Piece;
use model::outcome::{ErrorKind, Outcome};
use model::task_log::LogStream;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tools::{Call, DiscardingLogSink, LogSink, Registry, Tool};

/// A shell with a child in its group, one that left it, and one that left it twice.
const SHELL: &str = "sleep 600 & setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &) ; echo up; wait";

/// Number of processes that this starts, including the shell.
const RUNNING: usize = 6;

const PYTHON: &str = "
import os, subprocess, time
subprocess.Popen(['sleep', '600'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
print('up', flush=True)
time.sleep(600)
";

/// How a call ends.
#[derive(Clone, Copy)]
enum EndMode {
    Stop,
    Timeout,
}

/// Cancels the call when its program has started.
struct AtFirstLine(CancellationToken);

impl LogSink for AtFirstLine {
    fn write_line(&self, _stream: LogStream, _text: &str) {
        self.0.cancel();
    }
}

fn tool_call(kind: &str) -> Call {
    let mut call = Call::new(kind);
    call.site.base_dir = "/tmp".into();
    match kind {
        "shell" => {
            let pieces = vec![vec![Piece::Text(SHELL.to_owned())]];
            call.pieces.insert("command".to_owned(), pieces);
        }
        _ => {
            call.fields.insert("code".to_owned(), json!(PYTHON));
        }
    }
    call
}

async fn run_and_end(tool: Arc<dyn Tool>, kind: &str, way: EndMode) -> Outcome {
    let mut call = tool_call(kind);
    let stop = CancellationToken::new();
    match way {
        EndMode::Stop => tool.call(call, stop.clone(), &AtFirstLine(stop)).await,
        EndMode::Timeout => {
            call.timeout.total = Some(Duration::from_millis(120));
            tool.call(call, stop, &DiscardingLogSink).await
        }
    }
}

/// Running processes with the marker of a program that this process started.
fn remaining_processes() -> Vec<String> {
    let mark = format!("NOETL_PROCESS={}-", std::process::id());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let marked = all.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|one| one.starts_with(mark.as_bytes()))
    });
    let names = marked.map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        format!("{} {line}", entry.file_name().display())
    });
    names.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_that_are_ended_leave_no_process() {
    let registry = Registry::builtin(tools::Config::default());
    let kinds = (0..1_000).map(|n| {
        let kind = if n % 5 == 0 { "python" } else { "shell" };
        let way = if n % 2 == 0 { EndMode::Stop } else { EndMode::Timeout };
        (kind, registry.get(kind).unwrap(), way)
    });
    let calls = kinds.map(|(kind, tool, way)| async move {
        let outcome = run_and_end(tool, kind, way).await;
        let kind = outcome.failure().map(|error| error.kind);
        assert!(
            matches!(kind, Some(ErrorKind::Cancelled | ErrorKind::Timeout)),
            "{outcome:?}"
        );
    });
    let count = futures_util::stream::iter(calls).buffer_unordered(8).count().await;
    assert_eq!(count, 1_000);
    drop(registry);
    // Killed processes may take a moment to disappear.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !remaining_processes().is_empty() && Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    assert_eq!(remaining_processes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_running_process_is_counted() {
    let registry = Registry::builtin(tools::Config::default());
    let shell = registry.get("shell").unwrap();
    struct ProcessCounter(std::sync::Mutex<usize>, CancellationToken);
    impl LogSink for ProcessCounter {
        fn write_line(&self, _stream: LogStream, _text: &str) {
            // The children print nothing; they have started when they are in the list.
            let deadline = Instant::now() + Duration::from_secs(10);
            let mut count = remaining_processes().len();
            while count < RUNNING && Instant::now() < deadline {
                count = remaining_processes().len();
            }
            *self.0.lock().unwrap() = count;
            self.1.cancel();
        }
    }
    let stop = CancellationToken::new();
    let counter = ProcessCounter(std::sync::Mutex::default(), stop.clone());
    shell.call(tool_call("shell"), stop, &counter).await;
    assert!(
        *counter.0.lock().unwrap() >= RUNNING,
        "the shell and its children: {:?}",
        counter.0
    );
}
