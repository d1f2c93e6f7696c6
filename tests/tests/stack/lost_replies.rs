//! Control requests and commits: a request whose commit succeeded without a response is applied once, and a refusal is
//! sent only when its reason can be read in the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::ControlRequest;
use model::event::{Event, EventBody};
use model::id::{ExecutionId, Seq};
use model::raw::RawJson;
use model::status::RunStatus;
use serde_json::json;
use server::{Server, SubmitRequest};
use store::Store;
use tempfile::TempDir;
use tests::sim::SeededRandom;

use tests::stack::{PausingStore, server_config};

const PLAYBOOK: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
    workflow: [{step: start, tool: {kind: wait, signal: go}}]\n";

struct LostReplyFixture {
    store: Arc<PausingStore>,
    server: Server,
    run: ExecutionId,
    _dir: TempDir,
}

async fn start_fixture() -> LostReplyFixture {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let sqlite = store::SqliteStore::open(dir.path()).expect("the store opens");
    let store = Arc::new(PausingStore::new(sqlite));
    let bodies = results::DirBodyStore::open(&dir.path().join("bodies")).expect("the bodies open");
    let server = Server::start(server_config(store.clone(), Arc::new(bodies))).expect("the server starts");
    let submission = SubmitRequest {
        name: "p".to_owned(),
        text: PLAYBOOK.to_owned(),
        payload: None,
        labels: model::labels::Labels::default(),
    };
    let run = server.submit(submission).await.expect("the run starts");
    LostReplyFixture {
        store,
        server,
        run,
        _dir: dir,
    }
}

impl LostReplyFixture {
    /// Sends the request; the store loses the reply to the next commit.
    async fn control_with_lost_reply(&self, control: ControlRequest) {
        self.store.loses_reply.store(true, Ordering::Relaxed);
        let reply = self.server.control(self.run, control).await;
        reply.expect("the commit happened");
        let lost = !self.store.loses_reply.load(Ordering::Relaxed);
        assert!(lost, "the reply to a commit was lost");
    }

    async fn count_events(&self, matches: impl Fn(&Event) -> bool) -> usize {
        let log = self.store.events(self.run, Seq(0), 1_000).await;
        let log = log.expect("the log is readable");
        log.iter().filter(|event| matches(event)).count()
    }
}

#[tokio::test]
async fn a_signal_whose_reply_is_lost_counts_once() {
    let fixture = start_fixture().await;
    let signal = ControlRequest::Signal {
        name: "other".into(),
        payload: None,
    };
    fixture.control_with_lost_reply(signal).await;
    let signals = fixture.count_events(|event| matches!(event.body, EventBody::SignalReceived(_)));
    assert_eq!(signals.await, 1);
}

#[tokio::test]
async fn a_patch_whose_reply_is_lost_is_applied_once() {
    let fixture = start_fixture().await;
    let patch = RawJson::from_serializable(&json!({"n": {"$add": 1}}));
    fixture.control_with_lost_reply(ControlRequest::Patch { patch }).await;
    let patches = fixture.count_events(|event| matches!(event.body, EventBody::CtxPatched(_)));
    assert_eq!(patches.await, 1);
}

#[tokio::test]
async fn a_pause_whose_reply_is_lost_is_no_second_pause() {
    let fixture = start_fixture().await;
    fixture
        .control_with_lost_reply(ControlRequest::Pause { reason: None })
        .await;
    let row = fixture.store.execution(fixture.run).await;
    let row = row.expect("the store is readable").expect("the run exists");
    assert_eq!(row.status, RunStatus::Paused);
}

#[tokio::test]
async fn a_refusal_is_sent_when_its_reason_is_durable() {
    let fixture = start_fixture().await;
    let pause = async || {
        let control = ControlRequest::Pause { reason: None };
        let result = fixture.server.control(fixture.run, control).await;
        let row = fixture.store.execution(fixture.run).await;
        let row = row.expect("the store is readable").expect("the run exists");
        (result.is_ok(), row.status)
    };
    for seed in 0..20 {
        // Every commit takes some milliseconds, and some are lost and repeated.
        *fixture.store.faults.lock().expect("no holder panics") = Some(SeededRandom::new(seed));
        let (first, second) = tokio::join!(pause(), pause());
        assert_eq!(first.1, RunStatus::Paused);
        assert_eq!(second.1, RunStatus::Paused);
        assert_ne!(first.0, second.0, "one of two requests pauses the run");
        let resumed = fixture.server.control(fixture.run, ControlRequest::Resume).await;
        resumed.expect("a paused run is resumed");
    }
}
