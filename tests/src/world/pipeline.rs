//! Runs one pipeline action by action, and writes the events that the worker writes, in the same order.

use model::command::Continuation;
use model::event::{At, Awaits, Body, Event, Nothing, ResultStored, Source, StepDone, TaskStarted};
use model::id::{EventId, ExecutionId, Name, Seq, WorkerId};
use model::manifest::outcome_of;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::{Claim, Effect, Step};
use model::raw::Raw;
use model::template::{Data, Scope};
use model::time::Time;
use pipeline::{Asked as Rendered, Entry, Next, Place, TaskRun, Waiting, Writes};
use serde_json::{Map, Value, json};

use crate::world::answers::{Answer, Answers, Asked};
use crate::world::call::{self, Ready};
use crate::world::kept::{Kept, Owner};
use crate::world::load::{events_at, resolve};

/// Context of a pipeline.
pub(crate) struct Env<'w> {
    pub(crate) store: &'w Kept,
    pub(crate) answers: &'w mut dyn Answers,
    pub(crate) execution: ExecutionId,
    pub(crate) step: &'w Step,
    pub(crate) worker: &'w WorkerId,
    pub(crate) now: Time,
    /// Whether a task may start.
    pub(crate) may_begin: bool,
    /// Whether running tools must stop.
    pub(crate) must_stop: bool,
    /// Whether writes to `ctx` are recorded with the end of the iteration.
    pub(crate) is_parallel: bool,
    /// Maximum number of jumps of a pipeline.
    pub(crate) jumps_max: u32,
    /// Set if the pipeline claims the rows of a cursor loop.
    pub(crate) claim: Option<&'w Claim>,
}

/// A running pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    pub(crate) at: At,
    pub(crate) continuation: Continuation,
    pub(crate) scope: Scope,
    pub(crate) begun: Time,
    patch: Map<String, Value>,
    failure: Option<TaskError>,
    call: Option<Call>,
}

/// A call in progress.
#[derive(Debug, Clone)]
struct Call {
    task: Name,
    visit: u32,
    attempt: u32,
    entry: Entry,
    until: Time,
    outcome: Outcome,
}

/// State of a pipeline after an action.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stepped {
    /// It continues.
    Went,
    /// Nothing happens before this time.
    Waits(Time),
    /// It has ended, and its end is recorded.
    Ended,
    /// It waits for an event, or released what it had not started.
    Left { interrupted: bool },
}

impl Pipeline {
    pub(crate) fn new(at: At, scope: Scope, now: Time) -> Self {
        Self {
            at,
            continuation: Continuation::default(),
            scope,
            begun: now,
            patch: Map::new(),
            failure: None,
            call: None,
        }
    }

    /// Continues where another worker stopped.
    pub(crate) fn restore(&mut self, continuation: Continuation, env: &Env<'_>) {
        pipeline::recall(&mut self.scope, env.step, &continuation);
        let mut seqs: Vec<Seq> = continuation.iter_writes.clone();
        seqs.extend(&continuation.local_writes);
        if env.is_parallel {
            seqs.extend(&continuation.ctx_writes);
        }
        seqs.sort_unstable();
        seqs.dedup();
        for event in events_at(env.store, env.execution, &seqs) {
            let writes = writes(&event, env.is_parallel);
            pipeline::apply_writes(&mut self.scope, &writes);
            model::ctx::join(&mut self.patch, &writes.ctx);
        }
        self.continuation = continuation;
    }

