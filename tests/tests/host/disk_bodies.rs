//! Large results on a full disk: they wait for space, and no task runs again because of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use tests::cli_sandbox::CliSandbox;
use tests::small_disk::SmallDisk;

use crate::disk_server::{DiskServer, start_disk_server};

const MIB: usize = 1024 * 1024;

/// Leaves less space than bodies require, and more than the log needs.
const LOG_BYTES: usize = MIB;

/// How long the fake web server waits for the test.
const WAIT_MAX: Duration = Duration::from_secs(60);

const LARGE_RESULT: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: tests/large}
workflow:
  - step: large
    tool:
      - first: {kind: shell, command: 'echo x >> effects'}
      - large:
          kind: noop
          result: ["{{ 'a' * 900000 }}", "{{ 'b' * 900000 }}", "{{ 'c' * 900000 }}", "{{ 'd' * 900000 }}", "{{ 'e' * 900000 }}"]
          spec: {result: {compression: none}}
"#;

fn download(method: &str, port: u16) -> String {
    format!(
        r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: download, path: tests/download}}
workflow:
  - step: download
    tool: {{kind: http, method: {method}, url: 'http://127.0.0.1:{port}/', timeout: 300}}
"
    )
}

/// Text that does not compress to less than half.
fn random_text(bytes: usize) -> String {
    let mut state = 0x9E37_79B9_u32;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        text.push(char::from(b'a' + (state % 26) as u8));
    }
    text
}

/// What a web server does with the second part of its response.
#[derive(Clone, Copy, PartialEq)]
enum ResponseTail {
    /// Sends it.
    Sent,
    /// Closes the connection, and sends a complete response to the next request.
    Withheld,
}

/// A web server that sends its response in two parts, the second one when the test allows it.
struct SlowPeer {
    port: u16,
    started: Receiver<()>,
    continue_sender: Sender<()>,
    reply_thread: JoinHandle<std::io::Result<()>>,
}

impl SlowPeer {
    fn start(body: String, tail: ResponseTail) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (announce, started) = channel();
        let (continue_sender, go_on) = channel();
        let reply_thread = std::thread::spawn(move || {
            let (first, second) = body.as_bytes().split_at(3 * MIB);
            let mut stream = accept(&listener, body.len())?;
            stream.write_all(&first[..MIB])?;
            let _ = announce.send(());
            let _ = go_on.recv_timeout(WAIT_MAX);
            stream.write_all(&first[MIB..])?;
            if tail == ResponseTail::Withheld {
                drop(stream);
                stream = accept(&listener, body.len())?;
                stream.write_all(first)?;
            }
            // Further requests are refused.
            drop(listener);
            stream.write_all(second)?;
            // The client closes the connection.
            stream.set_read_timeout(Some(WAIT_MAX))?;
            stream.read(&mut [0]).map(drop)
        });
        Self {
            port,
            started,
            continue_sender,
            reply_thread,
        }
    }
}

/// Accepts a request and starts the response.
fn accept(listener: &TcpListener, bytes: usize) -> std::io::Result<TcpStream> {
    let (mut stream, _) = listener.accept()?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while lines.next().transpose()? != Some(String::new()) {}
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain";
    write!(stream, "{head}\r\nContent-Length: {bytes}\r\n\r\n")?;
    Ok(stream)
}

