//! Tests of stored results and files by reference, with a real body directory.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use language::template::BodyPath;
use model::id::ExecutionId;
use model::outcome::{Outcome, TaskError};
use model::playbook::ResultControl;
use model::raw::RawJson;
use model::result_ref::PathSegment;
use model::result_ref::{ResolvedRef, ResultRef};
use results::{BodyStore as _, DirBodyStore, ResultWriter};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::ArtifactTool;
use crate::call::{Call, ReferenceResolver, ResultAccess};
use crate::objects::ObjectAccess;
use crate::testing::{build_call, expect_error, expect_result, run_tool};

/// Resolves one stored result and one small one.
struct FakeReferences(ResultRef);

#[async_trait]
impl ReferenceResolver for FakeReferences {
    async fn resolve(&self, uri: &str) -> Result<ResolvedRef, TaskError> {
        Ok(match uri {
            "noetl://execution/7" => ResolvedRef::Value(RawJson::from_serializable(&json!([{"uri": self.0.uri}]))),
            "noetl://execution/7/result/small" => ResolvedRef::Value(RawJson::from_serializable(&json!({"n": 1}))),
            _ => ResolvedRef::Body(Box::new(self.0.clone())),
        })
    }
}

async fn store_value(dir: &Path, value: &Value) -> (ResultWriter, ResultRef) {
    let writer = ResultWriter {
        store: Arc::new(DirBodyStore::open(dir).unwrap()),
        control: ResultControl::default(),
        uri: "noetl://execution/7/step/s/task/t/run/1.1/attempt/1".to_owned(),
        bytes_max: u64::MAX,
        missing_paths: results::MissingPaths::default(),
    };
    let text = value.to_string();
    let reference = writer.write(&mut text.as_bytes()).await.unwrap();
    (writer, reference)
}

async fn run_artifact(dir: &TempDir, fields: Value, body: &Value) -> Outcome {
    let (writer, reference) = store_value(dir.path(), body).await;
    let mut call = build_call("artifact", fields, json!({}));
    call.site.base_dir = dir.path().to_owned();
    call.access = Some(ResultAccess {
        body_store: writer.store.clone(),
        resolver: Arc::new(FakeReferences(reference)),
        execution: ExecutionId(7),
    });
    call.result_writer = Some(writer);
    let reach = ObjectAccess {
        forbidden: vec![dir.path().join("noetl.db")],
        guard: Arc::new(crate::http::AddressGuard {
            allow_private: true,
            ..crate::http::AddressGuard::default()
        }),
        scratch_dir: dir.path().to_owned(),
    };
    run_tool(&ArtifactTool::new(reach, None), call).await
}

async fn stored_reference(dir: &TempDir, body: &Value) -> ResultRef {
    store_value(dir.path(), body).await.1
}

#[tokio::test]
async fn a_body_is_read_by_reference_address_or_short_form() {
    let dir = TempDir::new().unwrap();
    let body = json!({"rows": [1, 2, 3]});
    let reference = stored_reference(&dir, &body).await;
    let short =
        json!({"store": "file", "key": reference.uri, "size": reference.meta.bytes, "checksum": reference.meta.sha256});
    for fields in [
        json!({"ref": reference}),
        json!({"ref": reference.uri}),
        json!({"uri": reference.uri}),
        json!({"ref": short}),
        json!({"ref": {"ref": reference.uri}}),
    ] {
        let got = expect_result(run_artifact(&dir, fields, &body).await);
        assert_eq!(got["data"], body);
        assert_eq!(got["uri"], reference.uri);
        assert_eq!(got["size_bytes"], reference.meta.bytes);
    }
    let small = run_artifact(&dir, json!({"uri": "noetl://execution/7/result/small"}), &body);
    assert_eq!(expect_result(small.await)["data"], json!({"n": 1}));
}

#[tokio::test]
async fn rows_are_selected_from_bodies_and_inline_values() {
    let dir = TempDir::new().unwrap();
    let body = json!({"status_code": 200, "data": [0, 10, 20, 30]});
    let reference = stored_reference(&dir, &body).await;
    for slice in [json!([1, 3]), json!("1..3"), json!("1:3")] {
        let got = expect_result(run_artifact(&dir, json!({"ref": reference, "slice": slice}), &body).await);
        assert_eq!(got["data"], json!([10, 20]));
        assert_eq!(
            (&got["from"], &got["to"], &got["total"]),
            (&json!(1), &json!(3), &json!(4))
        );
        let got = expect_result(run_artifact(&dir, json!({"ref": [0, 10, 20], "slice": slice}), &body).await);
        assert_eq!(got["data"], json!([10, 20]));
    }
    let open = run_artifact(&dir, json!({"ref": reference, "slice": "2.."}), &body).await;
    assert_eq!(expect_result(open)["data"], json!([20, 30]));
    let bound = BodyPath {
        reference: reference.clone(),
        paths: vec![vec![PathSegment::Key("data".to_owned())]],
    };
    let field = Call::body_path_field(&bound);
    let got = expect_result(run_artifact(&dir, json!({"ref": field}), &body).await);
    assert_eq!(got["data"], json!([0, 10, 20, 30]));
    for wrong in [json!("x"), json!([3, 1]), json!(1)] {
        let outcome = run_artifact(&dir, json!({"ref": reference, "slice": wrong}), &body).await;
        assert_eq!(expect_error(&outcome).code, "TOOL_INPUT");
    }
}

