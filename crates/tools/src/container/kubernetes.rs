//! Runs a Kubernetes Job: creates it once per attempt, watches it to its end and reads its pod's log.

use std::time::Duration;

use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::call::{LogSink, Stream, cancelled, timed_out};
use crate::capture::tail_of;
use crate::container::cli::{Answer, Cli, words};
use crate::container::docker::{exited, succeeded};
use crate::container::plan::{Plan, Pull};

const KEY: &str = "noetl.io/key";
const TRY: &str = "noetl.io/try";

/// Time that a finished Job is kept for inspection.
const KEPT_SECONDS: u64 = 3_600;

/// Delay before a watch is restarted.
const AGAIN: Duration = Duration::from_secs(1);

/// Maximum number of consecutive watches without data; then the Job is given up.
const BLIND_MAX: u32 = 5;

/// Maximum bytes of the log in a result, and in an error.
const LOG_BYTES_MAX: u64 = 1024 * 1024;
const TAIL_BYTES_MAX: usize = 4 * 1024;

/// How a Job ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    Complete,
    Failed { reason: String, message: String },
}

/// Runs a Job to its end.
pub(crate) async fn run(
    cli: &Cli,
    plan: &Plan,
    limit: Option<Duration>,
    stop: &CancellationToken,
    log: &dyn LogSink,
) -> Result<Outcome, TaskError> {
    clear(cli, plan).await?;
    create(cli, plan, limit).await?;
    let deadline = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = watch(cli, plan) => match ended {
            Ok(ended) => ended,
            Err(error) => {
                // An unwatched Job must not run concurrently with a retry.
                delete(cli, plan).await;
                return Err(error.with("job", job(plan)));
            }
        },
        () = stop.cancelled() => {
            delete(cli, plan).await;
            return Err(cancelled().with("job", job(plan)));
        }
        () = deadline => {
            delete(cli, plan).await;
            return Err(timed_out(limit.unwrap_or_default()).with("job", job(plan)));
        }
    };
    let printed = read_log(cli, plan).await;
    for line in printed.lines() {
        log.line(Stream::Stdout, line);
    }
    Ok(match ended {
        Ended::Complete => Outcome::ok(succeeded(&job(plan), &printed, "")),
        Ended::Failed { reason, message } => {
            let error = failure(cli, plan, &reason, &message).await;
            let printed = tail_of(&printed, TAIL_BYTES_MAX);
            Outcome::error(
                error
                    .with("job", job(plan))
                    .with("reason", reason)
                    .with("stdout", printed),
            )
        }
    })
}

/// Job manifest of a plan.
pub(crate) fn manifest(plan: &Plan, limit: Option<Duration>) -> Value {
    let labels = json!({KEY: plan.key, TRY: plan.name, "app.kubernetes.io/managed-by": "noetl"});
    let env = plan.env.iter();
    let env: Vec<Value> = env
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let mut container = json!({"name": "task", "image": plan.image, "env": env});
    let mut bounds = Map::new();
    if let Some(millis) = plan.resources.cpu_millis {
        bounds.insert("cpu".to_owned(), format!("{millis}m").into());
    }
    if let Some(bytes) = plan.resources.memory_bytes {
        bounds.insert("memory".to_owned(), bytes.to_string().into());
    }
    if !bounds.is_empty() {
        container["resources"] = json!({"limits": bounds, "requests": bounds});
    }
    for (key, words) in [("command", &plan.command), ("args", &plan.args)] {
        if !words.is_empty() {
            container[key] = json!(words);
        }
    }
    if let Some(workdir) = &plan.workdir {
        container["workingDir"] = json!(workdir);
    }
    if let Some(pull) = plan.pull {
        container["imagePullPolicy"] = json!(match pull {
            Pull::Always => "Always",
            Pull::Missing => "IfNotPresent",
            Pull::Never => "Never",
        });
    }
    let mut pod = json!({"restartPolicy": "Never", "containers": [container]});
    if let Some(account) = &plan.service_account {
        pod["serviceAccountName"] = json!(account);
    }
    let mut spec = json!({
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    });
    if let Some(limit) = limit {
        // The cluster ends the Job even if the worker is gone.
        spec["activeDeadlineSeconds"] = json!(limit.as_secs().max(1));
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": plan.name, "labels": labels},
        "spec": spec,
    })
}