    /// Performs one action: starts or ends a task, or ends the pipeline.
    pub(crate) fn step(&mut self, env: &mut Env<'_>, out: &mut Vec<Event>) -> Stepped {
        if let Some(call) = self.call.take() {
            return self.go_on_calling(env, call, out);
        }
        match pipeline::next(env.step, &self.continuation, env.now) {
            Next::Run(_) | Next::WaitUntil(_) if !env.may_begin => {
                Stepped::Left { interrupted: true }
            }
            Next::Run(run) => self.begin(env, &run, out),
            Next::Answered { run, by, since } => {
                let outcome = answered(env, by, since);
                self.settle(env, &run, outcome, out);
                Stepped::Went
            }
            Next::WaitUntil(due) => Stepped::Waits(due),
            Next::Suspended => Stepped::Left { interrupted: false },
            Next::Done => self.end(env, None, out),
            Next::Failed => {
                let error = self.why(env);
                self.end(env, Some(error), out)
            }
        }
    }

    fn go_on_calling(&mut self, env: &mut Env<'_>, call: Call, out: &mut Vec<Event>) -> Stepped {
        if env.must_stop {
            return Stepped::Left { interrupted: true };
        }
        if call.until > env.now {
            let until = call.until;
            self.call = Some(call);
            return Stepped::Waits(until);
        }
        let step = env.step;
        let Some((_, task)) = step.task(call.task.as_str()) else {
            return Stepped::Left { interrupted: true };
        };
        let run = TaskRun {
            task,
            visit: call.visit,
            attempt: call.attempt,
            entry: call.entry,
        };
        self.settle(env, &run, call.outcome, out);
        Stepped::Went
    }

    fn begin(&mut self, env: &mut Env<'_>, run: &TaskRun<'_>, out: &mut Vec<Event>) -> Stepped {
        let at = self.task_at(run);
        self.scope.task = Some(run.task.label.clone());
        self.scope.attempt = Some(run.attempt);
        self.scope.now = Some(env.now);
        self.scope.input = Data::default();
        let key = pipeline::idempotency_key(env.execution, &at);
        self.scope.idempotency_key = Some(key.into());
        let step = env.step;
        let render = |scope: &Scope| call::render(step, run.task, scope);
        let ready = match resolve(env.store, env.execution, &mut self.scope, render) {
            Ok(ready) => ready,
            Err(error) => {
                let error = pipeline::render_failure(&error, step, &run.task.label);
                self.start(env, run, out);
                self.settle(env, run, Outcome::error(error), out);
                return Stepped::Went;
            }
        };
        if let Some(input) = &ready.input {
            self.scope.input = Data::new(Value::Object(input.clone()));
        }
        if run.task.effect == Effect::AtMostOnce && run.entry == Entry::Again {
            self.settle(env, run, Outcome::error(unknown_outcome(run)), out);
            return Stepped::Went;
        }
        self.dispatch(env, run, &ready, out)
    }

    fn dispatch(
        &mut self,
        env: &mut Env<'_>,
        run: &TaskRun<'_>,
        ready: &Ready,
        out: &mut Vec<Event>,
    ) -> Stepped {
        let input = ready.input.clone().map_or(Value::Null, Value::Object);
        let rendered = Rendered {
            fields: &ready.fields,
            input: ready.input.is_some().then_some(&input),
            timeout: ready.timeout.as_ref().and_then(model::duration::parse),
        };
        let timeout = ready.timeout_seconds();
        let asked = Asked {
            execution: env.execution,
            step: env.step.name.as_str(),
            task: run.task.label.as_str(),
            kind: run.task.kind.as_str(),
            iteration: self.at.iteration,
            visit: run.visit,
            attempt: run.attempt,
            input: &input,
            fields: &ready.fields,
            timeout: &timeout,
        };
        let scripted = env.answers.answer(&asked);
        let answer = match (scripted, run.task.kind.as_str()) {
            (Some(answer), _) => Ok(answer),
            (None, "playbook") => match pipeline::child(run.task, rendered, &self.scope) {
                Ok(awaits) => return self.suspend(env, run, awaits, out),
                Err(error) => Err(error),
            },
            (None, "wait") => match pipeline::wait(run.task, rendered, env.now) {
                Ok(Waiting::Suspend(awaits)) => return self.suspend(env, run, awaits, out),
                Ok(Waiting::Sleep(due)) => Ok(Answer {
                    outcome: Outcome::ok(json!({"fired_at": due})),
                    takes: due.since(env.now),
                }),
                Err(error) => Err(error),
            },
            (None, _) => {
                let result = ready.fields.get("result").cloned().unwrap_or_default();
                Ok(Answer::now(Outcome::ok(result)))
            }
        };
        let answer = answer.unwrap_or_else(|error| Answer::now(Outcome::error(*error)));
        self.start(env, run, out);
        self.call = Some(Call {
            task: run.task.label.clone(),
            visit: run.visit,
            attempt: run.attempt,
            entry: run.entry,
            until: env.now.after(answer.takes),
            outcome: answer.outcome,
        });
        Stepped::Went
    }

