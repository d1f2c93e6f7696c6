//! What editors read: diagnostics with the graph of a text, the reference of the language, completions and hover texts.

use reqwest::StatusCode;
use reqwest::header::{ETAG, IF_NONE_MATCH};
use serde_json::{Value, json};

use crate::fixture::{ApiFixture, http_client};

/// A playbook with a misspelled key and an arc to a step that is missing.
const BROKEN: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: broken, path: demo/broken }
workflow:
  - step: start
    tol: { kind: noop }
    next: { arcs: [{ step: report }, { step: missing }] }
  - step: report
    tool: { kind: noop }
";

fn labels(completions: &Value) -> Vec<&str> {
    let list = completions["completions"].as_array().unwrap().iter();
    list.map(|entry| entry["label"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_with_errors_has_diagnostics_and_a_graph() {
    let fixture = ApiFixture::open().await;
    let path = "/api/catalog/playbooks/validate";
    let checked = fixture.post(path, &json!({"content": BROKEN, "graph": true})).await;
    assert_eq!(checked.status, StatusCode::OK, "{:?}", checked.body);
    assert_eq!(checked.body["valid"], false);
    let first = &checked.body["diagnostics"][0];
    assert_eq!(
        (&first["code"], &first["line"], &first["column"], &first["severity"]),
        (&json!("E0107"), &json!(6), &json!(5), &json!("error"))
    );
    let graph = &checked.body["graph"];
    assert_eq!(graph["entry"], "start");
    assert_eq!(graph["steps"].as_array().unwrap().len(), 2);
    assert_eq!(graph["steps"][1]["line"], 8);
    assert_eq!(graph["arcs"][1]["to"], "missing");
    assert_eq!(graph["steps"][0]["status"], "not_reached");

    let checked = fixture.post(path, &json!({"content": BROKEN})).await;
    assert_eq!(checked.body.get("graph"), None, "it was not asked for");
    let unreadable = json!({"content": "kind: [", "graph": true});
    let checked = fixture.post(path, &unreadable).await;
    assert_eq!(
        (&checked.body["valid"], checked.body.get("graph")),
        (&json!(false), None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_beyond_the_limit_is_left_out() {
    let fixture = ApiFixture::open().await;
    let validate = async |count: usize| {
        let steps: Vec<String> = (0..count)
            .map(|index| format!("  - step: s{index}\n    next: [{{step: s{}}}]\n", (index + 1) % count))
            .collect();
        let head = BROKEN.split("  - step").next().unwrap();
        let text = format!("{head}{}", steps.concat());
        let request = json!({"content": text, "graph": true});
        fixture.post("/api/catalog/playbooks/validate", &request).await.body
    };
    let largest = validate(2_000).await;
    assert_eq!(largest["graph"]["steps"].as_array().unwrap().len(), 2_000);
    let larger = validate(2_001).await;
    assert_eq!((&larger["valid"], larger.get("graph")), (&json!(true), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_is_sent_once() {
    let fixture = ApiFixture::open().await;
    let url = format!("{}/api/language", fixture.url);
    let first = http_client().get(&url).send().await.unwrap();
    let tag = first.headers()[ETAG].clone();
    let reference: Value = first.json().await.unwrap();
    let named = |list: &Value, field: &str, name: &str| -> Value {
        let entry = list.as_array().unwrap().iter().find(|entry| entry[field] == name);
        entry.cloned().unwrap_or_else(|| panic!("{name} is missing"))
    };
    let arc = named(&reference["sections"], "name", "arc");
    assert_eq!(named(&arc["keys"], "key", "when")["aliases"], json!(["cond"]));
    let http = named(&reference["tool_kinds"], "kind", "http");
    assert_eq!(named(&http["keys"], "key", "url")["aliases"], json!(["endpoint"]));
    named(&reference["filters"], "name", "regex_replace");
    named(&reference["diagnostic_codes"], "code", "E0107");

    let again = http_client().get(&url).header(IF_NONE_MATCH, tag);
    let again = again.send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(again.text().await.unwrap(), "");
    let other = http_client().get(&url).header(IF_NONE_MATCH, "\"other\"");
    assert_eq!(other.send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_include_names_of_the_catalog() {
    let fixture = ApiFixture::open().await;
    let registered = BROKEN.replace("tol:", "tool:").replace(", { step: missing }", "");
    let registered = fixture
        .post("/api/catalog/register", &json!({"content": registered}))
        .await;
    assert_eq!(registered.status, StatusCode::OK, "{:?}", registered.body);
    let complete = async |text: &str, line: u32, column: u32| {
        let request = json!({"text": text, "line": line, "column": column});
        let completed = fixture.post("/api/language/complete", &request).await;
        assert_eq!(completed.status, StatusCode::OK, "{:?}", completed.body);
        completed.body
    };
    let keys = complete(BROKEN, 6, 8).await;
    assert_eq!(keys["start_column"], 5);
    assert!(
        labels(&keys).contains(&"tool") && !labels(&keys).contains(&"next"),
        "{keys}"
    );
    let child = "workflow:\n  - step: a\n    tool: {kind: playbook, path: ";
    let paths = complete(child, 3, 34).await;
    assert_eq!(labels(&paths), ["demo/broken"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_is_described_with_its_default() {
    let fixture = ApiFixture::open().await;
    let text = "executor:\n  spec:\n    no_next_is_error: true\n";
    let describe = async |line: u32, column: u32| {
        let request = json!({"text": text, "line": line, "column": column});
        fixture.post("/api/language/hover", &request).await.body["hover"].clone()
    };
    let hover = describe(3, 7).await;
    assert_eq!((&hover["start_column"], &hover["end_column"]), (&json!(5), &json!(21)));
    assert_eq!(
        (&hover["default"], &hover["values"]),
        (&json!("false"), &json!(["true", "false"]))
    );
    assert_eq!(describe(1, 10).await, Value::Null, "there is no word");
}
