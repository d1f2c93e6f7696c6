//! Events on NATS: all of them, in order for each execution, despite outages of NATS.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::consumer::pull;
use futures_util::StreamExt;
use serde_json::Value;
use server::{Server, SubmitRequest};
use store::Store;
use tempfile::TempDir;
use tests::peers::NatsServer;
use tests::stack::server_config;

/// A step that the server completes itself, so that no worker is needed.
const PLAYBOOK: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: routes }
workload: { secret_body: { deep: [1, 2, 3] }, small: 7 }
workflow:
  - step: one
    next: [{ step: two }]
  - step: two
    set: { ctx.seen: { list: [1, 2], n: 1 } }
    next: [{ step: end }]
";

struct BusFixture {
    server: Server,
    store: Arc<dyn Store>,
    _dir: TempDir,
}

async fn start_fixture(nats: &NatsServer) -> BusFixture {
    let dir = tempfile::tempdir().unwrap();
    let store = store::SqliteStore::open(dir.path()).unwrap().with_outbox();
    start_server(nats, Arc::new(store), dir).await
}

async fn start_server(nats: &NatsServer, store: Arc<dyn Store>, dir: TempDir) -> BusFixture {
    let bodies = results::DirBodyStore::open(dir.path()).unwrap();
    let bus = wire::NatsBus::connect(&nats.url()).await.unwrap();
    let server = Server::start(server::Config {
        bus: Some(Arc::new(bus)),
        ..server_config(store.clone(), Arc::new(bodies))
    });
    BusFixture {
        server: server.unwrap(),
        store,
        _dir: dir,
    }
}

impl BusFixture {
    async fn run_playbook(&self) -> String {
        let submission = SubmitRequest {
            name: "routes".to_owned(),
            text: PLAYBOOK.to_owned(),
            payload: None,
            labels: model::labels::Labels::default(),
        };
        self.server.submit(submission).await.unwrap().to_string()
    }

    /// Waits until nothing is left to publish.
    async fn wait_until_published(&self) {
        let empty = async {
            while !self.store.outbox(0, 1).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), empty)
            .await
            .expect("everything is published in time");
    }

    async fn read_log(&self, id: &str) -> Vec<(String, String)> {
        let events = self.store.events(id.parse().unwrap(), model::id::Seq(0), 1_000).await;
        let events = events.unwrap().into_iter();
        events
            .map(|event| (event.kind().name().to_owned(), event.event_id.to_string()))
            .collect()
    }
}

/// Content of the stream: the events of each execution in order, and their texts.
async fn read_stream(nats: &NatsServer) -> (BTreeMap<String, Vec<(String, String)>>, Vec<String>) {
    let client = async_nats::connect(nats.url()).await.unwrap();
    let context = jetstream::new(client);
    let mut stream = context.get_stream("NOETL_EVENTS").await.unwrap();
    let count = stream.info().await.unwrap().state.messages;
    let consumer = stream.create_consumer(pull::Config::default()).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    let mut by_execution: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut texts = Vec::new();
    for _ in 0..count {
        let message = messages.next().await.unwrap().unwrap();
        let headers = message.headers.as_ref().unwrap();
        let execution = headers.get("execution_id").unwrap().as_str().to_owned();
        let kind = message
            .subject
            .as_str()
            .strip_prefix("noetl.events.")
            .unwrap()
            .to_owned();
        let text = String::from_utf8(message.payload.to_vec()).unwrap();
        let event: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(event["event_type"], kind.as_str());
        let id = event["event_id"].as_str().unwrap().to_owned();
        by_execution.entry(execution).or_default().push((kind, id));
        texts.push(text);
        message.ack().await.unwrap();
    }
    (by_execution, texts)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_published_in_order_without_bodies() {
    let nats = NatsServer::private();
    let fixture = start_fixture(&nats).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(fixture.run_playbook().await);
    }
    fixture.wait_until_published().await;
    let (by_execution, texts) = read_stream(&nats).await;
    for id in &ids {
        assert_eq!(by_execution[id], fixture.read_log(id).await);
    }
    assert!(
        !texts.iter().any(|text| text.contains("deep")),
        "bodies are not published"
    );
    assert!(
        texts.iter().any(|text| text.contains("\"small\":7")),
        "extracted fields are published"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_nats_is_killed_and_wiped_no_later_event_is_lost() {
    let nats = NatsServer::private();
    let fixture = start_fixture(&nats).await;
    let first = fixture.run_playbook().await;
    fixture.wait_until_published().await;
    nats.kill();
    // Runs continue without NATS.
    let second = fixture.run_playbook().await;
    assert!(
        fixture
            .read_log(&second)
            .await
            .iter()
            .any(|(kind, _)| kind == "playbook.finished")
    );
    nats.start();
    fixture.wait_until_published().await;
    let (by_execution, _) = read_stream(&nats).await;
    assert_eq!(by_execution[&first], fixture.read_log(&first).await);
    assert_eq!(by_execution[&second], fixture.read_log(&second).await);
    nats.wipe();
    let third = fixture.run_playbook().await;
    fixture.wait_until_published().await;
    let (by_execution, _) = read_stream(&nats).await;
    assert_eq!(
        by_execution[&third],
        fixture.read_log(&third).await,
        "the stream is created again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_publish_does_not_stop_the_publisher() {
    let nats = NatsServer::private();
    let dir = tempfile::tempdir().unwrap();
    let silent = store::SqliteStore::open(dir.path()).unwrap();
    let silent_owner = silent.owner().unwrap();
    let publishing = store::SqliteStore::open(dir.path()).unwrap().with_outbox();
    let publishing_owner = publishing.owner().unwrap();
    assert!(silent_owner < publishing_owner, "the lowest owner ID publishes");
    let fixture = start_server(&nats, Arc::new(publishing), dir).await;
    let id = fixture.run_playbook().await;
    fixture.wait_until_published().await;
    let (published, _) = read_stream(&nats).await;
    assert_eq!(published[&id], fixture.read_log(&id).await);
}
