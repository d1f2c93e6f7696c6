//! Tests of external tools with real processes: their responses, and every way to fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::outcome::{ErrorKind, Outcome};
use model::task_log::LogStream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ExternalTool, KindManifest, load_manifests};
use crate::call::{Call, DiscardingLogSink, Tool};
use crate::process_marker::MARKER_VARIABLE;
use crate::testing::{RecordedLogLines, StopAtFirstLine, build_call, expect_error, expect_result, run_tool};

/// A program that handles each call as its field `do` requests.
const PROGRAM: &str = r#"
import json, os, sys, time
action = None
for line in sys.stdin:
    request = json.loads(line)
    n = request["id"]
    def send(**reply):
        print(json.dumps({"id": n, **reply}), flush=True)
    if request.get("cancel"):
        if action == "late":
            send(outcome={"status": "ok", "result": "late"})
        continue
    call = request["call"]
    action = call["fields"].get("do")
    if action == "echo":
        send(outcome={"status": "ok", "result": {"call": call, "pid": os.getpid()}})
    elif action == "log":
        send(log="one")
        send(log={"stream": "stderr", "text": "two"})
        print("three", file=sys.stderr, flush=True)
        send(outcome={"status": "ok"})
    elif action == "fail":
        send(outcome={"status": "error", "error": {"kind": "rate_limit", "code": "CRM_BUSY", "message": "later", "wait": 5}})
    elif action == "odd":
        send(outcome={"status": "error", "error": {"code": "not a code", "message": "odd"}})
    elif action == "die":
        os._exit(3)
    elif action == "babble":
        print("hello, I am no JSON", flush=True)
    elif action == "stray":
        print(json.dumps({"id": 99, "outcome": {"status": "ok"}}), flush=True)
    elif action == "mute":
        send(nothing=1)
    elif action == "wait":
        send(log="waiting")
    elif action == "late":
        send(log="waiting")
"#;

fn external_tool() -> ExternalTool {
    let text = "name = 'x-test'\ncommand = ['python3', '-c', 'PROGRAM']\nversion = '1'\nprocesses_max = 2\n\
                [keys.do]\ntype = 'text'\nrequired = true\n[keys.many]\ntype = 'number'\n";
    let mut manifest = KindManifest::parse(text, std::path::Path::new("/tmp")).unwrap();
    manifest.command[2] = PROGRAM.to_owned();
    let path = std::env::var("PATH").unwrap();
    ExternalTool::new(manifest, BTreeMap::from([("PATH".to_owned(), path)]))
}

fn call_with_action(action: &str) -> Call {
    build_call("x-test", json!({"do": action}), json!({"a": 1}))
}

#[tokio::test]
async fn a_call_is_sent_with_all_its_fields_and_its_process_is_reused() {
    let tool = external_tool();
    let mut call = call_with_action("echo");
    call.idempotency_key = "key".into();
    call.attempt = 2;
    call.timeout.total = Some(Duration::from_secs(30));
    let first = expect_result(run_tool(&tool, call).await);
    let expected = json!({
        "kind": "x-test", "fields": {"do": "echo"}, "input": {"a": 1}, "timeout_s": 30.0,
        "idempotency_key": "key", "attempt": 2, "base_dir": "/tmp",
    });
    assert_eq!(first["call"], expected);
    assert_eq!(
        expect_result(run_tool(&tool, call_with_action("echo")).await)["pid"],
        first["pid"]
    );
}

#[tokio::test]
async fn log_lines_of_a_process_are_logged() {
    let lines = RecordedLogLines::default();
    let outcome = external_tool()
        .call(call_with_action("log"), CancellationToken::new(), &lines)
        .await;
    assert_eq!(expect_result(outcome), Value::Null);
    assert_eq!(lines.lines_of(LogStream::Stdout), ["one"]);
    let mut errors = lines.lines_of(LogStream::Stderr);
    errors.sort();
    assert_eq!(errors, ["three", "two"], "stderr and log lines arrive separately");
}

#[tokio::test]
async fn a_failed_call_returns_the_error_of_the_process() {
    let outcome = run_tool(&external_tool(), call_with_action("fail")).await;
    let failed = expect_error(&outcome);
    assert_eq!((failed.kind, failed.code.as_str()), (ErrorKind::RateLimit, "CRM_BUSY"));
    assert!(failed.retryable && failed.details["wait"] == 5);
    let outcome = run_tool(&external_tool(), call_with_action("odd")).await;
    assert_eq!(expect_error(&outcome).code, "TOOL_FAILED");
}

