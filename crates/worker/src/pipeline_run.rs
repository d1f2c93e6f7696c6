//! Runs a pipeline: determines the next task, runs it and applies its policy, until the pipeline ends, waits or must
//! stop.
//!
//! Input: a continuation and the template scope. Output: events, in order, and how the pipeline ended. Only folding
//! these events moves the position; the events of a task with side effects are durable before the next task starts.

use std::sync::Arc;
use std::time::Duration;

use language::playbook::{Effect, Step};
use language::template::{LazyValue, Scope};
use model::command::Continuation;
use model::event::{AwaitTarget, EmptyPayload, EventBody, EventLocation, ReportedEvent, TaskStarted};
use model::id::Seq;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::RawJson;
use model::time::Time;
use pipeline::{AttemptKind, NextAction, RenderedTask, TaskAttempt, WaitAction};
use serde_json::{Map, Value, json};
use tools::{DeferredAction, Tool};

use crate::command_context::{CommandContext, WorkError};
use crate::load::{self, ResolveError};
use crate::playbooks::{StepPlan, ToolBinding};
use crate::render::{self, RenderedCall};
use crate::secrets::SecretMasker;
use crate::{call, restore};

/// Events are reported before a wait of at least this length.
const REPORTED_WAIT_MIN: Duration = Duration::from_secs(1);

/// One running pipeline.
pub(crate) struct PipelineRun<'h> {
    pub(crate) context: &'h CommandContext,
    pub(crate) step: &'h Step,
    pub(crate) plan: &'h StepPlan,
    /// Location: step run, and the iteration if the step has a loop.
    pub(crate) location: EventLocation,
    pub(crate) continuation: Continuation,
    pub(crate) scope: Scope,
    /// Events that are not passed to the lease yet.
    pub(crate) events: Vec<ReportedEvent>,
    /// `ctx` writes that are recorded when the iteration ends.
    pub(crate) ctx_patch: Map<String, Value>,
    /// Whether a side effect is not durable yet.
    pub(crate) has_unreported_effect: bool,
    /// Deferred action of the call that was just made.
    pub(crate) deferred: DeferredAction,
    /// When the current visit started.
    pub(crate) started_at: Time,
    /// Error with which the pipeline fails.
    pub(crate) failure: Option<TaskError>,
    /// Texts that the templates of the current call derived from secrets.
    pub(crate) derived_secrets: Vec<String>,
    /// Masks for these texts and for all secrets known when they were derived.
    pub(crate) call_masker: Option<Arc<SecretMasker>>,
}

/// How a run of a pipeline ended.
#[derive(Debug)]
pub(crate) enum PipelineEnd {
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
enum AttemptEnd {
    /// With an outcome, to which the policy applies.
    Outcome(Box<Outcome>),
    /// It waits for an event from outside.
    Suspended,
}

impl AttemptEnd {
    fn from_outcome(outcome: Outcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}

impl<'h> PipelineRun<'h> {
    /// Creates a pipeline at its start; `restore` moves it to a continuation.
    pub(crate) fn new(
        context: &'h CommandContext,
        step: &'h Step,
        plan: &'h StepPlan,
        location: EventLocation,
        scope: Scope,
    ) -> Self {
        Self {
            context,
            step,
            plan,
            location,
            continuation: Continuation::default(),
            scope,
            events: Vec::new(),
            ctx_patch: Map::new(),
            has_unreported_effect: false,
            deferred: DeferredAction::default(),
            started_at: context.now(),
            failure: None,
            derived_secrets: Vec::new(),
            call_masker: None,
        }
    }

    /// Runs until the pipeline ends, waits or must stop.
    pub(crate) async fn run(&mut self) -> PipelineEnd {
        match self.advance().await {
            Ok(ended) => ended,
            Err(WorkError::Interrupted) => PipelineEnd::Interrupted,
            Err(WorkError::Failed(error)) => PipelineEnd::Failed(error),
        }
    }

