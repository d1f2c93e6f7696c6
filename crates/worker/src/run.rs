//! Running a pipeline: its next task is found, run and settled, until it ends, waits or must stop.
//!
//! Enters: a continuation and what its templates see. Leaves: events, in order, and how it ended. The counter moves
//! only by folding those events; what has effects is durable before anything follows it.

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

/// A wait of this length is worth a report before it.
const WAIT_TO_REPORT: Duration = Duration::from_secs(1);

/// One pipeline under way.
pub(crate) struct Pipeline<'h> {
    pub(crate) hand: &'h Hand,
    pub(crate) step: &'h Step,
    pub(crate) plan: &'h StepPlan,
    /// The step run, and the iteration if it is one of a loop.
    pub(crate) at: At,
    pub(crate) continuation: Continuation,
    pub(crate) scope: Scope,
    /// What happened and is not yet with the lease.
    pub(crate) events: Vec<Event>,
    /// Writes to `ctx` that ride with the iteration's end.
    pub(crate) patch: Map<String, Value>,
    /// Whether an effect is not yet durable.
    pub(crate) owes: bool,
    /// What the call that was just made leaves to be done.
    pub(crate) afterwards: Afterwards,
    /// When the current visit began.
    pub(crate) begun: Time,
    /// Why it fails.
    pub(crate) failure: Option<TaskError>,
    /// What the templates of the call under way made of secrets.
    pub(crate) derived: Vec<String>,
    /// What masks those, and all that was known when they were made.
    pub(crate) call_masks: Option<Arc<Masks>>,
}

/// How a pipeline ended, for now.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Well.
    Done,
    /// As a failure.
    Failed(Box<TaskError>),
    /// It waits for something outside.
    Suspended,
    /// It was told to stop before its end.
    Interrupted,
}

/// What an attempt came to.
enum Attempted {
    /// An outcome, to be settled.
    Outcome(Box<Outcome>),
    /// It waits for something outside.
    Suspended,
}

impl Attempted {
    fn of(outcome: Outcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}

impl<'h> Pipeline<'h> {
    /// A pipeline that begins, or goes on from `continuation`.
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

    /// Runs until it ends, waits or must stop.
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

    /// Makes durable what must be before anything follows it.
    async fn settle_debts(&mut self) -> Result<(), Trouble> {
        if self.owes {
            self.report().await?;
        }
        Ok(())
    }

    /// Before a longer wait the log learns where the pipeline stands: a worker that dies now did not die of a task.
    async fn report_before_wait(&mut self, due: Time) -> Result<(), Trouble> {
        if due.since(self.hand.now()) >= WAIT_TO_REPORT {
            return self.report().await;
        }
        self.settle_debts().await
    }

    /// Does what a call has left to be done once its outcome is recorded.
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
        let (index, _) = index.expect("the task is one of the step's");
        let plan = self.plan;
        let records_call = match &plan.tasks[index].role {
            Role::Tool(tool) => tool.records_call(),
            _ => true,
        };
        if records_call {
            self.mask_ready(&mut ready);
        }
        // A retry of a tool is recorded without what it was started with; a task that waits is started anew each time.
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
                let message = format!("this worker has no tool of kind `{}`", run.task.kind);
                let error = TaskError::new(ErrorKind::ClientError, "TOOL_UNKNOWN", message);
                Ok(Attempted::of(Outcome::error(error)))
            }
        }
    }

    /// Begins to wait, or fails where what to wait for makes no sense.
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
                // Only a `task.started` says what is awaited, so one more attempt is one more of those.
                let event = self.hand.event(at.clone(), Body::TaskStarted(started));
                self.record(event);
                self.continuation.attempt = run.attempt;
                Attempted::Suspended
            }
        }
    }

    /// Records that an attempt begins, unless the log says so already.
    fn start(&mut self, run: &TaskRun<'_>, at: &At, started: TaskStarted) {
        let body = match run.entry {
            Entry::Fresh => Body::TaskStarted(started),
            Entry::Retry => Body::AttemptStarted(Nothing {}),
            Entry::Again => return,
        };
        let event = self.hand.event(at.clone(), body);
        self.record(event);
    }

    /// Folds an event and keeps it for the next report.
    pub(crate) fn record(&mut self, event: Event) {
        pipeline::fold(&mut self.continuation, &event);
        self.events.push(event);
    }

    /// The attempt, as events name it.
    pub(crate) fn task_at(&self, run: &TaskRun<'_>) -> At {
        At {
            task: Some(run.task.label.clone()),
            visit: run.visit,
            attempt: run.attempt,
            ..self.at.clone()
        }
    }

    /// The outcome of a task that could not be rendered.
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

    /// The outcome that came from outside.
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

    /// Why the pipeline fails; read from the log where another worker saw it.
    async fn why(&mut self) -> Result<TaskError, Trouble> {
        let error = match self.failure.take() {
            Some(error) => error,
            None => restore::last_error(self.hand, &self.continuation).await?,
        };
        let label = self.continuation.last.as_ref();
        let task = label.and_then(|label| self.step.task(label.as_str()));
        Ok(located(error, self.step, task.map(|(_, task)| task)))
    }

    /// The patch that rides with the iteration's end, or why it cannot.
    pub(crate) fn set_ctx(&self) -> Result<Option<Raw>, Box<TaskError>> {
        pipeline::iteration_patch(&self.patch)
    }
}

/// The same error, saying where it happened as far as it does not yet.
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
        "task `{}` began before and may have had its effect; it must not run twice",
        run.task.label
    );
    TaskError {
        retryable: false,
        ..TaskError::new(ErrorKind::Unknown, "UNKNOWN_OUTCOME", message)
    }
}

fn lost(seq: Seq) -> TaskError {
    let message = format!("event {seq}, which answers the task, cannot be read");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message)
}
