//! A full disk is reported at once, to clients and on the terminal. Rejected requests have no effect, and runs
//! continue when there is space again. A store on a read-only disk can be read.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::json;
use tests::cli_sandbox::CliSandbox;
use tests::server_process::wait_for_line;
use tests::small_disk::{SmallDisk, read_only_command, require_mounts};

use crate::disk_server::{WAITS, start_disk_server};

const TWO_STEPS: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: two, path: tests/two}
workflow:
  - step: first
    tool: {kind: shell, command: 'touch begun; until [ -e go ]; do sleep 0.02; done'}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: shell, command: 'echo done'}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_at_once_without_effect_until_there_is_space() {
    let (_sandbox, small_disk, server) = start_disk_server();
    server.register(WAITS).await;
    let id = server.start_run("tests/waits").await;

    let filler = small_disk.fill();
    let before = server.count_refused_commits().await;
    let (status, refused) = server.execute("tests/waits").await;
    assert_eq!((status, &refused["code"]), (507, &json!("STORE_FULL")));
    let after = server.count_refused_commits().await;
    assert_eq!(after, before + 1, "the write was retried before the response");
    let (status, ready) = server.get("/readyz").await;
    assert_eq!((status, &ready["code"]), (507, &json!("STORE_FULL")));
    assert!(ready["detail"].as_str().unwrap().contains("noetl.db"));

    drop(filler);
    server.wait_until_ready().await;
    let runs = server.list_runs().await;
    assert_eq!(runs.len(), 1, "a rejected request took effect: {runs:?}");
    assert_eq!(runs[0]["status"], "RUNNING");
    server.start_run("tests/waits").await;
    let (status, cancelled) = server.cancel(&id).await;
    assert!(status < 300, "{cancelled}");
    let runs = server.list_runs().await;
    assert_eq!(runs.len(), 2, "{runs:?}");
}

#[test]
fn a_run_reports_a_full_disk_and_continues_when_there_is_space() {
    let sandbox = CliSandbox::new();
    let small_disk = SmallDisk::mount(&sandbox.path(""));
    sandbox.write("two.yaml", TWO_STEPS);
    let mut command = small_disk.command(&sandbox, &["run", "two.yaml", "--store", "kept"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !sandbox.path("begun").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended too early");
        std::thread::yield_now();
    }
    let filler = small_disk.fill();
    sandbox.write("go", "");
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let full = wait_for_line(&mut stderr, "STORE_FULL");
    assert!(full.contains("noetl.db"), "{full}");
    drop(filler);
    let lines: Vec<String> = stderr.lines().map_while(Result::ok).collect();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{lines:?}");
}

#[test]
fn a_read_only_store_can_be_read_and_refuses_a_run_by_name() {
    require_mounts();
    let sandbox = CliSandbox::new();
    sandbox.write("two.yaml", TWO_STEPS);
    sandbox.write("go", "");
    let ran = sandbox.run(&["run", "two.yaml", "--store", "kept", "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let id = ran.json()["execution_id"].as_str().unwrap().to_owned();
    let there = |args: &[&str]| read_only_command(&sandbox, args).output().unwrap();
    for args in [
        &["runs", "--store", "kept"][..],
        &["show", &id, "--store", "kept"],
        &["events", &id, "--store", "kept"],
        &["result", &id, "--store", "kept"],
    ] {
        let read = there(args);
        assert_eq!(read.status.code(), Some(0), "{args:?}: {read:?}");
    }
    let refused = there(&["run", "two.yaml", "--store", "kept"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{text}");
    assert!(text.contains("STORE_READ_ONLY"), "{text}");
    assert!(text.contains("kept/"), "{text}");
}