    async fn advance(&mut self) -> Result<PipelineEnd, WorkError> {
        loop {
            let now = self.context.now();
            match pipeline::next_action(self.step, &self.continuation, now) {
                NextAction::Run(attempt) => {
                    self.report_effects().await?;
                    if !self.context.lease.may_start() {
                        return Err(WorkError::Interrupted);
                    }
                    match self.run_attempt(&attempt, now).await? {
                        AttemptEnd::Outcome(outcome) => self.finish_attempt(&attempt, *outcome).await?,
                        AttemptEnd::Suspended => return Ok(PipelineEnd::Suspended),
                    }
                    self.run_deferred().await?;
                }
                NextAction::EndWait {
                    attempt,
                    awaited_seq,
                    started_seq,
                } => {
                    let outcome = self.load_awaited_outcome(awaited_seq, started_seq).await?;
                    self.finish_attempt(&attempt, outcome).await?;
                }
                NextAction::WaitUntil(due) => {
                    self.report_before_wait(due).await?;
                    self.sleep_until(due).await?;
                }
                NextAction::Suspended => return Ok(PipelineEnd::Suspended),
                NextAction::Done => return Ok(PipelineEnd::Done),
                NextAction::Failed => {
                    return Ok(PipelineEnd::Failed(Box::new(self.failure_error().await?)));
                }
            }
        }
    }

    /// Reports pending events if a task with side effects ran, so that they are durable before the next task starts.
    async fn report_effects(&mut self) -> Result<(), WorkError> {
        if self.has_unreported_effect {
            self.report().await?;
        }
        Ok(())
    }

    /// Reports the position before a longer wait, so that a worker crash during the wait does not count against a task.
    async fn report_before_wait(&mut self, due: Time) -> Result<(), WorkError> {
        if due.since(self.context.now()) >= REPORTED_WAIT_MIN {
            return self.report().await;
        }
        self.report_effects().await
    }

    /// Runs the deferred action of a call after its outcome is recorded.
    async fn run_deferred(&mut self) -> Result<(), WorkError> {
        if let Some(deferred) = self.deferred.take() {
            self.report().await?;
            deferred.await;
        }
        Ok(())
    }

    async fn report(&mut self) -> Result<(), WorkError> {
        self.context.lease.push(&mut self.events);
        self.context.lease.flush().await?;
        self.has_unreported_effect = false;
        Ok(())
    }

    async fn sleep_until(&self, due: Time) -> Result<(), WorkError> {
        tokio::select! {
            () = self.context.shared.config.clock.sleep_until(due) => Ok(()),
            () = self.context.lease.yield_token().cancelled() => Err(WorkError::Interrupted),
        }
    }

    /// Runs one attempt of a task.
    async fn run_attempt(&mut self, attempt: &TaskAttempt<'h>, now: Time) -> Result<AttemptEnd, WorkError> {
        let location = self.task_location(attempt);
        if attempt.kind == AttemptKind::First {
            self.started_at = now;
        }
        self.scope.task = Some(attempt.task.label.clone());
        self.scope.attempt = Some(attempt.number);
        self.scope.now = Some(now);
        self.scope.input = LazyValue::default();
        let key = pipeline::idempotency_key(self.context.execution(), &location);
        self.scope.idempotency_key = Some(key.into());
        let (step, task) = (self.step, attempt.task);
        let render = |scope: &Scope| render::render_call(step, task, scope);
        let rendered_call = match self.load_keychain(attempt).await {
            Ok(()) => load::render_with_loading(self.context, &mut self.scope, render).await,
            Err(error) => Err(error.into()),
        };
        self.scope.keychain = None;
        let rendered_call = match rendered_call {
            Ok(rendered_call) => self
                .substitute_credentials(attempt, rendered_call)
                .await
                .map_err(ResolveError::from),
            Err(error) => Err(error),
        };
        let rendered_call = match rendered_call {
            Ok(rendered_call) => rendered_call,
            Err(error) => {
                let outcome = self.render_failure_outcome(attempt, error)?;
                let started = TaskStarted {
                    inputs: None,
                    request: None,
                    awaits: None,
                    approval: None,
                };
                self.record_start(attempt, &location, started);
                return Ok(AttemptEnd::from_outcome(outcome));
            }
        };
        if let Some(input) = &rendered_call.input {
            self.scope.input = LazyValue::new(input.masked());
        }
        self.dispatch_task(attempt, location, rendered_call).await
    }

