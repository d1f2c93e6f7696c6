//! Builders of event logs for tests.

use model::event::{
    At, Body, Ending, Event, Failed, Finished, LoopStarted, Requested, Source, TaskEnded,
};
use model::id::{EventId, ExecutionId, Name, PlaybookHash, Seq};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::{Directive, FailureMode, LoopMode};
use model::raw::Raw;
use model::time::Time;
use serde_json::json;

/// An event log; each event is one millisecond after the previous one.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
}

/// Returns the address of run 1 of a step.
pub(crate) fn at(step: &str) -> At {
    At {
        step: Some(Name::from(step)),
        run: 1,
        ..At::default()
    }
}

/// Returns the address of a task of a step or iteration.
pub(crate) fn task(step: &str, iteration: Option<u64>, label: &str, attempt: u32) -> At {
    At {
        iteration,
        task: Some(Name::from(label)),
        visit: 1,
        attempt,
        ..at(step)
    }
}

/// Returns the end of a task.
pub(crate) fn ended(outcome: &Outcome) -> TaskEnded {
    TaskEnded {
        outcome: Raw::of(outcome),
        result_ref: None,
        matched_rule_index: None,
        directive: Directive::Continue,
        to: None,
        set_iter: None,
        set_ctx: None,
        set: None,
    }
}

/// Returns an error with this code and step, in the form that the engine writes.
pub(crate) fn error(code: &str, step: &str) -> TaskError {
    TaskError::new(ErrorKind::Unknown, code, format!("{code} happened")).with("step", step)
}

/// Returns the failure of a step.
pub(crate) fn failed(error: &TaskError) -> Failed {
    Failed {
        error: error.clone(),
        set_ctx: None,
    }
}

/// Returns the end of a run.
pub(crate) fn finished(ending: Ending, error: Option<TaskError>) -> Body {
    Body::PlaybookFinished(Box::new(Finished {
        generation: 1,
        result: None,
        error,
        ended: ending,
    }))
}

/// Returns the start of a loop over `total` elements.
pub(crate) fn loop_started(total: u64) -> Body {
    Body::LoopStarted(Box::new(LoopStarted {
        total,
        mode: LoopMode::Parallel,
        max_in_flight: 4,
        failure: FailureMode::BestEffort,
        local: false,
        collection: None,
        collection_ref: None,
        range: None,
        sha256: String::new(),
        reused: None,
        more: false,
    }))
}

impl Log {
    /// Returns the log of a run that was just requested.
    pub(crate) fn begun() -> Self {
        let mut log = Self::default();
        let request = Requested {
            path: Name::from("demo"),
            version: 0,
            hash: PlaybookHash::of(""),
            workload: Raw::of(&json!({})),
            parent: None,
            depth: 0,
            trace_id: None,
            rerun: None,
        };
        log.push(At::default(), Body::ExecutionRequested(Box::new(request)));
        log
    }

    /// Appends an event.
    pub(crate) fn push(&mut self, at: At, body: Body) -> &mut Self {
        let n = self.events.len() as u64 + 1;
        let time = Time(i64::try_from(n).unwrap() * 1_000);
        self.events.push(Event {
            event_id: EventId(i64::try_from(n).unwrap()),
            execution_id: ExecutionId(7),
            seq: Seq(n),
            cause_seq: None,
            timestamp: time,
            recorded_at: time,
            source: Source::Server,
            at,
            duration_ms: Some(n),
            worker_id: None,
            trace_id: None,
            meta: None,
            body,
        });
        self
    }
}
