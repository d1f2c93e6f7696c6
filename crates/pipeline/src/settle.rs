//! Applies a task's policy to an outcome and returns the events that record the result.
//!
//! Input: the attempt that ended, its outcome, and the scope of its templates. Only these events, when folded, change
//! the continuation.

use std::borrow::Cow;

use model::event::{Action, At, AttemptEnded, Body, Nothing, PolicyEvaluated, TaskEnded};
use model::id::{ExecutionId, Name};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::{Directive, Rule, Step};
use model::raw::Raw;
use model::template::{Envelope, RenderError, Scope};
use serde_json::{Map, Value};

use crate::next::TaskRun;
use crate::policy::{self, ATTEMPTS_MAX, JumpError, Retrying, SUSPEND_AFTER};
pub use crate::writes::Writes;
use crate::writes::raw;

/// Default maximum of jumps in a pipeline. After it, the step fails with `LIMIT_JUMPS`.
pub const JUMPS_MAX: u32 = 10_000;

/// An event without its stamp: the emitter adds ID, time and execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Step run, iteration and task of the event.
    pub at: At,
    /// Kind and data of the event.
    pub body: Body,
}

/// The result of applying the policy to an outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The events that record it, in order.
    pub events: Vec<Draft>,
    /// The values that were written.
    pub writes: Writes,
    /// The error of the pipeline, if it fails.
    pub failure: Option<TaskError>,
    /// The page number of the result, if the visit succeeded.
    pub part: Option<i64>,
}

/// The idempotency key of a task run: the same for every attempt and redelivery, but different for every visit.
pub fn idempotency_key(execution: ExecutionId, at: &At) -> String {
    let step = at.step.as_ref().map_or("", Name::as_str);
    let task = at.task.as_ref().map_or("", Name::as_str);
    match at.iteration {
        Some(index) => format!("{execution}/{step}:{}/{index}/{task}:{}", at.run, at.visit),
        None => format!("{execution}/{step}:{}/{task}:{}", at.run, at.visit),
    }
}

/// Applies the task's policy to an outcome. `place` names the pipeline and counts its jumps so far.
///
/// Returns only `RenderError::Needs` as an error. Any other error in a rule or write fails the task and is not
/// retryable.
pub fn settle(
    step: &Step,
    run: &TaskRun<'_>,
    outcome: &Outcome,
    scope: &Scope,
    place: &Place,
) -> Result<Settled, RenderError> {
    match follow(step, run, outcome, scope, place) {
        Ok(settled) => Ok(settled),
        Err(JumpError::Render(needs @ RenderError::Needs(_))) => Err(needs),
        Err(error) => {
            let failure = Outcome::error(policy_error(&error, step, run));
            Ok(fail(run, &failure, place))
        }
    }
}

/// The pipeline's identity and its jump count.
#[derive(Debug, Clone)]
pub struct Place {
    /// Step, run and iteration.
    pub at: At,
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
        RenderError::Failed {
            code,
            message,
            span,
        } => located(code, message.clone())
            .with("step", step.name.as_str())
            .with("task", task.as_str())
            .with("line", span.line)
            .with("column", span.column),
        RenderError::Needs(_) => located(
            "REFERENCE_NOT_AVAILABLE",
            "cannot load a stored result that a template reads".to_owned(),
        ),
    }
}

/// Ends a task whose outcome and writes cannot be recorded: the task fails without evaluating its policy.
pub fn fail(run: &TaskRun<'_>, failure: &Outcome, place: &Place) -> Settled {
    let page = visit_page(run, place);
    ended(run, failure, task_at(run, place, page), Ended::failing())
}

fn policy_error(error: &JumpError, step: &Step, run: &TaskRun<'_>) -> TaskError {
    match error {
        JumpError::Render(render) => render_failure(render, step, &run.task.label),
        other => TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::ClientError, "JUMP_TARGET", other.to_string())
        }
        .with("step", step.name.as_str())
        .with("task", run.task.label.as_str())
        .with("line", run.task.span.line),
    }
}

