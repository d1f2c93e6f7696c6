//! What is packed comes back, and stays small.

use proptest::prelude::*;
use serde_json::json;

use super::{EventHead, pack, unpack, unpack_selected};
use crate::command::CommandWork;
use crate::event::{
    CommandClaimed, CommandIssued, CtxPatched, EmptyPayload, Event, EventBody, EventLocation, EventSource,
    IterationDone, NextEvaluated, SelectedArc, SignalReceived, StepDone, StepScheduled, TaskEnded, TaskStarted,
};
use crate::id::{EventId, ExecutionId, LeaseEpoch, Name, Seq, TokenId, WorkerId};
use crate::playbook::{Directive, RouteMode};
use crate::raw::RawJson;
use crate::time::Time;

const RUN: ExecutionId = ExecutionId(612_489_550_732_353_536);
const NOW: i64 = 1_800_000_000_123_456;

fn task_ended() -> EventBody {
    let outcome = RawJson::from_serializable(&json!({"status": "ok", "result": null}));
    EventBody::TaskDone(Box::new(TaskEnded::new(outcome, Directive::Continue)))
}

fn event(seq: u64, source: EventSource, location: EventLocation, body: EventBody) -> Event {
    let offset = i64::try_from(seq).unwrap();
    let id = EventId(RUN.0 + 100 + offset);
    Event {
        seq: Seq(seq),
        cause_seq: Some(Seq(seq - 1)),
        timestamp: Time(NOW + offset * 37),
        source,
        worker_id: (source == EventSource::Worker).then(|| WorkerId("embedded-4711-1".into())),
        ..Event::new(id, RUN, Time(NOW + 400), location, body)
    }
}

fn location(step: &str, task: Option<&str>, iteration: Option<u64>) -> EventLocation {
    EventLocation {
        step: Some(step.into()),
        run: 1,
        iteration,
        task: task.map(Name::from),
        visit: u32::from(task.is_some()),
        attempt: u32::from(task.is_some()),
        page: None,
    }
}

fn plain_step() -> Vec<Event> {
    use EventSource::{Server, Worker};
    let step = || location("transform_orders", None, None);
    let task = || location("transform_orders", Some("transform"), None);
    let token = TokenId { seq: Seq(12), arc: 0 };
    let scheduled = StepScheduled {
        tokens: vec![token],
        args: None,
        args_from: None,
        is_final: false,
    };
    let issued = CommandIssued {
        work: CommandWork::Pipeline,
        dispatch: 1,
        pool: "default".into(),
    };
    let claimed = CommandClaimed {
        command: Seq(14),
        worker: WorkerId("embedded-4711-1".into()),
        lease_epoch: LeaseEpoch(1),
    };
    let next = NextEvaluated {
        mode: RouteMode::Exclusive,
        matched: Vec::new(),
        selected: vec![SelectedArc {
            step: "load_orders".into(),
            args: None,
        }],
        guards: vec![Some(true)],
        held: false,
        error: None,
    };
    let started = TaskStarted::default();
    vec![
        event(13, Server, step(), EventBody::StepScheduled(Box::new(scheduled))),
        event(14, Server, step(), EventBody::CommandIssued(issued)),
        event(15, Server, step(), EventBody::CommandClaimed(claimed)),
        event(16, Worker, step(), EventBody::StepStarted(EmptyPayload {})),
        event(17, Worker, task(), EventBody::TaskStarted(started)),
        event(18, Worker, task(), task_ended()),
        event(19, Worker, step(), EventBody::StepDone(StepDone::default())),
        event(20, Server, step(), EventBody::NextEvaluated(Box::new(next))),
    ]
}

