//! Tests of containers with scripts that replace docker and kubectl, which are not available in tests. The scripts
//! record their calls and behave like the real programs. Some tests run without any runtime.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::outcome::{ErrorKind, Outcome};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tools::testing::{build_call, expect_error, expect_result, run_tool, wait_for_exit};
use tools::{Call, DiscardingLogSink, Tool as _};

use super::docker::run_arguments;
use super::kubernetes::{JobEnd, job_end, job_manifest};
use super::spec::ContainerSpec;
use super::tool::ContainerTool;

/// Logs each call as a line; runs the words after the image instead of a container.
const DOCKER: &str = r#"#!/bin/sh
echo "$*" >> "$FAKE/calls"
case "$1" in
  ps) [ -f "$FAKE/broken" ] && { echo "Cannot connect to the Docker daemon" >&2; exit 1; }; cat "$FAKE/left" 2>/dev/null; exit 0;;
  rm) shift 2; for id in "$@"; do [ -f "$FAKE/$id" ] && kill "$(cat "$FAKE/$id")"; done; exit 0;;
esac
while [ "$1" != "--name" ]; do shift; done
name=$2
while [ "$1" != "busybox" ] && [ $# -gt 0 ]; do shift; done
[ $# -eq 0 ] && { echo "Unable to find image" >&2; exit 125; }
shift
setsid /bin/sh "$@" & pid=$!
echo $pid > "$FAKE/$name"
trap 'kill $!; exit 1' TERM
[ -f "$FAKE/stubborn" ] && trap '' TERM
wait $pid
"#;

/// Stores one Job in a file; the file `end` defines how it ends.
const KUBECTL: &str = r#"#!/bin/sh
echo "$*" >> "$FAKE/calls"
case "$1 $2" in
  "delete job") [ -f "$FAKE/forbidden" ] && { echo "Error from server (Forbidden): no" >&2; exit 1; }; exit 0;;
  "create --filename") [ -f "$FAKE/job" ] && { echo "Error from server (AlreadyExists)" >&2; exit 1; }; cat > "$FAKE/job"; echo job.batch/x;;
  "get job") [ -f "$FAKE/blind" ] && { echo "Unable to connect to the server" >&2; exit 1; }
     [ -f "$FAKE/gone" ] && { echo "Error from server (NotFound)" >&2; exit 1; }
     printf '{"status": {"active": 1}}\n{\n  "status": '; cat "$FAKE/end" 2>/dev/null || exec sleep 100; printf '}\n'; exec sleep 100;;
  "get pods") cat "$FAKE/pods";;
  logs*) echo "one"; echo "two";;
esac
"#;

struct FakeRuntime {
    dir: TempDir,
    tool: ContainerTool,
}

