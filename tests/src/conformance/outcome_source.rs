//! Outcomes of tasks, supplied by the test instead of tools.

use std::time::Duration;

use model::id::ExecutionId;
use model::outcome::Outcome;
use serde_json::{Map, Value};
use tools::Call;

use crate::stack::CallLocation;

/// One attempt of a task, for which a test supplies the outcome.
#[derive(Debug, Clone)]
pub struct AttemptQuery<'a> {
    /// The execution.
    pub execution: ExecutionId,
    /// The step.
    pub step: &'a str,
    /// The task's label.
    pub task: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// The loop index.
    pub iteration: Option<u64>,
    /// Number of the entry of the label, from 1.
    pub visit: u32,
    /// Number of the attempt within the visit, from 1.
    pub attempt: u32,
    /// The rendered input.
    pub input: &'a Value,
    /// The rendered keys of the tool kind.
    pub fields: &'a Map<String, Value>,
    /// Timeouts in seconds: `total`, `connect`, `read`.
    pub timeout: &'a Value,
}

impl<'a> AttemptQuery<'a> {
    /// Describes a call of a tool, without its input and timeout.
    pub fn new(call: &'a Call, location: &'a CallLocation) -> Self {
        Self {
            execution: location.execution,
            step: &location.step,
            task: &location.task,
            kind: call.kind.as_str(),
            iteration: location.iteration,
            visit: location.visit,
            attempt: call.attempt,
            input: &Value::Null,
            fields: &call.fields,
            timeout: &Value::Null,
        }
    }
}

/// Outcome of an attempt, and its duration.
#[derive(Debug, Clone)]
pub struct TimedOutcome {
    /// The outcome.
    pub outcome: Outcome,
    /// The duration.
    pub duration: Duration,
}

/// Supplies the outcomes of tasks in place of tools.
pub trait OutcomeSource {
    /// Outcome of one attempt; `None` to use the behavior of the tool kind.
    fn next_outcome(&mut self, query: &AttemptQuery<'_>) -> Option<TimedOutcome>;
}

impl TimedOutcome {
    /// An outcome without delay.
    pub fn immediate(outcome: Outcome) -> Self {
        Self {
            outcome,
            duration: Duration::ZERO,
        }
    }
}
