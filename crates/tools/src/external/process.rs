//! One process of an external tool: runs one call at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use model::outcome::Outcome;
use model::task_log::LogStream;
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, wait_for_timeout};
use crate::capture::{OMITTED_SUFFIX, OutputCapture};
use crate::external::manifest::KindManifest;
use crate::external::protocol::{CallBody, CallLine, ReplyLine};
use crate::isolation::{ResourceLimits, SandboxRules};
use crate::process::{ProcessGroup, ProgramSpec, StartError};

/// Maximum length of a line.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum size of a call's log.
const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Time for a process to respond to a cancellation before it is killed.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// A process that can run calls.
pub(super) struct ToolProcess {
    group: ProcessGroup,
    stdin: ChildStdin,
    /// Bytes of an incomplete line.
    buffer: Vec<u8>,
    calls: u64,
}

/// How a call ended.
pub(super) enum ProcessReply {
    Completed(Box<Outcome>),
    /// The process exited without a response.
    Died,
    /// Its output violates the protocol.
    Malformed(String),
    TimedOut(Duration),
    Stopped,
}

impl ToolProcess {
    pub(super) fn start(manifest: &KindManifest, env: &BTreeMap<String, String>) -> Result<Self, StartError> {
        let args: Vec<&str> = manifest.command.iter().skip(1).map(String::as_str).collect();
        let program = ProgramSpec {
            path: &manifest.program_path(),
            args: &args,
            env,
            cwd: existing_dir(&manifest.dir),
            limits: &ResourceLimits::default(),
            sandbox_rules: &SandboxRules::default(),
        };
        let mut group = program.start(Stdio::piped())?;
        let stdin = group.child.stdin.take().expect("standard input is piped");
        Ok(Self {
            group,
            stdin,
            buffer: Vec::new(),
            calls: 0,
        })
    }

    /// Whether the process is running and has no pending output.
    pub(super) fn is_ready(&mut self) -> bool {
        self.buffer.is_empty() && matches!(self.group.child.try_wait(), Ok(None))
    }

    /// Runs one call. The process can be reused only after `ProcessReply::Completed`.
    pub(super) async fn run(&mut self, call: &Call, stop: &CancellationToken, log: &dyn LogSink) -> ProcessReply {
        self.calls += 1;
        let id = self.calls;
        let call_line = CallLine {
            id,
            call: Some(CallBody::from_call(call)),
            cancel: false,
        };
        let mut transcript = CallTranscript::new(log);
        let reply = tokio::select! {
            biased;
            reply = self.exchange(&call_line, &mut transcript) => reply,
            () = stop.cancelled() => ProcessReply::Stopped,
            limit = wait_for_timeout(call.timeout.total) => ProcessReply::TimedOut(limit),
        };
        let reply = match reply {
            ProcessReply::Stopped | ProcessReply::TimedOut(_) => self.cancel(id, reply, &mut transcript).await,
            reply => reply,
        };
        self.group.stderr.drain(&mut transcript.stderr, LogStream::Stderr, log);
        transcript.finish();
        reply
    }

    /// Cancels the call. If the process still returns a successful outcome, that counts and the process is kept.
    async fn cancel(&mut self, id: u64, reply: ProcessReply, transcript: &mut CallTranscript<'_>) -> ProcessReply {
        let call_line = CallLine {
            id,
            call: None,
            cancel: true,
        };
        let late_reply = tokio::time::timeout(CANCEL_GRACE, self.exchange(&call_line, transcript)).await;
        match late_reply {
            Ok(ProcessReply::Completed(outcome)) if outcome.is_ok() => ProcessReply::Completed(outcome),
            _ => {
                self.group.kill();
                reply
            }
        }
    }

    async fn exchange(&mut self, call_line: &CallLine<'_>, transcript: &mut CallTranscript<'_>) -> ProcessReply {
        let Self {
            group, stdin, buffer, ..
        } = self;
        let line = to_json_line(call_line);
        let sending = async { stdin.write_all(&line).await };
        tokio::pin!(sending);
        let mut is_sent = false;
        loop {
            if let Some(reply) = next_reply(buffer, call_line.id, transcript) {
                return reply;
            }
            if buffer.len() > LINE_BYTES_MAX {
                return ProcessReply::Malformed(format!("a line longer than {LINE_BYTES_MAX} bytes"));
            }
            tokio::select! {
                sent = &mut sending, if !is_sent => match sent {
                    Ok(()) => is_sent = true,
                    Err(_) => return ProcessReply::Died,
                },
                () = group.stdout.wait_readable() => {
                    group.stdout.read_ready(buffer);
                    if !group.stdout.is_open() {
                        return ProcessReply::Died;
                    }
                }
                () = group.stderr.wait_readable() => {
                    let capture = transcript.stderr.get_or_insert_with(|| OutputCapture::new(LogStream::Stderr));
                    group.stderr.capture_ready(capture, transcript.log);
                }
            }
        }
    }
}

/// Reply in the lines received so far, if complete.
fn next_reply(buffer: &mut Vec<u8>, id: u64, transcript: &mut CallTranscript<'_>) -> Option<ProcessReply> {
    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = buffer.drain(..=end).collect();
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let line: ReplyLine = match serde_json::from_slice(&line) {
            Ok(line) => line,
            Err(error) => return Some(ProcessReply::Malformed(describe_line_error(&line, &error))),
        };
        if line.id != id {
            let message = format!("a response to call {} during call {id}", line.id);
            return Some(ProcessReply::Malformed(message));
        }
        match (line.outcome, line.log) {
            (Some(outcome), _) => return Some(ProcessReply::Completed(Box::new(outcome.into_outcome()))),
            (None, Some(logged)) => {
                let (stream, text) = logged.stream_and_text();
                transcript.log_line(stream, text);
            }
            (None, None) => {
                let message = "a line with neither `log` nor `outcome`".to_owned();
                return Some(ProcessReply::Malformed(message));
            }
        }
    }
    None
}

fn describe_line_error(line: &[u8], error: &serde_json::Error) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(200)]);
    format!("`{}`, which is not a valid response: {error}", text.trim_end())
}

fn to_json_line(call_line: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(call_line).expect("a call serializes to JSON");
    line.push(b'\n');
    line
}

/// Working directory of the program: the manifest's directory, if it still exists.
fn existing_dir(dir: &Path) -> &Path {
    if dir.is_dir() { dir } else { Path::new("/") }
}

/// Output of a call so far.
struct CallTranscript<'a> {
    log: &'a dyn LogSink,
    stderr: Option<OutputCapture>,
    logged_bytes: usize,
}

impl<'a> CallTranscript<'a> {
    fn new(log: &'a dyn LogSink) -> Self {
        Self {
            log,
            stderr: None,
            logged_bytes: 0,
        }
    }

    fn log_line(&mut self, stream: LogStream, text: &str) {
        let was_within = self.logged_bytes <= LOG_BYTES_MAX;
        self.logged_bytes = self.logged_bytes.saturating_add(text.len() + 1);
        if self.logged_bytes <= LOG_BYTES_MAX {
            let mut capture = OutputCapture::new(stream);
            capture.feed(text.as_bytes(), self.log);
            capture.finish(self.log);
        } else if was_within {
            self.log
                .write_line(stream, &format!("… more output is {OMITTED_SUFFIX}"));
        }
    }

    fn finish(self) {
        if let Some(capture) = self.stderr {
            capture.finish(self.log);
        }
    }
}
