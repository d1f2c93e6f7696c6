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

/// Applies the task's policy to an outcome.
///
/// Returns only `RenderError::Needs` as an error. Any other error in a rule or write fails the task and is not
/// retryable.
pub fn apply_policy(
    step: &Step,
    attempt: &TaskAttempt<'_>,
    outcome: &Outcome,
    scope: &Scope,
    position: &PipelinePosition,
) -> Result<OutcomeRecord, RenderError> {
    match apply_action(step, attempt, outcome, scope, position) {
        Ok(record) => Ok(record),
        Err(JumpError::Render(needs @ RenderError::Needs(_))) => Err(needs),
        Err(error) => {
            let failure = Outcome::error(policy_error(&error, step, attempt));
            Ok(fail_without_policy(attempt, &failure, position))
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
    let transform_error = |code: &str, message: String| TaskError::permanent(ErrorKind::Transform, code, message);
    match error {
        RenderError::Failed { code, message, span } => transform_error(code, message.clone())
            .with_detail("step", step.name.as_str())
            .with_detail("task", task.as_str())
            .with_detail("line", span.line)
            .with_detail("column", span.column),
        RenderError::Needs(_) => transform_error(
            "REFERENCE_NOT_AVAILABLE",
            "cannot load a stored result that a template reads".to_owned(),
        ),
    }
}

/// Ends a task whose outcome and writes cannot be recorded: the task fails without evaluating its policy.
pub fn fail_without_policy(attempt: &TaskAttempt<'_>, failure: &Outcome, position: &PipelinePosition) -> OutcomeRecord {
    let page = visit_page(attempt, position);
    record_end(
        attempt,
        failure,
        task_location(attempt, position, page),
        VisitEnd::failing(),
    )
}

fn policy_error(error: &JumpError, step: &Step, attempt: &TaskAttempt<'_>) -> TaskError {
    match error {
        JumpError::Render(render) => render_failure(render, step, &attempt.task.label),
        other => TaskError::permanent(ErrorKind::ClientError, "JUMP_TARGET", other.to_string())
            .with_detail("step", step.name.as_str())
            .with_detail("task", attempt.task.label.as_str())
            .with_detail("line", attempt.task.span.line),
    }
}

fn apply_action(
    step: &Step,
    attempt: &TaskAttempt<'_>,
    outcome: &Outcome,
    scope: &Scope,
    position: &PipelinePosition,
) -> Result<OutcomeRecord, JumpError> {
    let location = task_location(attempt, position, page_of(attempt, outcome, scope, position));
    let mut scope = scope.clone();
    let mut writes = RenderedWrites::default();
    let policy_match = evaluate_policy(attempt, outcome, &mut scope, &mut writes)?;
    let mut end = VisitEnd {
        matched_rule: policy_match.matched.map(|(index, _)| index),
        ..VisitEnd::from_action(policy_match.action)
    };
    if let Some((_, rule)) = policy_match.matched {
        if rule.action.directive == Directive::Retry {
            match policy::decide_retry(&rule.action.retry, attempt.number, outcome, &scope)? {
                RetryDecision::Retry { delay, attempts } => {
                    let action = PolicyAction {
                        attempts: Some(attempts),
                        backoff: Some(rule.action.retry.backoff),
                        delay: Some(delay.as_secs_f64()),
                        suspend: delay > SUSPEND_DELAY_MIN,
                        ..PolicyAction::from_directive(Directive::Retry)
                    };
                    return Ok(record_retry(
                        attempt,
                        outcome,
                        location,
                        VisitEnd {
                            action,
                            writes: render_rule_writes(rule, &scope)?,
                            ..end
                        },
                    ));
                }
                RetryDecision::Exhausted { attempts } => {
                    end.set_exhausted(attempt, outcome, attempts);
                }
            }
        }
        let rule_writes = render_rule_writes(rule, &scope)?;
        writes.iter.extend(rule_writes.iter);
        writes.ctx.extend(rule_writes.ctx);
        writes.local.extend(rule_writes.local);
        if let (Directive::Jump, Some(jump)) = (rule.action.directive, &rule.action.to) {
            end.action.to = Some(policy::resolve_jump(jump, step, attempt.task, &scope)?);
            if position.jumps >= position.jumps_max {
                end.set_too_many_jumps(step, position.jumps_max);
            }
        }
    }
    end.writes = writes;
    if end.action.directive == Directive::Fail && end.failure.is_none() {
        let rule_failure = || policy::rule_failure(attempt.task);
        end.failure = Some(outcome.failure().cloned().unwrap_or_else(rule_failure));
    }
    Ok(record_end(attempt, outcome, location, end))
}

/// Evaluates the policy, and renders the task's `set` if the pipeline continues. After a success, `set` is rendered
/// first and the rules see its values. After an error, the rules are evaluated first, because they decide whether the
/// pipeline continues.
fn evaluate_policy<'p>(
    attempt: &TaskAttempt<'p>,
    outcome: &Outcome,
    scope: &mut Scope,
    writes: &mut RenderedWrites,
) -> Result<policy::PolicyMatch<'p>, RenderError> {
    let envelope = Envelope::from_outcome(outcome.clone().into());
    let is_ok = outcome.is_ok();
    if is_ok {
        render_set(scope, attempt, &envelope, writes)?;
    }
    scope.outcome = Some(envelope.clone());
    let policy_match = policy::match_rule(&attempt.task.policy, outcome, scope)?;
    let directive = policy_match.action.directive;
    if !is_ok && matches!(directive, Directive::Continue | Directive::Jump) {
        render_set(scope, attempt, &envelope, writes)?;
        scope.outcome = Some(envelope);
    }
    Ok(policy_match)
}