fn follow(
    step: &Step,
    run: &TaskRun<'_>,
    outcome: &Outcome,
    scope: &Scope,
    place: &Place,
) -> Result<Settled, JumpError> {
    let at = task_at(run, place, page(run, outcome, scope, place));
    let mut scope = scope.clone();
    let mut writes = Writes::default();
    let verdict = judge(run, outcome, &mut scope, &mut writes)?;
    let mut verdict_end = Ended {
        matched: verdict.matched.map(|(index, _)| index),
        ..Ended::going(verdict.action)
    };
    if let Some((_, rule)) = verdict.matched {
        if rule.then.directive == Directive::Retry {
            match policy::retrying(&rule.then.retry, run.attempt, outcome, &scope)? {
                Retrying::Again { delay, attempts } => {
                    let action = Action {
                        attempts: Some(attempts),
                        backoff: Some(rule.then.retry.backoff),
                        delay: Some(delay.as_secs_f64()),
                        suspend: delay > SUSPEND_AFTER,
                        ..Action::plain(Directive::Retry)
                    };
                    return Ok(retried(
                        run,
                        outcome,
                        at,
                        Ended {
                            action,
                            writes: own_writes(rule, &scope)?,
                            ..verdict_end
                        },
                    ));
                }
                Retrying::Exhausted { attempts } => verdict_end.exhaust(run, outcome, attempts),
            }
        }
        let own = own_writes(rule, &scope)?;
        writes.iter.extend(own.iter);
        writes.ctx.extend(own.ctx);
        writes.local.extend(own.local);
        if let (Directive::Jump, Some(jump)) = (rule.then.directive, &rule.then.to) {
            verdict_end.action.to = Some(policy::target(jump, step, run.task, &scope)?);
            if place.jumps >= place.jumps_max {
                verdict_end.limit_jumps(step, place.jumps_max);
            }
        }
    }
    verdict_end.writes = writes;
    if verdict_end.action.directive == Directive::Fail && verdict_end.failure.is_none() {
        let own = || policy::failed_by_rule(run.task);
        verdict_end.failure = Some(outcome.failure().cloned().unwrap_or_else(own));
    }
    Ok(ended(run, outcome, at, verdict_end))
}

/// Evaluates the policy, and renders the task's `set` if the pipeline continues. After a success, `set` is rendered
/// first and the rules see its values. After an error, the rules are evaluated first, because they decide whether the
/// pipeline continues.
fn judge<'p>(
    run: &TaskRun<'p>,
    outcome: &Outcome,
    scope: &mut Scope,
    writes: &mut Writes,
) -> Result<policy::Verdict<'p>, RenderError> {
    let reached = Envelope::of(outcome.clone().into());
    let is_ok = outcome.is_ok();
    if is_ok {
        write_set(scope, run, &reached, writes)?;
    }
    scope.outcome = Some(reached.clone());
    let verdict = policy::judge(&run.task.policy, outcome, scope)?;
    let directive = verdict.action.directive;
    if !is_ok && matches!(directive, Directive::Continue | Directive::Jump) {
        write_set(scope, run, &reached, writes)?;
        scope.outcome = Some(reached);
    }
    Ok(verdict)
}

/// Renders the task's `set` and makes the values visible to later templates.
fn write_set(
    scope: &mut Scope,
    run: &TaskRun<'_>,
    reached: &Envelope,
    writes: &mut Writes,
) -> Result<(), RenderError> {
    scope.outcome = Some(reached.clone().with_status());
    writes.render(&run.task.set, scope)?;
    crate::writes::apply_writes(scope, writes);
    Ok(())
}

/// How a visit ends, or that it is retried.
struct Ended {
    matched: Option<u32>,
    action: Action,
    writes: Writes,
    failure: Option<TaskError>,
}

impl Ended {
    fn going(action: Action) -> Self {
        Self {
            matched: None,
            action,
            writes: Writes::default(),
            failure: None,
        }
    }

    fn failing() -> Self {
        Self::going(Action::plain(Directive::Fail))
    }

    /// Fails the task: the rule requests a retry, but the maximum number of attempts is reached.
    fn exhaust(&mut self, run: &TaskRun<'_>, outcome: &Outcome, attempts: u32) {
        self.action = Action {
            attempts: Some(attempts),
            ..Action::plain(Directive::Fail)
        };
        let code = if attempts > ATTEMPTS_MAX {
            "LIMIT_ATTEMPTS"
        } else {
            "RETRY_EXHAUSTED"
        };
        let message = format!(
            "task `{}` was attempted {} times",
            run.task.label, run.attempt
        );
        let spent = || TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::Unknown, code, message)
        };
        self.failure = Some(outcome.failure().cloned().unwrap_or_else(spent));
    }

    fn limit_jumps(&mut self, step: &Step, max: u32) {
        let message = format!("step `{}` jumped more than {max} times", step.name);
        self.action = Action::plain(Directive::Fail);
        self.failure = Some(TaskError {
            retryable: false,
            ..TaskError::new(ErrorKind::Unknown, "LIMIT_JUMPS", message)
        });
    }
}