impl FakeRuntime {
    fn new(program: &str, script: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join(program);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let folder = dir.path().display().to_string();
        let env = [("PATH", format!("{folder}:/usr/bin:/bin")), ("FAKE", folder)];
        let env = env.map(|(name, value)| (name.to_owned(), value));
        Self {
            tool: ContainerTool::new(env.into()),
            dir,
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.file("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    async fn run(&self, fields: Value) -> Outcome {
        run_tool(&self.tool, container_call(fields)).await
    }

    /// Waits until a file exists and is not empty.
    async fn wait_for_file(&self, name: &str) -> String {
        loop {
            let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim().to_owned();
            }
            tokio::task::yield_now().await;
        }
    }
}

fn container_call(fields: Value) -> Call {
    let mut call = build_call("container", fields, json!({}));
    call.idempotency_key = "run/step/task".into();
    call
}

fn container_spec(fields: Value) -> ContainerSpec {
    ContainerSpec::from_call(&container_call(fields)).unwrap()
}

#[test]
fn a_container_becomes_docker_arguments() {
    let spec = container_spec(json!({
        "image": "alpine:3", "command": ["python", "-c", "x; rm"], "args": ["a b", 1],
        "env": {"TOKEN": "s3cret", "PATH": "/mine"}, "resources": {"cpu": "1500m", "memory": "512MiB"},
        "workdir": "/w", "user": "1000", "network": "none", "pull": "always",
    }));
    let arguments = run_arguments(&spec);
    let text = arguments.join(" ");
    assert_eq!(
        text,
        format!(
            "run --rm --name {} --label io.noetl.key={} --security-opt no-new-privileges --env PATH=/mine --env TOKEN \
             --cpus 1.500 --memory 536870912 --workdir /w --user 1000 --network none --pull always --entrypoint python \
             alpine:3 -c x; rm a b 1",
            spec.name, spec.key
        )
    );
    assert!(arguments.contains(&"a b".to_owned()), "arguments are not split");
    assert!(spec.name.starts_with("noetl-") && spec.name.ends_with("-1"));
}

#[test]
fn a_container_becomes_a_job() {
    let spec = container_spec(json!({
        "image": "alpine:3", "command": "echo hi", "env": {"A": 1}, "namespace": "jobs", "service_account": "runner",
        "resources": {"limits": {"cpu": 0.25, "memory": "64Mi"}}, "pull": "missing",
    }));
    let job = job_manifest(&spec, Some(Duration::from_secs(90)));
    assert_eq!(job["metadata"]["name"], spec.name);
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 90);
    assert_eq!(job["spec"]["backoffLimit"], 0);
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["restartPolicy"], &pod["serviceAccountName"]),
        (&json!("Never"), &json!("runner"))
    );
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!(["/bin/sh", "-c", "echo hi"]));
    assert_eq!(container["env"], json!([{"name": "A", "value": "1"}]));
    assert_eq!(
        container["resources"]["limits"],
        json!({"cpu": "250m", "memory": "67108864"})
    );
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
}

#[test]
fn an_invalid_container_is_reported() {
    for fields in [
        json!({}),
        json!({"image": "--privileged"}),
        json!({"image": "a b"}),
        json!({"image": "a", "args": {"x": 1}}),
        json!({"image": "a", "resources": {"gpu": 1}}),
        json!({"image": "a", "resources": {"cpu": "lots"}}),
        json!({"image": "a", "pull": "sometimes"}),
    ] {
        let error = ContainerSpec::from_call(&container_call(fields.clone())).unwrap_err();
        assert_eq!(error.code, "TOOL_INPUT", "{fields}");
    }
}

#[test]
fn the_end_of_a_job_is_read_from_its_conditions() {
    let state = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status, "reason": "R", "message": "m"}]}});
    assert_eq!(job_end(&state("Complete", "True")), Some(JobEnd::Complete));
    assert_eq!(job_end(&state("Complete", "False")), None);
    assert_eq!(job_end(&state("SuccessCriteriaMet", "True")), None);
    assert!(matches!(job_end(&state("Failed", "True")), Some(JobEnd::Failed { reason, .. }) if reason == "R"));
    assert_eq!(job_end(&json!({"status": {}})), None);
}

#[tokio::test]
async fn without_a_runtime_the_error_names_the_missing_programs() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().display().to_string();
    let tool = ContainerTool::new([("PATH".to_owned(), path)].into());
    let outcome = run_tool(&tool, container_call(json!({"image": "busybox"}))).await;
    let failed = expect_error(&outcome);
    assert_eq!(failed.code, "CONTAINER_RUNTIME_MISSING");
    assert!(
        failed.message.contains("docker, podman, kubectl") && !failed.retryable,
        "{}",
        failed.message
    );
    let named = run_tool(
        &tool,
        container_call(json!({"image": "busybox", "runtime": "kubernetes"})),
    )
    .await;
    assert!(expect_error(&named).message.contains("no kubectl"));
    let wrong = run_tool(&tool, container_call(json!({"image": "busybox", "runtime": "rkt"}))).await;
    assert_eq!(expect_error(&wrong).code, "TOOL_INPUT");
}

