//! Runs programs in process groups: starts them with a clean environment, reads their output without blocking and kills
//! the whole group.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use model::outcome::TaskError;
use model::task_log::LogStream;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::call::LogSink;
use crate::capture::OutputCapture;
use crate::exhaustion::{exhausted_error, is_start_exhausted};
use crate::isolation::{GATE_SCRIPT, ResourceLimits, SandboxRules, isolation_unavailable_error, limits_error};
use crate::process_marker::{MARKER_VARIABLE, ProcessMarker};

/// Time between SIGTERM and SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_secs(5);

/// Program to start.
pub struct ProgramSpec<'a> {
    pub path: &'a Path,
    pub args: &'a [&'a str],
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a Path,
    /// With limits, the caller sends [`GATE_OPEN_LINE`](crate::isolation::GO) before any other input.
    pub limits: &'a ResourceLimits,
    pub sandbox_rules: &'a SandboxRules,
}

/// Reason why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot start the program")]
    Program(#[from] io::Error),
    #[error("cannot set its resource limits")]
    Limits(#[source] io::Error),
    #[error("cannot set up the sandbox")]
    Sandbox(#[source] io::Error),
}

impl StartError {
    /// Task error if the machine cannot start the program, or not with its isolation; `None` if the program itself is
    /// the cause.
    pub fn host_error(&self) -> Option<TaskError> {
        if is_start_exhausted(self.cause()) {
            return Some(exhausted_error(self.cause()));
        }
        match self {
            Self::Program(_) => None,
            Self::Limits(error) => Some(limits_error(error)),
            Self::Sandbox(error) => {
                let message = format!("cannot set up the sandbox (`spec.sandbox`): {error}");
                Some(isolation_unavailable_error(message).with_detail("key", "sandbox"))
            }
        }
    }

    /// Error of the system.
    pub fn cause(&self) -> &io::Error {
        match self {
            Self::Program(error) | Self::Limits(error) | Self::Sandbox(error) => error,
        }
    }
}

/// A running program with its descendants. Descendants that leave the process group are found by their marker.
pub struct ProcessGroup {
    pub child: Child,
    pub stdout: OutputPipe,
    pub stderr: OutputPipe,
    id: Option<Pid>,
    marker: ProcessMarker,
    is_swept: bool,
}

/// Output pipe of a program.
pub struct OutputPipe {
    pipe: pipe::Receiver,
    is_open: bool,
}

impl ProgramSpec<'_> {
    /// Starts the program in a new process group with only the given environment.
    pub fn start(&self, stdin: Stdio) -> Result<ProcessGroup, StartError> {
        let mut mark = ProcessMarker::new();
        let mut command = self.build_command();
        command
            .env_clear()
            .envs(self.env)
            .env(MARKER_VARIABLE, mark.as_str())
            .current_dir(self.cwd)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = if self.sandbox_rules.is_unrestricted() {
            command.spawn()?
        } else {
            spawn_confined(&mut command, self.sandbox_rules)?
        };
        mark.set_leader(child.id());
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(id) = id.filter(|_| !self.limits.is_empty()) {
            self.limits.apply(id).map_err(StartError::Limits)?;
        }
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let stdout = stdout.expect("standard output is piped").into_owned_fd()?;
        let stderr = stderr.expect("standard error is piped").into_owned_fd()?;
        Ok(ProcessGroup {
            child,
            stdout: OutputPipe::new(pipe::Receiver::from_owned_fd(stdout)?),
            stderr: OutputPipe::new(pipe::Receiver::from_owned_fd(stderr)?),
            id,
            marker: mark,
            is_swept: false,
        })
    }

    /// The program itself, or a shell that waits until the limits are set and then executes the program.
    fn build_command(&self) -> Command {
        if self.limits.is_empty() {
            let mut command = Command::new(self.path);
            command.args(self.args);
            return command;
        }
        let mut command = Command::new("/bin/sh");
        let gate = ["-c", GATE_SCRIPT, "sh"];
        command.args(gate).arg(self.path).args(self.args);
        command
    }
}

/// Starts a program from a thread that applies the sandbox to itself and then ends.
fn spawn_confined(command: &mut Command, rules: &SandboxRules) -> Result<Child, StartError> {
    let runtime = tokio::runtime::Handle::current();
    let spawn = || {
        let _entered = runtime.enter();
        rules.enforce().map_err(StartError::Sandbox)?;
        Ok(command.spawn()?)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, spawn)?;
        thread.join().expect("starting a program does not panic")
    })
}

impl ProcessGroup {
    /// Sends SIGTERM to the group, waits for `grace`, then sends SIGKILL.
    pub async fn terminate(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM);
        if let Ok(status) = tokio::time::timeout(grace, self.child.wait()).await {
            self.signal(Signal::KILL);
            return status;
        }
        self.signal(Signal::KILL);
        self.child.wait().await
    }

    /// Kills the remaining processes of the group, and those that left it.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        // Killed processes start no others, so one sweep is enough.
        if !std::mem::replace(&mut self.is_swept, true) {
            self.marker.kill_marked();
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may have exited already.
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for ProcessGroup {
    /// No process that a call started outlives the call.
    fn drop(&mut self) {
        self.kill();
    }
}

impl OutputPipe {
    fn new(pipe: pipe::Receiver) -> Self {
        Self { pipe, is_open: true }
    }

    /// Whether the pipe is still open.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Waits until there is data to read; never returns once the pipe is closed.
    pub async fn wait_readable(&self) {
        if !self.is_open || self.pipe.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Reads the available data into the capture, using the runtime's readiness.
    pub fn capture_ready(&mut self, capture: &mut OutputCapture, log: &dyn LogSink) {
        let mut chunk = [0; 16 * 1024];
        match self.pipe.try_read(&mut chunk) {
            Ok(0) => self.is_open = false,
            Ok(length) => capture.feed(&chunk[..length], log),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.is_open = false,
        }
    }

    /// Appends the available data to `buffer` and returns its length.
    pub fn read_ready(&mut self, buffer: &mut Vec<u8>) -> usize {
        let mut chunk = [0; 16 * 1024];
        match self.pipe.try_read(&mut chunk) {
            Ok(0) => self.is_open = false,
            Ok(length) => {
                buffer.extend_from_slice(&chunk[..length]);
                return length;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.is_open = false,
        }
        0
    }

    /// Reads the remaining output of a program that has exited, up to a limit, with direct system calls.
    pub fn read_remaining(&mut self, buffer: &mut Vec<u8>) {
        self.drain_pipe(|chunk| buffer.extend_from_slice(chunk));
    }

    /// Reads everything that is in the pipe now, with direct system calls, because the runtime's readiness may lag
    /// behind.
    pub fn drain(&mut self, capture: &mut Option<OutputCapture>, stream: LogStream, log: &dyn LogSink) {
        self.drain_pipe(|chunk| {
            let capture = capture.get_or_insert_with(|| OutputCapture::new(stream));
            capture.feed(chunk, log);
        });
    }

    fn drain_pipe(&mut self, mut consume: impl FnMut(&[u8])) {
        let mut chunk = [0; 16 * 1024];
        let mut remaining_bytes = DRAIN_BYTES_MAX;
        while self.is_open && remaining_bytes > 0 {
            match rustix::io::read(self.pipe.as_fd(), &mut chunk) {
                Ok(0) => self.is_open = false,
                Ok(length) => {
                    consume(&chunk[..length]);
                    remaining_bytes = remaining_bytes.saturating_sub(length);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }
}

/// Larger than any pipe buffer: if more arrives while draining, another process is still writing.
const DRAIN_BYTES_MAX: usize = 2 * 1024 * 1024;