fn read_result(sandbox: &CliSandbox, small_disk: &SmallDisk, id: &str) -> serde_json::Value {
    let args = ["result", id, "--store", "kept", "-o", "json"];
    let Output { stdout, stderr, .. } = small_disk.command(sandbox, &args).output().unwrap();
    let text = String::from_utf8_lossy(&stderr);
    serde_json::from_slice(&stdout).unwrap_or_else(|_| panic!("{text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_response_waits_for_space_and_arrives_whole() {
    let (sandbox, small_disk, server) = start_disk_server();
    let body = random_text(4 * MIB);
    let peer = SlowPeer::start(body.clone(), ResponseTail::Sent);
    server.register(&download("POST", peer.port)).await;
    let id = server.start_run("tests/download").await;
    peer.started.recv_timeout(WAIT_MAX).unwrap();

    let filler = small_disk.fill();
    peer.continue_sender.send(()).unwrap();
    server.wait_for_log("waiting for disk space").await;
    assert_eq!(server.execute("tests/download").await.0, 507);

    drop(filler);
    server.wait_for_status(&id, "COMPLETED").await;
    assert!(read_result(&sandbox, &small_disk, &id)["data"] == body.as_str());
    drop(server);
    assert!(peer.reply_thread.join().unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_is_interrupted_while_it_waits_for_space_restarts_in_the_same_attempt() {
    let (sandbox, small_disk, server) = start_disk_server();
    let body = random_text(4 * MIB);
    let peer = SlowPeer::start(body.clone(), ResponseTail::Withheld);
    server.register(&download("GET", peer.port)).await;
    let id = server.start_run("tests/download").await;
    peer.started.recv_timeout(WAIT_MAX).unwrap();

    let filler = small_disk.fill();
    peer.continue_sender.send(()).unwrap();
    server.wait_for_log("waiting for disk space").await;
    drop(filler);
    server.wait_for_status(&id, "COMPLETED").await;
    assert!(read_result(&sandbox, &small_disk, &id)["data"] == body.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_while_its_response_waits_for_space() {
    let (_sandbox, small_disk, server) = start_disk_server();
    let peer = SlowPeer::start(random_text(4 * MIB), ResponseTail::Sent);
    server.register(&download("POST", peer.port)).await;
    let id = server.start_run("tests/download").await;
    peer.started.recv_timeout(WAIT_MAX).unwrap();

    let _filler = small_disk.fill();
    peer.continue_sender.send(()).unwrap();
    server.wait_for_log("waiting for disk space").await;
    let (status, cancelled) = server.cancel(&id).await;
    assert_eq!(status, 200, "{cancelled}");
    server.wait_for_status(&id, "CANCELLED").await;
    // The connection is closed while the server runs: the web server does not wait, and is not read any further.
    let _ = peer.reply_thread.join().unwrap();
    let drafts = std::fs::read_dir(small_disk.path("bodies/bodies/new")).unwrap();
    assert_eq!(drafts.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_result_over_4_mib_waits_for_space_and_its_tasks_run_once() {
    let (sandbox, small_disk, server) = start_disk_server();
    server.register(LARGE_RESULT).await;
    let filler = small_disk.fill_except(LOG_BYTES);
    let id = server.start_run("tests/large").await;
    server.wait_for_log("out of host resources; retrying").await;

    drop(filler);
    server.wait_for_status(&id, "COMPLETED").await;
    let parts: Vec<String> = ["a", "b", "c", "d", "e"].map(|c| c.repeat(900_000)).into();
    assert!(read_result(&sandbox, &small_disk, &id) == serde_json::json!(parts));
    assert_eq!(sandbox.read("effects"), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_does_not_lose_a_finished_result_that_waits_for_space() {
    let (sandbox, small_disk, server) = start_disk_server();
    server.register(LARGE_RESULT).await;
    let filler = small_disk.fill_except(LOG_BYTES);
    let id = server.start_run("tests/large").await;
    server.wait_for_log("out of host resources; retrying").await;
    let pause = format!("/api/executions/{id}/pause");
    let (status, paused) = server.post(&pause, json!({})).await;
    assert_eq!(status, 200, "{paused}");

    drop(filler);
    let resume = format!("/api/executions/{id}/resume");
    let (status, resumed) = server.post(&resume, json!({})).await;
    assert_eq!(status, 200, "{resumed}");
    server.wait_for_status(&id, "COMPLETED").await;
    assert_eq!(sandbox.read("effects"), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_while_its_finished_result_waits_for_space() {
    let (_sandbox, small_disk, server) = start_disk_server();
    server.register(LARGE_RESULT).await;
    let _filler = small_disk.fill_except(LOG_BYTES);
    let id = server.start_run("tests/large").await;
    server.wait_for_log("out of host resources; retrying").await;
    let (status, cancelled) = server.cancel(&id).await;
    assert_eq!(status, 200, "{cancelled}");
    server.wait_for_status(&id, "CANCELLED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_worker_waits_for_space_on_its_server_and_its_tasks_run_once() {
    let sandbox = CliSandbox::new();
    let small_disk = SmallDisk::mount(&sandbox.path(""));
    let server = DiskServer::start_without_slots(&sandbox, &small_disk);
    let worker_sandbox = CliSandbox::new();
    let _worker = server.start_worker(&worker_sandbox);
    server.register(LARGE_RESULT).await;
    let filler = small_disk.fill_except(LOG_BYTES);
    let id = server.start_run("tests/large").await;
    server.wait_for_log("waiting for disk space").await;

    drop(filler);
    server.wait_for_status(&id, "COMPLETED").await;
    let parts: Vec<String> = ["a", "b", "c", "d", "e"].map(|c| c.repeat(900_000)).into();
    assert!(read_result(&sandbox, &small_disk, &id) == json!(parts));
    assert_eq!(worker_sandbox.read("effects"), "x\n");
}
