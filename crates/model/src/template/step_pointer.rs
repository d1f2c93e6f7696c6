//! Pointers to the latest result of a step, stored in state and sent with commands.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Name, Seq};
use crate::outcome::TaskError;
use crate::template::scope::{Envelope, EnvelopeContent, LoopPointer};

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

impl StepPointer {
    /// Returns the step's latest result as templates see it.
    pub fn envelope(&self) -> Envelope {
        let label =
            |(name, seq, ok): &(Name, Seq, bool)| (name.clone(), Envelope::from_event(*ok, *seq));
        let labels: Vec<_> = self.tasks.iter().map(label).collect();
        let is_last = |name: &Name| self.last.as_ref() == Some(name);
        let last = self.tasks.iter().find(|(name, ..)| is_last(name));
        let content = match (&self.loop_, last, &self.error) {
            (Some(pointer), _, None) => EnvelopeContent::Loop(pointer.clone()),
            // If a step failed after its last task succeeded, the server reported the failure: a timeout or a dead
            // letter.
            (_, Some((_, seq, ok)), error) if error.is_none() || !ok => {
                EnvelopeContent::Event(*seq)
            }
            (_, _, Some(error)) => {
                EnvelopeContent::Error(Arc::new(serde_json::to_value(error).unwrap_or_default()))
            }
            _ => EnvelopeContent::Empty,
        };
        // A rule may end a step with success after its last task failed; the envelope is still the one of that task.
        let is_ok = match (&content, last) {
            (EnvelopeContent::Event(_), Some((.., ok))) => *ok,
            _ => self.ok,
        };
        Envelope {
            is_ok,
            content,
            labels: Arc::new(labels),
            shows_status: false,
        }
    }
}
