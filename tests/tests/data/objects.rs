//! `s3`, `gcs` and `artifact` with addresses outside, against buckets.

use model::outcome::Outcome;
use serde_json::{Value, json};
use tempfile::tempdir;
use tests::peers::{FakeGcs, NatsServer, S3Server};

use crate::fixture::{failure_error, new_call, result_writer, run_call, success_value, tool_registry};

fn s3_auth(s3: &S3Server) -> Value {
    json!({"type": "s3", "access_key_id": "tests", "secret_access_key": s3.secret(), "endpoint": s3.url()})
}

/// Writes, reads, looks, lists in pages and deletes, wherever the objects are.
async fn check_round_trip(kind: &str, base: &str, auth: Value) {
    let dir = tempdir().unwrap();
    let tools = tool_registry(dir.path());
    let make = |fields: Value| {
        let mut call = new_call(kind, dir.path(), fields);
        call.fields.insert("auth".to_owned(), auth.clone());
        call
    };
    for (name, data) in [
        ("a.json", json!({"n": 1})),
        ("b.txt", json!("text é")),
        ("c.json", json!([1, 2])),
    ] {
        let uri = format!("{base}/in/{name}");
        let put = success_value(run_call(&tools, make(json!({"action": "put", "uri": uri, "data": data}))).await);
        assert_eq!(put["uri"], uri);
        assert!(put["size"].as_u64().unwrap() > 4 && put["etag"].is_string(), "{put}");
        let result = success_value(run_call(&tools, make(json!({"uri": uri}))).await);
        assert_eq!((&result["data"], &result["size"]), (&data, &put["size"]), "{result}");
        let head = success_value(run_call(&tools, make(json!({"action": "head", "uri": uri}))).await);
        assert_eq!(head["size"], put["size"]);
    }
    let part = make(json!({"uri": format!("{base}/in/b.txt"), "range": [0, 4]}));
    assert_eq!(success_value(run_call(&tools, part).await)["data"], "text");
    let folder = format!("{base}/in/");
    let first = success_value(run_call(&tools, make(json!({"action": "list", "uri": folder, "limit": 2}))).await);
    assert_eq!(
        (&first["count"], first["objects"][0]["uri"].as_str()),
        (&json!(2), Some(format!("{base}/in/a.json").as_str()))
    );
    let next = json!({"action": "list", "uri": folder, "limit": 2, "after": first["next"]});
    let second = success_value(run_call(&tools, make(next)).await);
    assert_eq!(
        (&second["count"], &second["next"]),
        (&json!(1), &json!(null)),
        "{second}"
    );
    let delete = json!({"action": "delete", "uri": format!("{base}/in/a.json")});
    assert_eq!(success_value(run_call(&tools, make(delete)).await)["deleted"], true);
    let missing = failure_error(run_call(&tools, make(json!({"uri": format!("{base}/in/a.json")}))).await);
    assert!(
        matches!(missing.code.as_str(), "OBJECT_NOT_FOUND" | "FILE_NOT_FOUND"),
        "{missing:?}"
    );
    assert!(!missing.retryable);
}

#[tokio::test]
async fn s3_objects_are_stored_read_and_deleted() {
    let s3 = S3Server::private();
    check_round_trip("s3", &format!("s3://{}", S3Server::BUCKET), s3_auth(&s3)).await;
}

#[tokio::test]
async fn google_cloud_objects_are_stored_read_and_deleted() {
    let gcs = FakeGcs::private();
    let auth = json!({"type": "gcs", "endpoint": format!("http://127.0.0.1:{}", gcs.port())});
    check_round_trip("gcs", &format!("gs://{}", FakeGcs::BUCKET), auth).await;
}

#[tokio::test]
async fn files_of_a_directory_are_stored_read_and_deleted_like_objects() {
    let dir = tempdir().unwrap();
    check_round_trip("s3", &format!("file://{}", dir.path().display()), json!({})).await;
}

#[tokio::test]
async fn a_large_body_streams_into_a_bucket_and_back() {
    let dir = tempdir().unwrap();
    let (s3, tools) = (S3Server::private(), tool_registry(dir.path()));
    let rows: Vec<Value> = (0..400_000)
        .map(|n| json!({"n": n, "text": "some more text"}))
        .collect();
    let body = json!({"data": rows}).to_string();
    let writer = result_writer(dir.path());
    let reference = writer.write(&mut body.as_bytes()).await.unwrap();
    let uri = format!("s3://{}/large.json", S3Server::BUCKET);
    let mut put = new_call(
        "s3",
        dir.path(),
        json!({"action": "put", "uri": uri, "source": reference, "auth": s3_auth(&s3)}),
    );
    put.access = Some(tools::ResultAccess {
        body_store: writer.store.clone(),
        resolver: std::sync::Arc::new(NoReferences),
        execution: model::id::ExecutionId(7),
    });
    let put = success_value(run_call(&tools, put).await);
    assert_eq!(put["size"].as_u64(), Some(body.len() as u64));
    let mut get = new_call("s3", dir.path(), json!({"uri": uri, "auth": s3_auth(&s3)}));
    get.result_writer = Some(writer.clone());
    let Outcome::Ok(success) = run_call(&tools, get).await else {
        panic!("it comes back")
    };
    let reference = success.reference.unwrap();
    assert_eq!(reference.extracted["uri"], uri);
    let back: Value = serde_json::from_slice(&writer.store.get(&reference).await.unwrap()).unwrap();
    assert_eq!(back["data"]["data"][399_999]["n"], 399_999);
}

/// Knows no address.
struct NoReferences;

