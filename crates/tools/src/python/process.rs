//! One interpreter: a process that runs calls one after the other.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use model::task_log::LogStream;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::call::{LogSink, wait_for_timeout};
use crate::capture::OutputCapture;
use crate::isolation::{GATE_OPEN_LINE, ResourceLimits, SandboxRules};
use crate::process::{KILL_GRACE, ProcessGroup, ProgramSpec, StartError};
use crate::python::request::{CodeSource, PythonRequest};

/// Script that runs inside the interpreter.
const RUNNER_SCRIPT: &str = include_str!("runner.py");

/// Gives the runner's frames a file name, so that tracebacks can omit them.
const BOOT_CODE: &str = "import sys; exec(compile(sys.argv.pop(), '<noetl>', 'exec'))";

/// An interpreter that has compiled this many programs is replaced, which frees their memory.
const PROGRAMS_MAX: usize = 1_000;

/// First line that the runner writes.
const STARTED_LINE: &[u8] = b"\n";

/// Maximum wait for an interpreter's start before it gets its call.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response; a larger one ends the interpreter.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A warm interpreter.
pub(crate) struct Interpreter {
    group: ProcessGroup,
    channel: BufReader<UnixStream>,
    /// Whether the runner's first line has arrived.
    has_started: bool,
    programs: HashMap<CodeSource, usize>,
    calls: u64,
    line: Vec<u8>,
}

/// How a call ended.
pub(crate) enum RunnerReply {
    /// The interpreter responded with this line.
    Responded(Vec<u8>),
    /// The process ended without a response.
    Died(Option<ExitStatus>),
    /// The response exceeds the size limit.
    TooLarge(usize),
    /// The call timed out.
    TimedOut(Duration),
    /// The call was cancelled.
    Stopped,
}

/// Request line: the program by number, with its text if the interpreter has not seen it before.
#[derive(Serialize)]
struct RunnerRequest<'a> {
    program: usize,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    source: Option<&'a CodeSource>,
    #[serde(flatten)]
    request: &'a PythonRequest,
}

