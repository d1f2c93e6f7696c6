//! Runs a pipeline: determines the next task, runs it and applies its policy, until the pipeline ends, waits or must
//! stop.
//!
//! Enters: a continuation and the template scope. Leaves: events, in order, and how the pipeline ended. Only folding
//! these events moves the position; the events of a task with side effects are durable before the next task starts.

use std::sync::Arc;
use std::time::Duration;

use model::command::Continuation;
use model::event::{At, Awaits, Body, Event, Nothing, TaskStarted};
use model::id::Seq;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::{Effect, Step};
use model::raw::Raw;
use model::template::{Data, Scope};
use model::time::Time;
use pipeline::{Asked, Entry, Next, TaskRun, Waiting};
use serde_json::{Map, Value, json};
use tools::Afterwards;

use crate::hand::{Hand, Trouble};
use crate::load::{self, Unresolved};
use crate::playbooks::{Role, StepPlan};
use crate::render::{self, Ready};
use crate::secrets::Masks;
use crate::{call, restore};

/// Events are reported before a wait of at least this length.
const WAIT_TO_REPORT: Duration = Duration::from_secs(1);

/// One running pipeline.
pub(crate) struct Pipeline<'h> {
    pub(crate) hand: &'h Hand,
    pub(crate) step: &'h Step,
    pub(crate) plan: &'h StepPlan,
    /// Location: step run, and the iteration if the step has a loop.
    pub(crate) at: At,
    pub(crate) continuation: Continuation,
    pub(crate) scope: Scope,
    /// Events that are not passed to the lease yet.
    pub(crate) events: Vec<Event>,
    /// `ctx` writes that are recorded when the iteration ends.
    pub(crate) patch: Map<String, Value>,
    /// Whether a side effect is not durable yet.
    pub(crate) owes: bool,
    /// Deferred action of the call that was just made.
    pub(crate) afterwards: Afterwards,
    /// When the current visit started.
    pub(crate) begun: Time,
    /// Error with which the pipeline fails.
    pub(crate) failure: Option<TaskError>,
    /// Texts that the templates of the current call derived from secrets.
    pub(crate) derived: Vec<String>,
    /// Masks for these texts and for all secrets known when they were derived.
    pub(crate) call_masks: Option<Arc<Masks>>,
}

/// How a run of a pipeline ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The pipeline is complete.
    Done,
    /// The pipeline failed.
    Failed(Box<TaskError>),
    /// It waits for an event from outside.
    Suspended,
    /// The worker was stopped before the pipeline ended.
    Interrupted,
}

/// How an attempt ended.
enum Attempted {
    /// With an outcome, to which the policy applies.
    Outcome(Box<Outcome>),
    /// It waits for an event from outside.
    Suspended,
}

impl Attempted {
    fn of(outcome: Outcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}

impl<'h> Pipeline<'h> {
    /// Creates a pipeline at its start; `restore` moves it to a continuation.
    pub(crate) fn new(
        hand: &'h Hand,
        found: (&'h Step, &'h StepPlan),
        at: At,
        scope: Scope,
    ) -> Self {
        Self {
            hand,
            step: found.0,
            plan: found.1,
            at,
            continuation: Continuation::default(),
            scope,
            events: Vec::new(),
            patch: Map::new(),
            owes: false,
            afterwards: Afterwards::default(),
            begun: hand.now(),
            failure: None,
            derived: Vec::new(),
            call_masks: None,
        }
    }

    /// Runs until the pipeline ends, waits or must stop.
    pub(crate) async fn run(&mut self) -> Ended {
        match self.advance().await {
            Ok(ended) => ended,
            Err(Trouble::Interrupted) => Ended::Interrupted,
            Err(Trouble::Failed(error)) => Ended::Failed(error),
        }
    }

    async fn advance(&mut self) -> Result<Ended, Trouble> {
        loop {
            let now = self.hand.now();
            match pipeline::next(self.step, &self.continuation, now) {
                Next::Run(run) => {
                    self.settle_debts().await?;
                    if !self.hand.lease.is_open() {
                        return Err(Trouble::Interrupted);
                    }
                    match self.attempt(&run, now).await? {
                        Attempted::Outcome(outcome) => self.settle(&run, *outcome).await?,
                        Attempted::Suspended => return Ok(Ended::Suspended),
                    }
                    self.do_the_rest().await?;
                }
                Next::Answered { run, by, since } => {
                    let outcome = self.answer(by, since).await?;
                    self.settle(&run, outcome).await?;
                }
                Next::WaitUntil(due) => {
                    self.report_before_wait(due).await?;
                    self.sleep_until(due).await?;
                }
                Next::Suspended => return Ok(Ended::Suspended),
                Next::Done => return Ok(Ended::Done),
                Next::Failed => return Ok(Ended::Failed(Box::new(self.why().await?))),
            }
        }
    }

    /// Reports pending events if a task with side effects ran, so that they are durable before the next task starts.
    async fn settle_debts(&mut self) -> Result<(), Trouble> {
        if self.owes {
            self.report().await?;
        }
        Ok(())
    }

