//! Client program of a container runtime: found in `PATH` and called with an argument list, never through a shell.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use tokio_util::sync::CancellationToken;

use crate::attend::{End, Printed, attend};
use crate::call::{LogSink, NoLog};
use crate::container::plan::Runtime;
use crate::isolation::{Confines, Limits};
use crate::process::{Group, Program};

/// Time limit for a query to a runtime.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Client program of a runtime.
pub(crate) struct Cli {
    pub(crate) runtime: Runtime,
    program: PathBuf,
    env: BTreeMap<String, String>,
}

/// One call of a client program.
pub(crate) struct Words<'a> {
    pub(crate) args: &'a [String],
    /// Additional environment variables.
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) input: Option<Vec<u8>>,
    pub(crate) limit: Option<Duration>,
}

/// Exit code and output of a client program.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) printed: Printed,
}

impl Cli {
    /// Finds the client of the requested runtime, or of the first one that is installed.
    pub(crate) fn find(
        wanted: Option<Runtime>,
        env: &BTreeMap<String, String>,
    ) -> Result<Self, TaskError> {
        let path = env.get("PATH").map(String::as_str).unwrap_or_default();
        let candidates = match &wanted {
            Some(runtime) => std::slice::from_ref(runtime),
            None => &Runtime::ALL,
        };
        for runtime in candidates {
            if let Some(program) = look_for(runtime.program(), path) {
                return Ok(Self {
                    runtime: *runtime,
                    program,
                    env: env.clone(),
                });
            }
        }
        Err(missing(candidates))
    }

    /// Runs the program and reads its output until it exits.
    pub(crate) async fn attend(
        &self,
        words: Words<'_>,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<(End, Printed), TaskError> {
        let mut env = self.env.clone();
        env.extend(words.env.clone());
        let stdin = match words.input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        let mut group = self.start(words.args, &env, stdin)?;
        Ok(attend(&mut group, words.input, words.limit, stop, log).await)
    }

    /// Runs the program for its output, even if the task is cancelled meanwhile.
    pub(crate) async fn ask(
        &self,
        args: &[String],
        input: Option<Vec<u8>>,
    ) -> Result<Answer, TaskError> {
        let words = Words {
            args,
            env: &BTreeMap::new(),
            input,
            limit: Some(ANSWER_MAX),
        };
        let (end, printed) = self
            .attend(words, &CancellationToken::new(), &NoLog)
            .await?;
        match end {
            End::Exited(Ok(status)) => Ok(Answer {
                code: status.code(),
                printed,
            }),
            _ => Err(self.silent()),
        }
    }

    /// Starts the program; the caller reads its output.
    pub(crate) fn start(
        &self,
        args: &[String],
        env: &BTreeMap<String, String>,
        stdin: Stdio,
    ) -> Result<Group, TaskError> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let program = Program {
            path: &self.program,
            args: &args,
            env,
            cwd: Path::new("/"),
            limits: &Limits::default(),
            confines: &Confines::default(),
        };
        program.start(stdin).map_err(|error| {
            if let Some(error) = error.host_error() {
                return error;
            }
            let (program, cause) = (self.program.display(), error.cause());
            let message = format!("cannot start `{program}`: {cause}");
            TaskError::new(ErrorKind::ClientError, "CONTAINER_START", message)
        })
    }

    /// Environment variables of the program.
    pub(crate) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    fn silent(&self) -> TaskError {
        let message = format!("`{}` did not respond in time", self.runtime.program());
        TaskError::new(ErrorKind::Timeout, "TIMEOUT", message)
    }
}

/// Argument list of a call.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn look_for(name: &str, path: &str) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        file.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let folders = path.split(':').filter(|folder| !folder.is_empty());
    folders
        .map(|folder| Path::new(folder).join(name))
        .find(is_program)
}

fn missing(wanted: &[Runtime]) -> TaskError {
    let names: Vec<_> = wanted.iter().map(|runtime| runtime.program()).collect();
    let message = format!(
        "this worker has no {} in its PATH; install one, or run the task in a pool whose workers have it (`spec.pool`)",
        names.join(", ")
    );
    TaskError::new(ErrorKind::ClientError, "CONTAINER_RUNTIME_MISSING", message)
}
