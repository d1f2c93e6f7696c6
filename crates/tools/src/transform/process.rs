//! jq programs in processes of their own, which have a bound on their memory.
//!
//! A program of a few letters can double a text until the machine has no memory left, and what cannot be allocated ends
//! its process. So jq runs in processes that do nothing else: this program starts itself with [`JQ_PROCESS_ARGUMENT`],
//! and hands over one request per line. A process is used again until it has grown.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::outcome::{ErrorKind, TaskError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::transform::{jq, threads};

/// The argument with which a program starts itself as a jq process.
pub const JQ_PROCESS_ARGUMENT: &str = "--jq-process";

/// What a program may allocate, beside what its process begins with.
const MEMORY_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// A process that has grown by more than this ends after its answer, because it would keep the memory.
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Processes that are kept when there is nothing to do.
const IDLE_MAX: usize = 8;
/// So much of what a process says about its end is read.
const LAST_WORDS_BYTES: u64 = 4096;
/// How a process of this language says that it found no memory.
const OUT_OF_MEMORY: &str = "memory allocation of";

/// A program and what it runs over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JqRequest {
    pub(crate) program: String,
    pub(crate) input: Value,
    /// How long it may take.
    pub(crate) millis: u64,
}

/// What a program came to.
#[derive(Debug, Serialize, Deserialize)]
enum JqReply {
    Value(Value),
    Error(Box<TaskError>),
}

/// Where jq programs run.
pub(crate) struct JqProcesses {
    /// The program to start; without one, jq runs on threads of this process.
    program: Option<PathBuf>,
    idle: Mutex<Vec<JqProcess>>,
}

struct JqProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl JqProcesses {
    pub(crate) fn new(program: Option<PathBuf>) -> Self {
        Self {
            program,
            idle: Mutex::default(),
        }
    }

    /// Runs a program. A process whose answer nobody waits for any more is killed.
    pub(crate) async fn run(&self, request: JqRequest) -> Result<Value, TaskError> {
        let Some(program) = &self.program else {
            let deadline = Instant::now() + Duration::from_millis(request.millis);
            return threads::run(move || jq::run(&request.program, request.input, deadline)).await;
        };
        let mut line = serde_json::to_vec(&request).map_err(|error| broken(&error.to_string()))?;
        line.push(b'\n');
        loop {
            let idle = self.lock().pop();
            let is_new = idle.is_none();
            let mut process = match idle {
                Some(process) => process,
                None => JqProcess::start(program)?,
            };
            match process.ask(&line).await {
                Some(reply) => {
                    self.keep(process);
                    return match reply {
                        JqReply::Value(value) => Ok(value),
                        JqReply::Error(error) => Err(*error),
                    };
                }
                None => match process.ended().await {
                    // One that had grown has ended after its answer; a program has no effect, so another takes it.
                    None if !is_new => {}
                    None => return Err(broken("it ended without an answer")),
                    Some(error) => return Err(error),
                },
            }
        }
    }

    fn keep(&self, process: JqProcess) {
        let mut idle = self.lock();
        if idle.len() < IDLE_MAX {
            idle.push(process);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<JqProcess>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JqProcess {
    fn start(program: &Path) -> Result<Self, TaskError> {
        let mut child = Command::new(program)
            .arg(JQ_PROCESS_ARGUMENT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| TaskError {
                retryable: true,
                ..broken(&format!("it cannot be started: {error}"))
            })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            child,
            stdin: stdin.expect("it was asked for"),
            stdout: BufReader::new(stdout.expect("it was asked for")),
        })
    }

    /// The answer to a request, unless the process ends.
    async fn ask(&mut self, line: &[u8]) -> Option<JqReply> {
        self.stdin.write_all(line).await.ok()?;
        self.stdin.flush().await.ok()?;
        let mut answer = Vec::new();
        self.stdout.read_until(b'\n', &mut answer).await.ok()?;
        serde_json::from_slice(&answer).ok()
    }

    /// Why the process ended; none if it ended of its own accord.
    async fn ended(mut self) -> Option<TaskError> {
        drop(self.stdin);
        let mut last_words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            // What it says about its end only helps to name the cause.
            let _ = stderr
                .take(LAST_WORDS_BYTES)
                .read_to_end(&mut last_words)
                .await;
        }
        let last_words = String::from_utf8_lossy(&last_words);
        match self.child.wait().await {
            Ok(status) if status.success() => None,
            _ if last_words.contains(OUT_OF_MEMORY) => Some(TaskError::new(
                ErrorKind::Transform,
                "LIMIT_MEMORY",
                format!(
                    "the jq program needs more than {} MiB of memory; select or split its input, or use a `python` task",
                    MEMORY_BYTES_MAX / 1024 / 1024
                ),
            )),
            Ok(status) => Some(broken(&format!("it ended with {status}"))),
            Err(error) => Some(broken(&error.to_string())),
        }
    }
}

/// Answers requests on standard input until there are none: what a program does that was started as a jq process.
pub fn serve_jq() -> ExitCode {
    let served = std::thread::Builder::new()
        .name("jq".to_owned())
        .stack_size(threads::STACK_BYTES)
        .spawn(serve);
    match served.map(std::thread::JoinHandle::join) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

fn serve() {
    let begun = data_bytes();
    limit_memory(begun);
    let mut requests = std::io::stdin().lock();
    let mut answers = std::io::stdout().lock();
    let mut line = Vec::new();
    while requests
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        let reply = match serde_json::from_slice::<JqRequest>(&line) {
            Ok(request) => {
                line = Vec::new();
                let deadline = Instant::now() + Duration::from_millis(request.millis);
                jq::run(&request.program, request.input, deadline)
            }
            Err(error) => Err(broken(&error.to_string())),
        };
        line.clear();
        let reply = match reply {
            Ok(value) => JqReply::Value(value),
            Err(error) => JqReply::Error(Box::new(error)),
        };
        let written = serde_json::to_writer(&mut answers, &reply).map_err(std::io::Error::from);
        let written = written.and_then(|()| answers.write_all(b"\n"));
        if written.and_then(|()| answers.flush()).is_err() {
            return;
        }
        drop(reply);
        if data_bytes().saturating_sub(begun) > KEPT_BYTES_MAX {
            return;
        }
    }
}

/// How much this process has in private memory, of which its stacks are a part.
fn data_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Bounds the memory of this process. Where the system has no such bound, a program is bounded by its time alone.
fn limit_memory(begun: u64) {
    let most = Some(begun + MEMORY_BYTES_MAX);
    let limit = rustix::process::Rlimit {
        current: most,
        maximum: most,
    };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Data, limit) {
        tracing::warn!(%error, "cannot bound the memory of the jq process");
    }
}

fn broken(why: &str) -> TaskError {
    let message = format!("the jq process failed: {why}");
    TaskError::new(ErrorKind::Transform, "JQ_ERROR", message)
}
