//! Memory that grows with versions, names and workers is bounded.

use std::time::Duration;

use futures_util::StreamExt as _;
use model::id::WorkerId;
use serde_json::json;

use crate::node::{SharedStoreFixture, start_node};

/// Resident memory of this process in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux reports the memory of a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|text| text.parse().ok()).expect("a number")
}

/// A playbook of four KiB; the number makes it a version of its own.
fn playbook_version(number: usize) -> String {
    let mut text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: grows}}\nworkload: {{n: {number}}}\nworkflow:\n"
    );
    for step in 0..30 {
        let next = step + 1;
        text.push_str(&format!(
            "  - step: s{step}\n    tool: {{kind: noop, result: \"{{{{ workload.n + {step} }}}} and some more text\"}}\n    next: s{next}\n"
        ));
    }
    text.push_str("  - step: s30\n    tool: {kind: noop}\n");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_levels_off_over_many_versions() {
    let shared_store = SharedStoreFixture::directory();
    let node = start_node(&shared_store).await;
    let register = async |numbers: std::ops::Range<usize>| {
        let registering = futures_util::stream::iter(numbers).map(|number| {
            let node = &node;
            async move { node.register("grows", &playbook_version(number)).await }
        });
        registering.buffer_unordered(16).collect::<()>().await;
    };
    register(0..2_000).await;
    let before = resident_kib();
    register(2_000..20_000).await;
    let grown = resident_kib().saturating_sub(before);
    // Without a limit, two thousand versions take 470 MB.
    assert!(grown < 60 * 1_024, "{grown} KiB more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_levels_off_over_many_worker_names() {
    let shared_store = SharedStoreFixture::directory();
    let node = start_node(&shared_store).await;
    let transport = node.server.transport();
    let work = async |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let worker = WorkerId(format!("{}-{number}", "w".repeat(2_000)).into());
            let request = wire::api::ClaimRequest {
                worker: worker.clone(),
                pool: format!("pool {number}").into(),
                kinds: None,
                max: 1,
                wait_ms: 0,
            };
            let claimed = transport.claim(&request).await.expect("the request succeeds");
            assert!(claimed.is_empty());
            let listening = tokio::time::timeout(Duration::ZERO, transport.listen(&worker));
            assert!(listening.await.is_err(), "there is no notification");
        }
    };
    work(0..2_000).await;
    let before = resident_kib();
    work(2_000..7_000).await;
    let grown = resident_kib().saturating_sub(before);
    // Five thousand names of two kilobytes would take ten megabytes in each map that contains them.
    assert!(grown < 8 * 1_024, "{grown} KiB more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_registrations_all_get_a_response() {
    let shared_store = SharedStoreFixture::database();
    let (first, second) = (start_node(&shared_store).await, start_node(&shared_store).await);
    let texts: Vec<String> = (0..80).map(playbook_version).collect();
    let registering = texts.iter().enumerate().map(|(n, text)| {
        let node = if n % 2 == 0 { &first } else { &second };
        let request = json!({"path": "at once", "content": text});
        async move { node.post("/api/catalog/register", &request).await }
    });
    let responses = futures_util::future::join_all(registering).await;
    let mut versions: Vec<u64> = responses
        .iter()
        .map(|response| {
            assert_eq!(response.status, 200, "{response:?}");
            response.body["version"].as_u64().expect("a version")
        })
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=80).collect::<Vec<u64>>());
}