    /// Starts a wait that frees the slot. Only `task.started` records what it waits for, so every attempt has one.
    fn suspend(
        &mut self,
        env: &Env<'_>,
        run: &TaskRun<'_>,
        awaits: Awaits,
        out: &mut Vec<Event>,
    ) -> Stepped {
        let body = Body::TaskStarted(TaskStarted {
            inputs: None,
            request: None,
            awaits: Some(Box::new(awaits)),
        });
        let at = self.task_at(run);
        self.record(event(env, at, body), out);
        Stepped::Left { interrupted: false }
    }

    fn start(&mut self, env: &Env<'_>, run: &TaskRun<'_>, out: &mut Vec<Event>) {
        let body = match run.entry {
            Entry::Fresh => Body::TaskStarted(TaskStarted {
                inputs: None,
                request: None,
                awaits: None,
            }),
            Entry::Retry => Body::AttemptStarted(Nothing {}),
            Entry::Again => return,
        };
        let at = self.task_at(run);
        self.record(event(env, at, body), out);
    }

    fn settle(
        &mut self,
        env: &mut Env<'_>,
        run: &TaskRun<'_>,
        mut outcome: Outcome,
        out: &mut Vec<Event>,
    ) {
        outcome
            .meta_mut()
            .insert("attempt".to_owned(), run.attempt.into());
        let at = self.task_at(run);
        let owner = Owner {
            execution: env.execution,
            at: &at,
            now: env.now,
        };
        outcome = env.store.outcome(owner, run.task, outcome);
        let place = Place {
            at: self.at.clone(),
            jumps: self.continuation.jumps,
            jumps_max: env.jumps_max,
        };
        let step = env.step;
        let judge = |scope: &Scope| pipeline::settle(step, run, &outcome, scope, &place);
        let settled = resolve(env.store, env.execution, &mut self.scope, judge)
            .expect("settling fails only if something is not loaded");
        let mut settled = settled;
        env.store.writes(owner, &mut settled);
        if let Some(error) = settled.too_large() {
            outcome = Outcome::error(error);
            settled = pipeline::fail(run, &outcome, &place);
        }
        for draft in settled.events {
            self.record(event(env, draft.at, draft.body), out);
        }
        pipeline::apply_writes(&mut self.scope, &settled.writes);
        if env.is_parallel {
            model::ctx::join(&mut self.patch, &settled.writes.ctx);
        }
        self.failure = settled.failure;
        pipeline::see(&mut self.scope, run, settled.part, outcome);
    }

    fn end(&mut self, env: &Env<'_>, error: Option<TaskError>, out: &mut Vec<Event>) -> Stepped {
        let (set_ctx, error) = match pipeline::iteration_patch(&self.patch) {
            Ok(set_ctx) => (set_ctx, error),
            Err(too_large) => (None, error.or(Some(*too_large))),
        };
        let body = match (error, self.at.iteration) {
            (None, None) if env.claim.is_some() => self.claimed(env),
            (None, None) => Body::StepDone(StepDone::default()),
            (None, Some(_)) => Body::IterationDone(model::event::IterationDone { set_ctx }),
            (Some(error), iteration) => {
                let error = self.located(env, error);
                let failed = Box::new(model::event::Failed { error, set_ctx });
                match iteration {
                    None => Body::StepFailed(failed),
                    Some(_) => Body::IterationFailed(failed),
                }
            }
        };
        let mut event = event(env, self.at.clone(), body);
        let took = env.now.since(self.begun).as_millis();
        event.duration_ms = Some(u64::try_from(took).unwrap_or(u64::MAX));
        self.record(event, out);
        Stepped::Ended
    }