#[async_trait::async_trait]
impl tools::ReferenceResolver for NoReferences {
    async fn resolve(&self, _uri: &str) -> Result<model::result_ref::ResolvedRef, model::outcome::TaskError> {
        unreachable!("nothing is looked up")
    }
}

#[tokio::test]
async fn a_signed_url_opens_an_object_without_a_credential() {
    let dir = tempdir().unwrap();
    let (s3, tools) = (S3Server::private(), tool_registry(dir.path()));
    s3.put_object("x.json", b"{\"n\": 5}");
    let uri = format!("s3://{}/x.json", S3Server::BUCKET);
    let signed = new_call(
        "s3",
        dir.path(),
        json!({"action": "presign", "uri": uri, "expires": "10m", "auth": s3_auth(&s3)}),
    );
    let signed = success_value(run_call(&tools, signed).await);
    assert_eq!(signed["expires_in"], 600);
    let result = success_value(
        run_call(
            &tools,
            new_call(
                "http",
                dir.path(),
                json!({"url": signed["url"], "response_type": "json"}),
            ),
        )
        .await,
    );
    assert_eq!(result["data"], json!({"n": 5}));
    assert!(!signed["url"].as_str().unwrap().contains(s3.secret()));
}

#[tokio::test]
async fn errors_say_what_is_wrong_and_never_a_secret() {
    let dir = tempdir().unwrap();
    let (s3, gcs, tools) = (S3Server::private(), FakeGcs::private(), tool_registry(dir.path()));
    let try_ = |fields: Value| run_call(&tools, new_call("s3", dir.path(), fields));
    let uri = format!("s3://{}/x", S3Server::BUCKET);
    assert_eq!(failure_error(try_(json!({"uri": uri})).await).code, "AUTH_INVALID");
    assert_eq!(
        failure_error(try_(json!({"uri": uri, "auth": "name"})).await).code,
        "AUTH_UNRESOLVED"
    );
    assert_eq!(
        failure_error(try_(json!({"uri": "gs://b/k", "auth": {}})).await).code,
        "TOOL_INPUT"
    );
    let none = failure_error(try_(json!({"uri": "s3://no-such-bucket/x", "auth": s3_auth(&s3)})).await);
    assert_eq!(none.code, "OBJECT_NOT_FOUND");
    let mut away = s3_auth(&s3);
    away["endpoint"] = "http://127.0.0.1:1".into();
    let away = failure_error(try_(json!({"uri": uri, "auth": away})).await);
    assert!(away.code == "OBJECT_UNAVAILABLE" && away.retryable, "{away:?}");
    assert!(!format!("{away:?}").contains(s3.secret()));
    let mut metadata = s3_auth(&s3);
    metadata["endpoint"] = "http://169.254.169.254".into();
    assert_eq!(
        failure_error(try_(json!({"uri": uri, "auth": metadata})).await).code,
        "OBJECT_INVALID"
    );
    gcs.fail_next(403, 10);
    let auth = json!({"endpoint": format!("http://127.0.0.1:{}", gcs.port())});
    let denied = new_call("gcs", dir.path(), json!({"uri": "gs://results/x", "auth": auth}));
    assert_eq!(failure_error(run_call(&tools, denied).await).code, "OBJECT_DENIED");
    std::fs::write(dir.path().join("noetl.db"), "x").unwrap();
    let own = failure_error(try_(json!({"uri": "file://noetl.db"})).await);
    assert_eq!(own.code, "DATABASE_FORBIDDEN");
}

#[tokio::test]
async fn artifact_reads_and_writes_buckets_and_nats() {
    let dir = tempdir().unwrap();
    let (s3, nats, tools) = (S3Server::private(), NatsServer::private(), tool_registry(dir.path()));
    let client = async_nats::connect(nats.url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let kv = async_nats::jetstream::kv::Config {
        bucket: "things".to_owned(),
        ..Default::default()
    };
    context.create_key_value(kv).await.unwrap();
    let objects = async_nats::jetstream::object_store::Config {
        bucket: "things".to_owned(),
        ..Default::default()
    };
    context.create_object_store(objects).await.unwrap();
    let nats_auth = json!({"type": "nats", "url": nats.url()});
    for (base, auth) in [
        (format!("s3://{}/a", S3Server::BUCKET), s3_auth(&s3)),
        ("nats-kv://things/a".to_owned(), nats_auth.clone()),
        ("nats-obj://things/a".to_owned(), nats_auth),
    ] {
        let make = |fields: Value| {
            let mut call = new_call("artifact", dir.path(), fields);
            call.fields.insert("auth".to_owned(), auth.clone());
            call
        };
        let uri = format!("{base}.json");
        let put = success_value(run_call(&tools, make(json!({"action": "put", "uri": uri, "data": {"n": 7}}))).await);
        assert_eq!((&put["uri"], &put["size_bytes"]), (&json!(uri), &json!(7)), "{base}");
        let result = success_value(run_call(&tools, make(json!({"uri": uri}))).await);
        assert_eq!(result["data"], json!({"n": 7}), "{base}");
        let listing = success_value(run_call(&tools, make(json!({"action": "list", "uri": base}))).await);
        assert_eq!(
            (&listing["count"], &listing["data"][0]["uri"]),
            (&json!(1), &json!(uri)),
            "{base}"
        );
        let deleted = success_value(run_call(&tools, make(json!({"action": "delete", "uri": uri}))).await);
        assert_eq!(deleted["deleted"], true, "{base}");
        let failure = failure_error(run_call(&tools, make(json!({"uri": uri}))).await);
        assert_eq!(failure.code, "OBJECT_NOT_FOUND", "{base}");
    }
}