#[tokio::test]
async fn a_docker_container_returns_its_output() {
    let fake = FakeRuntime::new("docker", DOCKER);
    let fields = json!({"image": "busybox", "args": ["-c", "echo out $WHO; echo err >&2"], "env": {"WHO": "me"}});
    let result = expect_result(fake.run(fields).await);
    assert_eq!(result["stdout"], "out me\n");
    assert_eq!(result["stderr"], "err\n");
    assert_eq!(
        (&result["status"], &result["exit_code"]),
        (&json!("succeeded"), &json!(0))
    );
    assert_eq!(result["job"]["runtime"], "docker");
    let failed = fake
        .run(json!({"image": "busybox", "args": ["-c", "echo why; exit 3"]}))
        .await;
    assert_eq!(
        (
            expect_error(&failed).code.as_str(),
            &expect_error(&failed).details["exit_code"]
        ),
        ("CONTAINER_EXIT", &json!(3))
    );
    assert_eq!(expect_error(&failed).details["stdout"], "why\n");
    let missing = fake.run(json!({"image": "nothing"})).await;
    assert_eq!(expect_error(&missing).code, "CONTAINER_START");
    assert!(expect_error(&missing).message.contains("Unable to find image"));
}

#[tokio::test]
async fn containers_of_earlier_attempts_are_removed_first() {
    let fake = FakeRuntime::new("docker", DOCKER);
    fake.write("left", "abc\ndef\n");
    expect_result(fake.run(json!({"image": "busybox", "args": ["-c", "true"]})).await);
    let calls = fake.calls();
    let key = container_spec(json!({"image": "busybox"})).key;
    assert_eq!(calls[0], format!("ps --all --quiet --filter label=io.noetl.key={key}"));
    assert_eq!(calls[1], "rm --force abc def");
    assert!(calls[2].starts_with("run --rm --name noetl-"));
    fake.write("broken", "");
    let outcome = fake.run(json!({"image": "busybox"})).await;
    assert_eq!(
        (expect_error(&outcome).code.as_str(), expect_error(&outcome).kind),
        ("CONTAINER_RUNTIME", ErrorKind::Connection)
    );
    assert!(expect_error(&outcome).retryable && !expect_error(&outcome).leaves_effect_unknown());
}

#[tokio::test]
async fn a_cancelled_or_timed_out_container_is_removed() {
    let fake = FakeRuntime::new("docker", DOCKER);
    let name = container_spec(json!({"image": "busybox"})).name;
    let fields = json!({"image": "busybox", "args": ["-c", "sleep 100"]});
    let mut slow = container_call(fields.clone());
    slow.timeout.total = Some(Duration::from_millis(300));
    let outcome = run_tool(&fake.tool, slow).await;
    assert_eq!(expect_error(&outcome).code, "TIMEOUT");
    wait_for_exit(&fake.wait_for_file(&name).await).await;
    assert_eq!(fake.calls().last().unwrap(), &format!("rm --force {name}"));
    std::fs::remove_file(fake.file(&name)).unwrap();
    let stop = CancellationToken::new();
    let stopping = async {
        let pid = fake.wait_for_file(&name).await;
        stop.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(
        fake.tool.call(container_call(fields), stop.clone(), &DiscardingLogSink),
        stopping
    );
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Cancelled);
    wait_for_exit(&pid).await;
}

#[tokio::test]
async fn a_stopped_container_does_not_wait_for_its_client() {
    let fake = FakeRuntime::new("docker", DOCKER);
    fake.write("stubborn", "");
    let name = container_spec(json!({"image": "busybox"})).name;
    let fields = json!({"image": "busybox", "args": ["-c", "sleep 100"]});
    let stop = CancellationToken::new();
    let stopping = async {
        let pid = fake.wait_for_file(&name).await;
        stop.cancel();
        (pid, Instant::now())
    };
    let call = fake.tool.call(container_call(fields), stop.clone(), &DiscardingLogSink);
    let (outcome, (pid, stopped)) = tokio::join!(call, stopping);
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Cancelled);
    assert!(stopped.elapsed() < tools::KILL_GRACE, "{stopped:?}");
    wait_for_exit(&pid).await;
}

