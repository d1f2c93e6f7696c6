//! Runs a Kubernetes Job: creates it once per attempt, watches it to its end and reads its pod's log.

use std::time::Duration;

use model::outcome::{ErrorKind, Outcome, TaskError};
use model::task_log::LogStream;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tools::{LogSink, cancelled_error, text_tail, timeout_error};

use crate::container::cli::{CliOutput, RuntimeCli, to_strings};
use crate::container::docker::{TAIL_BYTES_MAX, exit_error, success_result};
use crate::container::spec::{ContainerSpec, PullPolicy};

const KEY_LABEL: &str = "noetl.io/key";
const ATTEMPT_LABEL: &str = "noetl.io/try";

/// Time that a finished Job is kept for inspection.
const RETAINED_SECONDS: u64 = 3_600;

/// Delay before a watch is restarted.
const WATCH_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum number of consecutive watches without data; after them the task fails.
const EMPTY_WATCHES_MAX: u32 = 5;

/// Maximum bytes of the log in a result.
const LOG_BYTES_MAX: u64 = 1024 * 1024;

/// How a Job ended.
#[derive(Debug, PartialEq)]
pub(crate) enum JobEnd {
    Complete,
    Failed { reason: String, message: String },
}

/// Runs a Job to its end.
pub(crate) async fn run_job(
    cli: &RuntimeCli,
    spec: &ContainerSpec,
    limit: Option<Duration>,
    stop: &CancellationToken,
    log: &dyn LogSink,
) -> Result<Outcome, TaskError> {
    remove_earlier_attempts(cli, spec).await?;
    create_job(cli, spec, limit).await?;
    let deadline = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let end = tokio::select! {
        end = watch_job(cli, spec) => match end {
            Ok(end) => end,
            Err(error) => {
                // An unwatched Job must not run concurrently with a retry.
                delete_job(cli, spec).await;
                return Err(error.with_detail("job", job_details(spec)));
            }
        },
        () = stop.cancelled() => {
            delete_job(cli, spec).await;
            return Err(cancelled_error().with_detail("job", job_details(spec)));
        }
        () = deadline => {
            delete_job(cli, spec).await;
            return Err(timeout_error(limit.unwrap_or_default()).with_detail("job", job_details(spec)));
        }
    };
    let output = read_log(cli, spec).await;
    for line in output.lines() {
        log.write_line(LogStream::Stdout, line);
    }
    Ok(match end {
        JobEnd::Complete => Outcome::ok(success_result(&job_details(spec), &output, "")),
        JobEnd::Failed { reason, message } => {
            let error = read_job_error(cli, spec, &reason, &message).await;
            let output = text_tail(&output, TAIL_BYTES_MAX);
            Outcome::error(
                error
                    .with_detail("job", job_details(spec))
                    .with_detail("reason", reason)
                    .with_detail("stdout", output),
            )
        }
    })
}

