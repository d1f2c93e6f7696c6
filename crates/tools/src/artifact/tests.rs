//! Tests of stored results and files by reference, with a real body directory.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use model::id::ExecutionId;
use model::outcome::{Outcome, TaskError};
use model::playbook::ResultControl;
use model::raw::Raw;
use model::result_ref::{Resolved, ResultRef};
use model::template::{Bound, Segment};
use results::{Bodies as _, Keeper, Local};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Artifact;
use crate::call::{Access, Call, References};
use crate::objects::Reach;
use crate::testing::{call, error, result, run};

/// Resolves one stored result and one small one.
struct Known(ResultRef);

#[async_trait]
impl References for Known {
    async fn look_up(&self, uri: &str) -> Result<Resolved, TaskError> {
        Ok(match uri {
            "noetl://execution/7" => Resolved::Value(Raw::of(&json!([{"uri": self.0.uri}]))),
            "noetl://execution/7/result/small" => Resolved::Value(Raw::of(&json!({"n": 1}))),
            _ => Resolved::Body(Box::new(self.0.clone())),
        })
    }
}

async fn kept(dir: &Path, value: &Value) -> (Keeper, ResultRef) {
    let keeper = Keeper {
        bodies: Arc::new(Local::open(dir).unwrap()),
        control: ResultControl::default(),
        uri: "noetl://execution/7/step/s/task/t/run/1.1/attempt/1".to_owned(),
        bytes_max: u64::MAX,
        missing: results::MissingPaths::default(),
    };
    let text = value.to_string();
    let reference = keeper.keep(&mut text.as_bytes()).await.unwrap();
    (keeper, reference)
}

async fn artifact(dir: &TempDir, fields: Value, body: &Value) -> Outcome {
    let (keeper, reference) = kept(dir.path(), body).await;
    let mut call = call("artifact", fields, json!({}));
    call.place.base_dir = dir.path().to_owned();
    call.access = Some(Access {
        bodies: keeper.bodies.clone(),
        references: Arc::new(Known(reference)),
        execution: ExecutionId(7),
    });
    call.keeper = Some(keeper);
    let reach = Reach {
        forbidden: vec![dir.path().join("noetl.db")],
        guard: Arc::new(crate::http::Guard {
            allow_private: true,
            ..crate::http::Guard::default()
        }),
        scratch_dir: dir.path().to_owned(),
    };
    run(&Artifact::new(reach, Arc::default()), call).await
}

async fn reference(dir: &TempDir, body: &Value) -> ResultRef {
    kept(dir.path(), body).await.1
}

#[tokio::test]
async fn a_body_comes_back_by_reference_by_address_and_by_the_short_shape() {
    let dir = TempDir::new().unwrap();
    let body = json!({"rows": [1, 2, 3]});
    let found = reference(&dir, &body).await;
    let short = json!({"store": "file", "key": found.uri, "size": found.meta.bytes, "checksum": found.meta.sha256});
    for fields in [
        json!({"ref": found}),
        json!({"ref": found.uri}),
        json!({"uri": found.uri}),
        json!({"ref": short}),
        json!({"ref": {"ref": found.uri}}),
    ] {
        let got = result(artifact(&dir, fields, &body).await);
        assert_eq!(got["data"], body);
        assert_eq!(got["uri"], found.uri);
        assert_eq!(got["size_bytes"], found.meta.bytes);
    }
    let small = artifact(
        &dir,
        json!({"uri": "noetl://execution/7/result/small"}),
        &body,
    );
    assert_eq!(result(small.await)["data"], json!({"n": 1}));
}

#[tokio::test]
async fn rows_are_cut_out_of_bodies_and_of_values_at_hand() {
    let dir = TempDir::new().unwrap();
    let body = json!({"status_code": 200, "data": [0, 10, 20, 30]});
    let found = reference(&dir, &body).await;
    for slice in [json!([1, 3]), json!("1..3"), json!("1:3")] {
        let got = result(artifact(&dir, json!({"ref": found, "slice": slice}), &body).await);
        assert_eq!(got["data"], json!([10, 20]));
        assert_eq!(
            (&got["from"], &got["to"], &got["total"]),
            (&json!(1), &json!(3), &json!(4))
        );
        let got = result(artifact(&dir, json!({"ref": [0, 10, 20], "slice": slice}), &body).await);
        assert_eq!(got["data"], json!([10, 20]));
    }
    let open = artifact(&dir, json!({"ref": found, "slice": "2.."}), &body).await;
    assert_eq!(result(open)["data"], json!([20, 30]));
    let bound = Bound {
        reference: found.clone(),
        paths: vec![vec![Segment::Key("data".to_owned())]],
    };
    let field = Call::bound_field(&bound);
    let got = result(artifact(&dir, json!({"ref": field}), &body).await);
    assert_eq!(got["data"], json!([0, 10, 20, 30]));
    for wrong in [json!("x"), json!([3, 1]), json!(1)] {
        let outcome = artifact(&dir, json!({"ref": found, "slice": wrong}), &body).await;
        assert_eq!(error(&outcome).code, "TOOL_INPUT");
    }
}

#[tokio::test]
async fn what_is_put_is_a_body_whatever_its_size() {
    let dir = TempDir::new().unwrap();
    let outcome = artifact(&dir, json!({"action": "put", "data": {"n": 1}}), &json!(0)).await;
    let Outcome::Ok(success) = outcome else {
        panic!("the value is stored")
    };
    let reference = success.reference.unwrap();
    assert_eq!(reference.extracted["uri"], reference.uri);
    let bodies = Local::open(dir.path()).unwrap();
    assert_eq!(bodies.get(&reference).await.unwrap(), &b"{\"n\":1}"[..]);
    let nothing = artifact(&dir, json!({"action": "put"}), &json!(0)).await;
    assert_eq!(error(&nothing).code, "TOOL_INPUT");
}

