//! Runs one pipeline action by action, and writes the events that the worker writes, in the same order.

use language::playbook::{CursorClaim, Effect, Step};
use language::template::{LazyValue, Scope};
use model::command::Continuation;
use model::event::{
    AwaitTarget, EmptyPayload, Event, EventBody, EventLocation, EventSource, ResultStored,
    StepDone, TaskStarted,
};
use model::id::{EventId, ExecutionId, Name, Seq, WorkerId};
use model::manifest::outcome_from_event;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::RawJson;
use model::time::Time;
use pipeline::{
    AttemptKind, NextAction, PipelinePosition, RenderedTask as Rendered, RenderedWrites,
    TaskAttempt, WaitAction,
};
use serde_json::{Map, Value, json};

use crate::world::load::{events_at, render_with_loading};
use crate::world::outcome_source::{AttemptQuery, OutcomeSource, TimedOutcome};
use crate::world::rendered_call::{self, RenderedTaskCall};
use crate::world::world_store::{BodyOwner, WorldStore};

/// Context of a pipeline.
pub(crate) struct PipelineEnv<'w> {
    pub(crate) store: &'w WorldStore,
    pub(crate) outcomes: &'w mut dyn OutcomeSource,
    pub(crate) execution: ExecutionId,
    pub(crate) step: &'w Step,
    pub(crate) worker: &'w WorkerId,
    pub(crate) now: Time,
    /// Whether a task may start.
    pub(crate) may_start: bool,
    /// Whether running tools must stop.
    pub(crate) must_stop: bool,
    /// Whether writes to `ctx` are recorded with the end of the iteration.
    pub(crate) is_parallel: bool,
    /// Maximum number of jumps of a pipeline.
    pub(crate) jumps_max: u32,
    /// Set if the pipeline claims the rows of a cursor loop.
    pub(crate) claim: Option<&'w CursorClaim>,
}

/// A running pipeline.
#[derive(Debug, Clone)]
pub(crate) struct WorldPipeline {
    pub(crate) location: EventLocation,
    pub(crate) continuation: Continuation,
    pub(crate) scope: Scope,
    pub(crate) started_at: Time,
    ctx_patch: Map<String, Value>,
    failure: Option<TaskError>,
    call: Option<PendingCall>,
}

/// A call in progress.
#[derive(Debug, Clone)]
struct PendingCall {
    task: Name,
    visit: u32,
    attempt: u32,
    entry: AttemptKind,
    until: Time,
    outcome: Outcome,
}

/// State of a pipeline after an action.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StepProgress {
    /// It continues.
    Progressed,
    /// Nothing happens before this time.
    WaitsUntil(Time),
    /// It has ended, and its end is recorded.
    Ended,
    /// It waits for an event, or released what it had not started.
    Suspended { interrupted: bool },
}

impl WorldPipeline {
    pub(crate) fn new(location: EventLocation, scope: Scope, now: Time) -> Self {
        Self {
            location,
            continuation: Continuation::default(),
            scope,
            started_at: now,
            ctx_patch: Map::new(),
            failure: None,
            call: None,
        }
    }

    /// Continues where another worker stopped.
    pub(crate) fn restore(&mut self, continuation: Continuation, env: &PipelineEnv<'_>) {
        pipeline::expose_recorded_outcomes(&mut self.scope, env.step, &continuation);
        let mut seqs: Vec<Seq> = continuation.iter_writes.clone();
        seqs.extend(&continuation.local_writes);
        if env.is_parallel {
            seqs.extend(&continuation.ctx_writes);
        }
        seqs.sort_unstable();
        seqs.dedup();
        for event in events_at(env.store, env.execution, &seqs) {
            let writes = event_writes(&event, env.is_parallel);
            pipeline::apply_writes(&mut self.scope, &writes);
            model::ctx::append_patch(&mut self.ctx_patch, &writes.ctx);
        }
        self.continuation = continuation;
    }

    /// Performs one action: starts or ends a task, or ends the pipeline.
    pub(crate) fn advance(
        &mut self,
        env: &mut PipelineEnv<'_>,
        out: &mut Vec<Event>,
    ) -> StepProgress {
        if let Some(call) = self.call.take() {
            return self.continue_call(env, call, out);
        }
        match pipeline::next_action(env.step, &self.continuation, env.now) {
            NextAction::Run(_) | NextAction::WaitUntil(_) if !env.may_start => {
                StepProgress::Suspended { interrupted: true }
            }
            NextAction::Run(run) => self.start_attempt(env, &run, out),
            NextAction::Answered {
                attempt: run,
                answer_seq: by,
                started_seq: since,
            } => {
                let outcome = awaited_outcome(env, by, since);
                self.finish_attempt(env, &run, outcome, out);
                StepProgress::Progressed
            }
            NextAction::WaitUntil(due) => StepProgress::WaitsUntil(due),
            NextAction::Suspended => StepProgress::Suspended { interrupted: false },
            NextAction::Done => self.finish(env, None, out),
            NextAction::Failed => {
                let error = self.failure_error(env);
                self.finish(env, Some(error), out)
            }
        }
    }

