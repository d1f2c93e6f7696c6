//! Policy: which rule an outcome matches, and the action with its values filled in.

use std::time::Duration;

use model::event::Action;
use model::id::Name;
use model::outcome::{Outcome, TaskError};
use model::playbook::{Backoff, Directive, Jump, Policy, Retry, Rule, Step, Task, Unmatched};
use model::template::{RenderError, Scope, Tree};
use serde_json::Value;

/// How many tries there are in all when a rule does not say.
pub const ATTEMPTS_DEFAULT: u32 = 3;
/// A visit tried more often than this is spinning; the task fails with `LIMIT_ATTEMPTS`.
pub const ATTEMPTS_MAX: u32 = 10_000;
/// No delay is longer; longer ones are cut to this.
pub const DELAY_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// A wait longer than this frees the slot.
pub const SUSPEND_AFTER: Duration = Duration::from_secs(5);
/// The delay before a retry when a rule does not say.
const DELAY_DEFAULT_SECS: f64 = 1.0;

/// What a policy says of an outcome.
pub(crate) struct Verdict<'p> {
    pub(crate) matched: Option<(u32, &'p Rule)>,
    pub(crate) action: Action,
}

/// Finds the rule that matches and fills in its action. Without rules success continues and failure fails.
pub(crate) fn judge<'p>(
    policy: &'p Policy,
    outcome: &Outcome,
    scope: &Scope,
) -> Result<Verdict<'p>, RenderError> {
    if policy.rules.is_empty() {
        let directive = if outcome.is_ok() {
            Directive::Continue
        } else {
            Directive::Fail
        };
        return Ok(Verdict {
            matched: None,
            action: Action::plain(directive),
        });
    }
    for (index, rule) in (0u32..).zip(&policy.rules) {
        let matches = rule
            .when
            .as_ref()
            .map_or(Ok(true), |when| when.is_true(scope))?;
        if matches {
            return Ok(Verdict {
                matched: Some((index, rule)),
                action: Action::plain(rule.then.directive),
            });
        }
    }
    let directive = match policy.unmatched {
        Unmatched::Fail if !outcome.is_ok() => Directive::Fail,
        _ => Directive::Continue,
    };
    Ok(Verdict {
        matched: None,
        action: Action::plain(directive),
    })
}

/// What a retry rule comes to after `attempt` tries.
pub(crate) enum Retrying {
    /// Try again after this long.
    Again { delay: Duration, attempts: u32 },
    /// There were tries enough.
    Exhausted { attempts: u32 },
}

/// Fills in a retry: how many tries, and how long to wait for the next.
pub(crate) fn retrying(
    retry: &Retry,
    attempt: u32,
    outcome: &Outcome,
    scope: &Scope,
) -> Result<Retrying, RenderError> {
    let attempts = match &retry.attempts {
        Some(tree) => attempts_of(&render(tree, scope)?),
        None => ATTEMPTS_DEFAULT,
    };
    if attempt >= attempts.min(ATTEMPTS_MAX) {
        return Ok(Retrying::Exhausted { attempts });
    }
    let base = match &retry.delay {
        Some(tree) => seconds_of(&render(tree, scope)?),
        None => DELAY_DEFAULT_SECS,
    };
    let factor = match retry.backoff {
        Backoff::None => 1.0,
        Backoff::Linear => f64::from(attempt),
        Backoff::Exponential => 2f64.powi(i32::try_from(attempt - 1).unwrap_or(i32::MAX)),
    };
    let asked = clamp(base * factor);
    Ok(Retrying::Again {
        delay: asked.max(retry_after(outcome)),
        attempts,
    })
}

/// The label a jump leads to.
pub(crate) fn target(
    jump: &Jump,
    step: &Step,
    task: &Task,
    scope: &Scope,
) -> Result<Name, JumpError> {
    let label = match jump {
        Jump::Label(label) => label.clone(),
        Jump::Previous => {
            let (index, _) = step
                .task(task.label.as_str())
                .ok_or(JumpError::NoPrevious)?;
            let previous = index.checked_sub(1).ok_or(JumpError::NoPrevious)?;
            step.tasks[previous].label.clone()
        }
        Jump::Template(template) => match template.render(scope)?.value {
            Value::String(label) => label.into(),
            other => return Err(JumpError::Unknown(other.to_string())),
        },
    };
    match step.task(label.as_str()) {
        Some(_) => Ok(label),
        None => Err(JumpError::Unknown(label.to_string())),
    }
}

/// A jump that leads nowhere.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JumpError {
    #[error("there is no task before the first one to jump to")]
    NoPrevious,
    #[error("the step has no task `{0}` to jump to")]
    Unknown(String),
    #[error(transparent)]
    Render(#[from] RenderError),
}

fn render(tree: &Tree, scope: &Scope) -> Result<Value, RenderError> {
    tree.render(scope).map(|rendered| rendered.value)
}

fn attempts_of(value: &Value) -> u32 {
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
                reason = "clamped to the range above"
            )]
            let whole = n.min(f64::from(u32::MAX)) as u32;
            whole
        }
        _ => 1,
    }
}

/// Seconds as a number of any size, so that the caller can cut it to its bounds; else duration text.
fn seconds_of(value: &Value) -> f64 {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let text = || model::duration::parse(value).map(|span| span.as_secs_f64());
    number.or_else(text).unwrap_or(0.0)
}

/// A delay within its bounds; what is not a number of seconds counts as none.
fn clamp(seconds: f64) -> Duration {
    if seconds.is_nan() || seconds <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(seconds.min(DELAY_MAX.as_secs_f64())).unwrap_or(DELAY_MAX)
}

fn retry_after(outcome: &Outcome) -> Duration {
    let http = outcome.facets().http.as_ref();
    let seconds = http
        .and_then(|http| http.get("retry_after"))
        .and_then(Value::as_f64);
    clamp(seconds.unwrap_or(0.0))
}

/// The error a pipeline fails with when a rule says `fail` after a success.
pub(crate) fn failed_by_rule(task: &Task) -> TaskError {
    use model::outcome::ErrorKind;
    let message = format!("a policy rule of task `{}` failed the step", task.label);
    TaskError {
        retryable: false,
        ..TaskError::new(ErrorKind::Unknown, "POLICY_FAIL", message)
    }
}