#[tokio::test]
async fn files_are_written_read_listed_and_deleted() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join("files")).unwrap();
    let uri = "file://files/out.json";
    let put = artifact(
        &dir,
        json!({"action": "put", "uri": uri, "data": [1]}),
        &json!(0),
    )
    .await;
    assert_eq!(result(put)["size_bytes"], 3);
    let got = result(artifact(&dir, json!({"uri": uri}), &json!(0)).await);
    assert_eq!(got["data"], json!([1]));
    let listed = result(
        artifact(
            &dir,
            json!({"action": "list", "uri": "file://files"}),
            &json!(0),
        )
        .await,
    );
    assert_eq!(listed["count"], 1);
    let deleted = artifact(&dir, json!({"action": "delete", "uri": uri}), &json!(0)).await;
    assert_eq!(result(deleted)["deleted"], true);
    let gone = artifact(&dir, json!({"uri": uri}), &json!(0)).await;
    assert_eq!(error(&gone).code, "FILE_NOT_FOUND");
    let own = artifact(&dir, json!({"uri": "file://noetl.db"}), &json!(0)).await;
    assert_eq!(error(&own).code, "DATABASE_FORBIDDEN");
}

#[tokio::test]
async fn a_run_lists_its_bodies_and_gives_up_only_its_own() {
    let dir = TempDir::new().unwrap();
    let body = json!([1]);
    let listed = result(artifact(&dir, json!({"action": "list"}), &body).await);
    assert_eq!(listed["count"], 1);
    let own = reference(&dir, &body).await;
    let released = result(artifact(&dir, json!({"action": "delete", "ref": own}), &body).await);
    assert_eq!(released["kind"], "result_release");
    let mut foreign = own;
    foreign.uri = foreign.uri.replace("/7/", "/8/");
    let refused = artifact(&dir, json!({"action": "delete", "ref": foreign}), &body).await;
    assert_eq!(error(&refused).code, "REFERENCE_FOREIGN");
}

#[tokio::test]
async fn what_cannot_be_reached_or_is_gone_is_an_error_with_its_code() {
    let dir = TempDir::new().unwrap();
    let body = json!([1]);
    for uri in ["s3://b/k", "gs://b/k", "nats-kv://b/k", "nats-obj://b/k"] {
        let outcome = artifact(&dir, json!({"uri": uri}), &body).await;
        assert_eq!(error(&outcome).code, "AUTH_INVALID");
    }
    let table = json!({"store": "postgres.table", "key": "t", "range": "id:1-5", "size": 3, "checksum": "x"});
    let outcome = artifact(&dir, json!({"ref": table}), &body).await;
    assert_eq!(error(&outcome).code, "STORE_NOT_CONFIGURED");
    let outcome = artifact(&dir, json!({"uri": "nowhere"}), &body).await;
    assert_eq!(error(&outcome).code, "REFERENCE_INVALID");
    let mut gone = reference(&dir, &body).await;
    gone.meta.sha256 = "ab".repeat(32);
    gone.expires_at = Some(model::time::Time(0));
    let outcome = artifact(&dir, json!({"ref": gone}), &body).await;
    assert_eq!(error(&outcome).code, "REFERENCE_NOT_AVAILABLE");
    assert!(error(&outcome).message.contains("expired"), "{outcome:?}");
    let outcome = artifact(&dir, json!({"action": "burn"}), &body).await;
    assert_eq!(error(&outcome).code, "TOOL_INPUT");
}

#[tokio::test]
async fn a_bucket_is_not_reached_by_another_way() {
    let dir = TempDir::new().unwrap();
    let body = json!([1]);
    let s3 = json!({"access_key_id": "a", "secret_access_key": "b"});
    let with = |mut auth: Value, key: &str, value: Value| {
        auth[key] = value;
        auth
    };
    let key = json!({"private_key": "x", "private_key_id": "x", "client_email": "x", "disable_oauth": true,
        "gcs_base_url": "http://169.254.169.254"});
    for (uri, auth, code) in [
        (
            "s3://b/k",
            with(s3.clone(), "region", json!("x.evil/")),
            "AUTH_INVALID",
        ),
        (
            "gs://b/k",
            json!({"service_account": key}),
            "OBJECT_INVALID",
        ),
        (
            "gs://b/k",
            json!({"service_account": key.to_string()}),
            "OBJECT_INVALID",
        ),
        ("gs://b/k", key.clone(), "OBJECT_INVALID"),
        (
            "s3://b/k",
            with(s3.clone(), "endpoint", json!("http://no-such-host.invalid")),
            "OBJECT_UNAVAILABLE",
        ),
    ] {
        let outcome = artifact(&dir, json!({"uri": uri, "auth": auth}), &body).await;
        assert_eq!(error(&outcome).code, code, "{auth}");
    }
}

#[tokio::test]
async fn a_bucket_that_sends_elsewhere_is_not_followed() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let hits = Arc::new(AtomicU32::new(0));
    let counted = hits.clone();
    let elsewhere = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready("secret")
    };
    let app = axum::Router::new()
        .route("/elsewhere", axum::routing::any(elsewhere))
        .fallback(|| std::future::ready(axum::response::Redirect::temporary("/elsewhere")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let dir = TempDir::new().unwrap();
    let auth = json!({"access_key_id": "a", "secret_access_key": "b", "endpoint": endpoint});
    let outcome = artifact(&dir, json!({"uri": "s3://b/k", "auth": auth}), &json!([1])).await;
    assert_eq!(error(&outcome).code, "OBJECT_UNAVAILABLE");
    assert_eq!(hits.load(Ordering::SeqCst), 0);
}
