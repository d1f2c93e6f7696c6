//! Tests of the view with hand-built logs.

use model::event::{
    EmptyPayload, EndStatus, Event, EventBody, EventLocation, ExecutionRetried, IterationDone, LoopDone, LoopStats,
    PolicyAction, PolicyEvaluated, StepDone,
};
use model::id::{ExecutionId, Name, StepRunId};
use model::outcome::Outcome;
use model::playbook::Directive;
use model::status::RunStatus;
use serde_json::json;
use server::LoopOutline;
use store::LoopProgress;

use crate::render::report::{self, RunName};
use crate::view::testing::{
    EventLogFixture, failure_payload, loop_started, step_location, task_ended, task_error, task_location,
};
use crate::view::{RunView, StepStatus};

fn iteration_location(index: u64) -> EventLocation {
    step_location("each").with_iteration(Some(index))
}

fn iteration_done() -> EventBody {
    EventBody::IterationDone(IterationDone { set_ctx: None })
}

fn retry_policy(attempts: u32) -> EventBody {
    EventBody::PolicyEvaluated(Box::new(PolicyEvaluated {
        matched_rule_index: Some(0),
        action: PolicyAction {
            attempts: Some(attempts),
            ..PolicyAction::from_directive(Directive::Retry)
        },
        set_iter: None,
        set_ctx: None,
        set: None,
    }))
}

#[test]
fn a_plain_run_shows_each_step_with_its_time_and_last_outcome() {
    let mut log = EventLogFixture::started();
    log.push_step("greet", EventBody::StepStarted(EmptyPayload {}))
        .push(
            task_location("greet", None, "a", 1),
            EventBody::TaskDone(Box::new(task_ended(&Outcome::ok(json!(1))))),
        )
        .push(
            task_location("greet", None, "b", 1),
            EventBody::TaskDone(Box::new(task_ended(&Outcome::ok(json!(2))))),
        )
        .push_step("greet", EventBody::StepDone(StepDone::default()))
        .finish(EndStatus::Success, None);
    let view = RunView::from_events(&log.events);
    assert_eq!(view.status, RunStatus::Completed);
    assert_eq!((view.events, view.last_seq.0), (6, 6));
    assert_eq!(view.elapsed_ms(view.last_event_at), 5);
    let [greet] = &view.steps[..] else {
        panic!("expected one step")
    };
    assert_eq!(greet.status, StepStatus::Done);
    assert_eq!(greet.elapsed_ms(view.last_event_at), 3);
    assert_eq!(greet.outcome.as_ref().unwrap().to_value()["result"], json!(2));
    assert!(view.active_steps().next().is_none());
}

#[test]
fn a_loop_counts_ended_failed_and_retrying_iterations() {
    let mut log = EventLogFixture::started();
    log.push_step("each", loop_started(4));
    for index in 0..4 {
        log.push(iteration_location(index), EventBody::IterationStarted(EmptyPayload {}));
    }
    let broken = task_error("BROKEN", "each");
    log.push(iteration_location(0), iteration_done())
        .push(task_location("each", Some(1), "save", 1), retry_policy(5))
        .push(
            task_location("each", Some(2), "save", 3),
            EventBody::TaskFailed(Box::new(task_ended(&Outcome::error(broken.clone())))),
        )
        .push(
            iteration_location(2),
            EventBody::IterationFailed(Box::new(failure_payload(&broken))),
        );
    let view = RunView::from_events(&log.events);
    let step = view.active_steps().next().unwrap();
    let loop_view = step.loop_view.as_ref().unwrap();
    assert_eq!(
        (loop_view.total, loop_view.succeeded, loop_view.failed.len()),
        (4, 1, 1)
    );
    assert_eq!(loop_view.in_flight.iter().copied().collect::<Vec<_>>(), [1, 3]);
    assert_eq!((step.retrying_count(), step.retries), (1, 1));
    assert!(loop_view.p95_ms().is_some());
    let (index, failure) = step.failure().unwrap();
    assert_eq!((index, failure.attempt), (Some(2), 3));
    assert_eq!(failure.task, Some(Name::from("save")));
}

