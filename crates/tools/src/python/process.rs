//! One interpreter: a process that runs calls one after the other.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::call::{LogSink, Stream};
use crate::capture::Capture;
use crate::isolation::{Confines, GO, Limits};
use crate::process::{GRACE, Group, NotStarted, Program};
use crate::python::request::{Request, Source};

/// Script that runs inside the interpreter.
const RUNNER: &str = include_str!("runner.py");

/// Gives the runner's frames a file name, so that tracebacks can omit them.
const BOOT: &str = "import sys; exec(compile(sys.argv.pop(), '<noetl>', 'exec'))";

/// An interpreter that has compiled this many programs is replaced, which frees their memory.
const PROGRAMS_MAX: usize = 1_000;

/// First line that the runner writes.
const STARTED: &[u8] = b"\n";

/// Maximum wait for an interpreter's start before it gets its call.
const START_MAX: Duration = Duration::from_secs(10);

/// Maximum size of a response; a larger one ends the interpreter.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A warm interpreter.
pub(crate) struct Interpreter {
    group: Group,
    channel: BufReader<UnixStream>,
    /// Whether the runner's first line has arrived.
    has_started: bool,
    programs: HashMap<Source, usize>,
    calls: u64,
    line: Vec<u8>,
}

/// How a call ended.
pub(crate) enum Reply {
    /// The interpreter responded with this line.
    Answered(Vec<u8>),
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
struct Line<'a> {
    program: usize,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    source: Option<&'a Source>,
    #[serde(flatten)]
    request: &'a Request,
}

impl Interpreter {
    /// Starts an interpreter.
    pub(crate) fn start(
        python: &Path,
        env: &std::collections::BTreeMap<String, String>,
        limits: &Limits,
        confines: &Confines,
    ) -> Result<Self, NotStarted> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let program = Program {
            path: python,
            args: &["-c", BOOT, RUNNER],
            env,
            cwd: Path::new("/"),
            limits,
            confines,
        };
        let theirs: std::os::fd::OwnedFd = theirs.into();
        let group = program.start(Stdio::from(theirs))?;
        if !limits.is_empty() {
            (&ours).write_all(GO)?;
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
        let started = tokio::time::timeout(START_MAX, self.channel.fill_buf()).await;
        if let Ok(Ok(chunk)) = started
            && !chunk.is_empty()
        {
            self.channel.consume(STARTED.len());
            self.has_started = true;
        }
    }

    /// Whether the process is still running.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.group.child.try_wait(), Ok(None))
    }

    /// Whether it has reached its call or program limit and should be replaced.
    pub(crate) fn is_worn(&self, calls_max: u64) -> bool {
        self.calls >= calls_max || self.programs.len() >= PROGRAMS_MAX
    }

    /// Runs one call and logs its output.
    pub(crate) async fn run(
        &mut self,
        request: &Request,
        timeout: Option<Duration>,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Reply {
        self.calls += 1;
        self.write_line(request);
        let mut outputs = Outputs::default();
        let reply = {
            let answer = self.converse(&mut outputs, log);
            tokio::select! {
                biased;
                reply = answer => reply,
                () = stop.cancelled() => Reply::Stopped,
                limit = elapsed(timeout) => Reply::TimedOut(limit),
            }
        };
        let reply = self.settle(reply).await;
        self.group
            .stdout
            .drain(&mut outputs.stdout, Stream::Stdout, log);
        self.group
            .stderr
            .drain(&mut outputs.stderr, Stream::Stderr, log);
        for capture in [outputs.stdout, outputs.stderr].into_iter().flatten() {
            capture.finish(log);
        }
        reply
    }

    /// Ends the process if the reply makes it unusable.
    async fn settle(&mut self, reply: Reply) -> Reply {
        match reply {
            Reply::Answered(answer) => Reply::Answered(answer),
            // A process that closed its connection should be exiting; if it is not, it is killed after the grace
            // period.
            Reply::Died(_) => {
                let ended = tokio::time::timeout(GRACE, self.group.child.wait()).await;
                self.group.kill();
                Reply::Died(ended.ok().and_then(Result::ok))
            }
            other => {
                let _ = self.group.end(GRACE).await;
                other
            }
        }
    }

    fn write_line(&mut self, request: &Request) {
        let number = self.programs.len();
        let (program, source) = match self.programs.get(&request.source) {
            Some(program) => (*program, None),
            None => (number, Some(&request.source)),
        };
        self.line.clear();
        let line = Line {
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
    async fn converse(&mut self, outputs: &mut Outputs, log: &dyn LogSink) -> Reply {
        let Self {
            group,
            channel,
            line,
            has_started,
            ..
        } = self;
        if channel.get_mut().write_all(line).await.is_err() {
            return Reply::Died(None);
        }
        let mut answer = Vec::new();
        loop {
            tokio::select! {
                biased;
                chunk = channel.fill_buf() => {
                    let Ok(chunk) = chunk else { return Reply::Died(None) };
                    if chunk.is_empty() {
                        return Reply::Died(None);
                    }
                    if !std::mem::replace(has_started, true) {
                        channel.consume(STARTED.len());
                        continue;
                    }
                    // The response is one line, and nothing follows it until the next call.
                    let is_whole = chunk.last() == Some(&b'\n');
                    answer.extend_from_slice(chunk);
                    let length = chunk.len();
                    channel.consume(length);
                    if is_whole {
                        return Reply::Answered(answer);
                    }
                    if answer.len() > ANSWER_BYTES_MAX {
                        return Reply::TooLarge(ANSWER_BYTES_MAX);
                    }
                }
                () = group.stdout.readable() => {
                    let capture = outputs.stdout.get_or_insert_with(|| Capture::new(Stream::Stdout));
                    group.stdout.take_ready(capture, log);
                }
                () = group.stderr.readable() => {
                    let capture = outputs.stderr.get_or_insert_with(|| Capture::new(Stream::Stderr));
                    group.stderr.take_ready(capture, log);
                }
            }
        }
    }
}

/// Captured output of a call.
#[derive(Default)]
struct Outputs {
    stdout: Option<Capture>,
    stderr: Option<Capture>,
}

/// Waits for the limit and returns it; forever if there is none.
async fn elapsed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}