/// Returns the events of an attempt that is retried.
fn retried(run: &TaskRun<'_>, outcome: &Outcome, at: At, ending: Ended) -> Settled {
    let mut events = Vec::with_capacity(3);
    if run.attempt == 1 {
        events.push(Draft {
            at: At {
                page: None,
                ..at.clone()
            },
            body: Body::AttemptStarted(Nothing {}),
        });
    }
    events.push(Draft {
        at: at.clone(),
        body: attempt_body(outcome),
    });
    events.push(Draft {
        at,
        body: policy_body(&ending),
    });
    Settled {
        events,
        writes: ending.writes,
        failure: None,
        part: None,
    }
}

/// Returns the events that end a visit.
fn ended(run: &TaskRun<'_>, outcome: &Outcome, at: At, ending: Ended) -> Settled {
    let part = outcome.is_ok().then(|| at.page.unwrap_or(at.visit.into()));
    let mut events = Vec::with_capacity(3);
    if run.attempt > 1 {
        events.push(Draft {
            at: at.clone(),
            body: attempt_body(outcome),
        });
    }
    let reference = match outcome {
        Outcome::Ok(success) => success.reference.clone(),
        Outcome::Error(_) => None,
    };
    let body = Box::new(TaskEnded {
        outcome: Raw::of(without_reference(outcome).as_ref()),
        result_ref: reference,
        matched_rule_index: ending.matched,
        directive: ending.action.directive,
        to: ending.action.to.clone(),
        set_iter: raw(&ending.writes.iter),
        set_ctx: raw(&ending.writes.ctx),
        set: raw(&ending.writes.local),
    });
    let is_plain = ending.action.directive == Directive::Continue;
    let body = if outcome.is_ok() {
        Body::TaskDone(body)
    } else {
        Body::TaskFailed(body)
    };
    events.push(Draft {
        at: at.clone(),
        body,
    });
    if !is_plain {
        events.push(Draft {
            at,
            body: policy_body(&ending),
        });
    }
    let failed = ending.action.directive == Directive::Fail;
    let failure = ending
        .failure
        .or_else(|| outcome.failure().cloned())
        .filter(|_| failed);
    Settled {
        events,
        writes: ending.writes,
        failure,
        part,
    }
}

/// Returns the page number of an outcome: `page` of its result, else `iter.page`, else the visit number.
fn page(run: &TaskRun<'_>, outcome: &Outcome, scope: &Scope, place: &Place) -> Option<i64> {
    let said = match outcome {
        Outcome::Ok(success) => match &success.reference {
            Some(reference) => reference.extracted.get("page").and_then(Value::as_i64),
            None => run.task.result.page_in(&success.result),
        },
        Outcome::Error(_) => None,
    };
    let counted = || scope.iter.as_ref()?.values.json().get("page")?.as_i64();
    said.or_else(counted).or_else(|| visit_page(run, place))
}

/// A task that a jump entered again uses its visit number as page number.
fn visit_page(run: &TaskRun<'_>, place: &Place) -> Option<i64> {
    (run.visit > 1 && place.jumps > 0).then(|| run.visit.into())
}

fn task_at(run: &TaskRun<'_>, place: &Place, page: Option<i64>) -> At {
    At {
        task: Some(run.task.label.clone()),
        visit: run.visit,
        attempt: run.attempt,
        page,
        ..place.at.clone()
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

fn attempt_body(outcome: &Outcome) -> Body {
    let ended = AttemptEnded {
        outcome: Raw::of(outcome),
        result_ref: None,
    };
    if outcome.is_ok() {
        Body::AttemptDone(ended)
    } else {
        Body::AttemptFailed(ended)
    }
}

/// Renders the writes of a matched rule.
fn own_writes(rule: &Rule, scope: &Scope) -> Result<Writes, RenderError> {
    let mut own = Writes::default();
    own.render(&rule.then.writes, scope)?;
    Ok(own)
}

/// Builds `policy.evaluated`. It carries the writes of a retry; the writes of a finished visit are in `task.done` or
/// `task.failed`.
fn policy_body(ending: &Ended) -> Body {
    let is_retry = ending.action.directive == Directive::Retry;
    let written = |map: &Map<String, Value>| raw(map).filter(|_| is_retry);
    Body::PolicyEvaluated(Box::new(PolicyEvaluated {
        matched_rule_index: ending.matched,
        action: ending.action.clone(),
        set_iter: written(&ending.writes.iter),
        set_ctx: written(&ending.writes.ctx),
        set: written(&ending.writes.local),
    }))
}
