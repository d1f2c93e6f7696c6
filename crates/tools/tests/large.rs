//! Tests that a response much larger than the memory limit streams through a call.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test may panic, and this one prints to its parent process"
)]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use model::outcome::Outcome;
use model::playbook::ResultControl;
use results::{DirBodyStore, ResultWriter};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tools::{Call, DiscardingLogSink, Registry};

const ROW: &str = r#"{"id":12345678,"name":"jane doe","note":"a \"line\"","list":[1,2.5,null,true]}"#;
const ROWS: usize = 2_500_000;
const GROWTH_KIB_MAX: u64 = 32 * 1024;

/// Serves a small response, then the large one.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            while !lines.next().unwrap().unwrap().is_empty() {}
            let rows = if first.contains("/large") { ROWS } else { 2_000 };
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            for_each_chunk(rows, |piece| stream.write_all(piece).unwrap());
        }
    });
    url
}

/// Passes the body to `take` in chunks.
fn for_each_chunk(rows: usize, mut take: impl FnMut(&[u8])) {
    let block = format!("{ROW},").repeat(1_000);
    take(b"[");
    for _ in 0..rows / 1_000 {
        take(block.as_bytes());
    }
    take(b"0]");
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let fields: Vec<&str> = line.unwrap().split_whitespace().collect();
    fields[1].parse().unwrap()
}

/// Runs the calls and prints the memory growth and reference of the large one.
async fn receive_large(url: &str) {
    let dir = std::env::var("LARGE_DIR").unwrap();
    let config = tools::Config {
        scratch_dir: dir.clone().into(),
        ..tools::Config::default()
    };
    let tool = Registry::builtin(config).get("http").unwrap();
    let bodies = Arc::new(DirBodyStore::open(Path::new(&dir)).unwrap());
    let mut outcomes = Vec::new();
    let mut peaks = Vec::new();
    for path in ["small", "large"] {
        let mut call = Call::new("http");
        call.fields.insert("url".to_owned(), format!("{url}{path}").into());
        call.result_writer = Some(ResultWriter {
            store: bodies.clone(),
            control: ResultControl::default(),
            uri: "noetl://execution/1".to_owned(),
            bytes_max: u64::MAX,
            missing_paths: results::MissingPaths::default(),
        });
        outcomes.push(tool.call(call, CancellationToken::new(), &DiscardingLogSink).await);
        peaks.push(peak_kib());
    }
    let Some(Outcome::Ok(large)) = outcomes.pop() else {
        panic!("{outcomes:?}")
    };
    let reference = large.reference.unwrap();
    println!(
        "\nSAID {}",
        json!({"growth": peaks[1] - peaks[0], "reference": reference})
    );
}

/// Runs itself as a child process, so that nothing else uses its memory.
#[tokio::test]
async fn memory_does_not_grow_with_a_response() {
    if let Ok(url) = std::env::var("LARGE_URL") {
        return receive_large(&url).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory_does_not_grow_with_a_response", "--nocapture"])
        .env("LARGE_URL", serve())
        .env("LARGE_DIR", dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8(child.stdout).unwrap();
    let report = text.lines().find_map(|line| line.strip_prefix("SAID "));
    let report: Value = serde_json::from_str(report.unwrap_or_else(|| panic!("{text}"))).unwrap();
    let growth = report["growth"].as_u64().unwrap();
    assert!(growth < GROWTH_KIB_MAX, "{growth} KiB more");
    let meta = &report["reference"]["meta"];
    assert_eq!(report["reference"]["extracted"]["status_code"], 200);
    let sha256 = meta["sha256"].as_str().unwrap();
    let file = dir.path().join("bodies").join(&sha256[..2]).join(&sha256[2..]);
    let bytes = meta["bytes"].as_u64().unwrap();
    assert!(bytes > 190_000_000, "{bytes}");
    check_file(&file, sha256, bytes);
}

/// Checks that the file has this hash and contains exactly the served bytes.
fn check_file(file: &Path, sha256: &str, bytes: u64) {
    let mut file = BufReader::new(File::open(file).unwrap());
    let mut all = Sha256::new();
    let mut head = Vec::new();
    while !head.ends_with(b"\"data\":") {
        let mut byte = [0];
        file.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    all.update(&head);
    let mut length = head.len() as u64;
    for_each_chunk(ROWS, |piece| {
        let mut actual = vec![0; piece.len()];
        file.read_exact(&mut actual).unwrap();
        assert!(actual == piece, "the body differs at {length}");
        length += piece.len() as u64;
        all.update(&actual);
    });
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).unwrap();
    assert!(tail.starts_with(b",\"url\":") && tail.ends_with(b"}"));
    all.update(&tail);
    assert_eq!(hex::encode(all.finalize()), sha256);
    assert_eq!(length + tail.len() as u64, bytes);
}
