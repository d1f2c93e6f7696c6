//! `nats`: every operation, and its errors.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt as _;
use model::outcome::ErrorKind;
use model::playbook::ResultControl;
use results::{BodyStore as _, DirBodyStore, ResultWriter};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tests::peers::NatsServer;

use super::*;

struct NatsToolFixture {
    nats: NatsServer,
    tool: Arc<dyn Tool>,
}

impl NatsToolFixture {
    fn new() -> Self {
        Self {
            nats: NatsServer::private(),
            tool: find_tool("nats"),
        }
    }

    fn new_call(&self, operation: &str, mut fields: Value) -> Call {
        fields["operation"] = operation.into();
        fields["auth"] = json!({"type": "nats", "nats_url": self.nats.url()});
        new_call("nats", fields)
    }

    /// Makes a call, and runs its deferred work.
    async fn run_call(&self, operation: &str, fields: Value) -> Outcome {
        let call = self.new_call(operation, fields);
        let afterwards = call.deferred.clone();
        let outcome = run_call(&self.tool, call).await;
        if let Some(work) = afterwards.take() {
            work.await;
        }
        outcome
    }

    async fn call_result(&self, operation: &str, fields: Value) -> Value {
        success_value(self.run_call(operation, fields).await)
    }

    async fn error_code(&self, operation: &str, fields: Value) -> String {
        failure_error(&self.run_call(operation, fields).await).code.clone()
    }

    async fn create_stream(&self, name: &str, subject: &str) -> async_nats::Client {
        let client = async_nats::connect(self.nats.url()).await.unwrap();
        let config = jetstream::stream::Config {
            name: name.to_owned(),
            subjects: vec![subject.to_owned()],
            ..jetstream::stream::Config::default()
        };
        let context = jetstream::new(client.clone());
        context.create_stream(config).await.unwrap();
        client
    }
}

#[tokio::test]
async fn keys_are_put_read_listed_and_removed() {
    let fixture = NatsToolFixture::new();
    assert_eq!(
        fixture
            .error_code("kv_put", json!({"bucket": "b", "key": "k", "value": 1}))
            .await,
        "NATS_BUCKET_NOT_FOUND"
    );
    let put = fixture
        .call_result(
            "kv_put",
            json!({"bucket": "b", "key": "k", "value": {"a": [1]}, "create": true}),
        )
        .await;
    assert_eq!(put, json!({"bucket": "b", "key": "k", "revision": 1, "size_bytes": 9}));
    let got = fixture.call_result("kv_get", json!({"bucket": "b", "key": "k"})).await;
    assert_eq!((&got["value"], &got["revision"]), (&json!({"a": [1]}), &json!(1)));
    assert!(got["created"].as_str().unwrap().ends_with('Z'));
    fixture
        .call_result("kv_put", json!({"bucket": "b", "key": "x.y", "value": "text"}))
        .await;
    fixture
        .call_result(
            "kv_put",
            json!({"bucket": "b", "key": "x.z", "value": "/+8=", "encoding": "base64"}),
        )
        .await;
    let bytes = fixture
        .call_result("kv_get", json!({"bucket": "b", "key": "x.z"}))
        .await;
    assert_eq!(
        (&bytes["value"], &bytes["encoding"]),
        (&json!("/+8="), &json!("base64"))
    );
    let text = fixture
        .call_result("kv_get", json!({"bucket": "b", "key": "k", "encoding": "text"}))
        .await;
    assert_eq!(text["value"], "{\"a\":[1]}");
    assert_eq!(
        fixture
            .error_code("kv_get", json!({"bucket": "b", "key": "x.y", "encoding": "json"}))
            .await,
        "NATS_JSON"
    );
    let keys = fixture.call_result("kv_keys", json!({"bucket": "b"})).await;
    assert_eq!(
        (&keys["keys"], &keys["count"]),
        (&json!(["k", "x.y", "x.z"]), &json!(3))
    );
    let some = fixture
        .call_result("kv_keys", json!({"bucket": "b", "filter": "x.*"}))
        .await;
    assert_eq!(some["keys"], json!(["x.y", "x.z"]));
    fixture
        .call_result("kv_delete", json!({"bucket": "b", "key": "k"}))
        .await;
    fixture
        .call_result("kv_purge", json!({"bucket": "b", "key": "x.y"}))
        .await;
    for key in ["k", "x.y", "never"] {
        assert_eq!(
            fixture.error_code("kv_get", json!({"bucket": "b", "key": key})).await,
            "NATS_KEY_NOT_FOUND"
        );
    }
    assert_eq!(
        fixture
            .error_code("kv_get", json!({"bucket": "b", "key": ".bad."}))
            .await,
        "TOOL_INPUT"
    );
}

