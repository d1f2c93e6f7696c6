//! A container of docker or podman: started under a name of its own, read while it runs, gone afterwards.

use std::time::Duration;

use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::attend::{End, Printed};
use crate::call::{LogSink, cancelled, timed_out};
use crate::capture::tail_of;
use crate::container::cli::{Cli, Words, words};
use crate::container::plan::{Plan, Pull};

/// The label by which another try finds what an earlier one left.
const LABEL: &str = "io.noetl.key";

/// How much of the outputs an error carries.
const TAIL_BYTES_MAX: usize = 4 * 1024;

/// What the client leaves with when it could not run the container.
const NOT_RUN: i32 = 125;

/// Runs a plan to its end.
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
        // A call that was stopped has little time: the container goes now, and the client that waits for it with it.
        () = stop.cancelled() => tokio::join!(attended, remove(cli, plan)).0?,
    };
    if !matches!(end, End::Exited(_)) {
        // The client is gone; a container that it had only begun to make is not.
        remove(cli, plan).await;
    }
    Ok(outcome(cli, plan, end, &printed))
}

async fn remove(cli: &Cli, plan: &Plan) {
    // What is not there cannot be removed, and that is fine.
    drop(cli.ask(&words(["rm", "--force", &plan.name]), None).await);
}

/// Removes what an earlier try of the task left behind, so that no two of them run at once.
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
        let message = format!("`{}` does not work here: {said}", cli.runtime.program());
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

/// Whether the client itself would take a variable of the container for its own.
fn is_for_the_client(name: &str) -> bool {
    let prefixes = ["DOCKER_", "CONTAINER", "PODMAN_", "LD_", "XDG_", "GO"];
    matches!(
        name,
        "PATH" | "HOME" | "TMPDIR" | "HTTP_PROXY" | "HTTPS_PROXY" | "NO_PROXY"
    ) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// The words of `docker run`. Values of variables are not among them, where that can be: they would be seen in the
/// list of processes.
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
                let message = format!("the container could not be run: {said}");
                TaskError::new(ErrorKind::ClientError, "CONTAINER_START", message)
            }
            code => exited(code.unwrap_or_default()),
        },
        End::Exited(Err(error)) => {
            let message = format!("the container's end could not be seen: {error}");
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

/// The result of a container that ended well.
pub(crate) fn succeeded(job: &Value, stdout: &str, stderr: &str) -> Value {
    json!({
        "job": job,
        "status": "succeeded",
        "exit_code": 0,
        "stdout": stdout,
        "stderr": stderr,
    })
}

/// The error of a container that left with a code.
pub(crate) fn exited(code: i32) -> TaskError {
    let message = match code {
        126 | 127 => format!(
            "the container left with exit code {code}: its command cannot be run, or is not in the image"
        ),
        137 => "the container was killed (exit code 137), perhaps for its memory".to_owned(),
        _ => format!("the container left with exit code {code}"),
    };
    TaskError::new(ErrorKind::ClientError, "CONTAINER_EXIT", message).with("exit_code", code)
}
