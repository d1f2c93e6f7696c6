//! Translation: what an older client says of a step, in the words of the log.
//!
//! Such clients tell of a step's begin and end and put the result beside the end; the log wants the task's own events.
//! What a client leaves out is filled in, what the log knows already is left out.

use model::command::Stage;
use model::event::{At, Body, Event, Failed, Kind, Nothing, Source, TaskEnded, TaskStarted};
use model::id::{EventId, ExecutionId, Seq, StepRunId};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::{Directive, Step};
use model::raw::Raw;
use model::time::Time;
use serde_json::{Map, Value, json};
use wire::{InvalidEvent, ResultKind, WireEvent, WireStatus};

/// What is known of the step run that a client speaks of.
pub(super) struct Scene<'s> {
    pub(super) execution: ExecutionId,
    pub(super) run: &'s engine::Run,
    pub(super) run_id: &'s StepRunId,
    pub(super) step: &'s Step,
    pub(super) now: Time,
}

/// Why an event cannot become one of the log's.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untranslatable {
    #[error(transparent)]
    Invalid(#[from] InvalidEvent),
    /// A step of several tasks ends with their outcomes.
    #[error(
        "step `{step}` has {tasks} tasks, and the outcomes of some are missing: report `task.done` of each before the step's end"
    )]
    TasksUnreported { step: String, tasks: usize },
}

impl Scene<'_> {
    /// The log's events for one of the client's, in order; none where the log needs no row.
    pub(super) fn translate(
        &self,
        wire: &WireEvent,
        said: &mut Said,
    ) -> Result<Vec<Event>, Untranslatable> {
        let kind = wire.kind()?;
        let has_failed = wire.status == Some(WireStatus::Error);
        let mut events = match kind {
            Kind::LoopDone | Kind::CommandClaimed => Vec::new(),
            Kind::StepStarted => self.start(said),
            Kind::StepDone if has_failed => self.failure(wire, said),
            Kind::StepDone => self.end(wire, said)?,
            Kind::StepFailed | Kind::CommandFailed => self.failure(wire, said),
            Kind::TaskDone | Kind::TaskFailed if !is_whole(wire) => {
                vec![self.task_end(wire, said)?]
            }
            _ => vec![self.as_it_is(wire, said)?],
        };
        if let Some(last) = events.last_mut() {
            last.event_id = wire.event_id.unwrap_or(EventId(0));
            last.meta = wire.kept_meta();
            last.timestamp = wire.created_at.unwrap_or(self.now);
            last.duration_ms = wire.duration_ms;
        }
        for event in &mut events {
            event.worker_id.clone_from(&wire.worker_id);
        }
        Ok(events)
    }

    fn start(&self, said: &mut Said) -> Vec<Event> {
        if self.run.started || std::mem::replace(&mut said.started, true) {
            return Vec::new();
        }
        vec![self.event(self.at(), Body::StepStarted(Nothing {}))]
    }

    /// The step's end; its one task's outcome goes before it where nobody has told of that.
    fn end(&self, wire: &WireEvent, said: &mut Said) -> Result<Vec<Event>, Untranslatable> {
        if self.run.boundary.is_some() || std::mem::replace(&mut said.ended, true) {
            return Ok(Vec::new());
        }
        let mut events = self.start(said);
        let is_over = self.run.pipeline.stage == Stage::Done || self.step.tasks.is_empty();
        if !is_over && !said.outcomes {
            let [task] = self.step.tasks.as_slice() else {
                return Err(Untranslatable::TasksUnreported {
                    step: self.run_id.step.to_string(),
                    tasks: self.step.tasks.len(),
                });
            };
            let at = At {
                task: Some(task.label.clone()),
                visit: self.visit(task.label.as_str()),
                attempt: 1,
                ..self.at()
            };
            if self.run.pipeline.stage != Stage::Started {
                let started = TaskStarted {
                    inputs: None,
                    awaits: None,
                };
                events.push(self.event(at.clone(), Body::TaskStarted(started)));
            }
            events.push(self.event(at, Body::TaskDone(Box::new(done(result(wire))))));
        }
        events.push(self.event(self.at(), Body::StepDone(Nothing {})));
        Ok(events)
    }

    fn failure(&self, wire: &WireEvent, said: &mut Said) -> Vec<Event> {
        if self.run.boundary.is_some() || std::mem::replace(&mut said.ended, true) {
            return Vec::new();
        }
        let mut events = self.start(said);
        let failed = Failed {
            error: error(wire),
            set_ctx: None,
        };
        events.push(self.event(self.at(), Body::StepFailed(Box::new(failed))));
        events
    }

    /// A task's end that holds a result and not an outcome.
    fn task_end(&self, wire: &WireEvent, said: &mut Said) -> Result<Event, Untranslatable> {
        said.outcomes = true;
        let at = self.placed(wire)?;
        let is_ok = wire.kind()? == Kind::TaskDone && wire.status != Some(WireStatus::Error);
        let body = if is_ok {
            Body::TaskDone(Box::new(done(result(wire))))
        } else {
            let ended = TaskEnded {
                outcome: Raw::of(&Outcome::error(error(wire))),
                directive: Directive::Fail,
                ..done(Value::Null)
            };
            Body::TaskFailed(Box::new(ended))
        };
        Ok(self.event(at, body))
    }

    fn as_it_is(&self, wire: &WireEvent, said: &mut Said) -> Result<Event, Untranslatable> {
        let mut event = wire.event(self.now)?;
        said.outcomes |= matches!(event.body, Body::TaskDone(_) | Body::TaskFailed(_));
        event.at = self.placed(wire)?;
        Ok(event)
    }

    /// Where the client says it happened, in the run of the command it holds.
    fn placed(&self, wire: &WireEvent) -> Result<At, Untranslatable> {
        let mut at = wire.at()?;
        at.step = Some(self.run_id.step.clone());
        at.run = self.run_id.run;
        if at.task.is_none()
            && let [task] = self.step.tasks.as_slice()
            && wire.kind()?.entity() == model::event::EntityType::Task
        {
            at.task = Some(task.label.clone());
            at.visit = self.visit(task.label.as_str());
            at.attempt = at.attempt.max(1);
        }
        Ok(at)
    }

    /// The visit of a task that runs, or comes next.
    fn visit(&self, label: &str) -> u32 {
        let pipeline = &self.run.pipeline;
        let known = pipeline
            .visits
            .iter()
            .find(|(name, _)| name.as_str() == label);
        let known = known.map_or(0, |(_, visit)| *visit);
        if pipeline.stage == Stage::Started {
            known.max(1)
        } else {
            known + 1
        }
    }

    fn at(&self) -> At {
        At::step_run(self.run_id)
    }

    fn event(&self, at: At, body: Body) -> Event {
        Event {
            event_id: EventId(0),
            execution_id: self.execution,
            seq: Seq(0),
            cause_seq: None,
            timestamp: self.now,
            recorded_at: self.now,
            source: Source::Worker,
            at,
            duration_ms: None,
            worker_id: None,
            meta: None,
            body,
        }
    }
}