    async fn dispatch_task(
        &mut self,
        attempt: &TaskAttempt<'h>,
        location: EventLocation,
        mut rendered_call: RenderedCall,
    ) -> Result<AttemptEnd, WorkError> {
        let index = self.step.task(attempt.task.label.as_str());
        let (index, _) = index.expect("the task belongs to the step");
        let plan = self.plan;
        let records_call = match &plan.tasks[index].binding {
            ToolBinding::Tool(tool) => tool.records_call(),
            _ => true,
        };
        if records_call {
            self.mask_rendered_call(&mut rendered_call);
        }
        // A retry of a tool is recorded without inputs and request. A task that waits records `task.started` for each
        // attempt.
        let is_recorded =
            attempt.kind == AttemptKind::First || !matches!(plan.tasks[index].binding, ToolBinding::Tool(_));
        let mut started = TaskStarted {
            inputs: rendered_call.recorded_input.clone().filter(|_| is_recorded),
            request: is_recorded.then(|| self.rendered_request(&rendered_call)).flatten(),
            awaits: None,
            approval: None,
        };
        match &plan.tasks[index].binding {
            ToolBinding::Tool(tool) => {
                self.record_start(attempt, &location, started);
                let is_pure = plan.tasks[index].is_pure;
                self.call_tool(attempt, &location, tool, is_pure, rendered_call).await
            }
            ToolBinding::Child => {
                let awaits = pipeline::parse_child_task(attempt.task, rendered_task(&rendered_call), &self.scope);
                Ok(self.suspend(attempt, &location, started, awaits))
            }
            ToolBinding::Wait => {
                match pipeline::parse_wait_task(attempt.task, rendered_task(&rendered_call), self.context.now()) {
                    Ok(WaitAction::Sleep(due)) => {
                        self.record_start(attempt, &location, started);
                        self.report_before_wait(due).await?;
                        self.sleep_until(due).await?;
                        let fired = json!({"fired_at": self.context.now()});
                        Ok(AttemptEnd::from_outcome(Outcome::ok(fired)))
                    }
                    Ok(WaitAction::Suspend(awaits)) => {
                        let approval = self.rendered_approval(attempt.task, &rendered_call);
                        let awaits = approval.map(|approval| {
                            started.approval = approval;
                            awaits
                        });
                        Ok(self.suspend(attempt, &location, started, awaits))
                    }
                    Err(error) => Ok(self.suspend(attempt, &location, started, Err(error))),
                }
            }
            ToolBinding::Unknown => {
                self.record_start(attempt, &location, started);
                let message = format!("this worker does not support tool kind `{}`", attempt.task.kind);
                let error = TaskError::new(ErrorKind::ClientError, "TOOL_UNKNOWN", message);
                Ok(AttemptEnd::from_outcome(Outcome::error(error)))
            }
        }
    }

    /// Calls the tool of a task. A task with the effect `at_most_once` is reported before, and is not called again after a
    /// call whose outcome is unknown.
    async fn call_tool(
        &mut self,
        attempt: &TaskAttempt<'h>,
        location: &EventLocation,
        tool: &Arc<dyn Tool>,
        is_pure: bool,
        mut rendered: RenderedCall,
    ) -> Result<AttemptEnd, WorkError> {
        if attempt.task.effect == Effect::AtMostOnce {
            if attempt.kind == AttemptKind::Resumed {
                let outcome = Outcome::error(unknown_outcome(attempt));
                return Ok(AttemptEnd::from_outcome(outcome));
            }
            self.report().await?;
        }
        self.has_unreported_effect |= !is_pure;
        rendered.masker.clone_from(&self.call_masker);
        let prepared = call::PreparedCall {
            tool,
            task: attempt.task,
            rendered,
            scope: &mut self.scope,
        };
        match call::call_tool(self.context, prepared, location).await {
            Ok((outcome, deferred)) => {
                self.deferred = deferred;
                Ok(AttemptEnd::from_outcome(outcome))
            }
            Err(WorkError::Failed(error)) => Ok(AttemptEnd::from_outcome(Outcome::error(*error))),
            Err(WorkError::Interrupted) => Err(WorkError::Interrupted),
        }
    }

    /// Suspends the task, or fails if the wait target is invalid.
    fn suspend(
        &mut self,
        attempt: &TaskAttempt<'h>,
        location: &EventLocation,
        mut started: TaskStarted,
        awaits: Result<AwaitTarget, Box<TaskError>>,
    ) -> AttemptEnd {
        match awaits {
            Err(error) => {
                self.record_start(attempt, location, started);
                AttemptEnd::from_outcome(Outcome::error(*error))
            }
            Ok(awaits) => {
                started.awaits = Some(Box::new(awaits));
                // Only `task.started` records what the task waits for, so each attempt needs one.
                let event = self.context.event(location.clone(), EventBody::TaskStarted(started));
                self.record_event(event);
                self.continuation.attempt = attempt.number;
                AttemptEnd::Suspended
            }
        }
    }