#[tokio::test]
async fn a_write_that_expects_another_revision_is_refused() {
    let fixture = NatsToolFixture::new();
    let put = |value: u64, expected: u64| json!({"bucket": "b", "key": "k", "value": value, "expected_last_revision": expected, "create": true});
    assert_eq!(fixture.call_result("kv_put", put(1, 0)).await["revision"], 1);
    assert_eq!(fixture.error_code("kv_put", put(2, 0)).await, "NATS_WRONG_REVISION");
    assert_eq!(fixture.call_result("kv_put", put(2, 1)).await["revision"], 2);
    let outcome = fixture.run_call("kv_put", put(3, 1)).await;
    assert_eq!(
        (failure_error(&outcome).kind, failure_error(&outcome).retryable),
        (ErrorKind::ClientError, false)
    );
    assert_eq!(
        fixture
            .error_code(
                "kv_delete",
                json!({"bucket": "b", "key": "k", "expected_last_revision": 1})
            )
            .await,
        "NATS_WRONG_REVISION"
    );
    fixture
        .call_result(
            "kv_delete",
            json!({"bucket": "b", "key": "k", "expected_last_revision": 2}),
        )
        .await;
    assert_eq!(
        fixture.call_result("kv_put", put(4, 0)).await["revision"],
        4,
        "a deleted key may be created again"
    );
}

#[tokio::test]
async fn objects_are_put_read_listed_and_removed() {
    let fixture = NatsToolFixture::new();
    let put =
        json!({"bucket": "o", "object": "a/b.json", "value": {"rows": [1, 2]}, "create": true, "description": "d"});
    let info = fixture.call_result("object_put", put).await;
    let hash = hex::encode(Sha256::digest("{\"rows\":[1,2]}"));
    assert_eq!((&info["size_bytes"], &info["sha256"]), (&json!(14), &json!(hash)));
    let got = fixture
        .call_result("object_get", json!({"bucket": "o", "object": "a/b.json"}))
        .await;
    assert_eq!(
        (&got["data"], &got["description"]),
        (&json!({"rows": [1, 2]}), &json!("d"))
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"\xff\x00").unwrap();
    fixture
        .call_result(
            "object_put",
            json!({"bucket": "o", "object": "raw", "file": file.path()}),
        )
        .await;
    let config = tools::Config {
        forbidden_files: vec![file.path().to_owned()],
        ..tools::Config::default()
    };
    let guarded = build_registry(config, integrations::Config::default())
        .get("nats")
        .unwrap();
    let own = json!({"bucket": "o", "object": "own", "file": file.path()});
    let refused = run_call(&guarded, fixture.new_call("object_put", own)).await;
    assert_eq!(failure_error(&refused).code, "DATABASE_FORBIDDEN");
    let raw = fixture
        .call_result("object_get", json!({"bucket": "o", "object": "raw"}))
        .await;
    assert_eq!((&raw["data"], &raw["encoding"]), (&json!("/wA="), &json!("base64")));
    let list = fixture.call_result("object_list", json!({"bucket": "o"})).await;
    assert_eq!(list["count"], 2);
    assert_eq!(
        fixture
            .call_result("object_info", json!({"bucket": "o", "object": "raw"}))
            .await["chunks"],
        1
    );
    fixture
        .call_result("object_delete", json!({"bucket": "o", "object": "raw"}))
        .await;
    for operation in ["object_get", "object_info", "object_delete"] {
        let code = fixture
            .error_code(operation, json!({"bucket": "o", "object": "raw"}))
            .await;
        assert_eq!(code, "NATS_OBJECT_NOT_FOUND", "{operation}");
    }
    assert_eq!(
        fixture.error_code("object_list", json!({"bucket": "none"})).await,
        "NATS_BUCKET_NOT_FOUND"
    );
}

