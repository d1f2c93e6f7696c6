//! The latest result of a step as templates see it.

use std::sync::Arc;

use model::id::{Name, Seq};
use model::step_pointer::StepPointer;

use crate::template::scope::{Envelope, EnvelopeContent};

impl From<&StepPointer> for Envelope {
    fn from(pointer: &StepPointer) -> Self {
        let label = |(name, seq, ok): &(Name, Seq, bool)| (name.clone(), Envelope::from_event(*ok, *seq));
        let labels: Vec<_> = pointer.tasks.iter().map(label).collect();
        let is_last = |name: &Name| pointer.last.as_ref() == Some(name);
        let last = pointer.tasks.iter().find(|(name, ..)| is_last(name));
        let content = match (&pointer.loop_, last, &pointer.error) {
            (Some(results), _, None) => EnvelopeContent::Loop(results.clone()),
            // If a step failed after its last task succeeded, the server reported the failure: a timeout or a dead
            // letter.
            (_, Some((_, seq, ok)), error) if error.is_none() || !ok => EnvelopeContent::Event(*seq),
            (_, _, Some(error)) => EnvelopeContent::Error(Arc::new(serde_json::to_value(error).unwrap_or_default())),
            _ => EnvelopeContent::Empty,
        };
        // A rule may end a step with success after its last task failed; the envelope is still the one of that task.
        let is_ok = match (&content, last) {
            (EnvelopeContent::Event(_), Some((.., ok))) => *ok,
            _ => pointer.ok,
        };
        Envelope {
            is_ok,
            content,
            labels: Arc::new(labels),
            shows_status: false,
        }
    }
}