    fn continue_call(
        &mut self,
        env: &mut PipelineEnv<'_>,
        call: PendingCall,
        out: &mut Vec<Event>,
    ) -> StepProgress {
        if env.must_stop {
            return StepProgress::Suspended { interrupted: true };
        }
        if call.until > env.now {
            let until = call.until;
            self.call = Some(call);
            return StepProgress::WaitsUntil(until);
        }
        let step = env.step;
        let Some((_, task)) = step.task(call.task.as_str()) else {
            return StepProgress::Suspended { interrupted: true };
        };
        let run = TaskAttempt {
            task,
            visit: call.visit,
            attempt: call.attempt,
            kind: call.entry,
        };
        self.finish_attempt(env, &run, call.outcome, out);
        StepProgress::Progressed
    }

    fn start_attempt(
        &mut self,
        env: &mut PipelineEnv<'_>,
        attempt: &TaskAttempt<'_>,
        out: &mut Vec<Event>,
    ) -> StepProgress {
        let at = self.task_location(attempt);
        self.scope.task = Some(attempt.task.label.clone());
        self.scope.attempt = Some(attempt.attempt);
        self.scope.now = Some(env.now);
        self.scope.input = LazyValue::default();
        let key = pipeline::idempotency_key(env.execution, &at);
        self.scope.idempotency_key = Some(key.into());
        let step = env.step;
        let render = |scope: &Scope| rendered_call::render_call(step, attempt.task, scope);
        let ready = match render_with_loading(env.store, env.execution, &mut self.scope, render) {
            Ok(ready) => ready,
            Err(error) => {
                let error = pipeline::render_failure(&error, step, &attempt.task.label);
                self.record_start(env, attempt, out);
                self.finish_attempt(env, attempt, Outcome::error(error), out);
                return StepProgress::Progressed;
            }
        };
        if let Some(input) = &ready.input {
            self.scope.input = LazyValue::new(Value::Object(input.clone()));
        }
        if attempt.task.effect == Effect::AtMostOnce && attempt.kind == AttemptKind::Resumed {
            self.finish_attempt(env, attempt, Outcome::error(unknown_outcome(attempt)), out);
            return StepProgress::Progressed;
        }
        self.dispatch(env, attempt, &ready, out)
    }

    fn dispatch(
        &mut self,
        env: &mut PipelineEnv<'_>,
        run: &TaskAttempt<'_>,
        ready: &RenderedTaskCall,
        out: &mut Vec<Event>,
    ) -> StepProgress {
        let input = ready.input.clone().map_or(Value::Null, Value::Object);
        let rendered = Rendered {
            fields: &ready.fields,
            input: ready.input.is_some().then_some(&input),
            timeout: ready.timeout.as_ref().and_then(model::duration::parse),
        };
        let timeout = ready.timeout_seconds();
        let asked = AttemptQuery {
            execution: env.execution,
            step: env.step.name.as_str(),
            task: run.task.label.as_str(),
            kind: run.task.kind.as_str(),
            iteration: self.location.iteration,
            visit: run.visit,
            attempt: run.attempt,
            input: &input,
            fields: &ready.fields,
            timeout: &timeout,
        };
        let scripted = env.outcomes.next_outcome(&asked);
        let answer = match (scripted, run.task.kind.as_str()) {
            (Some(answer), _) => Ok(answer),
            (None, "playbook") => match pipeline::parse_child_task(run.task, rendered, &self.scope)
            {
                Ok(awaits) => return self.suspend_task(env, run, awaits, out),
                Err(error) => Err(error),
            },
            (None, "wait") => match pipeline::parse_wait_task(run.task, rendered, env.now) {
                Ok(WaitAction::Suspend(awaits)) => return self.suspend_task(env, run, awaits, out),
                Ok(WaitAction::Sleep(due)) => Ok(TimedOutcome {
                    outcome: Outcome::ok(json!({"fired_at": due})),
                    duration: due.since(env.now),
                }),
                Err(error) => Err(error),
            },
            (None, _) => {
                let result = ready.fields.get("result").cloned().unwrap_or_default();
                Ok(TimedOutcome::immediate(Outcome::ok(result)))
            }
        };
        let answer = answer.unwrap_or_else(|error| TimedOutcome::immediate(Outcome::error(*error)));
        self.record_start(env, run, out);
        self.call = Some(PendingCall {
            task: run.task.label.clone(),
            visit: run.visit,
            attempt: run.attempt,
            entry: run.kind,
            until: env.now.after(answer.duration),
            outcome: answer.outcome,
        });
        StepProgress::Progressed
    }

