//! Cancel and pause on a full disk: they use space that is reserved for them, and nothing else may use it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tests::cli_sandbox::CliSandbox;
use tests::small_disk::SmallDisk;

use crate::disk_server::{WAITS, start_disk_server};

const PROGRAM: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: program, path: tests/program}
workflow:
  - step: program
    tool: {kind: shell, command: 'echo $$ > number.new; mv number.new number; exec sleep 600'}
";

const PARENT: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: tests/parent}
workflow:
  - step: child
    tool: {kind: playbook, path: tests/program}
";

/// Number of runs to cancel, and the number of cancels that the reserved space must be enough for.
const RUNS: usize = 30;
const CANCELS_MIN: usize = 5;

/// Exit code of a cancelled run.
const CANCELLED: i32 = 8;

/// Timeout for what must happen by itself.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The process ID that a program has written to a file, once it exists.
async fn process_number(sandbox: &CliSandbox) -> String {
    let start = tokio::time::Instant::now();
    while !sandbox.path("number").exists() {
        assert!(start.elapsed() < WAIT_MAX, "the program has not started");
        tokio::task::yield_now().await;
    }
    sandbox.read("number").trim().to_owned()
}

async fn wait_for_exit(process: &str) {
    let start = tokio::time::Instant::now();
    while Path::new("/proc").join(process).exists() {
        assert!(start.elapsed() < WAIT_MAX, "{process} is still running");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_on_a_full_disk_and_stays_so() {
    let (sandbox, small_disk, server) = start_disk_server();
    server.register(PROGRAM).await;
    let id = server.start_run("tests/program").await;
    let process = process_number(&sandbox).await;

    let _filler = small_disk.fill();
    let (status, refused) = server.execute("tests/program").await;
    assert_eq!((status, &refused["code"]), (507, &json!("STORE_FULL")));
    let (status, cancelled) = server.cancel(&id).await;
    assert_eq!(status, 200, "{cancelled}");
    wait_for_exit(&process).await;
    server.wait_for_status(&id, "CANCELLED").await;
    let (status, refused) = server.execute("tests/program").await;
    assert_eq!((status, &refused["code"]), (507, &json!("STORE_FULL")));
    assert_eq!(server.get("/readyz").await.0, 507);

    drop(server);
    let report = small_disk
        .command(&sandbox, &["show", &id, "--store", "kept", "-o", "json"])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["status"], "CANCELLED", "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_and_its_child_are_cancelled_on_a_full_disk() {
    let (sandbox, small_disk, server) = start_disk_server();
    server.register(PROGRAM).await;
    server.register(PARENT).await;
    let id = server.start_run("tests/parent").await;
    let process = process_number(&sandbox).await;

    let _filler = small_disk.fill();
    let (status, refused) = server.execute("tests/parent").await;
    assert_eq!(status, 507, "{refused}");
    let (status, cancelled) = server.cancel(&id).await;
    assert_eq!(status, 200, "{cancelled}");
    wait_for_exit(&process).await;
    server.wait_for_status(&id, "CANCELLED").await;
    for run in server.list_runs().await {
        let run = run["execution_id"].as_str().unwrap().to_owned();
        server.wait_for_status(&run, "CANCELLED").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_on_a_full_disk() {
    let (_sandbox, small_disk, server) = start_disk_server();
    server.register(WAITS).await;
    let id = server.start_run("tests/waits").await;

    let filler = small_disk.fill();
    assert_eq!(server.execute("tests/waits").await.0, 507);
    let pause = format!("/api/executions/{id}/pause");
    let (status, paused) = server.post(&pause, json!({})).await;
    assert_eq!(status, 200, "{paused}");
    server.wait_for_status(&id, "PAUSED").await;
    let resume = format!("/api/executions/{id}/resume");
    let (status, refused) = server.post(&resume, json!({})).await;
    assert_eq!((status, &refused["code"]), (507, &json!("STORE_FULL")));

    drop(filler);
    server.wait_until_ready().await;
    let (status, resumed) = server.post(&resume, json!({})).await;
    assert_eq!(status, 200, "{resumed}");
    server.wait_for_status(&id, "RUNNING").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancels_are_refused_when_the_reserve_is_used_up_until_it_is_refilled() {
    let (_sandbox, small_disk, server) = start_disk_server();
    server.register(WAITS).await;
    let mut ids = Vec::new();
    for _ in 0..RUNS {
        ids.push(server.start_run("tests/waits").await);
    }

    let filler = small_disk.fill();
    assert_eq!(server.execute("tests/waits").await.0, 507);
    // The event log grows by the reason; without one the reserved space is enough for hundreds of runs.
    let (mut cancelled, reason) = (0, "x".repeat(100_000));
    let refused = loop {
        let path = format!("/api/executions/{}/cancel", ids[cancelled]);
        let (status, response) = server.post(&path, json!({"reason": reason})).await;
        if status != 200 {
            break (status, response);
        }
        cancelled += 1;
    };
    assert!(
        cancelled >= CANCELS_MIN,
        "only {cancelled} runs were cancelled: {refused:?}"
    );
    let (status, refused) = refused;
    assert_eq!((status, &refused["code"]), (507, &json!("STORE_FULL")));
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("reserved for cancel and pause is used up"), "{detail}");

    drop(filler);
    server.wait_until_ready().await;
    let reserve = std::fs::metadata(small_disk.path("noetl.reserve")).unwrap();
    assert_eq!(reserve.len(), 1024 * 1024);
    let _filler = small_disk.fill();
    for id in &ids[cancelled..cancelled + CANCELS_MIN] {
        let (status, response) = server.cancel(id).await;
        assert_eq!(status, 200, "{response}");
        server.wait_for_status(id, "CANCELLED").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_cancels_a_run_on_a_full_disk() {
    let sandbox = CliSandbox::new();
    let small_disk = SmallDisk::mount(&sandbox.path(""));
    sandbox.write("program.yaml", PROGRAM);
    let mut command = small_disk.command(&sandbox, &["run", "program.yaml", "--store", "kept"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let process = process_number(&sandbox).await;
    let list = ["runs", "--store", "kept", "-o", "json"];
    let listing = small_disk.command(&sandbox, &list).output().unwrap();
    let listing: serde_json::Value = serde_json::from_slice(&listing.stdout).unwrap();
    let id = listing[0]["execution_id"].as_str().unwrap().to_owned();

    let _filler = small_disk.fill();
    let cancel = ["cancel", &id, "--store", "kept"];
    let cancelled = small_disk.command(&sandbox, &cancel).output().unwrap();
    let text = String::from_utf8_lossy(&cancelled.stderr);
    assert_eq!(cancelled.status.code(), Some(0), "{text}");
    wait_for_exit(&process).await;
    let ended = run.wait().unwrap();
    assert_eq!(ended.code(), Some(CANCELLED), "{ended:?}");
}
