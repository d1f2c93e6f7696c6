//! One call of `shell`: the script is started in a group of its own, read until it ends, and ended if it does not.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::template::Piece;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Stream, Tool, cancelled, timed_out};
use crate::capture::{Capture, tail_of};
use crate::isolation::{GO, Limits, limit_reached, not_limited};
use crate::process::{GRACE, Group, NotStarted, Program};
use crate::python::request::environment;
use crate::shell::script::script;

/// A script longer than this goes through a file: a single argument has a bound.
const ARGUMENT_BYTES_MAX: usize = 100 * 1024;

/// How much of the outputs an error carries.
const TAIL_BYTES_MAX: usize = 4 * 1024;

/// The shell tool.
pub(crate) struct Shell {
    env: BTreeMap<String, String>,
}

/// How a program ended.
pub(crate) enum End {
    Exited(std::io::Result<ExitStatus>),
    TimedOut(Duration),
    Stopped,
}

/// What a program printed.
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Shell {
    pub(crate) fn new(env: BTreeMap<String, String>) -> Self {
        Self { env }
    }

    async fn run(
        &self,
        call: &Call,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Outcome, TaskError> {
        let script = script(&commands(call)?)?;
        let mut env = self.env.clone();
        env.extend(environment(call)?);
        let cwd = match call.text("cwd")? {
            Some(path) => call.resolve(path),
            None => call.place.base_dir.clone(),
        };
        let shell = call.text("shell")?.unwrap_or("/bin/sh");
        let limits = Limits::of(call)?;
        let input = stdin(call, &limits);
        let file = long_script(&script).map_err(|error| not_started(shell, &cwd, &error.into()))?;
        let args = match &file {
            Some(file) => vec![file.path().to_str().unwrap_or_default()],
            None => vec!["-c", &script],
        };
        let program = Program {
            path: &PathBuf::from(shell),
            args: &args,
            env: &env,
            cwd: &cwd,
            limits: &limits,
        };
        let piped = if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let mut group = program
            .start(piped)
            .map_err(|error| not_started(shell, &cwd, &error))?;
        let (end, printed) = attend(&mut group, input, call.timeout.total, stop, log).await;
        Ok(outcome(end, &printed))
    }
}

#[async_trait]
impl Tool for Shell {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        match self.run(&call, &stop, log).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::error(error),
        }
    }
}

/// The commands of a call, as author text and values.
fn commands(call: &Call) -> Result<Vec<Vec<Piece>>, TaskError> {
    for key in ["command", "cmds"] {
        if let Some(commands) = call.pieces.get(key).filter(|list| !list.is_empty()) {
            return Ok(commands.clone());
        }
    }
    Err(call.missing("command", "write the command to run"))
}

/// What the script reads; before it, what lets a script with limits begin.
fn stdin(call: &Call, limits: &Limits) -> Option<Vec<u8>> {
    let text = call.field("stdin").map(|stdin| match stdin {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    if limits.is_empty() {
        return text.map(String::into_bytes);
    }
    Some([GO, text.unwrap_or_default().as_bytes()].concat())
}

fn long_script(script: &str) -> std::io::Result<Option<tempfile::NamedTempFile>> {
    if script.len() <= ARGUMENT_BYTES_MAX {
        return Ok(None);
    }
    let mut file = tempfile::Builder::new().prefix("noetl-").tempfile()?;
    file.write_all(script.as_bytes())?;
    Ok(Some(file))
}

/// Feeds and reads a program until it ends, is stopped, or takes too long; nothing of its group is left after that.
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
        // Children that the shell left behind hold the pipes open; the call does not wait for them.
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
        // A command that does not read its input closes it, and that is its right.
        let _ = stdin.write_all(&input).await;
    }
}

fn outcome(end: End, printed: &Printed) -> Outcome {
    use std::os::unix::process::ExitStatusExt;
    let error = match end {
        End::Exited(Ok(status)) if status.success() => {
            return Outcome::ok(json!({
                "stdout": printed.stdout,
                "stderr": printed.stderr,
                "exit_code": 0,
            }));
        }
        End::Exited(Ok(status)) => match (status.code(), status.signal()) {
            (Some(code), _) => {
                let message = format!("the command left with exit code {code}");
                TaskError::new(ErrorKind::ClientError, "SHELL_EXIT", message)
                    .with("exit_code", code)
            }
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                let message = match limit_reached(signal) {
                    Some(limit) => format!("the command was stopped: {limit}"),
                    None => format!("the command died of signal {signal}"),
                };
                TaskError::new(ErrorKind::Unknown, "SHELL_KILLED", message)
                    .with("signal", signal)
                    .with("exit_code", 128 + signal)
            }
        },
        End::Exited(Err(error)) => {
            let message = format!("the command's end could not be seen: {error}");
            TaskError::new(ErrorKind::Unknown, "SHELL_LOST", message)
        }
        End::TimedOut(limit) => timed_out(limit),
        End::Stopped => cancelled(),
    };
    Outcome::error(
        error
            .with("stdout", tail_of(&printed.stdout, TAIL_BYTES_MAX))
            .with("stderr", tail_of(&printed.stderr, TAIL_BYTES_MAX)),
    )
}

fn not_started(shell: &str, cwd: &Path, error: &NotStarted) -> TaskError {
    let error = match error {
        NotStarted::Limits(error) => return not_limited(error),
        NotStarted::Program(error) => error,
    };
    let message = if cwd.is_dir() {
        format!("`{shell}` cannot be started: {error}")
    } else {
        format!("`cwd`: there is no folder `{}`", cwd.display())
    };
    TaskError::new(ErrorKind::ClientError, "SHELL_START", message)
}