impl Interpreter {
    /// Starts an interpreter.
    pub(crate) fn start(
        python: &Path,
        env: &std::collections::BTreeMap<String, String>,
        limits: &ResourceLimits,
        rules: &SandboxRules,
    ) -> Result<Self, StartError> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let program = ProgramSpec {
            path: python,
            args: &["-c", BOOT_CODE, RUNNER_SCRIPT],
            env,
            cwd: Path::new("/"),
            limits,
            sandbox_rules: rules,
        };
        let theirs: std::os::fd::OwnedFd = theirs.into();
        let group = program.start(Stdio::from(theirs))?;
        if !limits.is_empty() {
            (&ours).write_all(GATE_OPEN_LINE)?;
        }
        Ok(Self {
            group,
            channel: BufReader::with_capacity(64 * 1024, UnixStream::from_std(ours)?),
            has_started: false,
            programs: HashMap::new(),
            calls: 0,
            line: Vec::new(),
        })
    }

    /// Waits for a limited time until the interpreter accepts calls. If it hangs or exits, its first call fails.
    pub(crate) async fn wait_for_start(&mut self) {
        let started = tokio::time::timeout(START_TIMEOUT, self.channel.fill_buf()).await;
        if let Ok(Ok(chunk)) = started
            && !chunk.is_empty()
        {
            self.channel.consume(STARTED_LINE.len());
            self.has_started = true;
        }
    }

    /// Whether the process is still running.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.group.child.try_wait(), Ok(None))
    }

    /// Whether it has reached its call or program limit and should be replaced.
    pub(crate) fn is_worn_out(&self, calls_max: u64) -> bool {
        self.calls >= calls_max || self.programs.len() >= PROGRAMS_MAX
    }

    /// Runs one call and logs its output.
    pub(crate) async fn run(
        &mut self,
        request: &PythonRequest,
        timeout: Option<Duration>,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> RunnerReply {
        self.calls += 1;
        self.write_line(request);
        let mut outputs = CallOutputs::default();
        let reply = {
            let exchange = self.exchange(&mut outputs, log);
            tokio::select! {
                biased;
                reply = exchange => reply,
                () = stop.cancelled() => RunnerReply::Stopped,
                limit = wait_for_timeout(timeout) => RunnerReply::TimedOut(limit),
            }
        };
        let reply = self.end_if_unusable(reply).await;
        self.group.stdout.drain(&mut outputs.stdout, LogStream::Stdout, log);
        self.group.stderr.drain(&mut outputs.stderr, LogStream::Stderr, log);
        for capture in [outputs.stdout, outputs.stderr].into_iter().flatten() {
            capture.finish(log);
        }
        reply
    }

    /// Ends the process if the reply makes it unusable.
    async fn end_if_unusable(&mut self, reply: RunnerReply) -> RunnerReply {
        match reply {
            RunnerReply::Responded(reply_bytes) => RunnerReply::Responded(reply_bytes),
            // A process that closed its connection should be exiting; if it is not, it is killed after the grace
            // period.
            RunnerReply::Died(_) => {
                let ended = tokio::time::timeout(KILL_GRACE, self.group.child.wait()).await;
                self.group.kill();
                RunnerReply::Died(ended.ok().and_then(Result::ok))
            }
            other => {
                let _ = self.group.terminate(KILL_GRACE).await;
                other
            }
        }
    }

    fn write_line(&mut self, request: &PythonRequest) {
        let number = self.programs.len();
        let (program, source) = match self.programs.get(&request.source) {
            Some(program) => (*program, None),
            None => (number, Some(&request.source)),
        };
        self.line.clear();
        let line = RunnerRequest {
            program,
            source,
            request,
        };
        serde_json::to_writer(&mut self.line, &line).expect("a request serializes to JSON");
        self.line.push(b'\n');
        if source.is_some() {
            self.programs.insert(request.source.clone(), number);
        }
    }

    /// Sends the request and waits for the response, reading the code's output meanwhile.
    async fn exchange(&mut self, outputs: &mut CallOutputs, log: &dyn LogSink) -> RunnerReply {
        let Self {
            group,
            channel,
            line,
            has_started,
            ..
        } = self;
        if channel.get_mut().write_all(line).await.is_err() {
            return RunnerReply::Died(None);
        }
        let mut reply_bytes = Vec::new();
        loop {
            tokio::select! {
                biased;
                chunk = channel.fill_buf() => {
                    let Ok(chunk) = chunk else { return RunnerReply::Died(None) };
                    if chunk.is_empty() {
                        return RunnerReply::Died(None);
                    }
                    if !std::mem::replace(has_started, true) {
                        channel.consume(STARTED_LINE.len());
                        continue;
                    }
                    // The response is one line, and nothing follows it until the next call.
                    let is_whole = chunk.last() == Some(&b'\n');
                    reply_bytes.extend_from_slice(chunk);
                    let length = chunk.len();
                    channel.consume(length);
                    if is_whole {
                        return RunnerReply::Responded(reply_bytes);
                    }
                    if reply_bytes.len() > ANSWER_BYTES_MAX {
                        return RunnerReply::TooLarge(ANSWER_BYTES_MAX);
                    }
                }
                () = group.stdout.wait_readable() => {
                    let capture = outputs.stdout.get_or_insert_with(|| OutputCapture::new(LogStream::Stdout));
                    group.stdout.capture_ready(capture, log);
                }
                () = group.stderr.wait_readable() => {
                    let capture = outputs.stderr.get_or_insert_with(|| OutputCapture::new(LogStream::Stderr));
                    group.stderr.capture_ready(capture, log);
                }
            }
        }
    }
}

/// Captured output of a call.
#[derive(Default)]
struct CallOutputs {
    stdout: Option<OutputCapture>,
    stderr: Option<OutputCapture>,
}
