//! Runs a container with docker or podman under a unique name, reads its output, and removes it afterwards.

use std::time::Duration;

use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::attend::{End, Printed};
use crate::call::{LogSink, cancelled, timed_out};
use crate::capture::tail_of;
use crate::container::cli::{Cli, Words, words};
use crate::container::plan::{Plan, Pull};

/// Label by which a retry finds the container of an earlier attempt.
const LABEL: &str = "io.noetl.key";

/// Maximum bytes of each output stream in an error.
const TAIL_BYTES_MAX: usize = 4 * 1024;

/// Exit code of the client if it could not run the container.
const NOT_RUN: i32 = 125;

/// Runs a container to its end.
pub(crate) async fn run(
    cli: &Cli,
    plan: &Plan,
    limit: Option<Duration>,
    stop: &CancellationToken,
    log: &dyn LogSink,
) -> Result<Outcome, TaskError> {
    clear(cli, plan).await?;
    let args = arguments(plan);
    let env = plan.env.clone().into_iter();
    let env = env.filter(|(name, _)| !is_for_the_client(name)).collect();
    let called = Words {
        args: &args,
        env: &env,
        input: None,
        limit,
    };
    let attended = cli.attend(called, stop, log);
    tokio::pin!(attended);
    let (end, printed) = tokio::select! {
        biased;
        attended = &mut attended => attended?,
        // Remove the container while its client ends, because a cancelled call has little time.
        () = stop.cancelled() => tokio::join!(attended, remove(cli, plan)).0?,
    };
    if !matches!(end, End::Exited(_)) {
        // The client has exited, but the container that it was creating may exist.
        remove(cli, plan).await;
    }
    Ok(outcome(cli, plan, end, &printed))
}

async fn remove(cli: &Cli, plan: &Plan) {
    // It is fine if the container does not exist.
    drop(cli.ask(&words(["rm", "--force", &plan.name]), None).await);
}

/// Removes containers of earlier attempts of the task, so that no two run at once.
async fn clear(cli: &Cli, plan: &Plan) -> Result<(), TaskError> {
    let filter = format!("label={LABEL}={}", plan.key);
    let found = cli
        .ask(
            &words(["ps", "--all", "--quiet", "--filter", &filter]),
            None,
        )
        .await?;
    if found.code != Some(0) {
        let said = tail_of(found.printed.stderr.trim(), TAIL_BYTES_MAX);
        let message = format!("`{}` failed: {said}", cli.runtime.program());
        return Err(
            TaskError::new(ErrorKind::Connection, "CONTAINER_RUNTIME", message).with("sent", false),
        );
    }
    let left = found.printed.stdout.split_whitespace();
    let mut args = words(["rm", "--force"]);
    args.extend(left.map(str::to_owned));
    if args.len() > 2 {
        cli.ask(&args, None).await?;
    }
    Ok(())
}

/// Whether the client itself would interpret this variable.
fn is_for_the_client(name: &str) -> bool {
    let prefixes = ["DOCKER_", "CONTAINER", "PODMAN_", "LD_", "XDG_", "GO"];
    matches!(
        name,
        "PATH" | "HOME" | "TMPDIR" | "HTTP_PROXY" | "HTTPS_PROXY" | "NO_PROXY"
    ) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Arguments of `docker run`. Values of variables are passed through the environment if possible, because arguments are
/// visible in the process list.
pub(crate) fn arguments(plan: &Plan) -> Vec<String> {
    let mut args = words(["run", "--rm", "--name", &plan.name]);
    let label = format!("{LABEL}={}", plan.key);
    args.extend(words([
        "--label",
        &label,
        "--security-opt",
        "no-new-privileges",
    ]));
    for (name, value) in &plan.env {
        let variable = if is_for_the_client(name) {
            format!("{name}={value}")
        } else {
            name.clone()
        };
        args.extend(words(["--env", &variable]));
    }
    if let Some(millis) = plan.resources.cpu_millis {
        let cpus = format!("{}.{:03}", millis / 1_000, millis % 1_000);
        args.extend(words(["--cpus", &cpus]));
    }
    if let Some(bytes) = plan.resources.memory_bytes {
        args.extend(words(["--memory", &bytes.to_string()]));
    }
    let pull = plan.pull.map(|pull| match pull {
        Pull::Always => "always",
        Pull::Missing => "missing",
        Pull::Never => "never",
    });
    let options = [
        ("--workdir", plan.workdir.as_deref()),
        ("--user", plan.user.as_deref()),
        ("--network", plan.network.as_deref()),
        ("--pull", pull),
        ("--entrypoint", plan.command.first().map(String::as_str)),
    ];
    for (option, value) in options {
        if let Some(value) = value {
            args.extend(words([option, value]));
        }
    }
    args.push(plan.image.clone());
    args.extend(plan.command.iter().skip(1).cloned());
    args.extend(plan.args.iter().cloned());
    args
}

fn outcome(cli: &Cli, plan: &Plan, end: End, printed: &Printed) -> Outcome {
    let job = json!({"runtime": cli.runtime.program(), "name": plan.name});
    let error = match end {
        End::Exited(Ok(status)) => match status.code() {
            Some(0) => return Outcome::ok(succeeded(&job, &printed.stdout, &printed.stderr)),
            Some(NOT_RUN) => {
                let said = tail_of(printed.stderr.trim(), TAIL_BYTES_MAX);
                let message = format!("cannot run the container: {said}");
                TaskError::new(ErrorKind::ClientError, "CONTAINER_START", message)
            }
            code => exited(code.unwrap_or_default()),
        },
        End::Exited(Err(error)) => {
            let message = format!("cannot read the exit status of the container: {error}");
            TaskError::new(ErrorKind::Unknown, "CONTAINER_LOST", message)
        }
        End::TimedOut(limit) => timed_out(limit),
        End::Stopped => cancelled(),
    };
    Outcome::error(
        error
            .with("job", job)
            .with("stdout", tail_of(&printed.stdout, TAIL_BYTES_MAX))
            .with("stderr", tail_of(&printed.stderr, TAIL_BYTES_MAX)),
    )
}

/// Result of a successful container.
pub(crate) fn succeeded(job: &Value, stdout: &str, stderr: &str) -> Value {
    json!({
        "job": job,
        "status": "succeeded",
        "exit_code": 0,
        "stdout": stdout,
        "stderr": stderr,
    })
}

/// Error of a container that exited with a code.
pub(crate) fn exited(code: i32) -> TaskError {
    let message = match code {
        126 | 127 => format!(
            "container exited with code {code}: its command is not executable or is not in the image"
        ),
        137 => {
            "container was killed (exit code 137), possibly because it exceeded its memory limit"
                .to_owned()
        }
        _ => format!("container exited with code {code}"),
    };
    TaskError::new(ErrorKind::ClientError, "CONTAINER_EXIT", message).with("exit_code", code)
}
