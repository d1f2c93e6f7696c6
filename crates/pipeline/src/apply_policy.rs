//! Applies a task's policy to an outcome and returns the events that record the result.
//!
//! Input: the attempt that ended, its outcome, and the scope of its templates. Only these events, when folded, change
//! the continuation.

use std::borrow::Cow;

use language::playbook::{PolicyRule, Step};
use language::template::{Envelope, RenderError, Scope};
use model::event::{AttemptEnded, EmptyPayload, EventBody, EventLocation, PolicyAction, PolicyEvaluated, TaskEnded};
use model::id::{ExecutionId, Name};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::Directive;
use model::raw::RawJson;
use serde_json::{Map, Value};

use crate::next_action::TaskAttempt;
use crate::policy::{self, ATTEMPTS_MAX, JumpError, RetryDecision, SUSPEND_DELAY_MIN};
pub use crate::writes::RenderedWrites;
use crate::writes::to_raw;

/// Default maximum of jumps in a pipeline. After it, the step fails with `LIMIT_JUMPS`.
pub const JUMPS_MAX: u32 = 10_000;

/// An event without its stamp: the emitter adds ID, time and execution.
#[derive(Debug, Clone, PartialEq)]
pub struct EventDraft {
    /// Step run, iteration and task of the event.
    pub location: EventLocation,
    /// Kind and data of the event.
    pub body: EventBody,
}

/// The result of applying the policy to an outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct OutcomeRecord {
    /// The events that record it, in order.
    pub events: Vec<EventDraft>,
    /// The values that were written.
    pub writes: RenderedWrites,
    /// The error of the pipeline, if it fails.
    pub failure: Option<TaskError>,
    /// The page number of the result, if the visit succeeded.
    pub page: Option<i64>,
}

/// The idempotency key of a task run: the same for every attempt and redelivery, but different for every visit.
pub fn idempotency_key(execution: ExecutionId, location: &EventLocation) -> String {
    let step = location.step.as_ref().map_or("", Name::as_str);
    let task = location.task.as_ref().map_or("", Name::as_str);
    match location.iteration {
        Some(index) => format!("{execution}/{step}:{}/{index}/{task}:{}", location.run, location.visit),
        None => format!("{execution}/{step}:{}/{task}:{}", location.run, location.visit),
    }
}

/// Applies the task's policy to an outcome. `position` names the pipeline and counts its jumps so far.
///
/// Returns only `RenderError::Needs` as an error. Any other error in a rule or write fails the task and is not
/// retryable.
pub fn apply_policy(
    step: &Step,
    run: &TaskAttempt<'_>,
    outcome: &Outcome,
    scope: &Scope,
    position: &PipelinePosition,
) -> Result<OutcomeRecord, RenderError> {
    match apply_action(step, run, outcome, scope, position) {
        Ok(record) => Ok(record),
        Err(JumpError::Render(needs @ RenderError::Needs(_))) => Err(needs),
        Err(error) => {
            let failure = Outcome::error(policy_error(&error, step, run));
            Ok(fail_without_policy(run, &failure, position))
        }
    }
}

/// The pipeline's identity and its jump count.
#[derive(Debug, Clone)]
pub struct PipelinePosition {
    /// Step, run and iteration.
    pub location: EventLocation,
    /// Number of jumps so far.
    pub jumps: u32,
    /// Maximum number of jumps; after it, the step fails with `LIMIT_JUMPS`.
    pub jumps_max: u32,
}

/// Converts a render error of a task's input or policy into a task error.
pub fn render_failure(error: &RenderError, step: &Step, task: &Name) -> TaskError {
    let located = |code: &str, message: String| TaskError {
        retryable: false,
        ..TaskError::new(ErrorKind::Transform, code, message)
    };
    match error {
        RenderError::Failed { code, message, span } => located(code, message.clone())
            .with_detail("step", step.name.as_str())
            .with_detail("task", task.as_str())
            .with_detail("line", span.line)
            .with_detail("column", span.column),
        RenderError::Needs(_) => located(
            "REFERENCE_NOT_AVAILABLE",
            "cannot load a stored result that a template reads".to_owned(),
        ),
    }
}