/// How a Job with this state ended, if it has.
pub(crate) fn ended(state: &Value) -> Option<Ended> {
    let conditions = state["status"]["conditions"].as_array()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    conditions
        .iter()
        .filter(|condition| condition["status"] == "True")
        .find_map(|condition| match condition["type"].as_str()? {
            "Complete" => Some(Ended::Complete),
            "Failed" => Some(Ended::Failed {
                reason: text(&condition["reason"]),
                message: text(&condition["message"]),
            }),
            _ => None,
        })
}

fn job(plan: &Plan) -> Value {
    json!({"runtime": "kubernetes", "name": plan.name, "namespace": plan.namespace})
}

/// Adds the namespace of the plan to the arguments.
fn at(plan: &Plan, mut args: Vec<String>) -> Vec<String> {
    if let Some(namespace) = &plan.namespace {
        args.extend(words(["--namespace", namespace]));
    }
    args
}

/// Deletes Jobs of earlier attempts of the task, so that no two run at once.
async fn clear(cli: &Cli, plan: &Plan) -> Result<(), TaskError> {
    let others = format!("{KEY}={},{TRY}!={}", plan.key, plan.name);
    let args = words([
        "delete",
        "job",
        "--selector",
        &others,
        "--ignore-not-found",
        "--cascade=foreground",
    ]);
    let answer = cli.ask(&at(plan, args), None).await?;
    check(&answer, "cannot access the cluster")
}

async fn create(cli: &Cli, plan: &Plan, limit: Option<Duration>) -> Result<(), TaskError> {
    let manifest = manifest(plan, limit).to_string().into_bytes();
    let args = words(["create", "--filename", "-", "--output", "name"]);
    let answer = cli.ask(&at(plan, args), Some(manifest)).await?;
    // The same attempt was started by a worker that crashed: continue with its Job.
    if answer.printed.stderr.contains("AlreadyExists") {
        return Ok(());
    }
    check(&answer, "cannot create the Job")
}

