//! Runs a program to its end: writes its input, reads its output, and kills it on timeout or cancellation.

use std::process::ExitStatus;
use std::time::Duration;

use model::task_log::LogStream;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio_util::sync::CancellationToken;

use crate::call::LogSink;
use crate::capture::OutputCapture;
use crate::process::{KILL_GRACE, ProcessGroup};

/// How a program ended.
pub enum ProgramEnd {
    Exited(std::io::Result<ExitStatus>),
    TimedOut(Duration),
    Stopped,
}

/// Output of a program.
pub struct ProgramOutput {
    pub stdout: String,
    pub stderr: String,
}

/// Runs a program until it exits, is cancelled or times out. Afterwards no process of its group is left.
pub async fn run_to_end(
    group: &mut ProcessGroup,
    input: Option<Vec<u8>>,
    timeout: Option<Duration>,
    stop: &CancellationToken,
    log: &dyn LogSink,
) -> (ProgramEnd, ProgramOutput) {
    let mut stdout = OutputCapture::new(LogStream::Stdout);
    let mut stderr = OutputCapture::new(LogStream::Stderr);
    let feeding = write_input(group.child.stdin.take(), input);
    let deadline = async {
        match timeout {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(feeding, deadline);
    let mut is_fed = false;
    let end = loop {
        tokio::select! {
            () = group.stdout.wait_readable() => group.stdout.capture_ready(&mut stdout, log),
            () = group.stderr.wait_readable() => group.stderr.capture_ready(&mut stderr, log),
            () = &mut feeding, if !is_fed => is_fed = true,
            status = group.child.wait() => break ProgramEnd::Exited(status),
            () = stop.cancelled() => break ProgramEnd::Stopped,
            () = &mut deadline => break ProgramEnd::TimedOut(timeout.unwrap_or_default()),
        }
    };
    match end {
        // Child processes may hold the pipes open; the call does not wait for them.
        ProgramEnd::Exited(_) => group.kill(),
        ProgramEnd::TimedOut(_) | ProgramEnd::Stopped => {
            let _ = group.terminate(KILL_GRACE).await;
        }
    }
    let (mut stdout, mut stderr) = (Some(stdout), Some(stderr));
    group.stdout.drain(&mut stdout, LogStream::Stdout, log);
    group.stderr.drain(&mut stderr, LogStream::Stderr, log);
    let text = |capture: Option<OutputCapture>| capture.map(|c| c.finish(log)).unwrap_or_default();
    let printed = ProgramOutput {
        stdout: text(stdout),
        stderr: text(stderr),
    };
    (end, printed)
}

async fn write_input(stdin: Option<ChildStdin>, input: Option<Vec<u8>>) {
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        // A command may close its input without reading it.
        let _ = stdin.write_all(&input).await;
    }
}
