//! Tests that limits apply from the start and that unsupported requests fail.

use std::path::Path;

use model::outcome::Outcome;
use serde_json::{Value, json};

use super::{ResourceLimits, Sandbox, SandboxLevel, SandboxSupport};
use crate::call::{Call, Tool};
use crate::registry::{Config, Registry};
use crate::testing::{self, build_call, command_call, expect_error, expect_result};

async fn run_kind(kind: &str, call: Call) -> Outcome {
    let tool = Registry::builtin(Config::default()).get(kind).unwrap();
    testing::run_tool(tool.as_ref(), call).await
}

fn shell_call(text: &str, spec: Value) -> Call {
    let mut call = command_call("shell", text, Path::new("/tmp"));
    call.spec = spec.as_object().unwrap().clone();
    call
}

fn python_call(code: &str, spec: Value) -> Call {
    let mut call = build_call("python", json!({"code": code}), json!({}));
    call.spec = spec.as_object().unwrap().clone();
    call
}

#[tokio::test]
async fn limits_apply_to_a_shell_and_its_descendants() {
    let spec = json!({"resources": {"open_files": 77, "file_size": "1MiB", "memory": "2GiB", "cpu": 30}});
    let script = "ulimit -n; sh -c 'ulimit -Hn'; ulimit -t; ulimit -v; ulimit -f";
    let outcome = expect_result(run_kind("shell", shell_call(script, spec)).await);
    assert_eq!(outcome["stdout"], "77\n77\n30\n2097152\n2048\n");
    let free = expect_result(run_kind("shell", shell_call("ulimit -t", json!({}))).await);
    assert_eq!(free["stdout"], "unlimited\n");
}

#[tokio::test]
async fn a_shell_with_limits_still_reads_its_input() {
    let spec = json!({"resources": {"open_files": 77}});
    let mut call = shell_call("cat", spec.clone());
    call.fields.insert("stdin".to_owned(), json!("one\ntwo\n"));
    assert_eq!(expect_result(run_kind("shell", call).await)["stdout"], "one\ntwo\n");
    assert_eq!(
        expect_result(run_kind("shell", shell_call("cat", spec)).await)["stdout"],
        ""
    );
}

#[tokio::test]
async fn a_busy_command_is_stopped_when_its_time_is_used_up() {
    let spec = json!({"resources": {"cpu": "1s"}});
    let outcome = run_kind("shell", shell_call("while :; do :; done", spec)).await;
    let error = expect_error(&outcome);
    assert_eq!(error.code, "SHELL_KILLED");
    assert!(error.message.contains("spec.resources.cpu"), "{}", error.message);
}

#[tokio::test]
async fn python_with_limits_does_not_share_an_interpreter() {
    let tool = Registry::builtin(Config::default()).get("python").unwrap();
    let tool: &dyn Tool = tool.as_ref();
    let code = "import os, resource\nresult = [os.getpid(), resource.getrlimit(resource.RLIMIT_AS)[0]]";
    let limited = json!({"resources": {"memory": "1GiB"}});
    let mut results = Vec::new();
    for spec in [json!({}), limited.clone(), limited, json!({})] {
        results.push(expect_result(testing::run_tool(tool, python_call(code, spec)).await));
    }
    assert_eq!(results[0], results[3], "calls without limits use the warm interpreter");
    assert_eq!((&results[0][1], &results[1][1]), (&json!(-1), &json!(1 << 30)));
    assert_ne!(results[0][0], results[1][0]);
    assert_ne!(results[1][0], results[2][0]);
}

#[tokio::test]
async fn exceeding_the_memory_limit_is_an_exception() {
    let spec = json!({"resources": {"memory": "512MiB"}});
    let outcome = run_kind("python", python_call("result = len(b'x' * (1 << 30))", spec)).await;
    assert_eq!(expect_error(&outcome).code, "PYTHON_MEMORY_ERROR");
}