/// Watches the Job until it ends.
async fn watch(cli: &Cli, plan: &Plan) -> Result<Ended, TaskError> {
    let mut blind = 0;
    loop {
        let seen = look(cli, plan).await?;
        if let Some(ended) = seen.ended {
            return Ok(ended);
        }
        if seen.said.contains("NotFound") {
            let message = format!("Job `{}` not found: it was deleted", plan.name);
            let kind = ErrorKind::NotFound;
            return Err(TaskError::new(kind, "CONTAINER_LOST", message));
        }
        blind = if seen.is_blind { blind + 1 } else { 0 };
        if blind == BLIND_MAX {
            let said = tail_of(seen.said.trim(), TAIL_BYTES_MAX);
            let message = format!(
                "cannot watch the Job `{}` after {BLIND_MAX} attempts: {said}",
                plan.name
            );
            return Err(TaskError::new(
                kind_of(&seen.said),
                "CONTAINER_LOST",
                message,
            ));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Result of one watch.
struct Seen {
    ended: Option<Ended>,
    /// Whether the watch returned no data.
    is_blind: bool,
    /// Error output of the client.
    said: String,
}

/// Watches the Job until the Job or the watch ends.
async fn look(cli: &Cli, plan: &Plan) -> Result<Seen, TaskError> {
    let args = words(["get", "job", &plan.name, "--output", "json", "--watch"]);
    let mut group = cli.start(&at(plan, args), cli.env(), std::process::Stdio::null())?;
    let mut buffer = Vec::new();
    let mut bytes = 0;
    let ended = loop {
        tokio::select! {
            biased;
            () = group.stdout.readable() => {
                bytes += group.stdout.read_ready(&mut buffer);
                if let Some(ended) = newest(&mut buffer) {
                    break Some(ended);
                }
            }
            _ = group.child.wait() => {
                group.stdout.read_rest(&mut buffer);
                bytes += buffer.len();
                break newest(&mut buffer);
            }
        }
    };
    let mut said = Vec::new();
    if ended.is_none() {
        group.stderr.read_rest(&mut said);
    }
    Ok(Seen {
        ended,
        is_blind: bytes == 0,
        said: String::from_utf8_lossy(&said).into_owned(),
    })
}

/// Removes complete states from the buffer and returns the first one that is an end.
fn newest(buffer: &mut Vec<u8>) -> Option<Ended> {
    let mut states = serde_json::Deserializer::from_slice(buffer).into_iter::<Value>();
    let mut found = None;
    let mut used = 0;
    while let Some(Ok(state)) = states.next() {
        used = states.byte_offset();
        found = found.or_else(|| ended(&state));
    }
    buffer.drain(..used);
    found
}

async fn read_log(cli: &Cli, plan: &Plan) -> String {
    let (job, bytes) = (
        format!("job/{}", plan.name),
        format!("--limit-bytes={LOG_BYTES_MAX}"),
    );
    let args = at(plan, words(["logs", &job, "--tail=-1", &bytes]));
    // A pod that never started has no log; the Job reports the reason.
    let answer = cli.ask(&args, None).await;
    answer
        .map(|answer| answer.printed.stdout)
        .unwrap_or_default()
}

/// Error of a failed Job: the exit code of its container, else the Job's reason.
async fn failure(cli: &Cli, plan: &Plan, reason: &str, message: &str) -> TaskError {
    if reason == "DeadlineExceeded" {
        return TaskError::new(
            ErrorKind::Timeout,
            "TIMEOUT",
            "the Job exceeded its timeout",
        );
    }
    let selector = format!("job-name={}", plan.name);
    let args = words(["get", "pods", "--selector", &selector, "--output", "json"]);
    let answer = cli.ask(&at(plan, args), None).await;
    let pods: Value = answer
        .ok()
        .and_then(|answer| serde_json::from_str(&answer.printed.stdout).ok())
        .unwrap_or_default();
    let code = pods["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find_map(|pod| {
            let state = &pod["status"]["containerStatuses"][0]["state"];
            state["terminated"]["exitCode"].as_i64()
        });
    if let Some(code) = code.and_then(|code| i32::try_from(code).ok()) {
        return exited(code);
    }
    let message = format!("the Job failed: {reason} {message}");
    TaskError::new(ErrorKind::ServerError, "CONTAINER_FAILED", message.trim())
}

async fn delete(cli: &Cli, plan: &Plan) {
    let args = words([
        "delete",
        "job",
        &plan.name,
        "--ignore-not-found",
        "--wait=false",
    ]);
    // If the cluster is unreachable now, the Job ends at its own deadline.
    drop(cli.ask(&at(plan, args), None).await);
}

fn check(answer: &Answer, what: &str) -> Result<(), TaskError> {
    if answer.code == Some(0) {
        return Ok(());
    }
    let said = answer.printed.stderr.trim();
    let message = format!("{what}: {}", tail_of(said, TAIL_BYTES_MAX));
    Err(TaskError::new(kind_of(said), "CONTAINER_START", message).with("sent", false))
}

/// Error kind of the client's error output.
fn kind_of(said: &str) -> ErrorKind {
    let passing = ["refused", "no such host", "timeout", "Unable to connect"];
    if said.contains("Forbidden") || said.contains("Unauthorized") {
        ErrorKind::Auth
    } else if passing.iter().any(|words| said.contains(words)) {
        ErrorKind::Connection
    } else {
        ErrorKind::ClientError
    }
}
