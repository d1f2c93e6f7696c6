//! The JSON of events contains all keys and values of the four examples in the event specification.

#![allow(clippy::unwrap_used)]

use model::event::{
    AttemptEnded, Event, EventBody, EventLocation, EventSource, MatchedArc, NextEvaluated, PolicyAction,
    PolicyEvaluated, ResultStored, SelectedArc,
};
use model::id::{EventId, ExecutionId, Seq};
use model::playbook::{Backoff, Directive, RouteMode};
use model::raw::RawJson;
use model::result_ref::{BodyMeta, BodyScope, RefKind, ResultRef};
use model::time::Time;
use serde_json::{Map, Value, json};

const RUN: ExecutionId = ExecutionId(612_489_550_732_353_536);

fn event(time: &str, source: EventSource, location: EventLocation, body: EventBody) -> Event {
    let id = EventId(612_489_550_732_353_601);
    Event {
        seq: Seq(41),
        cause_seq: Some(Seq(40)),
        source,
        ..Event::new(id, RUN, Time::parse(time).unwrap(), location, body)
    }
}

fn step_location() -> EventLocation {
    EventLocation {
        step: Some("fetch_all_endpoints".into()),
        run: 7,
        ..EventLocation::default()
    }
}

fn task_location(attempt: u32) -> EventLocation {
    EventLocation {
        task: Some("fetch_page".into()),
        visit: 1,
        attempt,
        ..step_location()
    }
}

/// Asserts that the shown event contains every key and value of the example; it may have more.
fn assert_contains(actual: &Value, example: &Value, path: &str) {
    match (actual, example) {
        (Value::Object(actual), Value::Object(example)) => {
            for (key, value) in example {
                let actual_value = actual.get(key);
                let actual_value = actual_value.unwrap_or_else(|| panic!("{path}.{key} is missing"));
                assert_contains(actual_value, value, &format!("{path}.{key}"));
            }
        }
        (Value::Array(actual), Value::Array(example)) => {
            assert_eq!(actual.len(), example.len(), "{path}");
            for (index, value) in example.iter().enumerate() {
                assert_contains(&actual[index], value, &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(actual, example, "{path}"),
    }
}

fn assert_golden(event: &Event, example: &str) {
    let example = serde_json::from_str(example).unwrap();
    assert_contains(&event.to_json(), &example, "event");
}

#[test]
fn a_failed_attempt_is_shown_as_in_the_specification() {
    let outcome = json!({
        "status": "error",
        "error": {"kind": "http", "retryable": true},
        "meta": {"duration_ms": 312, "http_status": 503},
    });
    let body = EventBody::AttemptFailed(AttemptEnded {
        outcome: RawJson::from_serializable(&outcome),
        result_ref: None,
    });
    let event = event("2026-02-05T23:11:22Z", EventSource::Worker, task_location(2), body);
    assert_golden(&event, include_str!("golden/task_attempt_failed.json"));
}

#[test]
fn a_retry_decision_is_shown_as_in_the_specification() {
    let body = EventBody::PolicyEvaluated(Box::new(PolicyEvaluated {
        matched_rule_index: Some(0),
        action: PolicyAction {
            attempts: Some(10),
            backoff: Some(Backoff::Exponential),
            delay: Some(2.0),
            ..PolicyAction::from_directive(Directive::Retry)
        },
        set_iter: None,
        set_ctx: None,
        set: None,
    }));
    let event = event("2026-02-05T23:11:23Z", EventSource::Worker, task_location(2), body);
    assert_golden(&event, include_str!("golden/policy_task_evaluated.json"));
}

#[test]
fn a_stored_result_is_shown_as_in_the_specification() {
    let extracted = json!({"has_more": true, "page": 1});
    let result_ref = ResultRef {
        kind: RefKind::Result,
        uri: format!("noetl://execution/{RUN}/page_001.json.gz"),
        store: "nats_object".to_owned(),
        scope: BodyScope::Execution,
        expires_at: None,
        meta: BodyMeta {
            content_type: "application/json".to_owned(),
            bytes: 52_480,
            sha256: "0f".to_owned(),
            compression: None,
            location: Map::new(),
        },
        extracted: extracted.as_object().unwrap().clone(),
        keys: Vec::new(),
        preview: None,
    };
    let body = EventBody::ResultStored(ResultStored {
        result_ref: Box::new(result_ref),
    });
    let event = event("2026-02-05T23:11:30Z", EventSource::Worker, task_location(3), body);
    assert_golden(&event, include_str!("golden/result_stored.json"));
}

#[test]
fn a_routing_decision_is_shown_as_in_the_specification() {
    let body = EventBody::NextEvaluated(Box::new(NextEvaluated {
        mode: RouteMode::Exclusive,
        matched: vec![MatchedArc {
            step: "validate_results".into(),
            when: Some("event.name == 'loop.done'".to_owned()),
        }],
        selected: vec![SelectedArc {
            step: "validate_results".into(),
            args: Some(RawJson::from_serializable(&json!({"execution_id": RUN}))),
        }],
        guards: vec![Some(true)],
        held: false,
        error: None,
    }));
    let event = event("2026-02-05T23:12:10Z", EventSource::Server, step_location(), body);
    assert_golden(&event, include_str!("golden/next_evaluated.json"));
}

#[test]
fn absent_fields_are_left_out() {
    let body = EventBody::StepStarted(model::event::EmptyPayload {});
    let event_json = event("2026-02-05T23:12:10Z", EventSource::Worker, step_location(), body).to_json();
    for absent in ["task_label", "iteration", "attempt", "page", "meta"] {
        assert!(event_json.get(absent).is_none(), "{absent}");
    }
    assert_eq!(event_json["step_run_id"], "step:fetch_all_endpoints:run:7");
    let trace = event_json["trace_id"]
        .as_str()
        .expect("a run without a given trace ID has its own");
    assert_eq!(trace.len(), 32, "{trace}");
}