/// Renders the task's `set` and makes the values visible to later templates.
fn render_set(
    scope: &mut Scope,
    attempt: &TaskAttempt<'_>,
    envelope: &Envelope,
    writes: &mut RenderedWrites,
) -> Result<(), RenderError> {
    scope.outcome = Some(envelope.clone().with_status());
    writes.add_rendered(&attempt.task.set, scope)?;
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
    fn from_action(action: PolicyAction) -> Self {
        Self {
            matched_rule: None,
            action,
            writes: RenderedWrites::default(),
            failure: None,
        }
    }

    fn failing() -> Self {
        Self::from_action(PolicyAction::from_directive(Directive::Fail))
    }

    /// Fails the task: the rule requests a retry, but the maximum number of attempts is reached.
    fn set_exhausted(&mut self, attempt: &TaskAttempt<'_>, outcome: &Outcome, attempts: u32) {
        self.action = PolicyAction {
            attempts: Some(attempts),
            ..PolicyAction::from_directive(Directive::Fail)
        };
        let code = if attempts > ATTEMPTS_MAX {
            "LIMIT_ATTEMPTS"
        } else {
            "RETRY_EXHAUSTED"
        };
        let message = format!("task `{}` was attempted {} times", attempt.task.label, attempt.number);
        let exhausted_error = || TaskError::permanent(ErrorKind::Unknown, code, message);
        self.failure = Some(outcome.failure().cloned().unwrap_or_else(exhausted_error));
    }

    /// Fails the task: the pipeline jumped too often.
    fn set_too_many_jumps(&mut self, step: &Step, max: u32) {
        let message = format!("step `{}` jumped more than {max} times", step.name);
        self.action = PolicyAction::from_directive(Directive::Fail);
        self.failure = Some(TaskError::permanent(ErrorKind::Unknown, "LIMIT_JUMPS", message));
    }
}

/// Returns the events of an attempt that is retried.
fn record_retry(attempt: &TaskAttempt<'_>, outcome: &Outcome, location: EventLocation, end: VisitEnd) -> OutcomeRecord {
    let mut events = Vec::with_capacity(3);
    if attempt.number == 1 {
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
        body: policy_body(&end),
    });
    OutcomeRecord {
        events,
        writes: end.writes,
        failure: None,
        page: None,
    }
}

/// Returns the events that end a visit.
fn record_end(attempt: &TaskAttempt<'_>, outcome: &Outcome, location: EventLocation, end: VisitEnd) -> OutcomeRecord {
    let page = outcome.is_ok().then(|| location.page.unwrap_or(location.visit.into()));
    let mut events = Vec::with_capacity(3);
    if attempt.number > 1 {
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
        matched_rule_index: end.matched_rule,
        directive: end.action.directive,
        to: end.action.to.clone(),
        set_iter: to_raw(&end.writes.iter),
        set_ctx: to_raw(&end.writes.ctx),
        set: to_raw(&end.writes.local),
    });
    let body = if outcome.is_ok() {
        EventBody::TaskDone(body)
    } else {
        EventBody::TaskFailed(body)
    };
    events.push(EventDraft {
        location: location.clone(),
        body,
    });
    if end.action.directive != Directive::Continue {
        events.push(EventDraft {
            location,
            body: policy_body(&end),
        });
    }
    let is_failed = end.action.directive == Directive::Fail;
    let failure = end.failure.or_else(|| outcome.failure().cloned()).filter(|_| is_failed);
    OutcomeRecord {
        events,
        writes: end.writes,
        failure,
        page,
    }
}

/// Returns the page number of an outcome: `page` of its result, else `iter.page`, else the visit number.
fn page_of(attempt: &TaskAttempt<'_>, outcome: &Outcome, scope: &Scope, position: &PipelinePosition) -> Option<i64> {
    let result_page = match outcome {
        Outcome::Ok(success) => match &success.reference {
            Some(reference) => reference.extracted.get("page").and_then(Value::as_i64),
            None => attempt.task.result.page_of(&success.result),
        },
        Outcome::Error(_) => None,
    };
    let iteration_page = || scope.iter.as_ref()?.values.json().get("page")?.as_i64();
    result_page
        .or_else(iteration_page)
        .or_else(|| visit_page(attempt, position))
}

/// Returns the visit number as page number, if a jump entered the task again.
fn visit_page(attempt: &TaskAttempt<'_>, position: &PipelinePosition) -> Option<i64> {
    (attempt.visit > 1 && position.jumps > 0).then(|| attempt.visit.into())
}

fn task_location(attempt: &TaskAttempt<'_>, position: &PipelinePosition, page: Option<i64>) -> EventLocation {
    EventLocation {
        task: Some(attempt.task.label.clone()),
        visit: attempt.visit,
        attempt: attempt.number,
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
    let mut writes = RenderedWrites::default();
    writes.add_rendered(&rule.action.writes, scope)?;
    Ok(writes)
}

/// Builds `policy.evaluated`. It carries the writes of a retry; the writes of a finished visit are in `task.done` or
/// `task.failed`.
fn policy_body(end: &VisitEnd) -> EventBody {
    let is_retry = end.action.directive == Directive::Retry;
    let retry_writes = |map: &Map<String, Value>| to_raw(map).filter(|_| is_retry);
    EventBody::PolicyEvaluated(Box::new(PolicyEvaluated {
        matched_rule_index: end.matched_rule,
        action: end.action.clone(),
        set_iter: retry_writes(&end.writes.iter),
        set_ctx: retry_writes(&end.writes.ctx),
        set: retry_writes(&end.writes.local),
    }))
}
