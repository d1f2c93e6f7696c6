//! Where the latest envelope of a step is found: pointers that state keeps and commands carry.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Name, Seq};
use crate::outcome::TaskError;
use crate::template::scope::{Content, Envelope, LoopPointer};

/// Where the latest envelope of a step is found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latest {
    /// The boundary event.
    pub boundary: Seq,
    /// Whether it ended well.
    pub ok: bool,
    /// The label that ended last.
    pub last: Option<Name>,
    /// The latest outcome of each task: label, event, whether it ended well.
    pub tasks: Vec<(Name, Seq, bool)>,
    /// For a loop: where its results are.
    pub loop_: Option<LoopPointer>,
    /// For a failure: what it was.
    pub error: Option<TaskError>,
}

impl Latest {
    /// The step's latest end, as templates see it.
    pub fn envelope(&self) -> Envelope {
        let label =
            |(name, seq, ok): &(Name, Seq, bool)| (name.clone(), Envelope::recorded(*ok, *seq));
        let labels: Vec<_> = self.tasks.iter().map(label).collect();
        let is_last = |name: &Name| self.last.as_ref() == Some(name);
        let last = self.tasks.iter().find(|(name, ..)| is_last(name));
        let content = match (&self.loop_, last, &self.error) {
            (Some(pointer), _, None) => Content::Loop(pointer.clone()),
            // A failure whose last task ended well is the server's own: a timeout, a dead letter.
            (_, Some((_, seq, ok)), error) if error.is_none() || !ok => Content::Event(*seq),
            (_, _, Some(error)) => {
                Content::Error(Arc::new(serde_json::to_value(error).unwrap_or_default()))
            }
            _ => Content::Empty,
        };
        // A rule may let a step end well after its last task failed; the envelope is that task's all the same.
        let is_ok = match (&content, last) {
            (Content::Event(_), Some((.., ok))) => *ok,
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