#[test]
fn an_outline_gives_the_view_that_the_whole_log_gives() {
    let mut log = EventLogFixture::started();
    log.push_step("each", loop_started(4));
    let broken = task_error("BROKEN", "each");
    for index in 0..3 {
        log.push(iteration_location(index), EventBody::IterationStarted(EmptyPayload {}));
    }
    log.push(iteration_location(0), iteration_done())
        .push(task_location("each", Some(2), "save", 1), retry_policy(5))
        .push(
            task_location("each", Some(2), "save", 2),
            EventBody::TaskFailed(Box::new(task_ended(&Outcome::error(broken.clone())))),
        )
        .push(
            iteration_location(2),
            EventBody::IterationFailed(Box::new(failure_payload(&broken))),
        )
        .push(iteration_location(1), iteration_done())
        .fail_run("each", broken);
    let full_view = RunView::from_events(&log.events);
    let is_plain = |event: &&Event| event.location.iteration.is_none();
    let mut view = RunView::from_events(log.events.iter().filter(is_plain));
    let of_failed = |event: &&Event| event.location.iteration == Some(2) && event.location.task.is_some();
    let ends = log
        .events
        .iter()
        .filter(|event| of_failed(event) || matches!(event.body, EventBody::IterationFailed(_)));
    let each = LoopOutline {
        progress: LoopProgress {
            run: StepRunId {
                step: "each".into(),
                run: 1,
            },
            succeeded: 2,
            failed: 1,
            retries: 1,
        },
        in_flight: 0,
        events: ends.cloned().collect(),
    };
    view.complete_outline(&[each], full_view.last_seq);
    let name = RunName {
        id: ExecutionId(7),
        name: "demo".to_owned(),
    };
    let report_of = |view: &RunView| report::run_report(view, &name, None, full_view.last_event_at);
    assert_eq!(report_of(&view), report_of(&full_view));
}

#[test]
fn the_end_of_a_loop_clears_what_was_in_flight() {
    let mut log = EventLogFixture::started();
    let stats = LoopStats {
        total: 1,
        succeeded: 1,
        failed: 0,
    };
    log.push_step("each", loop_started(1))
        .push(iteration_location(0), EventBody::IterationStarted(EmptyPayload {}))
        .push(iteration_location(0), iteration_done())
        .push_step(
            "each",
            EventBody::LoopDone(LoopDone {
                stats,
                results: None,
                manifests: Vec::new(),
            }),
        );
    let view = RunView::from_events(&log.events);
    assert_eq!(view.steps[0].status, StepStatus::Done);
    assert!(view.steps[0].loop_view.as_ref().unwrap().in_flight.is_empty());
}

#[test]
fn a_failure_has_its_task_and_attempt() {
    let mut log = EventLogFixture::started();
    let broken = task_error("BROKEN", "load");
    log.push(task_location("load", None, "save", 1), retry_policy(2))
        .push(
            task_location("load", None, "save", 2),
            EventBody::TaskFailed(Box::new(task_ended(&Outcome::error(broken.clone())))),
        )
        .fail_run("load", broken);
    let view = RunView::from_events(&log.events);
    let step = view.failed_step().unwrap();
    let (_, failure) = step.failure().unwrap();
    assert_eq!(failure.task, Some(Name::from("save")));
    assert_eq!((failure.attempt, failure.attempts_max), (2, Some(2)));
}

#[test]
fn a_handled_task_error_is_not_a_failure() {
    let mut log = EventLogFixture::started();
    let broken = task_error("BROKEN", "load");
    log.push(
        task_location("load", None, "save", 1),
        EventBody::TaskFailed(Box::new(task_ended(&Outcome::error(broken)))),
    )
    .push(
        task_location("load", None, "go_on", 1),
        EventBody::TaskDone(Box::new(task_ended(&Outcome::ok(json!(1))))),
    )
    .push_step("load", EventBody::StepDone(StepDone::default()));
    let view = RunView::from_events(&log.events);
    assert!(view.steps[0].failures.is_empty());
    assert_eq!(view.steps[0].status, StepStatus::Done);
}

#[test]
fn a_retried_run_and_its_failed_step_are_active_again() {
    let mut log = EventLogFixture::started();
    let broken = task_error("BROKEN", "load");
    log.fail_run("load", broken).push(
        EventLocation::default(),
        EventBody::ExecutionRetried(ExecutionRetried { generation: 2 }),
    );
    let mut view = RunView::from_events(&log.events);
    assert_eq!((view.status, view.generation), (RunStatus::Running, 2));
    assert!(view.error.is_none() && view.finished_at.is_none());
    log.push_step("load", EventBody::StepStarted(EmptyPayload {}));
    view.fold(log.events.last().unwrap());
    assert_eq!(view.steps[0].status, StepStatus::Running);
    assert!(view.steps[0].failures.is_empty());
}

#[test]
fn steps_that_were_running_at_the_end_are_shown_as_stopped() {
    let mut log = EventLogFixture::started();
    log.push_step("slow", EventBody::StepStarted(EmptyPayload {}))
        .finish(EndStatus::Cancelled, None);
    let view = RunView::from_events(&log.events);
    assert_eq!(view.steps[0].status, StepStatus::Stopped);
    assert_eq!(view.status, RunStatus::Cancelled);
}
