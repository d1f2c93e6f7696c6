//! Evaluation processes: the worker starts, reuses and ends them.
//!
//! A short program can double a string until the machine runs out of memory, and a failed allocation ends its process.
//! Programs therefore run in separate processes: this program starts itself with [`EVALUATION_PROCESS_ARGUMENT`] and
//! sends one request per line. A process is reused until it has grown.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use model::task_log::LogStream;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use crate::call::{LogSink, cancelled_error, timeout_error};
use crate::evaluation::request::{Evaluation, EvaluationReply, Language};
use crate::evaluation::serve::EVALUATION_PROCESS_ARGUMENT;
use crate::evaluation::threads::evaluate_on_thread;
use crate::exhaustion::{exhausted_error, is_start_exhausted};

/// Maximum allocation of a program, in addition to what its process starts with.
pub(crate) const MEMORY_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Maximum number of idle processes.
const IDLE_MAX: usize = 8;
/// Maximum bytes of a process's standard error to read after its end.
const STDERR_BYTES_MAX: u64 = 4096;
/// Text that a Rust program prints when an allocation fails.
const OUT_OF_MEMORY: &str = "memory allocation of";

/// Processes that evaluate programs.
pub(crate) struct EvaluationProcesses {
    /// Program to start; if `None`, evaluations run on threads of this process.
    program: Option<PathBuf>,
    idle: Mutex<Vec<EvaluationProcess>>,
}

struct EvaluationProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl EvaluationProcesses {
    pub(crate) fn new(program: Option<PathBuf>) -> Self {
        Self {
            program,
            idle: Mutex::default(),
        }
    }

    /// Evaluates a program. A timeout or a cancellation ends its process.
    pub(crate) async fn run(
        &self,
        evaluation: Evaluation,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Value, TaskError> {
        let limit = Duration::from_millis(evaluation.millis);
        tokio::select! {
            biased;
            done = self.evaluate(evaluation, log) => done,
            () = stop.cancelled() => Err(cancelled_error()),
            () = tokio::time::sleep(limit) => Err(timeout_error(limit)),
        }
    }

    async fn evaluate(&self, evaluation: Evaluation, log: &dyn LogSink) -> Result<Value, TaskError> {
        let Some(program) = &self.program else {
            return evaluate_on_thread(evaluation, log).await;
        };
        let language = evaluation.language;
        let mut line =
            serde_json::to_vec(&evaluation).map_err(|error| language.interrupted_error(&error.to_string()))?;
        line.push(b'\n');
        drop(evaluation);
        loop {
            let idle = self.lock_idle().pop();
            let is_new = idle.is_none();
            let mut process = match idle {
                Some(process) => process,
                None => EvaluationProcess::start(program, language)?,
            };
            if let Some(result) = process.evaluate(&line, log).await {
                self.retain(process);
                return result;
            }
            match process.wait_for_end(language).await {
                // A process that has grown ends after its reply. Programs have no side effects, so another process can
                // run this one.
                None if !is_new => {}
                None => {
                    return Err(language.interrupted_error("its process exited without a reply"));
                }
                Some(error) => return Err(error),
            }
        }
    }

    fn retain(&self, process: EvaluationProcess) {
        let mut idle = self.lock_idle();
        if idle.len() < IDLE_MAX {
            idle.push(process);
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<EvaluationProcess>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EvaluationProcess {
    fn start(program: &Path, language: Language) -> Result<Self, TaskError> {
        let started = Command::new(program)
            .arg(EVALUATION_PROCESS_ARGUMENT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = started.map_err(|error| {
            if is_start_exhausted(&error) {
                return exhausted_error(&error);
            }
            TaskError {
                retryable: true,
                ..language.interrupted_error(&format!("cannot start its process: {error}"))
            }
        })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            child,
            stdin: stdin.expect("standard input is a pipe"),
            stdout: BufReader::new(stdout.expect("standard output is a pipe")),
        })
    }

    /// Sends a request and reads its replies; `None` if the process exits before the last one.
    async fn evaluate(&mut self, line: &[u8], log: &dyn LogSink) -> Option<Result<Value, TaskError>> {
        self.stdin.write_all(line).await.ok()?;
        self.stdin.flush().await.ok()?;
        loop {
            let mut reply = Vec::new();
            self.stdout.read_until(b'\n', &mut reply).await.ok()?;
            match serde_json::from_slice(&reply).ok()? {
                EvaluationReply::Printed(text) => log.write_line(LogStream::Stdout, &text),
                EvaluationReply::Value(value) => return Some(Ok(value)),
                EvaluationReply::Error(error) => return Some(Err(*error)),
            }
        }
    }

    /// Error of a process that failed; `None` if it exited successfully.
    async fn wait_for_end(mut self, language: Language) -> Option<TaskError> {
        drop(self.stdin);
        let mut printed = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            // If this read fails, only the cause remains unknown.
            let _ = stderr.take(STDERR_BYTES_MAX).read_to_end(&mut printed).await;
        }
        let printed = String::from_utf8_lossy(&printed);
        match self.child.wait().await {
            Ok(status) if status.success() => None,
            _ if printed.contains(OUT_OF_MEMORY) => Some(out_of_memory_error(language)),
            Ok(status) => Some(language.interrupted_error(&format!("its process failed with {status}"))),
            Err(error) => Some(language.interrupted_error(&error.to_string())),
        }
    }
}

fn out_of_memory_error(language: Language) -> TaskError {
    let message = format!(
        "the {} needs more than {} MiB of memory; select or split its input, or use a `python` task",
        language.program_name(),
        MEMORY_BYTES_MAX / 1024 / 1024
    );
    TaskError::new(ErrorKind::Transform, "LIMIT_MEMORY", message)
}
