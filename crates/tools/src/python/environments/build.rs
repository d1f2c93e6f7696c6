//! Builds a virtual environment in a temporary directory and renames it when it is complete.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use tokio_util::sync::CancellationToken;

use crate::call::{LogSink, cancelled_error};
use crate::isolation::{ResourceLimits, SandboxRules};
use crate::process::ProgramSpec;
use crate::python::environments::clean::dir_bytes;
use crate::python::environments::store::directory_error;
use crate::python::tool::start_error;
use crate::run_program::{ProgramEnd, run_to_end};

/// Time limit for building an environment, independent of the task's timeout.
const BUILD_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Maximum number of pip's last output lines in an error.
const LINES_MAX: usize = 12;

/// File in an environment that holds its size.
pub(super) const SIZE_FILE: &str = "noetl.size";

/// Phrases in pip's output that indicate a network error.
const TRANSIENT_MESSAGES: [&str; 6] = [
    "NewConnectionError",
    "ConnectTimeoutError",
    "Read timed out",
    "Connection reset",
    "Temporary failure in name resolution",
    "Connection aborted",
];

/// Environment to build.
pub(super) struct BuildSpec<'a> {
    pub(super) python: &'a Path,
    pub(super) requirements: &'a [String],
    /// Parent of the temporary directory.
    pub(super) build_dir: &'a Path,
    /// Final path.
    pub(super) target_dir: &'a Path,
    pub(super) env: &'a BTreeMap<String, String>,
}

/// Builds an environment.
pub(super) async fn build_environment(
    spec: &BuildSpec<'_>,
    stop: &CancellationToken,
    log: &dyn LogSink,
) -> Result<(), TaskError> {
    let to_directory_error = |error: io::Error| directory_error(spec.build_dir, &error);
    let temp_dir = tempfile::Builder::new().prefix(".new-").tempdir_in(spec.build_dir);
    let temp_dir = temp_dir.map_err(to_directory_error)?;
    let new_dir = temp_dir.path().join("environment");
    let target = new_dir.display().to_string();
    let problem = "`python -m venv` failed; install the module (for instance `apt install python3-venv`)";
    run_python(spec, spec.python, &["-m", "venv", &target], stop, log)
        .await
        .map_err(|fault| fault.into_task_error(problem))?;
    let mut args = vec![
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--",
    ];
    args.extend(spec.requirements.iter().map(String::as_str));
    let python = new_dir.join("bin/python");
    let problem = format!("pip failed to install {}", spec.requirements.join(", "));
    run_python(spec, &python, &args, stop, log)
        .await
        .map_err(|fault| fault.into_task_error(&problem))?;
    rewrite_paths(&new_dir, spec.target_dir).map_err(to_directory_error)?;
    std::fs::write(new_dir.join(SIZE_FILE), dir_bytes(&new_dir).to_string()).map_err(to_directory_error)?;
    std::fs::rename(&new_dir, spec.target_dir).map_err(to_directory_error)
}

/// Why a build step failed.
enum BuildError {
    /// Last output of the program.
    ProgramFailed(String),
    Task(TaskError),
}

impl BuildError {
    fn into_task_error(self, context: &str) -> TaskError {
        match self {
            Self::Task(error) => error,
            Self::ProgramFailed(output) => {
                let is_transient = TRANSIENT_MESSAGES.iter().any(|message| output.contains(message));
                let kind = if is_transient {
                    ErrorKind::Connection
                } else {
                    ErrorKind::ClientError
                };
                TaskError::new(kind, "PYTHON_LIBS", format!("{context}:\n{output}"))
            }
        }
    }
}

async fn run_python(
    spec: &BuildSpec<'_>,
    python: &Path,
    args: &[&str],
    stop: &CancellationToken,
    log: &dyn LogSink,
) -> Result<(), BuildError> {
    let program = ProgramSpec {
        path: python,
        args,
        env: spec.env,
        cwd: spec.build_dir,
        limits: &ResourceLimits::default(),
        sandbox_rules: &SandboxRules::default(),
    };
    let mut group = program
        .start(Stdio::null())
        .map_err(|error| BuildError::Task(start_error(python, &error)))?;
    let (end, output) = run_to_end(&mut group, None, Some(BUILD_TIMEOUT), stop, log).await;
    match end {
        ProgramEnd::Exited(Ok(status)) if status.success() => Ok(()),
        ProgramEnd::Stopped => Err(BuildError::Task(cancelled_error())),
        ProgramEnd::TimedOut(limit) => Err(BuildError::ProgramFailed(format!("timed out after {limit:?}"))),
        ProgramEnd::Exited(_) => {
            let output = if output.stderr.trim().is_empty() {
                &output.stdout
            } else {
                &output.stderr
            };
            let lines: Vec<&str> = output.trim_end().lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_MAX)..].join("\n");
            Err(BuildError::ProgramFailed(redact_users(&last)))
        }
    }
}

/// Removes `user:password@` from the URLs in a text.
pub(super) fn redact_users(text: &str) -> String {
    let mut redacted = String::new();
    let mut remaining = text;
    while let Some(at) = remaining.find("://") {
        let (before, after) = remaining.split_at(at + 3);
        redacted.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || "/'\"".contains(c));
        let host = &after[..end.unwrap_or(after.len())];
        remaining = match host.rfind('@') {
            Some(user) => {
                redacted.push_str("***");
                &after[user..]
            }
            None => after,
        };
    }
    redacted + remaining
}

/// Scripts in `bin` contain the path of the temporary directory; replaces it by the final one.
fn rewrite_paths(new_dir: &Path, target_dir: &Path) -> io::Result<()> {
    let (from, to) = (new_dir.display().to_string(), target_dir.display().to_string());
    for entry in std::fs::read_dir(new_dir.join("bin"))? {
        let path = entry?.path();
        if path.is_symlink() || !path.is_file() {
            continue;
        }
        // Binary files contain no such path.
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        if text.contains(&from) {
            std::fs::write(&path, text.replace(&from, &to))?;
        }
    }
    Ok(())
}
