//! What tasks answer, asked for instead of running tools.

use std::time::Duration;

use model::id::ExecutionId;
use model::outcome::Outcome;
use serde_json::{Map, Value};

/// One attempt of a task, as whoever answers in its place sees it.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
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
    /// Counts the entries of the label from 1.
    pub visit: u32,
    /// Counts the tries of the visit from 1.
    pub attempt: u32,
    /// The rendered input.
    pub input: &'a Value,
    /// The rendered keys of the kind.
    pub fields: &'a Map<String, Value>,
    /// How long it may take, in seconds: `total`, `connect`, `read`.
    pub timeout: &'a Value,
}

/// What an attempt comes to, and how long it takes.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What it comes to.
    pub outcome: Outcome,
    /// How long it takes.
    pub takes: Duration,
}

/// Whoever answers in place of tools.
pub trait Answers {
    /// The answer to one attempt; none where the kind's own behaviour is wanted.
    fn answer(&mut self, asked: &Asked<'_>) -> Option<Answer>;
}

impl Answer {
    /// An answer at once.
    pub fn now(outcome: Outcome) -> Self {
        Self {
            outcome,
            takes: Duration::ZERO,
        }
    }
}