/// Ends a task whose outcome and writes cannot be recorded: the task fails without evaluating its policy.
pub fn fail_without_policy(run: &TaskAttempt<'_>, failure: &Outcome, position: &PipelinePosition) -> OutcomeRecord {
    let page = visit_page(run, position);
    record_end(run, failure, task_location(run, position, page), VisitEnd::failing())
}

fn policy_error(error: &JumpError, step: &Step, run: &TaskAttempt<'_>) -> TaskError {
    match error {
        JumpError::Render(render) => render_failure(render, step, &run.task.label),
        other => TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::ClientError, "JUMP_TARGET", other.to_string())
        }
        .with_detail("step", step.name.as_str())
        .with_detail("task", run.task.label.as_str())
        .with_detail("line", run.task.span.line),
    }
}

fn apply_action(
    step: &Step,
    run: &TaskAttempt<'_>,
    outcome: &Outcome,
    scope: &Scope,
    position: &PipelinePosition,
) -> Result<OutcomeRecord, JumpError> {
    let location = task_location(run, position, page_of(run, outcome, scope, position));
    let mut scope = scope.clone();
    let mut writes = RenderedWrites::default();
    let verdict = evaluate_policy(run, outcome, &mut scope, &mut writes)?;
    let mut verdict_end = VisitEnd {
        matched_rule: verdict.matched.map(|(index, _)| index),
        ..VisitEnd::continuing(verdict.action)
    };
    if let Some((_, rule)) = verdict.matched {
        if rule.action.directive == Directive::Retry {
            match policy::decide_retry(&rule.action.retry, run.attempt, outcome, &scope)? {
                RetryDecision::Retry { delay, attempts } => {
                    let action = PolicyAction {
                        attempts: Some(attempts),
                        backoff: Some(rule.action.retry.backoff),
                        delay: Some(delay.as_secs_f64()),
                        suspend: delay > SUSPEND_DELAY_MIN,
                        ..PolicyAction::from_directive(Directive::Retry)
                    };
                    return Ok(record_retry(
                        run,
                        outcome,
                        location,
                        VisitEnd {
                            action,
                            writes: render_rule_writes(rule, &scope)?,
                            ..verdict_end
                        },
                    ));
                }
                RetryDecision::Exhausted { attempts } => {
                    verdict_end.set_exhausted(run, outcome, attempts);
                }
            }
        }
        let own = render_rule_writes(rule, &scope)?;
        writes.iter.extend(own.iter);
        writes.ctx.extend(own.ctx);
        writes.local.extend(own.local);
        if let (Directive::Jump, Some(jump)) = (rule.action.directive, &rule.action.to) {
            verdict_end.action.to = Some(policy::resolve_jump(jump, step, run.task, &scope)?);
            if position.jumps >= position.jumps_max {
                verdict_end.limit_jumps(step, position.jumps_max);
            }
        }
    }
    verdict_end.writes = writes;
    if verdict_end.action.directive == Directive::Fail && verdict_end.failure.is_none() {
        let own = || policy::rule_failure(run.task);
        verdict_end.failure = Some(outcome.failure().cloned().unwrap_or_else(own));
    }
    Ok(record_end(run, outcome, location, verdict_end))
}