    /// The claimed rows, in the format of a worker's report.
    fn claimed(&self, env: &Env<'_>) -> Body {
        let claim = env.claim.expect("the pipeline claims rows");
        let rows = claim.rows.render(&self.scope);
        let rows = rows.map_or(Value::Null, |rendered| rendered.value);
        let owner = Owner {
            execution: env.execution,
            at: &self.at,
            now: env.now,
        };
        let result_ref = Box::new(env.store.elements(owner, &rows));
        Body::ResultStored(ResultStored { result_ref })
    }

    /// Why the pipeline failed; read from the log if another worker recorded it.
    fn why(&mut self, env: &Env<'_>) -> TaskError {
        if let Some(error) = self.failure.take() {
            return error;
        }
        let last = self.continuation.last.as_ref();
        let pointer = last.and_then(|label| self.continuation.outcomes.get(label));
        let events = pointer.map(|pointer| events_at(env.store, env.execution, &[pointer.seq]));
        let outcome = events.and_then(|events| events.first().and_then(outcome_of));
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

    fn located(&self, env: &Env<'_>, mut error: TaskError) -> TaskError {
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

    fn task_at(&self, run: &TaskRun<'_>) -> At {
        At {
            task: Some(run.task.label.clone()),
            visit: run.visit,
            attempt: run.attempt,
            ..self.at.clone()
        }
    }

    fn record(&mut self, event: Event, out: &mut Vec<Event>) {
        pipeline::fold(&mut self.continuation, &event);
        out.push(event);
    }
}

/// Creates an event of a worker. The server assigns its ID and sequence number.
pub(crate) fn event(env: &Env<'_>, at: At, body: Body) -> Event {
    Event {
        event_id: EventId(0),
        execution_id: env.execution,
        seq: Seq(0),
        cause_seq: None,
        timestamp: env.now,
        recorded_at: env.now,
        source: Source::Worker,
        at,
        duration_ms: None,
        worker_id: Some(env.worker.clone()),
        trace_id: None,
        meta: None,
        body,
    }
}

fn answered(env: &Env<'_>, by: Seq, since: Seq) -> Outcome {
    let events = events_at(env.store, env.execution, &[since, by]);
    let find = |seq: Seq| events.iter().find(|event| event.seq == seq);
    match (find(since).map(|event| &event.body), find(by)) {
        (
            Some(Body::TaskStarted(TaskStarted {
                awaits: Some(awaits),
                ..
            })),
            Some(event),
        ) => pipeline::answer(awaits, event),
        _ => Outcome::error(TaskError::new(
            ErrorKind::Storage,
            "REFERENCE_NOT_AVAILABLE",
            format!("cannot read event {by} of the suspended task"),
        )),
    }
}

fn writes(event: &Event, is_parallel: bool) -> Writes {
    let written = event.body.written();
    let map = |raw: Option<&Raw>| raw.and_then(|raw| raw.read().ok()).unwrap_or_default();
    Writes {
        iter: map(written.iter),
        ctx: map(written.ctx.filter(|_| is_parallel)),
        local: map(written.local),
    }
}

fn unknown_outcome(run: &TaskRun<'_>) -> TaskError {
    let message = format!(
        "task `{}` already started and may have taken effect; an `at_most_once` task is not run again",
        run.task.label
    );
    TaskError {
        retryable: false,
        ..TaskError::new(ErrorKind::Unknown, "UNKNOWN_OUTCOME", message)
    }
}