/// Job manifest of a container.
pub(crate) fn job_manifest(spec: &ContainerSpec, limit: Option<Duration>) -> Value {
    let labels = json!({KEY_LABEL: spec.key, ATTEMPT_LABEL: spec.name, "app.kubernetes.io/managed-by": "noetl"});
    let env = spec.env.iter();
    let env: Vec<Value> = env.map(|(name, value)| json!({"name": name, "value": value})).collect();
    let mut container = json!({"name": "task", "image": spec.image, "env": env});
    let mut limits = Map::new();
    if let Some(millis) = spec.resources.cpu_millis {
        limits.insert("cpu".to_owned(), format!("{millis}m").into());
    }
    if let Some(bytes) = spec.resources.memory_bytes {
        limits.insert("memory".to_owned(), bytes.to_string().into());
    }
    if !limits.is_empty() {
        container["resources"] = json!({"limits": limits, "requests": limits});
    }
    for (key, arguments) in [("command", &spec.command), ("args", &spec.args)] {
        if !arguments.is_empty() {
            container[key] = json!(arguments);
        }
    }
    if let Some(workdir) = &spec.workdir {
        container["workingDir"] = json!(workdir);
    }
    if let Some(pull) = spec.pull {
        container["imagePullPolicy"] = json!(match pull {
            PullPolicy::Always => "Always",
            PullPolicy::Missing => "IfNotPresent",
            PullPolicy::Never => "Never",
        });
    }
    let mut pod = json!({"restartPolicy": "Never", "containers": [container]});
    if let Some(account) = &spec.service_account {
        pod["serviceAccountName"] = json!(account);
    }
    let mut job_spec = json!({
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": RETAINED_SECONDS,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    });
    if let Some(limit) = limit {
        // The cluster ends the Job even if the worker crashes.
        job_spec["activeDeadlineSeconds"] = json!(limit.as_secs().max(1));
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": spec.name, "labels": labels},
        "spec": job_spec,
    })
}

/// How a Job ended, if it has ended.
pub(crate) fn job_end(state: &Value) -> Option<JobEnd> {
    let conditions = state["status"]["conditions"].as_array()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    conditions
        .iter()
        .filter(|condition| condition["status"] == "True")
        .find_map(|condition| match condition["type"].as_str()? {
            "Complete" => Some(JobEnd::Complete),
            "Failed" => Some(JobEnd::Failed {
                reason: text(&condition["reason"]),
                message: text(&condition["message"]),
            }),
            _ => None,
        })
}

fn job_details(spec: &ContainerSpec) -> Value {
    json!({"runtime": "kubernetes", "name": spec.name, "namespace": spec.namespace})
}

/// Adds the namespace to the arguments.
fn with_namespace(spec: &ContainerSpec, mut args: Vec<String>) -> Vec<String> {
    if let Some(namespace) = &spec.namespace {
        args.extend(to_strings(["--namespace", namespace]));
    }
    args
}

/// Deletes Jobs of earlier attempts of the task, so that no two run at once.
async fn remove_earlier_attempts(cli: &RuntimeCli, spec: &ContainerSpec) -> Result<(), TaskError> {
    let others = format!("{KEY_LABEL}={},{ATTEMPT_LABEL}!={}", spec.key, spec.name);
    let args = to_strings([
        "delete",
        "job",
        "--selector",
        &others,
        "--ignore-not-found",
        "--cascade=foreground",
    ]);
    let result = cli.query(&with_namespace(spec, args), None).await?;
    check_output(&result, "cannot access the cluster")
}

async fn create_job(cli: &RuntimeCli, spec: &ContainerSpec, limit: Option<Duration>) -> Result<(), TaskError> {
    let manifest = job_manifest(spec, limit).to_string().into_bytes();
    let args = to_strings(["create", "--filename", "-", "--output", "name"]);
    let result = cli.query(&with_namespace(spec, args), Some(manifest)).await?;
    // The same attempt was started by a worker that crashed: continue with its Job.
    if result.output.stderr.contains("AlreadyExists") {
        return Ok(());
    }
    check_output(&result, "cannot create the Job")
}

/// Watches the Job until it ends.
async fn watch_job(cli: &RuntimeCli, spec: &ContainerSpec) -> Result<JobEnd, TaskError> {
    let mut blind = 0;
    loop {
        let watched = watch_once(cli, spec).await?;
        if let Some(ended) = watched.end {
            return Ok(ended);
        }
        if watched.stderr.contains("NotFound") {
            let message = format!("Job `{}` not found: it was deleted", spec.name);
            let kind = ErrorKind::NotFound;
            return Err(TaskError::new(kind, "CONTAINER_LOST", message));
        }
        blind = if watched.is_empty { blind + 1 } else { 0 };
        if blind == EMPTY_WATCHES_MAX {
            let stderr = text_tail(watched.stderr.trim(), TAIL_BYTES_MAX);
            let message = format!(
                "cannot watch the Job `{}` after {EMPTY_WATCHES_MAX} attempts: {stderr}",
                spec.name
            );
            return Err(TaskError::new(error_kind(&watched.stderr), "CONTAINER_LOST", message));
        }
        tokio::time::sleep(WATCH_RETRY_DELAY).await;
    }
}

/// Result of one watch.
struct WatchResult {
    end: Option<JobEnd>,
    /// Whether the watch returned no data.
    is_empty: bool,
    /// Error output of the client.
    stderr: String,
}

/// Watches the Job until the Job or the watch ends.
async fn watch_once(cli: &RuntimeCli, spec: &ContainerSpec) -> Result<WatchResult, TaskError> {
    let args = to_strings(["get", "job", &spec.name, "--output", "json", "--watch"]);
    let mut group = cli.start(&with_namespace(spec, args), cli.env(), std::process::Stdio::null())?;
    let mut buffer = Vec::new();
    let mut bytes = 0;
    let end = loop {
        tokio::select! {
            biased;
            () = group.stdout.wait_readable() => {
                bytes += group.stdout.read_ready(&mut buffer);
                if let Some(end) = take_job_end(&mut buffer) {
                    break Some(end);
                }
            }
            _ = group.child.wait() => {
                group.stdout.read_remaining(&mut buffer);
                bytes += buffer.len();
                break take_job_end(&mut buffer);
            }
        }
    };
    let mut stderr = Vec::new();
    if end.is_none() {
        group.stderr.read_remaining(&mut stderr);
    }
    Ok(WatchResult {
        end,
        is_empty: bytes == 0,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    })
}

/// Removes complete states from the buffer and returns the first one that is an end.
fn take_job_end(buffer: &mut Vec<u8>) -> Option<JobEnd> {
    let mut states = serde_json::Deserializer::from_slice(buffer).into_iter::<Value>();
    let mut end = None;
    let mut used = 0;
    while let Some(Ok(state)) = states.next() {
        used = states.byte_offset();
        end = end.or_else(|| job_end(&state));
    }
    buffer.drain(..used);
    end
}

async fn read_log(cli: &RuntimeCli, spec: &ContainerSpec) -> String {
    let (job, bytes) = (format!("job/{}", spec.name), format!("--limit-bytes={LOG_BYTES_MAX}"));
    let args = with_namespace(spec, to_strings(["logs", &job, "--tail=-1", &bytes]));
    // A pod that never started has no log; the Job reports the reason.
    let result = cli.query(&args, None).await;
    result.map(|result| result.output.stdout).unwrap_or_default()
}

/// Error of a failed Job: the exit code of its container, else the Job's reason.
async fn read_job_error(cli: &RuntimeCli, spec: &ContainerSpec, reason: &str, message: &str) -> TaskError {
    if reason == "DeadlineExceeded" {
        return TaskError::new(ErrorKind::Timeout, "TIMEOUT", "the Job exceeded its timeout");
    }
    let selector = format!("job-name={}", spec.name);
    let args = to_strings(["get", "pods", "--selector", &selector, "--output", "json"]);
    let result = cli.query(&with_namespace(spec, args), None).await;
    let pods: Value = result
        .ok()
        .and_then(|result| serde_json::from_str(&result.output.stdout).ok())
        .unwrap_or_default();
    let code = pods["items"].as_array().into_iter().flatten().find_map(|pod| {
        let state = &pod["status"]["containerStatuses"][0]["state"];
        state["terminated"]["exitCode"].as_i64()
    });
    if let Some(code) = code.and_then(|code| i32::try_from(code).ok()) {
        return exit_error(code);
    }
    let message = format!("the Job failed: {reason} {message}");
    TaskError::new(ErrorKind::ServerError, "CONTAINER_FAILED", message.trim())
}

async fn delete_job(cli: &RuntimeCli, spec: &ContainerSpec) {
    let args = to_strings(["delete", "job", &spec.name, "--ignore-not-found", "--wait=false"]);
    // If the cluster is unreachable now, the Job ends at its own deadline.
    drop(cli.query(&with_namespace(spec, args), None).await);
}

fn check_output(result: &CliOutput, context: &str) -> Result<(), TaskError> {
    if result.code == Some(0) {
        return Ok(());
    }
    let stderr = result.output.stderr.trim();
    let message = format!("{context}: {}", text_tail(stderr, TAIL_BYTES_MAX));
    Err(TaskError::new(error_kind(stderr), "CONTAINER_START", message).with_detail("sent", false))
}

/// Error kind of the client's error output.
fn error_kind(stderr: &str) -> ErrorKind {
    let transient = ["refused", "no such host", "timeout", "Unable to connect"];
    if stderr.contains("Forbidden") || stderr.contains("Unauthorized") {
        ErrorKind::Auth
    } else if transient.iter().any(|message| stderr.contains(message)) {
        ErrorKind::Connection
    } else {
        ErrorKind::ClientError
    }
}
