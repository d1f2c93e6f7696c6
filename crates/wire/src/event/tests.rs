//! Both forms of IDs, every alias, and round trips.

use model::event::EmptyPayload;
use model::id::Seq;
use model::outcome::Outcome;
use serde_json::json;

use super::*;

fn parse_event(value: &Value) -> Result<WireEvent, serde_json::Error> {
    serde_json::from_str(&value.to_string())
}

fn minimal_event() -> Value {
    json!({"execution_id": "321079436235509760", "step": "start", "event_type": "step.enter"})
}

fn minimal_event_with(name: &str, value: Value) -> Value {
    let mut event = minimal_event();
    event[name] = value;
    event
}

#[test]
fn an_execution_id_may_be_an_integer() {
    let event = parse_event(&minimal_event_with("execution_id", json!(321_079_436_235_509_760_i64))).unwrap();
    assert_eq!(event.execution_id, Some(ExecutionId(321_079_436_235_509_760)));
}

#[test]
fn an_execution_id_may_be_a_string() {
    let event = parse_event(&minimal_event()).unwrap();
    assert_eq!(event.execution_id, Some(ExecutionId(321_079_436_235_509_760)));
}

#[test]
fn an_event_id_may_be_an_integer_or_a_string() {
    for id in [json!(7), json!("7")] {
        let event = parse_event(&minimal_event_with("event_id", id)).unwrap();
        assert_eq!(event.event_id, Some(EventId(7)));
    }
}

#[test]
fn a_null_event_id_is_none() {
    assert_eq!(
        parse_event(&minimal_event_with("event_id", json!(null)))
            .unwrap()
            .event_id,
        None
    );
    assert_eq!(parse_event(&minimal_event()).unwrap().event_id, None);
}

#[test]
fn a_garbage_id_is_refused() {
    for garbage in [
        json!([1]),
        json!({"id": 1}),
        json!("abc"),
        json!(1.5),
        json!(true),
        json!(null),
    ] {
        assert!(
            parse_event(&minimal_event_with("execution_id", garbage.clone())).is_err(),
            "{garbage}"
        );
    }
    for garbage in [json!([1]), json!("x"), json!(9_223_372_036_854_775_808_u64)] {
        assert!(
            parse_event(&minimal_event_with("event_id", garbage.clone())).is_err(),
            "{garbage}"
        );
    }
}

#[test]
fn ids_leave_as_strings() {
    let mut event = parse_event(&minimal_event_with("event_id", json!(8))).unwrap();
    event.event_ids = Some(vec![EventId(9)]);
    let out = serde_json::to_value(&event).unwrap();
    assert_eq!(out["execution_id"], "321079436235509760");
    assert_eq!(out["event_id"], "8");
    assert_eq!(out["event_ids"], json!(["9"]));
}

#[test]
fn every_alias_of_a_field_is_read() {
    let event = parse_event(&json!({
        "execution_id": 1, "node_name": "fetch:task_sequence", "name": "call.done",
        "context": {"a": 1}, "ts": "2026-01-02T03:04:05Z", "status": "COMPLETED"
    }))
    .unwrap();
    assert_eq!(event.step(), Some(Name::from("fetch")));
    assert_eq!(event.kind().unwrap(), EventKind::StepDone);
    assert_eq!(event.payload.as_ref().unwrap().to_value(), json!({"a": 1}));
    assert_eq!(event.created_at, Time::parse("2026-01-02T03:04:05Z"));
    assert_eq!(event.status, Some(WireStatus::Success));
    for (alias, status) in [
        ("STARTED", WireStatus::InProgress),
        ("RUNNING", WireStatus::InProgress),
        ("FAILED", WireStatus::Error),
        ("in_progress", WireStatus::InProgress),
    ] {
        assert_eq!(
            parse_event(&minimal_event_with("status", json!(alias))).unwrap().status,
            Some(status)
        );
    }
    assert!(parse_event(&minimal_event_with("status", json!("DANCING"))).is_err());
}

#[test]
fn an_event_sent_and_read_is_the_same() {
    let outcome = RawJson::from_serializable(&Outcome::ok(json!({"rows": 3})));
    let body = EventBody::read(
        EventKind::TaskDone,
        &json!({"outcome": outcome.to_value(), "matched_rule_index": 0, "do": "continue"}).to_string(),
    )
    .unwrap();
    let bodies = [
        (body, Some("load"), 3),
        (EventBody::StepStarted(EmptyPayload {}), None, 0),
    ];
    for (body, task, visit) in bodies {
        let event = Event {
            event_id: None,
            execution_id: ExecutionId(5),
            seq: Seq(0),
            cause_seq: None,
            timestamp: Time(1_000_000),
            recorded_at: Time(2_000_000),
            source: EventSource::Worker,
            location: EventLocation {
                step: Some("a:run:b".into()),
                run: 2,
                iteration: Some(4),
                task: task.map(Name::from),
                visit,
                attempt: visit,
                page: Some(9),
            },
            duration_ms: Some(12),
            worker_id: Some(WorkerId("w".into())),
            trace_id: None,
            meta: Some(RawJson::from_serializable(&json!({"k": 1}))),
            body,
        };
        let sent = serde_json::to_string(&WireEvent::from_event(&event)).unwrap();
        let read: WireEvent = serde_json::from_str(&sent).unwrap();
        assert_eq!(read.to_event(Time(2_000_000)).unwrap(), event);
    }
}

#[test]
fn what_is_left_out_follows_from_the_type_and_the_clock() {
    let now = Time(77);
    let event = parse_event(&minimal_event()).unwrap().to_event(now).unwrap();
    assert_eq!(event.timestamp, now);
    assert_eq!(event.status(), EventStatus::InProgress);
    assert_eq!(event.event_id, None);
    assert_eq!(event.source, EventSource::Worker);
}

#[test]
fn a_result_elsewhere_needs_its_address() {
    let refused = |value: Value| parse_event(&value).unwrap().kind().unwrap_err().to_string();
    assert!(refused(minimal_event_with("result_kind", json!("ref"))).contains("result_uri"));
    assert!(refused(minimal_event_with("result_kind", json!("refs"))).contains("event_ids"));
    assert!(parse_event(&minimal_event_with("result_kind", json!("somewhere"))).is_err());
    let mut event = minimal_event_with("result_kind", json!("ref"));
    event["result_uri"] = json!("noetl://execution/1/step/a");
    assert!(parse_event(&event).unwrap().kind().is_ok());
}

#[test]
fn an_unknown_type_is_named() {
    let event = parse_event(&minimal_event_with("event_type", json!("step.dance"))).unwrap();
    assert!(event.kind().unwrap_err().to_string().contains("step.dance"));
}

#[test]
fn flags_are_stored_in_addition_to_the_meta() {
    let mut event = minimal_event_with("meta", json!({"command_id": "1.2"}));
    event["actionable"] = json!(false);
    let meta = parse_event(&event).unwrap().stored_meta().unwrap().to_value();
    assert_eq!(meta, json!({"command_id": "1.2", "actionable": false}));
}
