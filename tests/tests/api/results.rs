//! Results that clients upload: stored, referenced and read again.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::fixture::{ApiFixture, HELLO, http_client, read_response};

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_put_gives_a_reference_that_resolves() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let path = format!("/api/result/{execution}?step=start&task=shell&attempt=2");
    let rows: Vec<_> = (0..20_000).map(|n| json!({"n": n})).collect();
    let body = json!({"status": "done", "rows": rows});
    let put = fixture.send(Method::PUT, &path, None, Some(&body)).await;
    let put = read_response(put).await;
    assert_eq!(put.status, StatusCode::OK, "{:?}", put.body);
    let reference = put.body;
    let run = "task:start.shell:run:1.1";
    let uri = format!("noetl://execution/{execution}/step/start/task/shell/run/{run}/attempt/2");
    assert_eq!(reference["ref"], uri);
    assert_eq!(reference["extracted"]["status"], "done", "{reference}");
    let text = reference.to_string();
    let response = http_client()
        .get(format!("{}/api/result/resolve", fixture.url))
        .query(&[("ref", text.as_str())])
        .send()
        .await
        .unwrap();
    assert_eq!(read_response(response).await.body, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_json_or_has_no_run_is_not_stored() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let url = format!("{}/api/result/{execution}?step=a&task=b", fixture.url);
    let broken = http_client().put(url).body("{\"a\": ").send().await.unwrap();
    let broken = read_response(broken).await;
    assert_eq!(broken.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(broken.error_code(), "BODY_INVALID", "{:?}", broken.body);
    let value = json!(1);
    for (path, status) in [
        ("/api/result/7?step=a&task=b", StatusCode::NOT_FOUND),
        ("/api/result/7?task=b", StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let refused = fixture.send(Method::PUT, path, None, Some(&value)).await;
        assert_eq!(refused.status(), status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_run_may_be_any_json_value() {
    let fixture = ApiFixture::open().await;
    let document = fixture.get("/openapi.json").await.body;
    let result = &document["components"]["schemas"]["ExecutionDetail"]["properties"]["result"];
    assert!(result["description"].is_string(), "{result}");
    for restriction in ["type", "$ref", "oneOf", "anyOf"] {
        assert!(result.get(restriction).is_none(), "{result}");
    }
}