/// Evaluates the policy, and renders the task's `set` if the pipeline continues. After a success, `set` is rendered
/// first and the rules see its values. After an error, the rules are evaluated first, because they decide whether the
/// pipeline continues.
fn evaluate_policy<'p>(
    run: &TaskAttempt<'p>,
    outcome: &Outcome,
    scope: &mut Scope,
    writes: &mut RenderedWrites,
) -> Result<policy::PolicyMatch<'p>, RenderError> {
    let envelope = Envelope::from_outcome(outcome.clone().into());
    let is_ok = outcome.is_ok();
    if is_ok {
        render_set(scope, run, &envelope, writes)?;
    }
    scope.outcome = Some(envelope.clone());
    let verdict = policy::match_rule(&run.task.policy, outcome, scope)?;
    let directive = verdict.action.directive;
    if !is_ok && matches!(directive, Directive::Continue | Directive::Jump) {
        render_set(scope, run, &envelope, writes)?;
        scope.outcome = Some(envelope);
    }
    Ok(verdict)
}

/// Renders the task's `set` and makes the values visible to later templates.
fn render_set(
    scope: &mut Scope,
    run: &TaskAttempt<'_>,
    envelope: &Envelope,
    writes: &mut RenderedWrites,
) -> Result<(), RenderError> {
    scope.outcome = Some(envelope.clone().with_status());
    writes.add_rendered(&run.task.set, scope)?;
    crate::writes::apply_writes(scope, writes);
    Ok(())
}

/// How a visit ends, or that it is retried.
struct VisitEnd {
    matched_rule: Option<u32>,
    action: PolicyAction,
    writes: RenderedWrites,
    failure: Option<TaskError>,
}

impl VisitEnd {
    fn continuing(action: PolicyAction) -> Self {
        Self {
            matched_rule: None,
            action,
            writes: RenderedWrites::default(),
            failure: None,
        }
    }

    fn failing() -> Self {
        Self::continuing(PolicyAction::from_directive(Directive::Fail))
    }

    /// Fails the task: the rule requests a retry, but the maximum number of attempts is reached.
    fn set_exhausted(&mut self, run: &TaskAttempt<'_>, outcome: &Outcome, attempts: u32) {
        self.action = PolicyAction {
            attempts: Some(attempts),
            ..PolicyAction::from_directive(Directive::Fail)
        };
        let code = if attempts > ATTEMPTS_MAX {
            "LIMIT_ATTEMPTS"
        } else {
            "RETRY_EXHAUSTED"
        };
        let message = format!("task `{}` was attempted {} times", run.task.label, run.attempt);
        let exhausted = || TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::Unknown, code, message)
        };
        self.failure = Some(outcome.failure().cloned().unwrap_or_else(exhausted));
    }

    fn limit_jumps(&mut self, step: &Step, max: u32) {
        let message = format!("step `{}` jumped more than {max} times", step.name);
        self.action = PolicyAction::from_directive(Directive::Fail);
        self.failure = Some(TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::Unknown, "LIMIT_JUMPS", message)
        });
    }
}

/// Returns the events of an attempt that is retried.
fn record_retry(run: &TaskAttempt<'_>, outcome: &Outcome, location: EventLocation, ending: VisitEnd) -> OutcomeRecord {
    let mut events = Vec::with_capacity(3);
    if run.attempt == 1 {
        events.push(EventDraft {
            location: EventLocation {
                page: None,
                ..location.clone()
            },
            body: EventBody::AttemptStarted(EmptyPayload {}),
        });
    }
    events.push(EventDraft {
        location: location.clone(),
        body: attempt_body(outcome),
    });
    events.push(EventDraft {
        location,
        body: policy_body(&ending),
    });
    OutcomeRecord {
        events,
        writes: ending.writes,
        failure: None,
        page: None,
    }
}

