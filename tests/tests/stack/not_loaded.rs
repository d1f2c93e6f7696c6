//! Requests to a server that does not own the run: the server does not load the run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::command::ReportEnd;
use model::id::{CommandId, LeaseEpoch, Seq, WorkerId};
use server::{Server, SubmitRequest};

use tests::stack::{PausingStore, server_config};

const PLAYBOOK: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
    workflow: [{step: start, tool: {kind: noop}}]\n";

#[tokio::test]
async fn a_report_at_another_server_loads_nothing_there() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let open = || {
        let sqlite = store::SqliteStore::open(dir.path()).expect("the store opens");
        let store = Arc::new(PausingStore::new(sqlite));
        let bodies = results::DirBodyStore::open(&dir.path().join("bodies")).expect("the bodies open");
        let server = Server::start(server_config(store.clone(), Arc::new(bodies)));
        (store, server.expect("the server starts"))
    };
    let (_, driver) = open();
    let (store, other) = open();
    let submission = SubmitRequest {
        name: "p".to_owned(),
        text: PLAYBOOK.to_owned(),
        payload: None,
        labels: model::labels::Labels::default(),
    };
    let execution = driver.submit(submission).await.expect("the run starts");
    let report = wire::ReportRequest {
        command: CommandId { execution, seq: Seq(6) },
        worker: WorkerId("worker".into()),
        lease_epoch: LeaseEpoch(1),
        events: Vec::new(),
        end: ReportEnd::Released,
        pool: "default".into(),
        kinds: None,
        free: 0,
    };
    let response = other.transport().report(report).await;
    assert!(matches!(response, Err(wire::Error::Unavailable(_))), "{response:?}");
    assert_eq!(store.loads.load(Ordering::Relaxed), 0);
}