    /// Starts a wait that frees the slot. Only `task.started` records what it waits for, so every attempt has one.
    fn suspend_task(
        &mut self,
        env: &PipelineEnv<'_>,
        run: &TaskAttempt<'_>,
        awaits: AwaitTarget,
        out: &mut Vec<Event>,
    ) -> StepProgress {
        let body = EventBody::TaskStarted(TaskStarted {
            inputs: None,
            request: None,
            awaits: Some(Box::new(awaits)),
        });
        let at = self.task_location(run);
        self.record(worker_event(env, at, body), out);
        StepProgress::Suspended { interrupted: false }
    }

    fn record_start(&mut self, env: &PipelineEnv<'_>, run: &TaskAttempt<'_>, out: &mut Vec<Event>) {
        let body = match run.kind {
            AttemptKind::First => EventBody::TaskStarted(TaskStarted {
                inputs: None,
                request: None,
                awaits: None,
            }),
            AttemptKind::Retry => EventBody::AttemptStarted(EmptyPayload {}),
            AttemptKind::Resumed => return,
        };
        let at = self.task_location(run);
        self.record(worker_event(env, at, body), out);
    }

    fn finish_attempt(
        &mut self,
        env: &mut PipelineEnv<'_>,
        run: &TaskAttempt<'_>,
        mut outcome: Outcome,
        out: &mut Vec<Event>,
    ) {
        outcome
            .meta_mut()
            .insert("attempt".to_owned(), run.attempt.into());
        let at = self.task_location(run);
        let owner = BodyOwner {
            execution: env.execution,
            location: &at,
            now: env.now,
        };
        outcome = env.store.store_outcome(owner, run.task, outcome);
        let place = PipelinePosition {
            location: self.location.clone(),
            jumps: self.continuation.jumps,
            jumps_max: env.jumps_max,
        };
        let step = env.step;
        let judge = |scope: &Scope| pipeline::apply_policy(step, run, &outcome, scope, &place);
        let settled = render_with_loading(env.store, env.execution, &mut self.scope, judge)
            .expect("settling fails only if something is not loaded");
        let mut settled = settled;
        env.store.store_writes(owner, &mut settled);
        if let Some(error) = settled.size_error() {
            outcome = Outcome::error(error);
            settled = pipeline::fail_without_policy(run, &outcome, &place);
        }
        for draft in settled.events {
            self.record(worker_event(env, draft.location, draft.body), out);
        }
        pipeline::apply_writes(&mut self.scope, &settled.writes);
        if env.is_parallel {
            model::ctx::append_patch(&mut self.ctx_patch, &settled.writes.ctx);
        }
        self.failure = settled.failure;
        pipeline::expose_outcome(&mut self.scope, run, settled.page, outcome);
    }

    fn finish(
        &mut self,
        env: &PipelineEnv<'_>,
        error: Option<TaskError>,
        out: &mut Vec<Event>,
    ) -> StepProgress {
        let (set_ctx, error) = match pipeline::iteration_patch(&self.ctx_patch) {
            Ok(set_ctx) => (set_ctx, error),
            Err(too_large) => (None, error.or(Some(*too_large))),
        };
        let body = match (error, self.location.iteration) {
            (None, None) if env.claim.is_some() => self.claimed_rows_body(env),
            (None, None) => EventBody::StepDone(StepDone::default()),
            (None, Some(_)) => EventBody::IterationDone(model::event::IterationDone { set_ctx }),
            (Some(error), iteration) => {
                let error = self.with_location(env, error);
                let failed = Box::new(model::event::FailurePayload { error, set_ctx });
                match iteration {
                    None => EventBody::StepFailed(failed),
                    Some(_) => EventBody::IterationFailed(failed),
                }
            }
        };
        let mut event = worker_event(env, self.location.clone(), body);
        let took = env.now.since(self.started_at).as_millis();
        event.duration_ms = Some(u64::try_from(took).unwrap_or(u64::MAX));
        self.record(event, out);
        StepProgress::Ended
    }