#[tokio::test]
async fn every_missing_response_has_a_code_and_the_next_call_works() {
    let tool = external_tool();
    for (action, expected) in [
        ("die", "TOOL_DIED"),
        ("babble", "TOOL_PROTOCOL"),
        ("stray", "TOOL_PROTOCOL"),
        ("mute", "TOOL_PROTOCOL"),
    ] {
        let outcome = run_tool(&tool, call_with_action(action)).await;
        assert_eq!(expect_error(&outcome).code, expected, "{action}");
        expect_result(run_tool(&tool, call_with_action("echo")).await);
    }
    let mut slow = call_with_action("wait");
    slow.timeout.total = Some(Duration::from_millis(300));
    assert_eq!(expect_error(&run_tool(&tool, slow).await).code, "TIMEOUT");
    expect_result(run_tool(&tool, call_with_action("echo")).await);
    let missing = ExternalTool::new(
        KindManifest {
            command: vec!["./no-such-program".to_owned()],
            ..tool.manifest().clone()
        },
        BTreeMap::new(),
    );
    assert_eq!(
        expect_error(&run_tool(&missing, call_with_action("echo")).await).code,
        "TOOL_START"
    );
}

async fn run_stopped(tool: &ExternalTool, action: &str) -> Outcome {
    let stop = CancellationToken::new();
    let log = StopAtFirstLine(stop.clone());
    tool.call(call_with_action(action), stop, &log).await
}

#[tokio::test]
async fn a_cancelled_process_may_still_respond_and_is_killed_otherwise() {
    let tool = external_tool();
    assert_eq!(expect_result(run_stopped(&tool, "late").await), "late");
    assert_eq!(
        expect_error(&run_stopped(&tool, "wait").await).kind,
        ErrorKind::Cancelled
    );
}

#[tokio::test]
async fn keys_are_checked_against_the_manifest() {
    for (fields, phrase) in [
        (json!({}), "requires `do`"),
        (json!({"do": 1}), "must be text"),
        (json!({"do": "echo", "many": "x"}), "must be a number"),
        (json!({"do": "echo", "more": 1}), "no key `more`"),
    ] {
        let outcome = run_tool(&external_tool(), build_call("x-test", fields, json!({}))).await;
        assert_eq!(expect_error(&outcome).code, "TOOL_INPUT");
        assert!(
            expect_error(&outcome).message.contains(phrase),
            "{}",
            expect_error(&outcome).message
        );
    }
}

#[tokio::test]
async fn the_manifest_limits_the_number_of_processes() {
    let tool = Arc::new(external_tool());
    let calls = (0..20).map(|_| {
        let tool = tool.clone();
        async move {
            expect_result(
                tool.call(call_with_action("echo"), CancellationToken::new(), &DiscardingLogSink)
                    .await,
            )
        }
    });
    let all = futures_util::future::join_all(calls).await;
    let pids: std::collections::BTreeSet<u64> = all.iter().map(|one| one["pid"].as_u64().unwrap()).collect();
    assert!(pids.len() <= 2, "{pids:?}");
    assert_eq!(MARKER_VARIABLE, "NOETL_PROCESS");
}

#[test]
fn manifests_in_a_directory_are_read_and_errors_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let good = "name = 'x-a'\ncommand = ['./a']\nversion = '1'\n";
    std::fs::create_dir(dir.path().join("a")).unwrap();
    std::fs::write(dir.path().join("a/tool.toml"), good).unwrap();
    std::fs::write(dir.path().join("b.toml"), good.replace("x-a", "x-b")).unwrap();
    std::fs::write(dir.path().join("README.md"), "no manifest").unwrap();
    let manifests = load_manifests(dir.path()).unwrap();
    let names: Vec<&str> = manifests.iter().map(|manifest| manifest.name.as_str()).collect();
    assert_eq!(names, ["x-a", "x-b"]);
    assert_eq!(manifests[0].program_path(), dir.path().join("a/./a"));
    for (text, phrase) in [
        (good, "already"),
        ("name = 'python'\ncommand = ['a']\nversion = '1'", "must be `x-`"),
        ("name = 'x-c'\ncommand = []\nversion = '1'", "must name a program"),
        ("name = 'x-c'\ncommand = ['a']\nversion = '1'\ncolour = 1", "colour"),
    ] {
        std::fs::write(dir.path().join("c.toml"), text).unwrap();
        let message = load_manifests(dir.path()).unwrap_err().to_string();
        assert!(message.contains(phrase), "{message}");
    }
}