/// What the events of one batch have said so far.
#[derive(Default)]
pub(super) struct Said {
    started: bool,
    outcomes: bool,
    ended: bool,
}

/// Whether the payload is that of the log's own event.
fn is_whole(wire: &WireEvent) -> bool {
    let payload = wire.payload.as_ref().map(Raw::value);
    payload.is_some_and(|payload| payload.get("outcome").is_some() && payload.get("do").is_some())
}

fn done(result: Value) -> TaskEnded {
    TaskEnded {
        outcome: Raw::of(&Outcome::ok(result)),
        result_ref: None,
        matched_rule_index: None,
        directive: Directive::Continue,
        to: None,
        set_iter: None,
        set_ctx: None,
        set: None,
    }
}

/// The result in an event: in its payload, or where the payload says it is.
fn result(wire: &WireEvent) -> Value {
    let status = "COMPLETED";
    match wire.result_kind {
        ResultKind::Ref => json!({"status": status, "reference": {"uri": wire.result_uri}}),
        ResultKind::Refs => json!({"status": status, "reference": {"event_ids": wire.event_ids}}),
        ResultKind::Data => {
            let mut payload = fields(wire);
            for name in ["result", "data", "response"] {
                if let Some(result) = payload.remove(name) {
                    return result;
                }
            }
            Value::Object(payload)
        }
    }
}

fn error(wire: &WireEvent) -> TaskError {
    let payload = fields(wire);
    let unnamed = || {
        TaskError::new(
            ErrorKind::Unknown,
            "STEP_FAILED",
            "the worker reports a failure",
        )
    };
    match payload.get("error") {
        Some(Value::String(message)) => TaskError {
            message: message.clone(),
            ..unnamed()
        },
        Some(error) => serde_json::from_value(error.clone()).unwrap_or_else(|_| {
            let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
            TaskError {
                code: text("code").unwrap_or_else(|| "STEP_FAILED".to_owned()),
                message: text("message").unwrap_or_else(|| error.to_string()),
                ..unnamed()
            }
        }),
        None => unnamed(),
    }
}

fn fields(wire: &WireEvent) -> Map<String, Value> {
    match wire.payload.as_ref().map(Raw::value) {
        Some(Value::Object(fields)) => fields,
        Some(Value::Null) | None => Map::new(),
        Some(other) => Map::from_iter([("result".to_owned(), other)]),
    }
}
