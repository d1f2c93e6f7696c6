//! Pointers to the latest result of a step, stored in state and sent with commands.

use serde::{Deserialize, Serialize};

use crate::id::{Name, Seq};
use crate::outcome::TaskError;

/// Location of the latest result of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepPointer {
    /// The event that ended the step.
    pub boundary: Seq,
    /// Whether the step succeeded.
    pub ok: bool,
    /// The label that finished last.
    pub last: Option<Name>,
    /// The latest outcome of each task: label, event, and whether it succeeded.
    pub tasks: Vec<(Name, Seq, bool)>,
    /// For a loop: the location of its results.
    pub loop_: Option<LoopPointer>,
    /// The error of a failed step.
    pub error: Option<TaskError>,
}

/// Location of a loop's results.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LoopPointer {
    /// Its `loop.started` event.
    pub started: Seq,
    /// The event that ended it.
    pub done: Seq,
}