fn iteration() -> Vec<Event> {
    let loop_at = |task| location("transform_orders", task, Some(4321));
    let started = TaskStarted::default();
    let worker = |seq, location, body| event(seq, EventSource::Worker, location, body);
    vec![
        worker(5_000, loop_at(None), EventBody::IterationStarted(EmptyPayload {})),
        worker(5_001, loop_at(Some("fetch")), EventBody::TaskStarted(started)),
        worker(5_002, loop_at(Some("fetch")), task_ended()),
        worker(
            5_003,
            loop_at(None),
            EventBody::IterationDone(IterationDone { set_ctx: None }),
        ),
    ]
}

#[test]
fn the_events_of_a_plain_step_stay_within_their_budget_and_round_trip() {
    let events = plain_step();
    let packed = pack(&events);
    let bytes = packed.types.len() + packed.body.len();
    assert!(bytes <= 1_100, "{bytes} bytes: {}", packed.body);
    assert_eq!(unpack(RUN, Seq(13), &packed.body).unwrap(), events);
}

#[test]
fn an_iteration_stays_within_its_budget_among_others() {
    let mut events: Vec<Event> = Vec::new();
    for _ in 0..50 {
        events.extend(iteration());
    }
    for (index, event) in events.iter_mut().enumerate() {
        event.seq = Seq(5_000 + index as u64);
        event.cause_seq = Some(Seq(4_999 + index as u64));
        event.event_id = EventId(RUN.0 + i64::try_from(index).unwrap());
    }
    let packed = pack(&events);
    let each = (packed.types.len() + packed.body.len()) / 50;
    assert!(each <= 350, "{each} bytes: {}", pack(&iteration()).body);
    assert_eq!(unpack(RUN, Seq(5_000), &packed.body).unwrap(), events);
}

#[test]
fn a_bit_that_flips_anywhere_in_a_row_is_noticed() {
    let events = plain_step();
    let packed = pack(&events).body;
    for index in 0..packed.len() {
        for bit in 0..8 {
            let mut bytes = packed.clone().into_bytes();
            bytes[index] ^= 1 << bit;
            // A store refuses text that is not UTF-8 before it comes here.
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            if let Ok(unpacked) = unpack(RUN, Seq(13), &text) {
                panic!("bit {bit} of byte {index} went unnoticed: {unpacked:?}");
            }
        }
    }
}

#[test]
fn a_row_in_the_place_of_another_is_noticed() {
    let packed = pack(&plain_step()).body;
    for (run, first) in [(RUN, Seq(14)), (ExecutionId(RUN.0 + 1), Seq(13))] {
        let error = unpack(run, first, &packed).unwrap_err();
        assert_eq!(error.to_string(), "a log row does not match its checksum");
    }
}

#[test]
fn a_row_without_a_checksum_is_read_as_before() {
    let body = r#"{"b":1,"t":0,"r":0,"e":[{"k":"step.done","m":{"a":1,"y":2}}]}"#;
    assert_eq!(unpack(RUN, Seq(1), body).unwrap().len(), 1);
}

#[test]
fn types_name_each_kind_once() {
    let packed = pack(&[iteration(), iteration()].concat());
    assert_eq!(
        packed.types,
        ",loop.iteration.started,task.started,task.done,loop.iteration.done,"
    );
}

#[test]
fn an_unknown_kind_is_named() {
    let body = r#"{"b":1,"t":0,"r":0,"e":[{"k":"step.lost"}]}"#;
    let error = unpack(RUN, Seq(1), body).unwrap_err();
    assert_eq!(error.to_string(), "unknown event type `step.lost`");
}

#[test]
fn the_error_of_an_invalid_payload_names_the_event() {
    let body = r#"{"b":1,"t":0,"r":0,"e":[{"k":"step.done"},{"k":"timer.fired"}]}"#;
    let error = unpack(RUN, Seq(7), body).unwrap_err();
    assert_eq!(error.to_string(), "the payload of event 8, `timer.fired`, is malformed");
}