#[tokio::test]
async fn a_large_object_streams_into_the_store_of_bodies() {
    let fixture = NatsToolFixture::new();
    let rows: Vec<Value> = (0..200_000).map(|id| json!({"id": id, "t": "é"})).collect();
    let text = Value::from(rows).to_string();
    let bytes = text.len();
    fixture
        .call_result(
            "object_put",
            json!({"bucket": "o", "object": "rows", "value": text, "create": true}),
        )
        .await;
    let dir = TempDir::new().unwrap();
    let bodies = Arc::new(DirBodyStore::open(dir.path()).unwrap());
    let mut call = fixture.new_call("object_get", json!({"bucket": "o", "object": "rows"}));
    call.result_writer = Some(ResultWriter {
        store: bodies.clone(),
        control: ResultControl::default(),
        uri: "noetl://execution/1".to_owned(),
        bytes_max: u64::MAX,
        missing_paths: results::MissingPaths::default(),
    });
    let reference = match run_call(&fixture.tool, call).await {
        Outcome::Ok(success) => *success.reference.expect("the value is too large for memory"),
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    };
    assert_eq!(reference.extracted["size_bytes"], bytes);
    let body: Value = serde_json::from_slice(&bodies.get(&reference).await.unwrap()).unwrap();
    assert_eq!(body["data"][199_999], json!({"id": 199_999, "t": "é"}));
    assert_eq!(body["object"], "rows");
}

#[tokio::test]
async fn a_publication_is_stored_once_however_often_it_is_retried() {
    let fixture = NatsToolFixture::new();
    fixture.create_stream("orders", "orders.>").await;
    let publish = |fields: Value| {
        let mut call = fixture.new_call("js_publish", fields);
        call.idempotency_key = "run/step/task".into();
        call
    };
    let fields = json!({"subject": "orders.new", "value": {"n": 1}, "headers": {"X-Kind": "new"}});
    let first = success_value(run_call(&fixture.tool, publish(fields.clone())).await);
    assert_eq!(
        first,
        json!({"stream": "orders", "subject": "orders.new", "sequence": 1, "duplicate": false})
    );
    let second_result = success_value(run_call(&fixture.tool, publish(fields)).await);
    assert_eq!(
        (&second_result["sequence"], &second_result["duplicate"]),
        (&json!(1), &json!(true))
    );
    let own = json!({"subject": "orders.new", "value": "two", "msg_id": "mine", "expected_last_sequence": 1});
    assert_eq!(
        success_value(run_call(&fixture.tool, publish(own)).await)["sequence"],
        2
    );
    let late = json!({"subject": "orders.new", "value": "x", "msg_id": "late", "expected_last_sequence": 1});
    assert_eq!(
        failure_error(&run_call(&fixture.tool, publish(late)).await).code,
        "NATS_WRONG_REVISION"
    );
    let message = fixture
        .call_result("js_get_msg", json!({"stream": "orders", "sequence": 1}))
        .await;
    assert_eq!(
        (&message["data"], &message["subject"]),
        (&json!({"n": 1}), &json!("orders.new"))
    );
    assert_eq!(
        (&message["headers"]["X-Kind"], &message["headers"]["Nats-Msg-Id"]),
        (&json!("new"), &json!("run/step/task"))
    );
    assert_eq!(
        fixture
            .call_result("js_get_msg", json!({"stream": "orders", "subject": "orders.new"}))
            .await["data"],
        "two"
    );
    assert_eq!(
        fixture
            .error_code("js_get_msg", json!({"stream": "orders", "sequence": 9}))
            .await,
        "NATS_MESSAGE_NOT_FOUND"
    );
    assert_eq!(
        fixture
            .error_code("js_publish", json!({"subject": "elsewhere", "value": 1}))
            .await,
        "NATS_STREAM_NOT_FOUND"
    );
}

