//! Modes and directives of playbooks, as events record them.

use serde::{Deserialize, Serialize};

/// What an unhandled failure does to the work that has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    /// Stop that work.
    FailFast,
    /// Let that work finish.
    #[default]
    BestEffort,
}

/// How a loop runs its iterations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoopMode {
    /// One after the other.
    #[default]
    Sequential,
    /// Several at once.
    Parallel,
}

/// How many matching arcs are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteMode {
    /// The first arc whose condition is true.
    #[default]
    Exclusive,
    /// Every arc whose condition is true.
    Inclusive,
}

/// What a pipeline does after an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Directive {
    /// Continues with the next task.
    Continue,
    /// Runs the same task again.
    Retry,
    /// Continues with another task.
    Jump,
    /// Ends the pipeline with success.
    Break,
    /// Ends the pipeline with a failure.
    Fail,
}

/// How a retry's delay grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// The delay stays the same.
    #[default]
    None,
    /// Grows by the delay each time.
    Linear,
    /// Doubles each time.
    Exponential,
}
