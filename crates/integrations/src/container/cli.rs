//! Client program of a container runtime: found in `PATH` and called with an argument list, never through a shell.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use tokio_util::sync::CancellationToken;
use tools::{
    DiscardingLogSink, LogSink, ProcessGroup, ProgramEnd, ProgramOutput, ProgramSpec, ResourceLimits, SandboxRules,
    run_to_end,
};

use crate::container::spec::ContainerRuntime;

/// Time limit for a query to a runtime.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Client program of a runtime.
pub(crate) struct RuntimeCli {
    pub(crate) runtime: ContainerRuntime,
    program: PathBuf,
    env: BTreeMap<String, String>,
}

/// One call of a client program.
pub(crate) struct CliCall<'a> {
    pub(crate) args: &'a [String],
    /// Additional environment variables.
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) input: Option<Vec<u8>>,
    pub(crate) timeout: Option<Duration>,
}

/// Exit code and output of a client program.
pub(crate) struct CliOutput {
    pub(crate) code: Option<i32>,
    pub(crate) output: ProgramOutput,
}

impl RuntimeCli {
    /// Finds the client of the requested runtime, or of the first one that is installed.
    pub(crate) fn find(runtime: Option<ContainerRuntime>, env: &BTreeMap<String, String>) -> Result<Self, TaskError> {
        let path = env.get("PATH").map(String::as_str).unwrap_or_default();
        let candidates = match &runtime {
            Some(runtime) => std::slice::from_ref(runtime),
            None => &ContainerRuntime::ALL,
        };
        for runtime in candidates {
            if let Some(program) = find_in_path(runtime.program(), path) {
                return Ok(Self {
                    runtime: *runtime,
                    program,
                    env: env.clone(),
                });
            }
        }
        Err(client_missing_error(candidates))
    }

    /// Runs the program and reads its output until it exits.
    pub(crate) async fn run_to_end(
        &self,
        call: CliCall<'_>,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<(ProgramEnd, ProgramOutput), TaskError> {
        let mut env = self.env.clone();
        env.extend(call.env.clone());
        let stdin = match call.input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        let mut group = self.start(call.args, &env, stdin)?;
        Ok(run_to_end(&mut group, call.input, call.timeout, stop, log).await)
    }

    /// Runs the program for its output, even if the task is cancelled meanwhile.
    pub(crate) async fn query(&self, args: &[String], input: Option<Vec<u8>>) -> Result<CliOutput, TaskError> {
        let call = CliCall {
            args,
            env: &BTreeMap::new(),
            input,
            timeout: Some(RESPONSE_TIMEOUT),
        };
        let (end, output) = self
            .run_to_end(call, &CancellationToken::new(), &DiscardingLogSink)
            .await?;
        match end {
            ProgramEnd::Exited(Ok(status)) => Ok(CliOutput {
                code: status.code(),
                output,
            }),
            _ => Err(self.no_response_error()),
        }
    }

    /// Starts the program; the caller reads its output.
    pub(crate) fn start(
        &self,
        args: &[String],
        env: &BTreeMap<String, String>,
        stdin: Stdio,
    ) -> Result<ProcessGroup, TaskError> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let program = ProgramSpec {
            path: &self.program,
            args: &args,
            env,
            cwd: Path::new("/"),
            limits: &ResourceLimits::default(),
            sandbox_rules: &SandboxRules::default(),
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

    fn no_response_error(&self) -> TaskError {
        let message = format!("`{}` did not respond in time", self.runtime.program());
        TaskError::new(ErrorKind::Timeout, "TIMEOUT", message)
    }
}

/// Argument list of a call.
pub(crate) fn to_strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn find_in_path(name: &str, path: &str) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        file.metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let folders = path.split(':').filter(|folder| !folder.is_empty());
    folders.map(|folder| Path::new(folder).join(name)).find(is_program)
}

fn client_missing_error(candidates: &[ContainerRuntime]) -> TaskError {
    let names: Vec<_> = candidates.iter().map(|runtime| runtime.program()).collect();
    let message = format!(
        "this worker has no {} in its PATH; install one, or run the task in a pool whose workers have it (`spec.pool`)",
        names.join(", ")
    );
    TaskError::new(ErrorKind::ClientError, "CONTAINER_RUNTIME_MISSING", message)
}
