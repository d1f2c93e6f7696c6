//! Limits hold from the first instruction, and what cannot be had is said.

use std::path::Path;

use model::outcome::Outcome;
use serde_json::json;

use super::*;
use crate::call::Tool;
use crate::registry::{Config, Registry};
use crate::testing::{self, call, command, error, result};

async fn run(kind: &str, call: Call) -> Outcome {
    let tool = Registry::builtin(Config::default()).get(kind).unwrap();
    testing::run(tool.as_ref(), call).await
}

fn sh(text: &str, knobs: Value) -> Call {
    let mut call = command("shell", text, Path::new("/tmp"));
    call.knobs = knobs.as_object().unwrap().clone();
    call
}

fn python(code: &str, knobs: Value) -> Call {
    let mut call = call("python", json!({"code": code}), json!({}));
    call.knobs = knobs.as_object().unwrap().clone();
    call
}

#[tokio::test]
async fn a_shell_and_what_it_starts_have_their_limits() {
    let knobs =
        json!({"resources": {"open_files": 77, "file_size": "1MiB", "memory": "2GiB", "cpu": 30}});
    let script = "ulimit -n; sh -c 'ulimit -Hn'; ulimit -t; ulimit -v; ulimit -f";
    let outcome = result(run("shell", sh(script, knobs)).await);
    assert_eq!(outcome["stdout"], "77\n77\n30\n2097152\n2048\n");
    let free = result(run("shell", sh("ulimit -t", json!({}))).await);
    assert_eq!(free["stdout"], "unlimited\n");
}

#[tokio::test]
async fn a_shell_with_limits_still_reads_its_input() {
    let knobs = json!({"resources": {"open_files": 77}});
    let mut call = sh("cat", knobs.clone());
    call.fields.insert("stdin".to_owned(), json!("one\ntwo\n"));
    assert_eq!(result(run("shell", call).await)["stdout"], "one\ntwo\n");
    assert_eq!(result(run("shell", sh("cat", knobs)).await)["stdout"], "");
}

#[tokio::test]
async fn a_busy_command_is_stopped_when_its_time_is_used_up() {
    let knobs = json!({"resources": {"cpu": "1s"}});
    let outcome = run("shell", sh("while :; do :; done", knobs)).await;
    let error = error(&outcome);
    assert_eq!(error.code, "SHELL_KILLED");
    assert!(
        error.message.contains("spec.resources.cpu"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn python_with_limits_does_not_share_an_interpreter() {
    let tool = Registry::builtin(Config::default()).get("python").unwrap();
    let tool: &dyn Tool = tool.as_ref();
    let code =
        "import os, resource\nresult = [os.getpid(), resource.getrlimit(resource.RLIMIT_AS)[0]]";
    let limited = json!({"resources": {"memory": "1GiB"}});
    let mut seen = Vec::new();
    for knobs in [json!({}), limited.clone(), limited, json!({})] {
        seen.push(result(testing::run(tool, python(code, knobs)).await));
    }
    assert_eq!(seen[0], seen[3], "the warm one serves what has no limits");
    assert_eq!((&seen[0][1], &seen[1][1]), (&json!(-1), &json!(1 << 30)));
    assert_ne!(seen[0][0], seen[1][0]);
    assert_ne!(seen[1][0], seen[2][0]);
}

#[tokio::test]
async fn memory_that_is_not_there_is_an_exception() {
    let knobs = json!({"resources": {"memory": "512MiB"}});
    let outcome = run("python", python("result = len(b'x' * (1 << 30))", knobs)).await;
    assert_eq!(error(&outcome).code, "PYTHON_MEMORY_ERROR");
}

#[tokio::test]
async fn what_cannot_be_had_fails_the_task_before_it_runs() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!("echo ran > {}", file.path().display());
    for knobs in [
        json!({"sandbox": true}),
        json!({"sandbox": {"network": false}}),
        json!({"sandbox": "bubblewrap"}),
        json!({"resources": {"gpu": 1}}),
    ] {
        let outcome = run("shell", sh(&script, knobs.clone())).await;
        assert_eq!(error(&outcome).code, "ISOLATION_UNAVAILABLE", "{knobs}");
        let outcome = run("python", python("result = 1", knobs.clone())).await;
        assert_eq!(error(&outcome).code, "ISOLATION_UNAVAILABLE", "{knobs}");
    }
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "");
    for knobs in [
        json!({"sandbox": false}),
        json!({"sandbox": "none", "resources": {"cpu": null}}),
    ] {
        result(run("shell", sh("true", knobs)).await);
    }
}

#[tokio::test]
async fn a_limit_that_makes_no_sense_is_named() {
    for resources in [
        json!({"cpu": "soon"}),
        json!({"memory": 0}),
        json!({"open_files": 1.5}),
        json!({"memory": [1]}),
        json!([]),
    ] {
        let outcome = run("shell", sh("true", json!({"resources": resources}))).await;
        assert_eq!(error(&outcome).code, "TOOL_INPUT", "{resources}");
    }
}

#[test]
fn a_number_of_processes_does_not_bind_root() {
    let limits = Limits::of(&sh("", json!({"resources": {"processes": 5}})));
    assert_eq!(limits.is_err(), rustix::process::geteuid().is_root());
}
