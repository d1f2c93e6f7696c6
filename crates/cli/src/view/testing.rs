//! Builders of event logs for tests.

use model::event::{
    EndStatus, Event, EventBody, EventLocation, EventSource, ExecutionFinished, ExecutionRequested, FailurePayload,
    LoopStarted, TaskEnded,
};
use model::id::{EventId, ExecutionId, Name, PlaybookHash, Seq};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::{Directive, FailureMode, LoopMode};
use model::raw::RawJson;
use model::time::Time;
use serde_json::json;

/// An event log; each event is one millisecond after the previous one.
#[derive(Default)]
pub(crate) struct EventLogFixture {
    pub(crate) events: Vec<Event>,
}

/// Returns the address of run 1 of a step.
pub(crate) fn step_location(step: &str) -> EventLocation {
    EventLocation {
        step: Some(Name::from(step)),
        run: 1,
        ..EventLocation::default()
    }
}

/// Returns the address of a task of a step or iteration.
pub(crate) fn task_location(step: &str, iteration: Option<u64>, label: &str, attempt: u32) -> EventLocation {
    EventLocation {
        iteration,
        task: Some(Name::from(label)),
        visit: 1,
        attempt,
        ..step_location(step)
    }
}

/// Returns the end of a task.
pub(crate) fn task_ended(outcome: &Outcome) -> TaskEnded {
    TaskEnded {
        outcome: RawJson::from_serializable(outcome),
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
pub(crate) fn task_error(code: &str, step: &str) -> TaskError {
    TaskError::new(ErrorKind::Unknown, code, format!("{code} happened")).with_detail("step", step)
}

/// Returns the failure of a step.
pub(crate) fn failure_payload(error: &TaskError) -> FailurePayload {
    FailurePayload {
        error: error.clone(),
        set_ctx: None,
    }
}

/// Returns the start of a loop over `total` elements.
pub(crate) fn loop_started(total: u64) -> EventBody {
    EventBody::LoopStarted(Box::new(LoopStarted {
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

impl EventLogFixture {
    /// Returns the log of a run that was just requested.
    pub(crate) fn started() -> Self {
        let mut log = Self::default();
        let request = ExecutionRequested {
            path: Name::from("demo"),
            version: 0,
            hash: PlaybookHash::from_text(""),
            workload: RawJson::from_serializable(&json!({})),
            parent: None,
            depth: 0,
            trace_id: None,
            rerun: None,
            labels: model::labels::Labels::default(),
        };
        log.push(
            EventLocation::default(),
            EventBody::ExecutionRequested(Box::new(request)),
        );
        log
    }

    /// Appends an event.
    pub(crate) fn push(&mut self, location: EventLocation, body: EventBody) -> &mut Self {
        let n = self.events.len() as u64 + 1;
        let time = Time(i64::try_from(n).unwrap() * 1_000);
        self.events.push(Event {
            event_id: EventId(i64::try_from(n).unwrap()),
            execution_id: ExecutionId(7),
            seq: Seq(n),
            cause_seq: None,
            timestamp: time,
            recorded_at: time,
            source: EventSource::Server,
            location,
            duration_ms: Some(n),
            worker_id: None,
            trace_id: None,
            meta: None,
            body,
        });
        self
    }

    /// Appends an event of run 1 of a step.
    pub(crate) fn push_step(&mut self, step: &str, body: EventBody) -> &mut Self {
        self.push(step_location(step), body)
    }

    /// Appends the end of the run.
    pub(crate) fn finish(&mut self, ending: EndStatus, error: Option<TaskError>) -> &mut Self {
        let finished = ExecutionFinished {
            generation: 1,
            result: None,
            error,
            ended: ending,
        };
        self.push(
            EventLocation::default(),
            EventBody::PlaybookFinished(Box::new(finished)),
        )
    }

    /// Appends the failure of a step, which ends the run.
    pub(crate) fn fail_run(&mut self, step: &str, error: TaskError) -> &mut Self {
        let failure = EventBody::StepFailed(Box::new(failure_payload(&error)));
        self.push_step(step, failure).finish(EndStatus::Error, Some(error))
    }
}