prop_compose! {
    fn any_location()(
        step in proptest::option::of("[a-z\"\\\\é\n]{1,6}"),
        run in 0..4_u32,
        iteration in proptest::option::of(any::<u64>()),
        task in proptest::option::of("[a-zß]{1,4}"),
        visit in 0..3_u32,
        attempt in 0..3_u32,
        page in proptest::option::of(any::<i64>()),
    ) -> EventLocation {
        EventLocation { step: step.map(Name::from), run, iteration, task: task.map(Name::from), visit, attempt, page }
    }
}

fn any_body() -> impl Strategy<Value = EventBody> {
    prop_oneof![
        Just(EventBody::StepDone(StepDone::default())),
        Just(task_ended()),
        "\\PC{0,20}".prop_map(|text| EventBody::CtxPatched(CtxPatched {
            patch: RawJson::from_serializable(&json!({"text": text, "nested": [1, {"e": "]}"}]})),
        })),
        proptest::option::of("[a-z]{0,5}").prop_map(|text| EventBody::SignalReceived(SignalReceived {
            name: "$child".into(),
            payload: text.map(|text| RawJson::from_serializable(&text)),
            child: None,
        })),
    ]
}

prop_compose! {
    fn any_event()(
        id in any::<i64>(),
        cause in proptest::option::of(1..40_u64),
        timestamp in -9_000_000_000_i64..9_000_000_000_000_000,
        recorded in 0..9_000_000_000_000_000_i64,
        is_worker in any::<bool>(),
        location in any_location(),
        duration_ms in proptest::option::of(any::<u64>()),
        worker in proptest::option::of("[a-z]{1,2}"),
        has_meta in any::<bool>(),
        body in any_body(),
    ) -> Event {
        Event {
            event_id: EventId(id),
            execution_id: RUN,
            seq: Seq(0),
            cause_seq: cause.map(Seq),
            timestamp: Time(timestamp),
            recorded_at: Time(recorded),
            source: if is_worker { EventSource::Worker } else { EventSource::Server },
            location,
            duration_ms,
            worker_id: worker.map(|worker| WorkerId(worker.into())),
            trace_id: None,
            meta: has_meta.then(|| RawJson::from_serializable(&json!({"command_id": "1.2"}))),
            body,
        }
    }
}

proptest! {
    #[test]
    fn packed_events_round_trip(
        mut events in proptest::collection::vec(any_event(), 1..12),
        first in 1..50_u64,
    ) {
        for (index, event) in events.iter_mut().enumerate() {
            event.seq = Seq(first + index as u64);
        }
        let packed = pack(&events);
        let back = unpack(RUN, Seq(first), &packed.body).unwrap();
        prop_assert_eq!(&back, &events);
        let mut heads = events.iter().map(EventHead::from_event);
        let every_second = |head: EventHead<'_>| {
            assert_eq!(Some(head), heads.next());
            head.seq.0.is_multiple_of(2)
        };
        let some = unpack_selected(RUN, Seq(first), &packed.body, every_second).unwrap();
        prop_assert_eq!(some.total, events.len());
        events.retain(|event| event.seq.0.is_multiple_of(2));
        prop_assert_eq!(some.events, events);
    }
}

#[test]
fn payloads_of_events_that_are_not_wanted_are_not_read() {
    let damaged = r#"{"k":"task.done","s":"fetch","n":1,"x":7,"p":{"outcome":0}}"#;
    let complete = r#"{"k":"loop.iteration.started","s":"fetch","n":1,"x":8}"#;
    let body = format!(r#"{{"b":1,"t":0,"r":0,"e":[{damaged},{complete}]}}"#);
    assert!(unpack(RUN, Seq(1), &body).is_err());
    let is_selected = |head: EventHead<'_>| head.iteration == Some(8);
    let some = unpack_selected(RUN, Seq(1), &body, is_selected).unwrap();
    let seqs: Vec<Seq> = some.events.iter().map(|event| event.seq).collect();
    assert_eq!((seqs, some.total), (vec![Seq(2)], 2));
}