    /// Records the start of an attempt, unless it is already in the log.
    fn record_start(&mut self, attempt: &TaskAttempt<'_>, location: &EventLocation, started: TaskStarted) {
        let body = match attempt.kind {
            AttemptKind::First => EventBody::TaskStarted(started),
            AttemptKind::Retry => EventBody::AttemptStarted(EmptyPayload {}),
            AttemptKind::Resumed => return,
        };
        let event = self.context.event(location.clone(), body);
        self.record_event(event);
    }

    /// Folds an event and adds it to the next report.
    pub(crate) fn record_event(&mut self, event: ReportedEvent) {
        pipeline::fold(&mut self.continuation, &event);
        self.events.push(event);
    }

    /// Location of the attempt in events.
    pub(crate) fn task_location(&self, attempt: &TaskAttempt<'_>) -> EventLocation {
        EventLocation {
            task: Some(attempt.task.label.clone()),
            visit: attempt.visit,
            attempt: attempt.number,
            ..self.location.clone()
        }
    }

    /// Returns the outcome of a task that could not be rendered.
    fn render_failure_outcome(&self, attempt: &TaskAttempt<'_>, cause: ResolveError) -> Result<Outcome, WorkError> {
        match cause {
            ResolveError::Template(error) => {
                let error = pipeline::render_failure(&error, self.step, &attempt.task.label);
                Ok(Outcome::error(error))
            }
            ResolveError::Missing(error) => Ok(Outcome::error(*error)),
            ResolveError::Interrupted => Err(WorkError::Interrupted),
        }
    }

    /// Loads the outcome of a suspended task from the event that ended its wait.
    async fn load_awaited_outcome(&mut self, awaited_seq: Seq, started_seq: Seq) -> Result<Outcome, WorkError> {
        let events = load::load_events(self.context, &[started_seq, awaited_seq]).await?;
        let find = |seq: Seq| events.iter().find(|event| event.seq == seq);
        let started = find(started_seq).map(|event| (&event.body, event.timestamp));
        let Some((EventBody::TaskStarted(started), timestamp)) = started else {
            return Ok(Outcome::error(unreadable_event_error(started_seq)));
        };
        self.started_at = timestamp;
        match (&started.awaits, find(awaited_seq)) {
            (Some(awaits), Some(event)) => Ok(pipeline::awaited_outcome(awaits, event)),
            _ => Ok(Outcome::error(unreadable_event_error(awaited_seq))),
        }
    }

    /// Returns the error of the pipeline; reads it from the log if another worker ran the task.
    async fn failure_error(&mut self) -> Result<TaskError, WorkError> {
        let error = match self.failure.take() {
            Some(error) => error,
            None => restore::load_last_error(self.context, &self.continuation).await?,
        };
        let label = self.continuation.last.as_ref();
        let task = label.and_then(|label| self.step.task(label.as_str()));
        Ok(with_location(error, self.step, task.map(|(_, task)| task)))
    }

    /// Returns the `ctx` writes for the end of the iteration, or an error if they are too large.
    pub(crate) fn iteration_patch(&self) -> Result<Option<RawJson>, Box<TaskError>> {
        pipeline::iteration_patch(&self.ctx_patch)
    }
}

/// Adds step, task and line to an error, unless it already has them.
pub(crate) fn with_location(mut error: TaskError, step: &Step, task: Option<&language::playbook::Task>) -> TaskError {
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

fn rendered_task(rendered_call: &RenderedCall) -> RenderedTask<'_> {
    RenderedTask {
        fields: &rendered_call.fields,
        input: rendered_call.input.as_ref().map(LazyValue::json),
        timeout: rendered_call.timeout.total,
    }
}

fn unknown_outcome(attempt: &TaskAttempt<'_>) -> TaskError {
    let message = format!(
        "task `{}` already started and may have taken effect; an `at_most_once` task is not run again",
        attempt.task.label
    );
    TaskError::permanent(ErrorKind::Unknown, "UNKNOWN_OUTCOME", message)
}

fn unreadable_event_error(seq: Seq) -> TaskError {
    let message = format!("cannot read event {seq} of the suspended task");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message)
}
