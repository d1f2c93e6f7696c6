//! Runs one `shell` call: starts the script in its own process group and reads its output until it exits or must be
//! killed.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::template::Piece;
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use tokio_util::sync::CancellationToken;

use crate::attend::{End, Printed, attend};
use crate::call::{Call, LogSink, Tool, cancelled, timed_out};
use crate::capture::tail_of;
use crate::isolation::{Abilities, GO, Limits, Sandbox, SandboxLevel, limit_reached};
use crate::process::{NotStarted, Program};
use crate::python::request::environment;
use crate::shell::script::{Script, script};

/// Longer scripts go through a file, because the length of an argument is limited. So do scripts with values, because
/// every user of the machine can read arguments.
const ARGUMENT_BYTES_MAX: usize = 100 * 1024;

/// Maximum bytes of each output stream in an error.
const TAIL_BYTES_MAX: usize = 4 * 1024;

/// The `shell` tool.
pub(crate) struct Shell {
    env: BTreeMap<String, String>,
    demanded: SandboxLevel,
}

impl Shell {
    pub(crate) fn new(env: BTreeMap<String, String>, demanded: SandboxLevel) -> Self {
        Self { env, demanded }
    }

    async fn run(
        &self,
        call: &Call,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Outcome, TaskError> {
        let script = script(&commands(call)?)?;
        let shell = call.text("shell")?.unwrap_or("/bin/sh");
        let limits = Limits::of(call)?;
        let sandbox = Sandbox::of(call, self.demanded, Abilities::here())?;
        let own = sandbox.own_dir()?;
        let own = own.as_ref().map(TempDir::path);
        let mut env = self.env.clone();
        if let Some(own) = own {
            env.insert("TMPDIR".to_owned(), own.display().to_string());
        }
        env.extend(environment(call)?);
        let cwd = match (call.text("cwd")?, own) {
            (Some(path), _) => call.resolve(path),
            (None, Some(own)) if sandbox.is_strict() => own.to_owned(),
            (None, _) => call.place.base_dir.clone(),
        };
        let input = stdin(call, &limits);
        let failed = |error: NotStarted| not_started(shell, &cwd, &error);
        let file = script_file(&script, own).map_err(|error| failed(error.into()))?;
        let args = match &file {
            Some(file) => vec![file.path().to_str().unwrap_or_default()],
            None => vec!["-c", &script.text],
        };
        let program = Program {
            path: &PathBuf::from(shell),
            args: &args,
            env: &env,
            cwd: &cwd,
            limits: &limits,
            confines: &sandbox.confines(own, &[]),
        };
        let piped = if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let mut group = program.start(piped).map_err(failed)?;
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

/// Commands of a call, as playbook text and values.
fn commands(call: &Call) -> Result<Vec<Vec<Piece>>, TaskError> {
    for key in ["command", "cmds"] {
        if let Some(commands) = call.pieces.get(key).filter(|list| !list.is_empty()) {
            return Ok(commands.clone());
        }
    }
    Err(call.missing("command", "set it to the command to run"))
}

/// Standard input of the script, preceded by [`GO`] if the script has limits.
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

/// Temporary file for a script that cannot be an argument. Only its owner can read it; it is deleted after the call.
fn script_file(script: &Script, dir: Option<&Path>) -> std::io::Result<Option<NamedTempFile>> {
    if script.text.len() <= ARGUMENT_BYTES_MAX && !script.has_values {
        return Ok(None);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix("noetl-");
    let mut file = match dir {
        Some(dir) => builder.tempfile_in(dir)?,
        None => builder.tempfile()?,
    };
    file.write_all(script.text.as_bytes())?;
    Ok(Some(file))
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
                let message = format!("command exited with code {code}");
                TaskError::new(ErrorKind::ClientError, "SHELL_EXIT", message)
                    .with("exit_code", code)
            }
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                let message = match limit_reached(signal) {
                    Some(limit) => format!("command was killed: {limit}"),
                    None => format!("command was killed by signal {signal}"),
                };
                TaskError::new(ErrorKind::Unknown, "SHELL_KILLED", message)
                    .with("signal", signal)
                    .with("exit_code", 128 + signal)
            }
        },
        End::Exited(Err(error)) => {
            let message = format!("cannot read the exit status of the command: {error}");
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
    if let Some(error) = error.host_error() {
        return error;
    }
    let message = if cwd.is_dir() {
        format!("cannot start `{shell}`: {}", error.cause())
    } else {
        format!("`cwd`: directory `{}` does not exist", cwd.display())
    };
    TaskError::new(ErrorKind::ClientError, "SHELL_START", message)
}
