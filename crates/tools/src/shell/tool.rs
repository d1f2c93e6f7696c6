//! Runs one `shell` call: starts the script in its own process group and reads its output until it exits or must be
//! killed.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use async_trait::async_trait;
use language::template::Piece;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::json;
use tempfile::{NamedTempFile, TempDir};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult, cancelled_error, timeout_error};
use crate::capture::text_tail;
use crate::isolation::{GATE_OPEN_LINE, ResourceLimits, SandboxLevel, limit_reached};
use crate::process::{ProgramSpec, StartError};
use crate::program_setup::ProgramSetup;
use crate::run_program::{ProgramEnd, ProgramOutput, run_to_end};
use crate::shell::script::{ShellScript, build_script};
use crate::value_text::plain_text;

/// Longer scripts go through a file, because the length of an argument is limited. So do scripts with values, because
/// every user of the machine can read arguments.
const ARGUMENT_BYTES_MAX: usize = 100 * 1024;

/// Maximum bytes of each output stream in an error.
const TAIL_BYTES_MAX: usize = 4 * 1024;

/// The `shell` tool.
pub(crate) struct ShellTool {
    env: BTreeMap<String, String>,
    sandbox_level_min: SandboxLevel,
}

impl ShellTool {
    pub(crate) fn new(env: BTreeMap<String, String>, sandbox_level_min: SandboxLevel) -> Self {
        Self { env, sandbox_level_min }
    }
}

#[async_trait]
impl Tool for ShellTool {
    async fn run(&self, call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        let call = &call;
        let script = build_script(&read_commands(call)?)?;
        let shell = call.text_field("shell")?.unwrap_or("/bin/sh");
        let setup = ProgramSetup::from_call(call, &self.env, self.sandbox_level_min)?;
        let own_dir = setup.own_dir.as_ref().map(TempDir::path);
        let input = build_stdin(call, &setup.limits);
        let to_error = |error: StartError| start_error(shell, &setup.cwd, &error);
        let file = write_script_file(&script, own_dir).map_err(|error| to_error(error.into()))?;
        let args = match &file {
            Some(file) => vec![file.path().to_str().unwrap_or_default()],
            None => vec!["-c", &script.text],
        };
        let program = ProgramSpec {
            path: &PathBuf::from(shell),
            args: &args,
            env: &setup.env,
            cwd: &setup.cwd,
            limits: &setup.limits,
            sandbox_rules: &setup.sandbox_rules,
        };
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut group = program.start(stdin).map_err(to_error)?;
        let (end, output) = run_to_end(&mut group, input, call.timeout.total, stop, log).await;
        Ok(to_outcome(end, &output))
    }
}

/// Commands of a call, as playbook text and values.
fn read_commands(call: &Call) -> Result<Vec<Vec<Piece>>, TaskError> {
    for key in ["command", "cmds"] {
        if let Some(commands) = call.pieces.get(key).filter(|list| !list.is_empty()) {
            return Ok(commands.clone());
        }
    }
    Err(call.missing_key_error("command", "set it to the command to run"))
}

/// Standard input of the script, preceded by [`GATE_OPEN_LINE`] if the script has limits.
fn build_stdin(call: &Call, limits: &ResourceLimits) -> Option<Vec<u8>> {
    let text = call.field("stdin").map(plain_text);
    if limits.is_empty() {
        return text.map(String::into_bytes);
    }
    Some([GATE_OPEN_LINE, text.unwrap_or_default().as_bytes()].concat())
}

/// Temporary file for a script that cannot be an argument. Only its owner can read it; it is deleted after the call.
fn write_script_file(script: &ShellScript, dir: Option<&Path>) -> std::io::Result<Option<NamedTempFile>> {
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

fn to_outcome(end: ProgramEnd, printed: &ProgramOutput) -> Outcome {
    use std::os::unix::process::ExitStatusExt;
    let error = match end {
        ProgramEnd::Exited(Ok(status)) if status.success() => {
            return Outcome::ok(json!({
                "stdout": printed.stdout,
                "stderr": printed.stderr,
                "exit_code": 0,
            }));
        }
        ProgramEnd::Exited(Ok(status)) => match (status.code(), status.signal()) {
            (Some(code), _) => {
                let message = format!("command exited with code {code}");
                TaskError::new(ErrorKind::ClientError, "SHELL_EXIT", message).with_detail("exit_code", code)
            }
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                let message = match limit_reached(signal) {
                    Some(limit) => format!("command was killed: {limit}"),
                    None => format!("command was killed by signal {signal}"),
                };
                TaskError::new(ErrorKind::Unknown, "SHELL_KILLED", message)
                    .with_detail("signal", signal)
                    .with_detail("exit_code", 128 + signal)
            }
        },
        ProgramEnd::Exited(Err(error)) => {
            let message = format!("cannot read the exit status of the command: {error}");
            TaskError::new(ErrorKind::Unknown, "SHELL_LOST", message)
        }
        ProgramEnd::TimedOut(limit) => timeout_error(limit),
        ProgramEnd::Stopped => cancelled_error(),
    };
    Outcome::error(
        error
            .with_detail("stdout", text_tail(&printed.stdout, TAIL_BYTES_MAX))
            .with_detail("stderr", text_tail(&printed.stderr, TAIL_BYTES_MAX)),
    )
}

fn start_error(shell: &str, cwd: &Path, error: &StartError) -> TaskError {
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
