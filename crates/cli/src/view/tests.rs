//! Tests of the view with hand-built logs.

use model::event::{
    Action, At, Body, Ending, Event, IterationDone, LoopDone, LoopStats, Nothing, PolicyEvaluated,
    Retried, StepDone,
};
use model::id::{ExecutionId, Name, StepRunId};
use model::outcome::Outcome;
use model::playbook::Directive;
use model::status::RunStatus;
use serde_json::json;
use server::LoopOutline;
use store::LoopProgress;

use crate::render::report::{self, RunName};
use crate::view::testing::{Log, at, ended, error, failed, finished, loop_started, task};
use crate::view::{RunView, Standing};

fn iteration(index: u64) -> At {
    at("each").iteration(Some(index))
}

fn done() -> Body {
    Body::IterationDone(IterationDone { set_ctx: None })
}

fn retry(attempts: u32) -> Body {
    Body::PolicyEvaluated(Box::new(PolicyEvaluated {
        matched_rule_index: Some(0),
        action: Action {
            attempts: Some(attempts),
            ..Action::plain(Directive::Retry)
        },
        set_iter: None,
        set_ctx: None,
        set: None,
    }))
}

#[test]
fn a_plain_run_shows_each_step_with_its_time_and_last_outcome() {
    let mut log = Log::begun();
    log.push(at("greet"), Body::StepStarted(Nothing {}))
        .push(
            task("greet", None, "a", 1),
            Body::TaskDone(Box::new(ended(&Outcome::ok(json!(1))))),
        )
        .push(
            task("greet", None, "b", 1),
            Body::TaskDone(Box::new(ended(&Outcome::ok(json!(2))))),
        )
        .push(at("greet"), Body::StepDone(StepDone::default()))
        .push(At::default(), finished(Ending::Success, None));
    let view = RunView::of(&log.events);
    assert_eq!(view.status, RunStatus::Completed);
    assert_eq!((view.events, view.last.0), (6, 6));
    assert_eq!(view.elapsed_ms(view.seen_at), 5);
    let [greet] = &view.steps[..] else {
        panic!("expected one step")
    };
    assert_eq!(greet.standing, Standing::Done);
    assert_eq!(greet.elapsed_ms(view.seen_at), 3);
    assert_eq!(greet.outcome.as_ref().unwrap().value()["result"], json!(2));
    assert!(view.active().next().is_none());
}

#[test]
fn a_loop_counts_what_ended_what_failed_and_what_is_tried_again() {
    let mut log = Log::begun();
    log.push(at("each"), loop_started(4));
    for index in 0..4 {
        log.push(iteration(index), Body::IterationStarted(Nothing {}));
    }
    let broken = error("BROKEN", "each");
    log.push(iteration(0), done())
        .push(task("each", Some(1), "save", 1), retry(5))
        .push(
            task("each", Some(2), "save", 3),
            Body::TaskFailed(Box::new(ended(&Outcome::error(broken.clone())))),
        )
        .push(
            iteration(2),
            Body::IterationFailed(Box::new(failed(&broken))),
        );
    let view = RunView::of(&log.events);
    let step = view.active().next().unwrap();
    let lap = step.lap.as_ref().unwrap();
    assert_eq!((lap.total, lap.succeeded, lap.failed.len()), (4, 1, 1));
    assert_eq!(lap.in_flight.iter().copied().collect::<Vec<_>>(), [1, 3]);
    assert_eq!((step.retrying(), step.retries), (1, 1));
    assert!(lap.p95_ms().is_some());
    let (index, failure) = step.failure().unwrap();
    assert_eq!((index, failure.attempt), (Some(2), 3));
    assert_eq!(failure.task, Some(Name::from("save")));
}