    /// The claimed rows, in the format of a worker's report.
    fn claimed_rows_body(&self, env: &PipelineEnv<'_>) -> EventBody {
        let claim = env.claim.expect("the pipeline claims rows");
        let rows = claim.rows.render(&self.scope);
        let rows = rows.map_or(Value::Null, |rendered| rendered.value);
        let owner = BodyOwner {
            execution: env.execution,
            location: &self.location,
            now: env.now,
        };
        let result_ref = Box::new(env.store.store_elements(owner, &rows));
        EventBody::ResultStored(ResultStored { result_ref })
    }

    /// Why the pipeline failed; read from the log if another worker recorded it.
    fn failure_error(&mut self, env: &PipelineEnv<'_>) -> TaskError {
        if let Some(error) = self.failure.take() {
            return error;
        }
        let last = self.continuation.last.as_ref();
        let pointer = last.and_then(|label| self.continuation.outcomes.get(label));
        let events = pointer.map(|pointer| events_at(env.store, env.execution, &[pointer.seq]));
        let outcome = events.and_then(|events| events.first().and_then(outcome_from_event));
        let error = outcome.and_then(|outcome| outcome.failure().cloned());
        error.unwrap_or_else(|| TaskError {
            retryable: false,
            ..TaskError::new(
                ErrorKind::Unknown,
                "POLICY_FAIL",
                "a policy rule failed the step",
            )
        })
    }

    fn with_location(&self, env: &PipelineEnv<'_>, mut error: TaskError) -> TaskError {
        let label = self.continuation.last.as_ref();
        let task = label.and_then(|label| env.step.task(label.as_str()));
        let mut add = |key: &str, value: Value| {
            error.details.entry(key).or_insert(value);
        };
        add("step", env.step.name.as_str().into());
        match task {
            Some((_, task)) => {
                add("task", task.label.as_str().into());
                add("line", task.span.line.into());
            }
            None => add("line", env.step.span.line.into()),
        }
        error
    }

    fn task_location(&self, run: &TaskAttempt<'_>) -> EventLocation {
        EventLocation {
            task: Some(run.task.label.clone()),
            visit: run.visit,
            attempt: run.attempt,
            ..self.location.clone()
        }
    }

    fn record(&mut self, event: Event, out: &mut Vec<Event>) {
        pipeline::fold(&mut self.continuation, &event);
        out.push(event);
    }
}

/// Creates an event of a worker. The server assigns its ID and sequence number.
pub(crate) fn worker_event(env: &PipelineEnv<'_>, at: EventLocation, body: EventBody) -> Event {
    Event {
        event_id: EventId(0),
        execution_id: env.execution,
        seq: Seq(0),
        cause_seq: None,
        timestamp: env.now,
        recorded_at: env.now,
        source: EventSource::Worker,
        location: at,
        duration_ms: None,
        worker_id: Some(env.worker.clone()),
        trace_id: None,
        meta: None,
        body,
    }
}

fn awaited_outcome(env: &PipelineEnv<'_>, answer_seq: Seq, started_seq: Seq) -> Outcome {
    let events = events_at(env.store, env.execution, &[started_seq, answer_seq]);
    let find = |seq: Seq| events.iter().find(|event| event.seq == seq);
    match (find(started_seq).map(|event| &event.body), find(answer_seq)) {
        (
            Some(EventBody::TaskStarted(TaskStarted {
                awaits: Some(awaits),
                ..
            })),
            Some(event),
        ) => pipeline::awaited_outcome(awaits, event),
        _ => Outcome::error(TaskError::new(
            ErrorKind::Storage,
            "REFERENCE_NOT_AVAILABLE",
            format!("cannot read event {answer_seq} of the suspended task"),
        )),
    }
}

fn event_writes(event: &Event, is_parallel: bool) -> RenderedWrites {
    let written = event.body.writes();
    let map = |raw: Option<&RawJson>| raw.and_then(|raw| raw.parse_as().ok()).unwrap_or_default();
    RenderedWrites {
        iter: map(written.iter),
        ctx: map(written.ctx.filter(|_| is_parallel)),
        local: map(written.local),
    }
}

fn unknown_outcome(run: &TaskAttempt<'_>) -> TaskError {
    let message = format!(
        "task `{}` already started and may have taken effect; an `at_most_once` task is not run again",
        run.task.label
    );
    TaskError {
        retryable: false,
        ..TaskError::new(ErrorKind::Unknown, "UNKNOWN_OUTCOME", message)
    }
}