    /// Reports the position before a longer wait, so that a worker crash during the wait does not count against a task.
    async fn report_before_wait(&mut self, due: Time) -> Result<(), Trouble> {
        if due.since(self.hand.now()) >= WAIT_TO_REPORT {
            return self.report().await;
        }
        self.settle_debts().await
    }

    /// Runs the deferred action of a call after its outcome is recorded.
    async fn do_the_rest(&mut self) -> Result<(), Trouble> {
        if let Some(rest) = self.afterwards.take() {
            self.report().await?;
            rest.await;
        }
        Ok(())
    }

    async fn report(&mut self) -> Result<(), Trouble> {
        self.hand.lease.push(&mut self.events);
        self.hand.lease.flush().await?;
        self.owes = false;
        Ok(())
    }

    async fn sleep_until(&self, due: Time) -> Result<(), Trouble> {
        tokio::select! {
            () = self.hand.shared.config.clock.sleep_until(due) => Ok(()),
            () = self.hand.lease.paused().cancelled() => Err(Trouble::Interrupted),
        }
    }

    /// Runs one attempt of a task.
    async fn attempt(&mut self, run: &TaskRun<'h>, now: Time) -> Result<Attempted, Trouble> {
        let at = self.task_at(run);
        if run.entry == Entry::Fresh {
            self.begun = now;
        }
        self.scope.task = Some(run.task.label.clone());
        self.scope.attempt = Some(run.attempt);
        self.scope.now = Some(now);
        self.scope.input = Data::default();
        let key = pipeline::idempotency_key(self.hand.execution(), &at);
        self.scope.idempotency_key = Some(key.into());
        let (step, task) = (self.step, run.task);
        let render = |scope: &Scope| render::render(step, task, scope);
        let ready = match self.open_keychain(run).await {
            Ok(()) => load::resolve(self.hand, &mut self.scope, render).await,
            Err(trouble) => Err(trouble.into()),
        };
        self.scope.keychain = None;
        let ready = match ready {
            Ok(ready) => self.open_auth(run, ready).await.map_err(Unresolved::from),
            Err(unresolved) => Err(unresolved),
        };
        let ready = match ready {
            Ok(ready) => ready,
            Err(unresolved) => {
                let outcome = self.unrendered(run, unresolved)?;
                let started = TaskStarted {
                    inputs: None,
                    request: None,
                    awaits: None,
                };
                self.start(run, &at, started);
                return Ok(Attempted::of(outcome));
            }
        };
        if let Some(input) = &ready.input {
            self.scope.input = Data::new(input.shown());
        }
        self.dispatch(run, at, ready).await
    }

    async fn dispatch(
        &mut self,
        run: &TaskRun<'h>,
        at: At,
        mut ready: Ready,
    ) -> Result<Attempted, Trouble> {
        let index = self.step.task(run.task.label.as_str());
        let (index, _) = index.expect("the task belongs to the step");
        let plan = self.plan;
        let records_call = match &plan.tasks[index].role {
            Role::Tool(tool) => tool.records_call(),
            _ => true,
        };
        if records_call {
            self.mask_ready(&mut ready);
        }
        // A retry of a tool is recorded without inputs and request. A task that waits records `task.started` for each
        // attempt.
        let is_recorded =
            run.entry == Entry::Fresh || !matches!(plan.tasks[index].role, Role::Tool(_));
        let started = TaskStarted {
            inputs: ready.inputs.clone().filter(|_| is_recorded),
            request: is_recorded.then(|| self.rendered_request(&ready)).flatten(),
            awaits: None,
        };
        match &plan.tasks[index].role {
            Role::Tool(tool) => {
                self.start(run, &at, started);
                let is_unknown = run.entry == Entry::Again;
                if run.task.effect == Effect::AtMostOnce {
                    if is_unknown {
                        return Ok(Attempted::of(Outcome::error(unknown_outcome(run))));
                    }
                    self.report().await?;
                }
                self.owes |= !plan.tasks[index].is_pure;
                ready.masks.clone_from(&self.call_masks);
                let prepared = (ready, &mut self.scope);
                match call::make(self.hand, tool, run.task, &at, prepared).await {
                    Ok((outcome, afterwards)) => {
                        self.afterwards = afterwards;
                        Ok(Attempted::of(outcome))
                    }
                    Err(Trouble::Failed(error)) => Ok(Attempted::of(Outcome::error(*error))),
                    Err(Trouble::Interrupted) => Err(Trouble::Interrupted),
                }
            }
            Role::Child => {
                let awaits = pipeline::child(run.task, asked(&ready), &self.scope);
                Ok(self.suspend(run, &at, started, awaits))
            }
            Role::Wait => match pipeline::wait(run.task, asked(&ready), self.hand.now()) {
                Ok(Waiting::Sleep(due)) => {
                    self.start(run, &at, started);
                    self.report_before_wait(due).await?;
                    self.sleep_until(due).await?;
                    let fired = json!({"fired_at": self.hand.now()});
                    Ok(Attempted::of(Outcome::ok(fired)))
                }
                Ok(Waiting::Suspend(awaits)) => Ok(self.suspend(run, &at, started, Ok(awaits))),
                Err(error) => Ok(self.suspend(run, &at, started, Err(error))),
            },
            Role::Unknown => {
                self.start(run, &at, started);
                let message = format!("this worker does not support tool kind `{}`", run.task.kind);
                let error = TaskError::new(ErrorKind::ClientError, "TOOL_UNKNOWN", message);
                Ok(Attempted::of(Outcome::error(error)))
            }
        }
    }