#[test]
fn an_outline_gives_the_view_that_the_whole_log_gives() {
    let mut log = Log::begun();
    log.push(at("each"), loop_started(4));
    let broken = error("BROKEN", "each");
    for index in 0..3 {
        log.push(iteration(index), Body::IterationStarted(Nothing {}));
    }
    log.push(iteration(0), done())
        .push(task("each", Some(2), "save", 1), retry(5))
        .push(
            task("each", Some(2), "save", 2),
            Body::TaskFailed(Box::new(ended(&Outcome::error(broken.clone())))),
        )
        .push(
            iteration(2),
            Body::IterationFailed(Box::new(failed(&broken))),
        )
        .push(iteration(1), done())
        .push(at("each"), Body::StepFailed(Box::new(failed(&broken))))
        .push(At::default(), finished(Ending::Error, Some(broken)));
    let whole = RunView::of(&log.events);
    let is_plain = |event: &&Event| event.at.iteration.is_none();
    let mut view = RunView::of(log.events.iter().filter(is_plain));
    let of_failed = |event: &&Event| event.at.iteration == Some(2) && event.at.task.is_some();
    let ends = log
        .events
        .iter()
        .filter(|event| of_failed(event) || matches!(event.body, Body::IterationFailed(_)));
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
    view.complete_outline(&[each], whole.last);
    let name = RunName {
        id: ExecutionId(7),
        name: "demo".to_owned(),
    };
    let shown = |view: &RunView| report::run(view, &name, None, whole.seen_at);
    assert_eq!(shown(&view), shown(&whole));
}

#[test]
fn the_end_of_a_loop_clears_what_was_in_flight() {
    let mut log = Log::begun();
    let stats = LoopStats {
        total: 1,
        succeeded: 1,
        failed: 0,
    };
    log.push(at("each"), loop_started(1))
        .push(iteration(0), Body::IterationStarted(Nothing {}))
        .push(iteration(0), done())
        .push(
            at("each"),
            Body::LoopDone(LoopDone {
                stats,
                results: None,
                manifests: Vec::new(),
            }),
        );
    let view = RunView::of(&log.events);
    assert_eq!(view.steps[0].standing, Standing::Done);
    assert!(view.steps[0].lap.as_ref().unwrap().in_flight.is_empty());
}

#[test]
fn a_failure_keeps_the_task_and_the_try_it_came_from() {
    let mut log = Log::begun();
    let broken = error("BROKEN", "load");
    log.push(task("load", None, "save", 1), retry(2))
        .push(
            task("load", None, "save", 2),
            Body::TaskFailed(Box::new(ended(&Outcome::error(broken.clone())))),
        )
        .push(at("load"), Body::StepFailed(Box::new(failed(&broken))))
        .push(At::default(), finished(Ending::Error, Some(broken)));
    let view = RunView::of(&log.events);
    let step = view.failed_step().unwrap();
    let (_, failure) = step.failure().unwrap();
    assert_eq!(failure.task, Some(Name::from("save")));
    assert_eq!((failure.attempt, failure.attempts_max), (2, Some(2)));
}

#[test]
fn a_task_error_that_the_pipeline_survives_is_no_failure() {
    let mut log = Log::begun();
    let broken = error("BROKEN", "load");
    log.push(
        task("load", None, "save", 1),
        Body::TaskFailed(Box::new(ended(&Outcome::error(broken)))),
    )
    .push(
        task("load", None, "go_on", 1),
        Body::TaskDone(Box::new(ended(&Outcome::ok(json!(1))))),
    )
    .push(at("load"), Body::StepDone(StepDone::default()));
    let view = RunView::of(&log.events);
    assert!(view.steps[0].failures.is_empty());
    assert_eq!(view.steps[0].standing, Standing::Done);
}

#[test]
fn a_retried_run_lives_again_and_its_failed_step_with_it() {
    let mut log = Log::begun();
    let broken = error("BROKEN", "load");
    log.push(at("load"), Body::StepFailed(Box::new(failed(&broken))))
        .push(At::default(), finished(Ending::Error, Some(broken)))
        .push(
            At::default(),
            Body::ExecutionRetried(Retried { generation: 2 }),
        );
    let mut view = RunView::of(&log.events);
    assert_eq!((view.status, view.generation), (RunStatus::Running, 2));
    assert!(view.error.is_none() && view.finished_at.is_none());
    log.push(at("load"), Body::StepStarted(Nothing {}));
    view.fold(log.events.last().unwrap());
    assert_eq!(view.steps[0].standing, Standing::Running);
    assert!(view.steps[0].failures.is_empty());
}

#[test]
fn what_still_ran_when_the_run_ended_is_shown_as_stopped() {
    let mut log = Log::begun();
    log.push(at("slow"), Body::StepStarted(Nothing {}))
        .push(At::default(), finished(Ending::Cancelled, None));
    let view = RunView::of(&log.events);
    assert_eq!(view.steps[0].standing, Standing::Stopped);
    assert_eq!(view.status, RunStatus::Cancelled);
}
