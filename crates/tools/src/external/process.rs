//! One process of an external tool: runs one call at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use model::outcome::Outcome;
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Stream};
use crate::capture::{Capture, LEFT_OUT};
use crate::external::manifest::Manifest;
use crate::external::protocol::{Answered, Asked, AskedCall};
use crate::isolation::{Confines, Limits};
use crate::process::{Group, NotStarted, Program};

/// Maximum length of a line.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum size of a call's log.
const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Time that a process gets to respond to a cancellation before it is killed.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// A process that can run calls.
pub(super) struct Peer {
    group: Group,
    stdin: ChildStdin,
    /// Bytes of an incomplete line.
    held: Vec<u8>,
    calls: u64,
}

/// How a call ended.
pub(super) enum Reply {
    Answered(Box<Outcome>),
    /// The process exited without a response.
    Died,
    /// Its output violates the protocol.
    Nonsense(String),
    TimedOut(Duration),
    Stopped,
}

impl Peer {
    pub(super) fn start(
        manifest: &Manifest,
        env: &BTreeMap<String, String>,
    ) -> Result<Self, NotStarted> {
        let args: Vec<&str> = manifest
            .command
            .iter()
            .skip(1)
            .map(String::as_str)
            .collect();
        let program = Program {
            path: &manifest.program(),
            args: &args,
            env,
            cwd: existing(&manifest.dir),
            limits: &Limits::default(),
            confines: &Confines::default(),
        };
        let mut group = program.start(Stdio::piped())?;
        let stdin = group.child.stdin.take().expect("standard input is piped");
        Ok(Self {
            group,
            stdin,
            held: Vec::new(),
            calls: 0,
        })
    }

    /// Whether the process is running and has no pending output.
    pub(super) fn is_ready(&mut self) -> bool {
        self.held.is_empty() && matches!(self.group.child.try_wait(), Ok(None))
    }

    /// Runs one call. The process can be reused only after `Reply::Answered`.
    pub(super) async fn run(
        &mut self,
        call: &Call,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Reply {
        self.calls += 1;
        let id = self.calls;
        let asked = Asked {
            id,
            call: Some(AskedCall::of(call)),
            cancel: false,
        };
        let mut talk = Talk::new(log);
        let reply = tokio::select! {
            biased;
            reply = self.converse(&asked, &mut talk) => reply,
            () = stop.cancelled() => Reply::Stopped,
            limit = elapsed(call.timeout.total) => Reply::TimedOut(limit),
        };
        let reply = match reply {
            Reply::Stopped | Reply::TimedOut(_) => self.cancel(id, reply, &mut talk).await,
            reply => reply,
        };
        self.group
            .stderr
            .drain(&mut talk.stderr, Stream::Stderr, log);
        talk.finish();
        reply
    }

    /// Cancels the call. If the process still returns a successful outcome, that counts and the process is kept.
    async fn cancel(&mut self, id: u64, reply: Reply, talk: &mut Talk<'_>) -> Reply {
        let asked = Asked {
            id,
            call: None,
            cancel: true,
        };
        let answer = tokio::time::timeout(CANCEL_GRACE, self.converse(&asked, talk)).await;
        match answer {
            Ok(Reply::Answered(outcome)) if outcome.is_ok() => Reply::Answered(outcome),
            _ => {
                self.group.kill();
                reply
            }
        }
    }

    async fn converse(&mut self, asked: &Asked<'_>, talk: &mut Talk<'_>) -> Reply {
        let Self {
            group, stdin, held, ..
        } = self;
        let line = line(asked);
        let sending = async { stdin.write_all(&line).await };
        tokio::pin!(sending);
        let mut is_sent = false;
        loop {
            if let Some(reply) = next(held, asked.id, talk) {
                return reply;
            }
            if held.len() > LINE_BYTES_MAX {
                return Reply::Nonsense(format!("a line longer than {LINE_BYTES_MAX} bytes"));
            }
            tokio::select! {
                sent = &mut sending, if !is_sent => match sent {
                    Ok(()) => is_sent = true,
                    Err(_) => return Reply::Died,
                },
                () = group.stdout.readable() => {
                    group.stdout.read_ready(held);
                    if !group.stdout.is_open() {
                        return Reply::Died;
                    }
                }
                () = group.stderr.readable() => {
                    let capture = talk.stderr.get_or_insert_with(|| Capture::new(Stream::Stderr));
                    group.stderr.take_ready(capture, talk.log);
                }
            }
        }
    }
}

/// Reply in the lines received so far, if complete.
fn next(held: &mut Vec<u8>, id: u64, talk: &mut Talk<'_>) -> Option<Reply> {
    while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = held.drain(..=end).collect();
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answered: Answered = match serde_json::from_slice(&line) {
            Ok(answered) => answered,
            Err(error) => return Some(Reply::Nonsense(shown(&line, &error))),
        };
        if answered.id != id {
            let message = format!("a response to call {} during call {id}", answered.id);
            return Some(Reply::Nonsense(message));
        }
        match (answered.outcome, answered.log) {
            (Some(told), _) => return Some(Reply::Answered(Box::new(told.outcome()))),
            (None, Some(logged)) => {
                let (stream, text) = logged.parts();
                talk.say(stream, text);
            }
            (None, None) => {
                let message = "a line with neither `log` nor `outcome`".to_owned();
                return Some(Reply::Nonsense(message));
            }
        }
    }
    None
}

fn shown(line: &[u8], error: &serde_json::Error) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(200)]);
    format!(
        "`{}`, which is not a valid response: {error}",
        text.trim_end()
    )
}

fn line(asked: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(asked).expect("a call serializes to JSON");
    line.push(b'\n');
    line
}

/// Working directory of the program: the manifest's directory, if it still exists.
fn existing(dir: &Path) -> &Path {
    if dir.is_dir() { dir } else { Path::new("/") }
}

/// Output of a call so far.
struct Talk<'a> {
    log: &'a dyn LogSink,
    stderr: Option<Capture>,
    said: usize,
}

impl<'a> Talk<'a> {
    fn new(log: &'a dyn LogSink) -> Self {
        Self {
            log,
            stderr: None,
            said: 0,
        }
    }

    fn say(&mut self, stream: Stream, text: &str) {
        let was_within = self.said <= LOG_BYTES_MAX;
        self.said = self.said.saturating_add(text.len() + 1);
        if self.said <= LOG_BYTES_MAX {
            let mut capture = Capture::new(stream);
            capture.feed(text.as_bytes(), self.log);
            capture.finish(self.log);
        } else if was_within {
            self.log
                .line(stream, &format!("… more output is {LEFT_OUT}"));
        }
    }

    fn finish(self) {
        if let Some(capture) = self.stderr {
            capture.finish(self.log);
        }
    }
}

async fn elapsed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}