#[tokio::test]
async fn messages_are_consumed_in_batches_and_acknowledged() {
    let fixture = NatsToolFixture::new();
    let client = fixture.create_stream("work", "work.>").await;
    for n in 0..5 {
        client.publish(format!("work.{n}"), n.to_string().into()).await.unwrap();
    }
    client.flush().await.unwrap();
    let numbers = |batch: &Value| -> Vec<i64> {
        let messages = batch["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|message| message["data"].as_i64().unwrap())
            .collect()
    };
    let fields = json!({"stream": "work", "consumer": "c", "batch": 3, "wait": "5s"});
    let first = fixture.call_result("js_consume", fields.clone()).await;
    assert_eq!(numbers(&first), [0, 1, 2]);
    assert_eq!(
        (&first["messages"][2]["pending"], &first["messages"][2]["delivered"]),
        (&json!(2), &json!(1))
    );
    let second = fixture
        .call_result("js_consume", json!({"stream": "work", "consumer": "c", "batch": 2}))
        .await;
    assert_eq!(numbers(&second), [3, 4]);
    let none = fixture
        .call_result("js_consume", json!({"stream": "work", "consumer": "c", "wait": 0.2}))
        .await;
    assert_eq!(none["count"], 0);
    // Without a consumer name nothing is acknowledged, and all messages stay.
    let all = fixture
        .call_result("js_consume", json!({"stream": "work", "batch": 5}))
        .await;
    assert_eq!(numbers(&all), [0, 1, 2, 3, 4]);
    let later = fixture
        .call_result("js_consume", json!({"stream": "work", "batch": 2, "sequence": 4}))
        .await;
    assert_eq!(numbers(&later), [3, 4]);
    let one = fixture
        .call_result("js_consume", json!({"stream": "work", "batch": 1, "subject": "work.3"}))
        .await;
    assert_eq!(numbers(&one), [3]);
    assert_eq!(
        fixture.error_code("js_consume", json!({"stream": "none"})).await,
        "NATS_STREAM_NOT_FOUND"
    );
}

#[tokio::test]
async fn messages_are_acknowledged_only_when_they_are_recorded() {
    let fixture = NatsToolFixture::new();
    let client = fixture.create_stream("work", "work.>").await;
    for n in 0..3 {
        let text = n.to_string().into();
        client.publish(format!("work.{n}"), text).await.unwrap();
    }
    client.flush().await.unwrap();
    let open = async || {
        let stream = jetstream::new(client.clone()).get_stream("work").await;
        let mut consumer: PullConsumer = stream.unwrap().get_consumer("c").await.unwrap();
        consumer.info().await.unwrap().num_ack_pending
    };
    let fields = json!({"stream": "work", "consumer": "c", "batch": 2});
    let call = fixture.new_call("js_consume", fields);
    let afterwards = call.deferred.clone();
    assert_eq!(success_value(run_call(&fixture.tool, call).await)["count"], 2);
    assert_eq!(open().await, 2, "nothing is acknowledged before the result is recorded");
    afterwards.take().unwrap().await;
    assert_eq!(open().await, 0);
    let fields = json!({"stream": "work", "consumer": "c", "ack": false});
    let call = fixture.new_call("js_consume", fields);
    let afterwards = call.deferred.clone();
    assert_eq!(success_value(run_call(&fixture.tool, call).await)["count"], 1);
    assert!(
        afterwards.take().is_none(),
        "with `ack: false` the caller acknowledges them"
    );
}

#[tokio::test]
async fn a_request_gets_the_reply_of_a_subscriber() {
    let fixture = NatsToolFixture::new();
    let client = async_nats::connect(fixture.nats.url()).await.unwrap();
    let mut response = client.subscribe("sum").await.unwrap();
    client.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(message) = response.next().await {
            let numbers: Vec<i64> = serde_json::from_slice(&message.payload).unwrap();
            let sum = numbers.iter().sum::<i64>().to_string();
            client.publish(message.reply.unwrap(), sum.into()).await.unwrap();
        }
    });
    assert_eq!(
        fixture
            .call_result("request", json!({"subject": "sum", "value": [1, 2, 3]}))
            .await["data"],
        6
    );
    let nobody = fixture
        .run_call("request", json!({"subject": "nobody", "value": 1}))
        .await;
    assert_eq!(failure_error(&nobody).code, "NATS_NO_RESPONDERS");
    assert!(!failure_error(&nobody).leaves_effect_unknown());
}

