//! A run at an earlier event: its state, graph, events, results and output.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::events::{claim_command, legacy_event};
use crate::fixture::ApiFixture;

/// Steps that write variables, then one that waits for a worker.
const WRITER: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: writer, path: demo/writer }
workload: { side: right, limits: { low: 1, high: 2 } }
workflow:
  - step: start
    set: { ctx.count: 1, ctx.name: \"{{ workload.side }}\" }
    next: [{ step: middle }]
  - step: middle
    set: { ctx.count: 2, ctx.pair: \"{{ [1, workload.side] }}\" }
    next: [{ step: work }]
  - step: work
    tool:
      - only:
          kind: noop
          spec:
            policy:
              rules:
                - when: \"{{ outcome.status == 'error' }}\"
                  then: { do: retry, attempts: 2 }
                - else: { then: { do: continue } }
    next: [{ step: last }]
  - step: last
    set: { ctx.count: 3 }
    next:
      arcs: [{ step: never, when: \"{{ ctx.count == 0 }}\" }]
  - step: never
    tool: { kind: noop }
";

async fn get_ok(fixture: &ApiFixture, path: &str) -> Value {
    let response = fixture.get(path).await;
    assert_eq!(response.status, StatusCode::OK, "{path}: {:?}", response.body);
    response.body
}

/// Starts the run, does its work, and waits for its end; also returns the graph while the worker had the task.
async fn finish_run(fixture: &ApiFixture) -> (String, Value) {
    let execution = fixture.execute(WRITER).await;
    let claimed = claim_command(fixture, "old-worker").await;
    let graph = get_ok(fixture, &format!("/api/executions/{execution}/graph")).await;
    let done = json!({"outcome": {"status": "ok", "result": {"made": 7}}});
    for (name, payload) in [
        ("step.started", json!({})),
        ("task.started", json!({})),
        ("task.done", done),
    ] {
        let mut event = legacy_event(&claimed, name, &payload);
        if name != "step.started" {
            event["task_label"] = json!("only");
        }
        let response = fixture.post("/api/events", &event).await;
        assert_eq!(response.status, StatusCode::OK, "{name}: {:?}", response.body);
    }
    let call_done = legacy_event(&claimed, "call.done", &json!({"result": {"made": 7}}));
    fixture.post("/api/events", &call_done).await;
    fixture.wait_for_end(&format!("/api/executions/{execution}")).await;
    (execution, graph)
}

async fn newest_seq(fixture: &ApiFixture, execution: &str) -> u64 {
    let run = get_ok(fixture, &format!("/api/executions/{execution}/status")).await;
    run["seq"].as_u64().unwrap()
}

/// The values of a section of the state, by key.
fn values(section: &Value) -> Value {
    let entries = section.as_array().unwrap().iter();
    let entries = entries.map(|entry| (entry["key"].as_str().unwrap().to_owned(), entry["value"].clone()));
    Value::Object(entries.collect())
}

/// How the steps of a replayed state ended: true, false, or not at all.
fn replayed_ends(replay: &Value, step: &str) -> Value {
    let is_active = |key: &String| key.starts_with(&format!("step:{step}:"));
    let runs = replay["state"]["runs"].as_object().unwrap();
    match runs.iter().find(|(key, _)| is_active(key)) {
        Some((_, run)) => match &run["boundary"] {
            Value::Null => Value::Null,
            boundary => json!(boundary["end"] != "failed"),
        },
        None => replay["state"]["steps"][step]["latest"]["ok"].clone(),
    }
}

fn shown_end(step: &Value) -> Value {
    match step["status"].as_str().unwrap() {
        "success" => json!(true),
        "error" => json!(false),
        _ => Value::Null,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_at_each_event_equals_its_replay() {
    let fixture = ApiFixture::open().await;
    let (execution, _) = finish_run(&fixture).await;
    let newest = newest_seq(&fixture, &execution).await;
    let mut different_neighbors = 0;
    let mut previous_ctx = json!({});
    for at in 1..=newest {
        let replay_path = format!("/api/replay/state?execution_id={execution}&as_of_seq={at}");
        let replay = get_ok(&fixture, &replay_path).await;
        let state = get_ok(&fixture, &format!("/api/executions/{execution}/state?at={at}")).await;
        assert_eq!((&state["seq"], &state["newest_seq"]), (&json!(at), &json!(newest)));
        assert_eq!(values(&state["ctx"]), replay["state"]["ctx"], "at {at}");
        let workload: Value = serde_json::from_str(replay["state"]["workload"].as_str().unwrap()).unwrap();
        assert_eq!(values(&state["workload"]), workload, "at {at}");
        assert_eq!(state["status"], replay["status"], "at {at}");
        for step in state["steps"].as_array().unwrap() {
            let name = step["step"].as_str().unwrap();
            assert_eq!(shown_end(step), replayed_ends(&replay, name), "{name} at {at}");
        }
        different_neighbors += u32::from(previous_ctx != replay["state"]["ctx"]);
        previous_ctx = replay["state"]["ctx"].clone();
    }
    assert!(different_neighbors >= 3, "the comparison can fail: states differ");
    let beyond = get_ok(
        &fixture,
        &format!("/api/executions/{execution}/state?at={}", newest + 9),
    )
    .await;
    assert_eq!(beyond["seq"], newest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_names_the_event_that_wrote_it() {
    let fixture = ApiFixture::open().await;
    let (execution, _) = finish_run(&fixture).await;
    let state = get_ok(&fixture, &format!("/api/executions/{execution}/state")).await;
    let log = get_ok(&fixture, &format!("/api/executions/{execution}/events?limit=1000")).await;
    let find = |seq: &Value| {
        log["events"]
            .as_array()
            .unwrap()
            .iter()
            .find(|event| event["seq"] == *seq)
            .cloned()
    };
    for (key, step) in [("count", "last"), ("name", "start"), ("pair", "middle")] {
        let entries = state["ctx"].as_array().unwrap();
        let writer = &entries.iter().find(|entry| entry["key"] == key).unwrap()["writer"];
        assert_eq!(
            (&writer["type"], &writer["step"]),
            (&json!("ctx.patched"), &json!(step))
        );
        let event = find(&writer["seq"]).unwrap();
        assert!(event["payload"]["patch"].get(key).is_some(), "{key}: {event}");
    }
    assert_eq!(state["workload"][0]["writer"]["type"], "playbook.execution.requested");
    assert_eq!(
        (&state["writers_since"], &state["is_complete"]),
        (&json!(0), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_states_are_compared_in_the_order_of_the_log() {
    let fixture = ApiFixture::open().await;
    let (execution, graph) = finish_run(&fixture).await;
    let middle = graph["seq"].as_u64().unwrap();
    let newest = newest_seq(&fixture, &execution).await;
    for (at, other) in [(newest, middle), (middle, newest)] {
        let path = format!("/api/executions/{execution}/state?at={at}&compare={other}");
        let comparison = get_ok(&fixture, &path).await["comparison"].clone();
        assert_eq!(comparison["seq"], other);
        let changes = comparison["ctx"].as_array().unwrap();
        assert_eq!(changes.len(), 1, "{comparison}");
        assert_eq!(
            (&changes[0]["key"], &changes[0]["kind"]),
            (&json!("count"), &json!("changed"))
        );
        assert_eq!(
            (&changes[0]["before"]["value"], &changes[0]["after"]["value"]),
            (&json!(2), &json!(3))
        );
        let steps = comparison["steps"].as_array().unwrap().iter();
        let steps: Vec<_> = steps.map(|step| step["step"].as_str().unwrap()).collect();
        assert_eq!(steps, ["work", "last"]);
    }
    let start = format!("/api/executions/{execution}/state?at={newest}&compare=1");
    let comparison = get_ok(&fixture, &start).await["comparison"].clone();
    assert!(
        comparison["ctx"]
            .as_array()
            .unwrap()
            .iter()
            .all(|change| change["kind"] == "added")
    );
    assert_eq!(
        get_ok(&fixture, &format!("/api/executions/{execution}/state")).await["comparison"],
        Value::Null
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_value_is_cut_and_its_size_given() {
    let fixture = ApiFixture::open().await;
    let playbook = WRITER.replace("side: right", &format!("side: {}", "x".repeat(20_000)));
    let playbook = playbook.replace("ctx.name: \"{{ workload.side }}\"", "ctx.name: short");
    let playbook = playbook.replace("{{ [1, workload.side] }}", "pair");
    let execution = fixture.execute(&playbook).await;
    let state = get_ok(&fixture, &format!("/api/executions/{execution}/state")).await;
    let entries = state["workload"].as_array().unwrap();
    let side = entries.iter().find(|entry| entry["key"] == "side").unwrap();
    assert_eq!((&side["is_preview"], &side["bytes"]), (&json!(true), &json!(20_002)));
    assert_eq!(side["value"].as_str().unwrap().len(), 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_replayed_state_is_checked_against_the_live_one() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(WRITER).await;
    let path = format!("/api/executions/{execution}/state/check");
    let check = get_ok(&fixture, &path).await;
    assert_eq!((&check["source"], &check["is_equal"]), (&json!("memory"), &json!(true)));
    assert_eq!(check["replayed"], check["live"]);
    let replay_path = format!("/api/replay/state?execution_id={execution}&as_of_seq={}", check["seq"]);
    assert_eq!(check["replayed"], get_ok(&fixture, &replay_path).await["checksum"]);
    let earlier = check["seq"].as_u64().unwrap() - 1;
    let replay_path = format!("/api/replay/state?execution_id={execution}&as_of_seq={earlier}");
    assert_ne!(
        check["live"],
        get_ok(&fixture, &replay_path).await["checksum"],
        "the check can fail"
    );
    // The worker of another server does not claim the work of the first run.
    let fixture = ApiFixture::open().await;
    let (ended, _) = finish_run(&fixture).await;
    let check = get_ok(&fixture, &format!("/api/executions/{ended}/state/check")).await;
    assert_eq!(check["is_equal"], true, "{check}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_at_an_event_is_the_graph_that_was_shown_then() {
    let fixture = ApiFixture::open().await;
    let (execution, graph) = finish_run(&fixture).await;
    let path = format!("/api/executions/{execution}/graph");
    let now = get_ok(&fixture, &path).await;
    let then = get_ok(&fixture, &format!("{path}?as_of_seq={}", graph["seq"])).await;
    assert_eq!(then, graph);
    assert_ne!(now["steps"], graph["steps"], "the comparison can fail");
    assert_eq!(get_ok(&fixture, &format!("{path}?as_of_seq={}", now["seq"])).await, now);
    let rules = &now["steps"][2]["tasks"][0]["rules"];
    assert_eq!(
        (&rules[0]["action"], &rules[0]["line"]),
        (&json!("retry"), &json!(20)),
        "{rules}"
    );
    assert_eq!(
        (&rules[1]["action"], &rules[1]["when"]),
        (&json!("continue"), &Value::Null),
        "{rules}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_filtered_by_type_step_task_and_position() {
    let fixture = ApiFixture::open().await;
    let (execution, _) = finish_run(&fixture).await;
    let path = format!("/api/executions/{execution}/events");
    let all = get_ok(&fixture, &format!("{path}?limit=1000")).await;
    let all = all["events"].as_array().unwrap();
    let find = async |query: &str, expected: &dyn Fn(&Value) -> bool| {
        let page = get_ok(&fixture, &format!("{path}?limit=1000&{query}")).await;
        let expected: Vec<&Value> = all.iter().filter(|event| expected(event)).collect();
        assert!(
            !expected.is_empty() && expected.len() < all.len(),
            "{query} selects a part"
        );
        assert_eq!(
            page["events"].as_array().unwrap().iter().collect::<Vec<_>>(),
            expected,
            "{query}"
        );
        assert_eq!(page["next_after_seq"], Value::Null, "{query}");
    };
    find("type=step.done,ctx.patched", &|event| {
        event["event_type"] == "step.done" || event["event_type"] == "ctx.patched"
    })
    .await;
    find("step=middle", &|event| event["step"] == "middle").await;
    find("step=work&task=only", &|event| event["task_label"] == "only").await;
    find("until_seq=5", &|event| event["seq"].as_u64().unwrap() <= 5).await;
    find("after_seq=3&until_seq=9&step=start", &|event| {
        (4..=9).contains(&event["seq"].as_u64().unwrap()) && event["step"] == "start"
    })
    .await;
    let first = get_ok(&fixture, &format!("{path}?type=step.done&limit=1")).await;
    let remaining = get_ok(
        &fixture,
        &format!("{path}?type=step.done&after_seq={}", first["next_after_seq"]),
    )
    .await;
    assert_eq!(remaining["events"].as_array().unwrap().len(), 3);
    for query in ["iteration=4", "type=step.lost", "type=step.done,lost"] {
        let refused = fixture.get(&format!("{path}?{query}")).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_listed_up_to_an_event() {
    let fixture = ApiFixture::open().await;
    let (execution, graph) = finish_run(&fixture).await;
    let path = format!("/api/result/{execution}/list?step=work");
    let all = get_ok(&fixture, &path).await;
    assert_eq!(all["results"].as_array().unwrap().len(), 1);
    let earlier = get_ok(&fixture, &format!("{path}&until_seq={}", graph["seq"])).await;
    assert_eq!(earlier["results"], json!([]));
    let until = &all["results"][0]["seq"];
    assert_eq!(
        get_ok(&fixture, &format!("{path}&until_seq={until}")).await["results"],
        all["results"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_read_from_its_end_and_up_to_a_time() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(WRITER).await;
    let texts = ["one", "ERROR two", "three", "ERROR four", "five"];
    let lines = (1..).zip(texts).map(|(second, text)| {
        json!({"time": format!("2001-01-01T00:00:0{second}Z"), "execution": execution, "step": "work", "run": 1,
            "task": "only", "visit": 1, "attempt": 1, "stream": "stdout", "text": text})
    });
    let lines = json!({"lines": lines.collect::<Vec<_>>()});
    let stored = fixture.post("/api/worker/logs", &lines).await;
    assert_eq!((stored.status, &stored.body["taken"]), (StatusCode::OK, &json!(5)));
    let path = format!("/api/executions/{execution}/logs");
    let read = async |query: &str| {
        let page = get_ok(&fixture, &format!("{path}?{query}")).await;
        let lines = page["lines"].as_array().unwrap().iter();
        let texts: Vec<String> = lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect();
        (texts, page)
    };
    let (tail, page) = read("tail=2").await;
    assert_eq!(tail, texts[3..]);
    assert_eq!(page["has_earlier"], true);
    let (before, page) = read(&format!("before={}&limit=10", page["lines"][0]["position"])).await;
    assert_eq!(before, texts[..3]);
    assert_eq!(page["has_earlier"], false);
    let (first_error, page) = read("level=error&limit=1").await;
    assert_eq!(first_error, ["ERROR two"]);
    let (after, _) = read(&format!("after={}", page["lines"][0]["position"])).await;
    assert_eq!(after, texts[2..]);
    assert_eq!(read("until_time=2001-01-01T00:00:02Z").await.0, texts[..2]);
    let errors = read("tail=9&until_time=2001-01-01T00:00:03Z&level=error").await.0;
    assert_eq!(errors, ["ERROR two"]);
    for query in [
        "tail=2&after=1",
        "before=1&after=1",
        "tail=0",
        "tail=2&limit=2",
        "tail=10001",
    ] {
        let refused = fixture.get(&format!("{path}?{query}")).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
    }
}