#[tokio::test]
async fn unsupported_isolation_fails_the_task_before_it_runs() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!("echo ran > {}", file.path().display());
    for spec in [
        json!({"sandbox": {"level": "strict", "colour": "red"}}),
        json!({"sandbox": {"read": ["/no/such/place"]}}),
        json!({"sandbox": "bubblewrap"}),
        json!({"resources": {"gpu": 1}}),
    ] {
        let outcome = run_kind("shell", shell_call(&script, spec.clone())).await;
        assert_eq!(expect_error(&outcome).code, "ISOLATION_UNAVAILABLE", "{spec}");
        let outcome = run_kind("python", python_call("result = 1", spec.clone())).await;
        assert_eq!(expect_error(&outcome).code, "ISOLATION_UNAVAILABLE", "{spec}");
    }
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "");
    for spec in [
        json!({"sandbox": false}),
        json!({"sandbox": "none", "resources": {"cpu": null}}),
    ] {
        expect_result(run_kind("shell", shell_call("true", spec)).await);
    }
}

#[tokio::test]
async fn an_invalid_limit_is_reported() {
    for resources in [
        json!({"cpu": "soon"}),
        json!({"memory": 0}),
        json!({"open_files": 1.5}),
        json!({"memory": [1]}),
        json!([]),
    ] {
        let outcome = run_kind("shell", shell_call("true", json!({"resources": resources}))).await;
        assert_eq!(expect_error(&outcome).code, "TOOL_INPUT", "{resources}");
    }
}

#[test]
fn a_process_limit_does_not_apply_to_root() {
    let limits = ResourceLimits::from_call(&shell_call("", json!({"resources": {"processes": 5}})));
    assert_eq!(limits.is_err(), rustix::process::geteuid().is_root());
}

