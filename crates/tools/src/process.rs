//! Runs programs in process groups: starts them with a clean environment, reads their output without blocking and kills
//! the whole group.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use model::outcome::TaskError;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::call::{LogSink, Stream};
use crate::capture::Capture;
use crate::exhaustion::{cannot_start, exhausted};
use crate::isolation::{Confines, GATE, Limits, not_limited, unavailable};
use crate::mark::{MARK, Mark};

/// Time between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Program to start.
pub(crate) struct Program<'a> {
    pub(crate) path: &'a Path,
    pub(crate) args: &'a [&'a str],
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) cwd: &'a Path,
    /// With limits, the caller sends [`GO`](crate::isolation::GO) before any other input.
    pub(crate) limits: &'a Limits,
    pub(crate) confines: &'a Confines,
}

/// Reason why a program did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStarted {
    #[error("cannot start the program")]
    Program(#[from] io::Error),
    #[error("cannot set its resource limits")]
    Limits(#[source] io::Error),
    #[error("cannot set up the sandbox")]
    Confines(#[source] io::Error),
}

impl NotStarted {
    /// Task error if the machine cannot start the program, or not with its isolation; `None` if the program itself is
    /// the cause.
    pub(crate) fn host_error(&self) -> Option<TaskError> {
        if cannot_start(self.cause()) {
            return Some(exhausted(self.cause()));
        }
        match self {
            Self::Program(_) => None,
            Self::Limits(error) => Some(not_limited(error)),
            Self::Confines(error) => {
                let message = format!("cannot set up the sandbox (`spec.sandbox`): {error}");
                Some(unavailable(message).with("key", "sandbox"))
            }
        }
    }

    /// Error of the system.
    pub(crate) fn cause(&self) -> &io::Error {
        match self {
            Self::Program(error) | Self::Limits(error) | Self::Confines(error) => error,
        }
    }
}

/// A running program with its descendants. Descendants that leave the process group are found by their marker.
pub(crate) struct Group {
    pub(crate) child: Child,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    id: Option<Pid>,
    mark: Mark,
    is_swept: bool,
}

/// Output pipe of a program.
pub(crate) struct Output {
    pipe: pipe::Receiver,
    is_open: bool,
}

impl Program<'_> {
    /// Starts the program in a new process group with only the given environment.
    pub(crate) fn start(&self, stdin: Stdio) -> Result<Group, NotStarted> {
        let mut mark = Mark::new();
        let mut command = self.command();
        command
            .env_clear()
            .envs(self.env)
            .env(MARK, mark.as_str())
            .current_dir(self.cwd)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = if self.confines.is_none() {
            command.spawn()?
        } else {
            spawn_confined(&mut command, self.confines)?
        };
        mark.leads(child.id());
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(id) = id.filter(|_| !self.limits.is_empty()) {
            self.limits.set(id).map_err(NotStarted::Limits)?;
        }
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let stdout = stdout.expect("standard output is piped").into_owned_fd()?;
        let stderr = stderr.expect("standard error is piped").into_owned_fd()?;
        Ok(Group {
            child,
            stdout: Output::new(pipe::Receiver::from_owned_fd(stdout)?),
            stderr: Output::new(pipe::Receiver::from_owned_fd(stderr)?),
            id,
            mark,
            is_swept: false,
        })
    }

    /// The program itself, or a shell that waits until the limits are set and then executes the program.
    fn command(&self) -> Command {
        if self.limits.is_empty() {
            let mut command = Command::new(self.path);
            command.args(self.args);
            return command;
        }
        let mut command = Command::new("/bin/sh");
        let gate = ["-c", GATE, "sh"];
        command.args(gate).arg(self.path).args(self.args);
        command
    }
}

/// Starts a program from a thread that applies the sandbox to itself and then ends.
fn spawn_confined(command: &mut Command, confines: &Confines) -> Result<Child, NotStarted> {
    let runtime = tokio::runtime::Handle::current();
    let spawn = || {
        let _entered = runtime.enter();
        confines.enforce().map_err(NotStarted::Confines)?;
        Ok(command.spawn()?)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, spawn)?;
        thread.join().expect("starting a program does not panic")
    })
}

impl Group {
    /// Sends SIGTERM to the group, waits for `grace`, then sends SIGKILL.
    pub(crate) async fn end(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM);
        if let Ok(status) = tokio::time::timeout(grace, self.child.wait()).await {
            self.signal(Signal::KILL);
            return status;
        }
        self.signal(Signal::KILL);
        self.child.wait().await
    }

    /// Kills the remaining processes of the group, and those that left it.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        // Killed processes start no others, so one sweep is enough.
        if !std::mem::replace(&mut self.is_swept, true) {
            self.mark.sweep();
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may have exited already.
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for Group {
    /// No process that a call has started outlives it.
    fn drop(&mut self) {
        self.kill();
    }
}

impl Output {
    fn new(pipe: pipe::Receiver) -> Self {
        Self {
            pipe,
            is_open: true,
        }
    }

    /// Whether the pipe is still open.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Waits until there is data to read; never returns once the pipe is closed.
    pub(crate) async fn readable(&self) {
        if !self.is_open || self.pipe.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Reads the available data into the capture, using the runtime's readiness.
    pub(crate) fn take_ready(&mut self, capture: &mut Capture, log: &dyn LogSink) {
        let mut chunk = [0; 16 * 1024];
        match self.pipe.try_read(&mut chunk) {
            Ok(0) => self.is_open = false,
            Ok(length) => capture.feed(&chunk[..length], log),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.is_open = false,
        }
    }

    /// Appends the available data to `buffer` and returns its length.
    pub(crate) fn read_ready(&mut self, buffer: &mut Vec<u8>) -> usize {
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
    pub(crate) fn read_rest(&mut self, buffer: &mut Vec<u8>) {
        let mut chunk = [0; 16 * 1024];
        let mut bytes_left = DRAIN_BYTES_MAX;
        while self.is_open && bytes_left > 0 {
            match rustix::io::read(self.pipe.as_fd(), &mut chunk) {
                Ok(0) => self.is_open = false,
                Ok(length) => {
                    buffer.extend_from_slice(&chunk[..length]);
                    bytes_left = bytes_left.saturating_sub(length);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }

    /// Reads everything that is in the pipe now, with direct system calls, because the runtime's readiness may lag
    /// behind.
    pub(crate) fn drain(
        &mut self,
        capture: &mut Option<Capture>,
        stream: Stream,
        log: &dyn LogSink,
    ) {
        let mut chunk = [0; 16 * 1024];
        let mut bytes_left = DRAIN_BYTES_MAX;
        while self.is_open && bytes_left > 0 {
            match rustix::io::read(self.pipe.as_fd(), &mut chunk) {
                Ok(0) => self.is_open = false,
                Ok(length) => {
                    let capture = capture.get_or_insert_with(|| Capture::new(stream));
                    capture.feed(&chunk[..length], log);
                    bytes_left = bytes_left.saturating_sub(length);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }
}

/// Larger than any pipe buffer: if more arrives while draining, another process is still writing.
const DRAIN_BYTES_MAX: usize = 2 * 1024 * 1024;
