//! Control requests and commits: a request whose commit succeeded without a response is applied once, and a refusal is
//! sent only when its reason can be read in the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::event::{Body, Event};
use model::id::{ExecutionId, Seq};
use model::raw::Raw;
use model::status::RunStatus;
use serde_json::json;
use server::{Control, Server, Submission};
use store::Store;
use tempfile::TempDir;
use tests::sim::Random;

use crate::stored::Stored;

const PLAYBOOK: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
    workflow: [{step: start, tool: {kind: wait, signal: go}}]\n";

struct House {
    store: Arc<Stored>,
    server: Server,
    run: ExecutionId,
    _dir: TempDir,
}

async fn house() -> House {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let sqlite = store::Sqlite::open(dir.path()).expect("the store opens");
    let store = Arc::new(Stored::new(sqlite));
    let bodies = results::Local::open(&dir.path().join("bodies")).expect("the bodies open");
    let config = server::Config {
        store: store.clone(),
        bodies: Arc::new(bodies),
        limits: engine::Limits::default(),
        files: None,
        bus: None,
        takes_over: false,
        keychain: server::KeychainConfig::default(),
        retention: None,
        cluster_secret: None,
    };
    let server = Server::start(config).expect("the server starts");
    let submission = Submission {
        name: "p".to_owned(),
        text: PLAYBOOK.to_owned(),
        payload: None,
    };
    let run = server.submit(submission).await.expect("the run starts");
    House {
        store,
        server,
        run,
        _dir: dir,
    }
}

impl House {
    /// Says it, and the store loses the answer to the commit that follows.
    async fn say_in_doubt(&self, control: Control) {
        self.store.loses_answer.store(true, Ordering::Relaxed);
        let said = self.server.control(self.run, control).await;
        said.expect("it is said, for the commit happened");
        let lost = !self.store.loses_answer.load(Ordering::Relaxed);
        assert!(lost, "the answer to a commit was lost");
    }

    async fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        let log = self.store.events(self.run, Seq(0), 1_000).await;
        let log = log.expect("the log is readable");
        log.iter().filter(|event| is(event)).count()
    }
}

#[tokio::test]
async fn a_signal_whose_answer_is_lost_counts_once() {
    let house = house().await;
    let signal = Control::Signal {
        name: "other".into(),
        payload: None,
    };
    house.say_in_doubt(signal).await;
    let signals = house.count(|event| matches!(event.body, Body::SignalReceived(_)));
    assert_eq!(signals.await, 1);
}

#[tokio::test]
async fn a_patch_whose_answer_is_lost_is_applied_once() {
    let house = house().await;
    let patch = Raw::of(&json!({"n": {"$add": 1}}));
    house.say_in_doubt(Control::Patch(patch)).await;
    let patches = house.count(|event| matches!(event.body, Body::CtxPatched(_)));
    assert_eq!(patches.await, 1);
}

#[tokio::test]
async fn a_pause_whose_answer_is_lost_is_no_second_pause() {
    let house = house().await;
    house.say_in_doubt(Control::Pause { reason: None }).await;
    let row = house.store.execution(house.run).await;
    let row = row.expect("the store is readable").expect("the run exists");
    assert_eq!(row.status, RunStatus::Paused);
}

#[tokio::test]
async fn a_refusal_is_sent_when_its_reason_is_durable() {
    let house = house().await;
    let pause = async || {
        let control = Control::Pause { reason: None };
        let result = house.server.control(house.run, control).await;
        let row = house.store.execution(house.run).await;
        let row = row.expect("the store is readable").expect("the run exists");
        (result.is_ok(), row.status)
    };
    for seed in 0..20 {
        // Every commit takes some milliseconds, and some are lost and repeated.
        *house.store.faults.lock().expect("no holder panics") = Some(Random::new(seed));
        let (first, second) = tokio::join!(pause(), pause());
        assert_eq!(first.1, RunStatus::Paused);
        assert_eq!(second.1, RunStatus::Paused);
        assert_ne!(first.0, second.0, "one of two requests pauses the run");
        let resumed = house.server.control(house.run, Control::Resume).await;
        resumed.expect("a paused run is resumed");
    }
}