/// Prints one word for each operation that it tries.
const PROBES: &str = "
try_() { if \"$@\" >/dev/null 2>&1; then echo yes; else echo no; fi; }
try_ cat \"$SECRET\"
try_ sh -c 'echo x > \"$OUTSIDE\"'
try_ sh -c 'echo x > \"$TMPDIR/f\" && cat \"$TMPDIR/f\"'
try_ kill -0 \"$WORKER\"
try_ python3 -c 'import socket; socket.socket()'
grep -q NoNewPrivs:.1 /proc/self/status 2>/dev/null && echo held || echo free
";

async fn probe_sandbox(sandbox: Value) -> Vec<String> {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "s").unwrap();
    let mut call = shell_call(PROBES, json!({"sandbox": sandbox}));
    call.fields = json!({"env": {
        "SECRET": secret, "OUTSIDE": dir.path().join("new"), "WORKER": std::process::id(),     }})
    .as_object()
    .unwrap()
    .clone();
    if sandbox.is_null() {
        call.fields["env"]["TMPDIR"] = json!(dir.path());
    }
    let outcome = expect_result(run_kind("shell", call).await);
    let words = outcome["stdout"].as_str().unwrap().lines();
    words.map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn each_level_removes_its_permissions() {
    assert_eq!(
        probe_sandbox(json!(null)).await,
        ["yes", "yes", "yes", "yes", "yes", "free"]
    );
    assert_eq!(
        probe_sandbox(json!("basic")).await,
        ["yes", "yes", "yes", "yes", "yes", "held"]
    );
    let here = SandboxSupport::detect();
    assert!(here.landlock >= 1 && here.seccomp, "this machine supports it: {here:?}");
    let strict = probe_sandbox(json!("strict")).await;
    assert_eq!(strict[..3], ["no", "no", "yes"], "only its own files");
    // Landlock restricts signals from version 6 on.
    assert_eq!(strict[3] == "no", here.landlock >= 6);
    assert_eq!(strict[4], "no", "no network, or no python3 on this machine");
    assert_eq!(strict[5], "free", "it cannot read /proc");
}

#[tokio::test]
async fn python_in_a_strict_sandbox_has_its_libraries_and_nothing_else() {
    let code = "
import json, math, os, socket, ssl, tempfile, threading
def tried(f):
    try:
        f()
        return 'yes'
    except OSError as error:
        return type(error).__name__
t = threading.Thread(target=lambda: None); t.start(); t.join()
with tempfile.NamedTemporaryFile() as f:
    f.write(b'x')
open('here', 'w').write('x')
result = [tried(lambda: open(playbook)), tried(lambda: socket.socket()), os.getcwd() == os.environ['TMPDIR'],
    tried(lambda: os.listdir('/proc')), tried(lambda: os.unshare(os.CLONE_NEWUSER)) if hasattr(os, 'unshare') else 'PermissionError']
";
    let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let mut call = python_call(code, json!({"sandbox": "strict"}));
    call.input.insert("playbook".to_owned(), json!(file.path()));
    let denied = "PermissionError";
    let expected = json!([denied, denied, true, denied, denied]);
    assert_eq!(expect_result(run_kind("python", call.clone()).await), expected);
    let opened = json!({"sandbox": {"read": [file.path()], "network": true}});
    call.spec = opened.as_object().unwrap().clone();
    let expected = json!(["yes", "yes", true, denied, denied]);
    assert_eq!(expect_result(run_kind("python", call).await), expected);
}

#[tokio::test]
async fn a_warm_interpreter_of_a_level_has_a_fresh_directory_for_each_call() {
    let tool = Registry::builtin(Config::default()).get("python").unwrap();
    let code = "import os, tempfile\nresult = [os.getpid(), tempfile.mkdtemp()]";
    let mut results = Vec::new();
    for sandbox in ["basic", "basic", "none"] {
        let call = python_call(code, json!({"sandbox": sandbox}));
        results.push(expect_result(testing::run_tool(tool.as_ref(), call).await));
    }
    assert_eq!(results[0][0], results[1][0], "one interpreter within a level");
    assert_ne!(results[1][0], results[2][0], "another one for another level");
    let dirs: Vec<&Path> = results.iter().map(|one| Path::new(one[1].as_str().unwrap())).collect();
    assert_ne!(dirs[0].parent(), dirs[1].parent());
    assert!(
        !dirs[0].exists() && !dirs[1].exists(),
        "the directories are deleted after the call"
    );
    std::fs::remove_dir(dirs[2]).unwrap();
}

#[test]
fn missing_sandbox_features_are_reported() {
    let bare = SandboxSupport {
        no_new_privileges: true,
        landlock: 0,
        seccomp: true,
    };
    let call = shell_call("", json!({"sandbox": "strict"}));
    let error = Sandbox::from_call(&call, SandboxLevel::None, bare).unwrap_err();
    assert_eq!(error.code, "ISOLATION_UNAVAILABLE");
    assert!(error.message.contains("needs Landlock"), "{}", error.message);
    let demanded = Sandbox::from_call(&shell_call("", json!({})), SandboxLevel::Strict, bare);
    assert_eq!(demanded.unwrap_err().code, "ISOLATION_UNAVAILABLE");
    let basic = Sandbox::from_call(&shell_call("", json!({"sandbox": "basic"})), SandboxLevel::None, bare);
    assert_eq!(basic.unwrap().level, SandboxLevel::Basic);
}

#[test]
fn a_playbook_cannot_relax_the_required_sandbox() {
    let all = SandboxSupport {
        no_new_privileges: true,
        landlock: 6,
        seccomp: true,
    };
    let of = |sandbox: Value, demanded| Sandbox::from_call(&shell_call("", json!({"sandbox": sandbox})), demanded, all);
    assert_eq!(
        of(json!("none"), SandboxLevel::Strict).unwrap().level,
        SandboxLevel::Strict
    );
    assert_eq!(
        of(json!("strict"), SandboxLevel::Basic).unwrap().level,
        SandboxLevel::Strict
    );
    for opened in [json!({"network": true}), json!({"write": ["/"]}), json!({"read": "/"})] {
        assert!(of(opened.clone(), SandboxLevel::Basic).is_ok());
        let error = of(opened, SandboxLevel::Strict).unwrap_err();
        assert_eq!(error.code, "ISOLATION_UNAVAILABLE");
    }
}
