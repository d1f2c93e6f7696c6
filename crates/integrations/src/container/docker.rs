//! Runs a container with docker or podman under a unique name, reads its output, and removes it afterwards.

use std::time::Duration;

use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tools::{LogSink, ProgramEnd, ProgramOutput, cancelled_error, text_tail, timeout_error};

use crate::container::cli::{CliCall, RuntimeCli, to_strings};
use crate::container::spec::{ContainerSpec, PullPolicy};

/// Label by which a retry finds the container of an earlier attempt.
const TASK_LABEL: &str = "io.noetl.key";

/// Maximum bytes of each output stream in an error.
pub(super) const TAIL_BYTES_MAX: usize = 4 * 1024;

/// Exit code of the client if it could not run the container.
const NOT_RUN_EXIT_CODE: i32 = 125;

/// Runs a container to its end.
pub(crate) async fn run_container(
    cli: &RuntimeCli,
    spec: &ContainerSpec,
    limit: Option<Duration>,
    stop: &CancellationToken,
    log: &dyn LogSink,
) -> Result<Outcome, TaskError> {
    remove_earlier_attempts(cli, spec).await?;
    let args = run_arguments(spec);
    let env = spec.env.clone().into_iter();
    let env = env.filter(|(name, _)| !is_client_variable(name)).collect();
    let called = CliCall {
        args: &args,
        env: &env,
        input: None,
        timeout: limit,
    };
    let attended = cli.run_to_end(called, stop, log);
    tokio::pin!(attended);
    let (end, output) = tokio::select! {
        biased;
        attended = &mut attended => attended?,
        // Remove the container while its client ends, because a cancelled call has little time.
        () = stop.cancelled() => tokio::join!(attended, remove_container(cli, spec)).0?,
    };
    if !matches!(end, ProgramEnd::Exited(_)) {
        // The client has exited, but the container that it was creating may still start.
        remove_container(cli, spec).await;
    }
    Ok(to_outcome(cli, spec, end, &output))
}

async fn remove_container(cli: &RuntimeCli, spec: &ContainerSpec) {
    // It is fine if the container does not exist.
    drop(cli.query(&to_strings(["rm", "--force", &spec.name]), None).await);
}

/// Removes containers of earlier attempts of the task, so that no two run at once.
async fn remove_earlier_attempts(cli: &RuntimeCli, spec: &ContainerSpec) -> Result<(), TaskError> {
    let filter = format!("label={TASK_LABEL}={}", spec.key);
    let listing = cli
        .query(&to_strings(["ps", "--all", "--quiet", "--filter", &filter]), None)
        .await?;
    if listing.code != Some(0) {
        let stderr = text_tail(listing.output.stderr.trim(), TAIL_BYTES_MAX);
        let message = format!("`{}` failed: {stderr}", cli.runtime.program());
        return Err(TaskError::new(ErrorKind::Connection, "CONTAINER_RUNTIME", message).with_detail("sent", false));
    }
    let stale_ids = listing.output.stdout.split_whitespace();
    let mut args = to_strings(["rm", "--force"]);
    args.extend(stale_ids.map(str::to_owned));
    if args.len() > 2 {
        cli.query(&args, None).await?;
    }
    Ok(())
}

/// Whether the client itself would interpret this variable.
fn is_client_variable(name: &str) -> bool {
    let prefixes = ["DOCKER_", "CONTAINER", "PODMAN_", "LD_", "XDG_", "GO"];
    matches!(
        name,
        "PATH" | "HOME" | "TMPDIR" | "HTTP_PROXY" | "HTTPS_PROXY" | "NO_PROXY"
    ) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Arguments of `docker run`. Values of variables are passed through the environment if possible, because arguments are
/// visible in the process list.
pub(crate) fn run_arguments(spec: &ContainerSpec) -> Vec<String> {
    let mut args = to_strings(["run", "--rm", "--name", &spec.name]);
    let label = format!("{TASK_LABEL}={}", spec.key);
    args.extend(to_strings(["--label", &label, "--security-opt", "no-new-privileges"]));
    for (name, value) in &spec.env {
        let variable = if is_client_variable(name) {
            format!("{name}={value}")
        } else {
            name.clone()
        };
        args.extend(to_strings(["--env", &variable]));
    }
    if let Some(millis) = spec.resources.cpu_millis {
        let cpus = format!("{}.{:03}", millis / 1_000, millis % 1_000);
        args.extend(to_strings(["--cpus", &cpus]));
    }
    if let Some(bytes) = spec.resources.memory_bytes {
        args.extend(to_strings(["--memory", &bytes.to_string()]));
    }
    let pull = spec.pull.map(|pull| match pull {
        PullPolicy::Always => "always",
        PullPolicy::Missing => "missing",
        PullPolicy::Never => "never",
    });
    let options = [
        ("--workdir", spec.workdir.as_deref()),
        ("--user", spec.user.as_deref()),
        ("--network", spec.network.as_deref()),
        ("--pull", pull),
        ("--entrypoint", spec.command.first().map(String::as_str)),
    ];
    for (option, value) in options {
        if let Some(value) = value {
            args.extend(to_strings([option, value]));
        }
    }
    args.push(spec.image.clone());
    args.extend(spec.command.iter().skip(1).cloned());
    args.extend(spec.args.iter().cloned());
    args
}

fn to_outcome(cli: &RuntimeCli, spec: &ContainerSpec, end: ProgramEnd, output: &ProgramOutput) -> Outcome {
    let job = json!({"runtime": cli.runtime.program(), "name": spec.name});
    let error = match end {
        ProgramEnd::Exited(Ok(status)) => match status.code() {
            Some(0) => return Outcome::ok(success_result(&job, &output.stdout, &output.stderr)),
            Some(NOT_RUN_EXIT_CODE) => {
                let stderr = text_tail(output.stderr.trim(), TAIL_BYTES_MAX);
                let message = format!("cannot run the container: {stderr}");
                TaskError::new(ErrorKind::ClientError, "CONTAINER_START", message)
            }
            code => exit_error(code.unwrap_or_default()),
        },
        ProgramEnd::Exited(Err(error)) => {
            let message = format!("cannot read the exit status of the container: {error}");
            TaskError::new(ErrorKind::Unknown, "CONTAINER_LOST", message)
        }
        ProgramEnd::TimedOut(limit) => timeout_error(limit),
        ProgramEnd::Stopped => cancelled_error(),
    };
    Outcome::error(
        error
            .with_detail("job", job)
            .with_detail("stdout", text_tail(&output.stdout, TAIL_BYTES_MAX))
            .with_detail("stderr", text_tail(&output.stderr, TAIL_BYTES_MAX)),
    )
}

/// Result of a successful container.
pub(crate) fn success_result(job: &Value, stdout: &str, stderr: &str) -> Value {
    json!({
        "job": job,
        "status": "succeeded",
        "exit_code": 0,
        "stdout": stdout,
        "stderr": stderr,
    })
}

/// Error of a container that exited with a code.
pub(crate) fn exit_error(code: i32) -> TaskError {
    let message = match code {
        126 | 127 => format!("container exited with code {code}: its command is not executable or is not in the image"),
        137 => "container was killed (exit code 137), possibly because it exceeded its memory limit".to_owned(),
        _ => format!("container exited with code {code}"),
    };
    TaskError::new(ErrorKind::ClientError, "CONTAINER_EXIT", message).with_detail("exit_code", code)
}
