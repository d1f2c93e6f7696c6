//! Policy: finds the rule that matches an outcome, and computes its action.

use std::time::Duration;

use language::playbook::{JumpTarget, Policy, PolicyRule, RetryRule, Step, Task, UnmatchedAction};
use language::template::{RenderError, Scope, Tree};
use model::event::PolicyAction;
use model::id::Name;
use model::outcome::{Outcome, TaskError};
use model::playbook::{Backoff, Directive};
use serde_json::Value;

/// Default number of attempts, including the first.
pub const ATTEMPTS_DEFAULT: u32 = 3;
/// Maximum number of attempts of a visit. After it, the task fails with `LIMIT_ATTEMPTS`.
pub const ATTEMPTS_MAX: u32 = 10_000;
/// Maximum retry delay. Longer delays are reduced to it.
pub const DELAY_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// A longer wait frees the slot.
pub const SUSPEND_DELAY_MIN: Duration = Duration::from_secs(5);
/// Default delay before a retry.
const DELAY_DEFAULT_SECS: f64 = 1.0;

/// The policy's decision about an outcome.
pub(crate) struct PolicyMatch<'p> {
    pub(crate) matched: Option<(u32, &'p PolicyRule)>,
    pub(crate) action: PolicyAction,
}

/// Finds the first rule that matches and returns its action. Without rules, success continues and an error fails.
pub(crate) fn match_rule<'p>(
    policy: &'p Policy,
    outcome: &Outcome,
    scope: &Scope,
) -> Result<PolicyMatch<'p>, RenderError> {
    if policy.rules.is_empty() {
        let directive = if outcome.is_ok() {
            Directive::Continue
        } else {
            Directive::Fail
        };
        return Ok(PolicyMatch {
            matched: None,
            action: PolicyAction::from_directive(directive),
        });
    }
    for (index, rule) in (0u32..).zip(&policy.rules) {
        let matches = rule.when.as_ref().map_or(Ok(true), |when| when.is_true(scope))?;
        if matches {
            return Ok(PolicyMatch {
                matched: Some((index, rule)),
                action: PolicyAction::from_directive(rule.action.directive),
            });
        }
    }
    let directive = match policy.unmatched {
        UnmatchedAction::Fail if !outcome.is_ok() => Directive::Fail,
        _ => Directive::Continue,
    };
    Ok(PolicyMatch {
        matched: None,
        action: PolicyAction::from_directive(directive),
    })
}

/// The result of a retry rule after `attempt` attempts.
pub(crate) enum RetryDecision {
    /// Retry after this delay.
    Retry { delay: Duration, attempts: u32 },
    /// The maximum number of attempts is reached.
    Exhausted { attempts: u32 },
}

/// Evaluates a retry rule: the number of attempts, and the delay before the next one.
pub(crate) fn decide_retry(
    retry: &RetryRule,
    attempt: u32,
    outcome: &Outcome,
    scope: &Scope,
) -> Result<RetryDecision, RenderError> {
    let attempts = match &retry.attempts {
        Some(tree) => parse_attempts(&render_value(tree, scope)?),
        None => ATTEMPTS_DEFAULT,
    };
    if attempt >= attempts.min(ATTEMPTS_MAX) {
        return Ok(RetryDecision::Exhausted { attempts });
    }
    let base = match &retry.delay {
        Some(tree) => parse_seconds(&render_value(tree, scope)?),
        None => DELAY_DEFAULT_SECS,
    };
    let factor = match retry.backoff {
        Backoff::None => 1.0,
        Backoff::Linear => f64::from(attempt),
        Backoff::Exponential => 2f64.powi(i32::try_from(attempt - 1).unwrap_or(i32::MAX)),
    };
    let requested = clamp_delay(base * factor);
    Ok(RetryDecision::Retry {
        delay: requested.max(retry_after_delay(outcome)),
        attempts,
    })
}

/// Returns the label that a jump goes to.
pub(crate) fn resolve_jump(jump: &JumpTarget, step: &Step, task: &Task, scope: &Scope) -> Result<Name, JumpError> {
    let label = match jump {
        JumpTarget::Label(label) => label.clone(),
        JumpTarget::Previous => {
            let (index, _) = step.task(task.label.as_str()).ok_or(JumpError::NoPrevious)?;
            let previous = index.checked_sub(1).ok_or(JumpError::NoPrevious)?;
            step.tasks[previous].label.clone()
        }
        JumpTarget::Template(template) => match template.render(scope)?.value {
            Value::String(label) => label.into(),
            other => return Err(JumpError::UnknownLabel(other.to_string())),
        },
    };
    match step.task(label.as_str()) {
        Some(_) => Ok(label),
        None => Err(JumpError::UnknownLabel(label.to_string())),
    }
}

/// A jump without a valid target.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JumpError {
    #[error("cannot jump to the previous task: this task is the first one of the step")]
    NoPrevious,
    #[error("cannot jump to task `{0}`: the step has no such task")]
    UnknownLabel(String),
    #[error(transparent)]
    Render(#[from] RenderError),
}

fn render_value(tree: &Tree, scope: &Scope) -> Result<Value, RenderError> {
    tree.render(scope).map(|rendered| rendered.value)
}

fn parse_attempts(value: &Value) -> u32 {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(n) if n >= 1.0 && n.is_finite() => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the value is between 1 and `u32::MAX`"
            )]
            let attempts = n.min(f64::from(u32::MAX)) as u32;
            attempts
        }
        _ => 1,
    }
}

/// Parses seconds as a number of any size, which the caller clamps, or else as a duration text.
fn parse_seconds(value: &Value) -> f64 {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let text = || model::duration::parse(value).map(|duration| duration.as_secs_f64());
    number.or_else(text).unwrap_or(0.0)
}

/// Clamps a delay to `DELAY_MAX`. NaN and negative values become zero.
fn clamp_delay(seconds: f64) -> Duration {
    if seconds.is_nan() || seconds <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(seconds.min(DELAY_MAX.as_secs_f64())).unwrap_or(DELAY_MAX)
}

fn retry_after_delay(outcome: &Outcome) -> Duration {
    let http = outcome.facets().http.as_ref();
    let seconds = http.and_then(|http| http.get("retry_after")).and_then(Value::as_f64);
    clamp_delay(seconds.unwrap_or(0.0))
}

/// The error of a pipeline that a rule fails after a successful outcome.
pub(crate) fn rule_failure(task: &Task) -> TaskError {
    use model::outcome::ErrorKind;
    let message = format!("a policy rule of task `{}` failed the step", task.label);
    TaskError::permanent(ErrorKind::Unknown, "POLICY_FAIL", message)
}