#[tokio::test]
async fn a_put_always_stores_a_body() {
    let dir = TempDir::new().unwrap();
    let outcome = run_artifact(&dir, json!({"action": "put", "data": {"n": 1}}), &json!(0)).await;
    let Outcome::Ok(success) = outcome else {
        panic!("the value is stored")
    };
    let reference = success.reference.unwrap();
    assert_eq!(reference.extracted["uri"], reference.uri);
    let bodies = DirBodyStore::open(dir.path()).unwrap();
    assert_eq!(bodies.get(&reference).await.unwrap(), &b"{\"n\":1}"[..]);
    let nothing = run_artifact(&dir, json!({"action": "put"}), &json!(0)).await;
    assert_eq!(expect_error(&nothing).code, "TOOL_INPUT");
}

#[tokio::test]
async fn files_are_written_read_listed_and_deleted() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join("files")).unwrap();
    let uri = "file://files/out.json";
    let put = run_artifact(&dir, json!({"action": "put", "uri": uri, "data": [1]}), &json!(0)).await;
    assert_eq!(expect_result(put)["size_bytes"], 3);
    let got = expect_result(run_artifact(&dir, json!({"uri": uri}), &json!(0)).await);
    assert_eq!(got["data"], json!([1]));
    let listed = expect_result(run_artifact(&dir, json!({"action": "list", "uri": "file://files"}), &json!(0)).await);
    assert_eq!(listed["count"], 1);
    let deleted = run_artifact(&dir, json!({"action": "delete", "uri": uri}), &json!(0)).await;
    assert_eq!(expect_result(deleted)["deleted"], true);
    let missing = run_artifact(&dir, json!({"uri": uri}), &json!(0)).await;
    assert_eq!(expect_error(&missing).code, "FILE_NOT_FOUND");
    let own = run_artifact(&dir, json!({"uri": "file://noetl.db"}), &json!(0)).await;
    assert_eq!(expect_error(&own).code, "DATABASE_FORBIDDEN");
}

#[tokio::test]
async fn a_run_lists_its_bodies_and_releases_only_its_own() {
    let dir = TempDir::new().unwrap();
    let body = json!([1]);
    let listed = expect_result(run_artifact(&dir, json!({"action": "list"}), &body).await);
    assert_eq!(listed["count"], 1);
    let own = stored_reference(&dir, &body).await;
    let released = expect_result(run_artifact(&dir, json!({"action": "delete", "ref": own}), &body).await);
    assert_eq!(released["kind"], "result_release");
    let mut foreign = own;
    foreign.uri = foreign.uri.replace("/7/", "/8/");
    let refused = run_artifact(&dir, json!({"action": "delete", "ref": foreign}), &body).await;
    assert_eq!(expect_error(&refused).code, "REFERENCE_FOREIGN");
}

#[tokio::test]
async fn an_unavailable_result_is_an_error_with_its_code() {
    let dir = TempDir::new().unwrap();
    let body = json!([1]);
    for (uri, code) in [
        ("s3://b/k", "AUTH_INVALID"),
        ("gs://b/k", "AUTH_INVALID"),
        ("nats-kv://b/k", "TOOL_NOT_BUILT"),
        ("nats-obj://b/k", "TOOL_NOT_BUILT"),
    ] {
        let outcome = run_artifact(&dir, json!({"uri": uri}), &body).await;
        assert_eq!(expect_error(&outcome).code, code);
    }
    let table = json!({"store": "postgres.table", "key": "t", "range": "id:1-5", "size": 3, "checksum": "x"});
    let outcome = run_artifact(&dir, json!({"ref": table}), &body).await;
    assert_eq!(expect_error(&outcome).code, "STORE_NOT_CONFIGURED");
    let outcome = run_artifact(&dir, json!({"uri": "nowhere"}), &body).await;
    assert_eq!(expect_error(&outcome).code, "REFERENCE_INVALID");
    let mut missing = stored_reference(&dir, &body).await;
    missing.meta.sha256 = "ab".repeat(32);
    missing.expires_at = Some(model::time::Time(0));
    let outcome = run_artifact(&dir, json!({"ref": missing}), &body).await;
    assert_eq!(expect_error(&outcome).code, "REFERENCE_NOT_AVAILABLE");
    assert!(expect_error(&outcome).message.contains("expired"), "{outcome:?}");
    let outcome = run_artifact(&dir, json!({"action": "burn"}), &body).await;
    assert_eq!(expect_error(&outcome).code, "TOOL_INPUT");
}

#[tokio::test]
async fn blocked_bucket_endpoints_are_rejected() {
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
        ("s3://b/k", with(s3.clone(), "region", json!("x.evil/")), "AUTH_INVALID"),
        ("gs://b/k", json!({"service_account": key}), "OBJECT_INVALID"),
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
        let outcome = run_artifact(&dir, json!({"uri": uri, "auth": auth}), &body).await;
        assert_eq!(expect_error(&outcome).code, code, "{auth}");
    }
}

#[tokio::test]
async fn redirects_of_buckets_are_not_followed() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let hits = Arc::new(AtomicU32::new(0));
    let counted = hits.clone();
    let redirect_target = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready("secret")
    };
    let app = axum::Router::new()
        .route("/elsewhere", axum::routing::any(redirect_target))
        .fallback(|| std::future::ready(axum::response::Redirect::temporary("/elsewhere")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let dir = TempDir::new().unwrap();
    let auth = json!({"access_key_id": "a", "secret_access_key": "b", "endpoint": endpoint});
    let outcome = run_artifact(&dir, json!({"uri": "s3://b/k", "auth": auth}), &json!([1])).await;
    assert_eq!(expect_error(&outcome).code, "OBJECT_UNAVAILABLE");
    assert_eq!(hits.load(Ordering::SeqCst), 0);
}