    /// Suspends the task, or fails if the wait target is invalid.
    fn suspend(
        &mut self,
        run: &TaskRun<'h>,
        at: &At,
        mut started: TaskStarted,
        awaits: Result<Awaits, Box<TaskError>>,
    ) -> Attempted {
        match awaits {
            Err(error) => {
                self.start(run, at, started);
                Attempted::of(Outcome::error(*error))
            }
            Ok(awaits) => {
                started.awaits = Some(Box::new(awaits));
                // Only `task.started` records what the task waits for, so each attempt needs one.
                let event = self.hand.event(at.clone(), Body::TaskStarted(started));
                self.record(event);
                self.continuation.attempt = run.attempt;
                Attempted::Suspended
            }
        }
    }

    /// Records the start of an attempt, unless it is already in the log.
    fn start(&mut self, run: &TaskRun<'_>, at: &At, started: TaskStarted) {
        let body = match run.entry {
            Entry::Fresh => Body::TaskStarted(started),
            Entry::Retry => Body::AttemptStarted(Nothing {}),
            Entry::Again => return,
        };
        let event = self.hand.event(at.clone(), body);
        self.record(event);
    }

    /// Folds an event and adds it to the next report.
    pub(crate) fn record(&mut self, event: Event) {
        pipeline::fold(&mut self.continuation, &event);
        self.events.push(event);
    }

    /// Location of the attempt in events.
    pub(crate) fn task_at(&self, run: &TaskRun<'_>) -> At {
        At {
            task: Some(run.task.label.clone()),
            visit: run.visit,
            attempt: run.attempt,
            ..self.at.clone()
        }
    }

    /// Returns the outcome of a task that could not be rendered.
    fn unrendered(&self, run: &TaskRun<'_>, why: Unresolved) -> Result<Outcome, Trouble> {
        match why {
            Unresolved::Template(error) => {
                let error = pipeline::render_failure(&error, self.step, &run.task.label);
                Ok(Outcome::error(error))
            }
            Unresolved::Missing(error) => Ok(Outcome::error(*error)),
            Unresolved::Interrupted => Err(Trouble::Interrupted),
        }
    }

    /// Loads the outcome of a suspended task from the event that answers it.
    async fn answer(&mut self, by: Seq, since: Seq) -> Result<Outcome, Trouble> {
        let events = load::events(self.hand, &[since, by]).await?;
        let find = |seq: Seq| events.iter().find(|event| event.seq == seq);
        let started = find(since).map(|event| (&event.body, event.timestamp));
        let Some((Body::TaskStarted(started), begun)) = started else {
            return Ok(Outcome::error(lost(since)));
        };
        self.begun = begun;
        match (&started.awaits, find(by)) {
            (Some(awaits), Some(event)) => Ok(pipeline::answer(awaits, event)),
            _ => Ok(Outcome::error(lost(by))),
        }
    }

    /// Returns the error of the pipeline; reads it from the log if another worker ran the task.
    async fn why(&mut self) -> Result<TaskError, Trouble> {
        let error = match self.failure.take() {
            Some(error) => error,
            None => restore::last_error(self.hand, &self.continuation).await?,
        };
        let label = self.continuation.last.as_ref();
        let task = label.and_then(|label| self.step.task(label.as_str()));
        Ok(located(error, self.step, task.map(|(_, task)| task)))
    }

    /// Returns the `ctx` writes for the end of the iteration, or an error if they are too large.
    pub(crate) fn set_ctx(&self) -> Result<Option<Raw>, Box<TaskError>> {
        pipeline::iteration_patch(&self.patch)
    }
}

/// Adds step, task and line to an error, unless it already has them.
pub(crate) fn located(
    mut error: TaskError,
    step: &Step,
    task: Option<&model::playbook::Task>,
) -> TaskError {
    let mut add = |key: &str, value: Value| {
        error.details.entry(key).or_insert(value);
    };
    add("step", step.name.as_str().into());
    match task {
        Some(task) => {
            add("task", task.label.as_str().into());
            add("line", task.span.line.into());
        }
        None => add("line", step.span.line.into()),
    }
    error
}

fn asked(ready: &Ready) -> Asked<'_> {
    Asked {
        fields: &ready.fields,
        input: ready.input.as_ref().map(Data::json),
        timeout: ready.timeout.total,
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

fn lost(seq: Seq) -> TaskError {
    let message = format!("cannot read event {seq} of the suspended task");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message)
}