#[tokio::test]
async fn a_core_nats_publication_reaches_subscribers() {
    let fixture = NatsToolFixture::new();
    let client = async_nats::connect(fixture.nats.url()).await.unwrap();
    let mut news = client.subscribe("news").await.unwrap();
    client.flush().await.unwrap();
    fixture
        .call_result(
            "publish",
            json!({"subject": "news", "value": "hello", "headers": {"A": "b"}}),
        )
        .await;
    let message = news.next().await.unwrap();
    assert_eq!(&message.payload[..], b"hello");
    assert_eq!(message.headers.unwrap().get("A").unwrap().as_str(), "b");
}

#[tokio::test]
async fn the_credentials_of_a_client_are_checked() {
    let nats = NatsServer::with_user("me", "s3cret");
    let tool = find_tool("nats");
    let call = |auth: Value| {
        new_call(
            "nats",
            json!({"operation": "publish", "subject": "x", "value": 1, "url": nats.url(), "auth": auth}),
        )
    };
    success_value(run_call(&tool, call(json!({"user": "me", "password": "s3cret"}))).await);
    let wrong = run_call(&tool, call(json!({"user": "me", "password": "wr0ng-word"}))).await;
    assert_eq!(
        (failure_error(&wrong).code.as_str(), failure_error(&wrong).kind),
        ("NATS_AUTH", ErrorKind::Auth)
    );
    assert!(!format!("{wrong:?}").contains("wr0ng-word"));
    assert_eq!(
        failure_error(&run_call(&tool, call(json!({"creds": "nonsense"}))).await).code,
        "AUTH_INVALID"
    );
    assert_eq!(
        failure_error(&run_call(&tool, call(json!("a name"))).await).code,
        "AUTH_UNRESOLVED"
    );
}

#[tokio::test]
async fn an_unreachable_server_is_reported_and_reconnected() {
    let fixture = NatsToolFixture::new();
    let fields = json!({"bucket": "b", "key": "k", "value": 1, "create": true});
    fixture.call_result("kv_put", fields.clone()).await;
    fixture.nats.kill();
    let mut call = fixture.new_call("kv_put", fields.clone());
    call.timeout.total = Some(Duration::from_secs(5));
    let outcome = run_call(&fixture.tool, call).await;
    let failed = failure_error(&outcome);
    assert!(failed.retryable, "{failed:?}");
    assert!(
        ["NATS_CONNECT", "TIMEOUT", "NATS_FAILED"].contains(&failed.code.as_str()),
        "{failed:?}"
    );
    assert_eq!(fixture.error_code("kv_put", fields.clone()).await, "NATS_CONNECT");
    fixture.nats.start();
    fixture.call_result("kv_put", fields).await;
}

#[tokio::test]
async fn a_wrong_call_is_named() {
    let fixture = NatsToolFixture::new();
    for (operation, fields) in [
        ("kv_fly", json!({})),
        ("kv_get", json!({"bucket": "b"})),
        ("kv_put", json!({"key": "k"})),
        ("js_consume", json!({})),
        ("publish", json!({"value": 1})),
        ("publish", json!({"subject": "x", "value": 1, "headers": {"a b": "c"}})),
        ("publish", json!({"subject": "x", "value": 1, "encoding": "base64"})),
        ("publish", json!({"subject": "x", "encoding": "morse"})),
        ("kv_get", json!({"bucket": "b", "key": "k", "revision": "first"})),
    ] {
        assert_eq!(
            fixture.error_code(operation, fields.clone()).await,
            "TOOL_INPUT",
            "{operation} {fields}"
        );
    }
    let nowhere = new_call("nats", json!({"operation": "kv_get"}));
    assert_eq!(
        failure_error(&run_call(&fixture.tool, nowhere).await).code,
        "TOOL_INPUT"
    );
}