#[tokio::test]
async fn a_job_that_cannot_be_watched_fails_the_task() {
    let fake = FakeRuntime::new("kubectl", KUBECTL);
    fake.write("blind", "");
    let outcome = fake.run(json!({"image": "busybox"})).await;
    let failed = expect_error(&outcome);
    assert_eq!(
        (failed.code.as_str(), failed.kind),
        ("CONTAINER_LOST", ErrorKind::Connection)
    );
    assert!(failed.message.contains("Unable to connect"), "{}", failed.message);
    let last = fake.calls().last().unwrap().clone();
    assert!(last.starts_with("delete job"), "{last}");
}

#[tokio::test]
async fn a_job_is_watched_to_its_end() {
    let fake = FakeRuntime::new("kubectl", KUBECTL);
    fake.write("end", r#"{"conditions": [{"type": "Complete", "status": "True"}]}"#);
    let result = expect_result(fake.run(json!({"image": "busybox", "namespace": "jobs"})).await);
    assert_eq!(
        (&result["stdout"], &result["job"]["namespace"]),
        (&json!("one\ntwo\n"), &json!("jobs"))
    );
    let job: Value = serde_json::from_slice(&std::fs::read(fake.file("job")).unwrap()).unwrap();
    assert_eq!(job["kind"], "Job");
    assert!(
        fake.calls().iter().all(|call| call.ends_with("--namespace jobs")),
        "{:?}",
        fake.calls()
    );
    // The Job of the same attempt, whose worker crashed, is continued.
    expect_result(fake.run(json!({"image": "busybox"})).await);
}

#[tokio::test]
async fn a_failed_job_reports_the_exit_code_of_its_container() {
    let fake = FakeRuntime::new("kubectl", KUBECTL);
    fake.write(
        "end",
        r#"{"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}"#,
    );
    fake.write(
        "pods",
        r#"{"items": [{"status": {"containerStatuses": [{"state": {"terminated": {"exitCode": 137}}}]}}]}"#,
    );
    let outcome = fake.run(json!({"image": "busybox"})).await;
    let failed = expect_error(&outcome);
    assert_eq!(
        (failed.code.as_str(), &failed.details["exit_code"]),
        ("CONTAINER_EXIT", &json!(137))
    );
    assert_eq!(failed.details["stdout"], "one\ntwo\n");
    fake.write("pods", r#"{"items": []}"#);
    assert_eq!(
        expect_error(&fake.run(json!({"image": "busybox"})).await).code,
        "CONTAINER_FAILED"
    );
    fake.write(
        "end",
        r#"{"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}"#,
    );
    assert_eq!(
        expect_error(&fake.run(json!({"image": "busybox"})).await).code,
        "TIMEOUT"
    );
    fake.write("gone", "");
    assert_eq!(
        expect_error(&fake.run(json!({"image": "busybox"})).await).code,
        "CONTAINER_LOST"
    );
    fake.write("forbidden", "");
    assert_eq!(
        expect_error(&fake.run(json!({"image": "busybox"})).await).kind,
        ErrorKind::Auth
    );
}

#[tokio::test]
async fn a_job_that_is_cancelled_is_deleted() {
    let fake = FakeRuntime::new("kubectl", KUBECTL);
    let name = container_spec(json!({"image": "busybox"})).name;
    let stop = CancellationToken::new();
    let stopping = async {
        while !fake.calls().iter().any(|call| call.contains("--watch")) {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let call = fake.tool.call(
        container_call(json!({"image": "busybox"})),
        stop.clone(),
        &DiscardingLogSink,
    );
    let (outcome, ()) = tokio::join!(call, stopping);
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Cancelled);
    let last = fake.calls().last().unwrap().clone();
    assert_eq!(last, format!("delete job {name} --ignore-not-found --wait=false"));
}
