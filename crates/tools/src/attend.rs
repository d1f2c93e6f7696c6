//! Runs a program to its end: writes its input, reads its output, and kills it on timeout or cancellation.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio_util::sync::CancellationToken;

use crate::call::{LogSink, Stream};
use crate::capture::Capture;
use crate::process::{GRACE, Group};

/// How a program ended.
pub(crate) enum End {
    Exited(std::io::Result<ExitStatus>),
    TimedOut(Duration),
    Stopped,
}

/// Output of a program.
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program until it exits, is cancelled or times out. Afterwards no process of its group is left.
pub(crate) async fn attend(
    group: &mut Group,
    input: Option<Vec<u8>>,
    timeout: Option<Duration>,
    stop: &CancellationToken,
    log: &dyn LogSink,
) -> (End, Printed) {
    let mut stdout = Capture::new(Stream::Stdout);
    let mut stderr = Capture::new(Stream::Stderr);
    let feeding = feed(group.child.stdin.take(), input);
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
            () = group.stdout.readable() => group.stdout.take_ready(&mut stdout, log),
            () = group.stderr.readable() => group.stderr.take_ready(&mut stderr, log),
            () = &mut feeding, if !is_fed => is_fed = true,
            status = group.child.wait() => break End::Exited(status),
            () = stop.cancelled() => break End::Stopped,
            () = &mut deadline => break End::TimedOut(timeout.unwrap_or_default()),
        }
    };
    match end {
        // Child processes may hold the pipes open; the call does not wait for them.
        End::Exited(_) => group.kill(),
        End::TimedOut(_) | End::Stopped => {
            let _ = group.end(GRACE).await;
        }
    }
    let (mut stdout, mut stderr) = (Some(stdout), Some(stderr));
    group.stdout.drain(&mut stdout, Stream::Stdout, log);
    group.stderr.drain(&mut stderr, Stream::Stderr, log);
    let text = |capture: Option<Capture>| capture.map(|c| c.finish(log)).unwrap_or_default();
    let printed = Printed {
        stdout: text(stdout),
        stderr: text(stderr),
    };
    (end, printed)
}

async fn feed(stdin: Option<ChildStdin>, input: Option<Vec<u8>>) {
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        // A command may close its input without reading it.
        let _ = stdin.write_all(&input).await;
    }
}