/// Returns the events that end a visit.
fn record_end(run: &TaskAttempt<'_>, outcome: &Outcome, location: EventLocation, ending: VisitEnd) -> OutcomeRecord {
    let part = outcome.is_ok().then(|| location.page.unwrap_or(location.visit.into()));
    let mut events = Vec::with_capacity(3);
    if run.attempt > 1 {
        events.push(EventDraft {
            location: location.clone(),
            body: attempt_body(outcome),
        });
    }
    let reference = match outcome {
        Outcome::Ok(success) => success.reference.clone(),
        Outcome::Error(_) => None,
    };
    let body = Box::new(TaskEnded {
        outcome: RawJson::from_serializable(without_reference(outcome).as_ref()),
        result_ref: reference,
        matched_rule_index: ending.matched_rule,
        directive: ending.action.directive,
        to: ending.action.to.clone(),
        set_iter: to_raw(&ending.writes.iter),
        set_ctx: to_raw(&ending.writes.ctx),
        set: to_raw(&ending.writes.local),
    });
    let is_plain = ending.action.directive == Directive::Continue;
    let body = if outcome.is_ok() {
        EventBody::TaskDone(body)
    } else {
        EventBody::TaskFailed(body)
    };
    events.push(EventDraft {
        location: location.clone(),
        body,
    });
    if !is_plain {
        events.push(EventDraft {
            location,
            body: policy_body(&ending),
        });
    }
    let failed = ending.action.directive == Directive::Fail;
    let failure = ending.failure.or_else(|| outcome.failure().cloned()).filter(|_| failed);
    OutcomeRecord {
        events,
        writes: ending.writes,
        failure,
        page: part,
    }
}

/// Returns the page number of an outcome: `page` of its result, else `iter.page`, else the visit number.
fn page_of(run: &TaskAttempt<'_>, outcome: &Outcome, scope: &Scope, position: &PipelinePosition) -> Option<i64> {
    let reported = match outcome {
        Outcome::Ok(success) => match &success.reference {
            Some(reference) => reference.extracted.get("page").and_then(Value::as_i64),
            None => run.task.result.page_of(&success.result),
        },
        Outcome::Error(_) => None,
    };
    let counted = || scope.iter.as_ref()?.values.json().get("page")?.as_i64();
    reported.or_else(counted).or_else(|| visit_page(run, position))
}

/// A task that a jump entered again uses its visit number as page number.
fn visit_page(run: &TaskAttempt<'_>, position: &PipelinePosition) -> Option<i64> {
    (run.visit > 1 && position.jumps > 0).then(|| run.visit.into())
}

fn task_location(run: &TaskAttempt<'_>, position: &PipelinePosition, page: Option<i64>) -> EventLocation {
    EventLocation {
        task: Some(run.task.label.clone()),
        visit: run.visit,
        attempt: run.attempt,
        page,
        ..position.location.clone()
    }
}

/// The outcome without its reference, which the event records in `result_ref`.
fn without_reference(outcome: &Outcome) -> Cow<'_, Outcome> {
    match outcome {
        Outcome::Ok(success) if success.reference.is_some() => {
            let mut success = success.clone();
            success.reference = None;
            Cow::Owned(Outcome::Ok(success))
        }
        _ => Cow::Borrowed(outcome),
    }
}

fn attempt_body(outcome: &Outcome) -> EventBody {
    let ended = AttemptEnded {
        outcome: RawJson::from_serializable(outcome),
        result_ref: None,
    };
    if outcome.is_ok() {
        EventBody::AttemptDone(ended)
    } else {
        EventBody::AttemptFailed(ended)
    }
}

/// Renders the writes of a matched rule.
fn render_rule_writes(rule: &PolicyRule, scope: &Scope) -> Result<RenderedWrites, RenderError> {
    let mut own = RenderedWrites::default();
    own.add_rendered(&rule.action.writes, scope)?;
    Ok(own)
}

/// Builds `policy.evaluated`. It carries the writes of a retry; the writes of a finished visit are in `task.done` or
/// `task.failed`.
fn policy_body(ending: &VisitEnd) -> EventBody {
    let is_retry = ending.action.directive == Directive::Retry;
    let written = |map: &Map<String, Value>| to_raw(map).filter(|_| is_retry);
    EventBody::PolicyEvaluated(Box::new(PolicyEvaluated {
        matched_rule_index: ending.matched_rule,
        action: ending.action.clone(),
        set_iter: written(&ending.writes.iter),
        set_ctx: written(&ending.writes.ctx),
        set: written(&ending.writes.local),
    }))
}
