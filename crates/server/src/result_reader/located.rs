//! What an address leads to.

use model::event::Event;
use model::id::ExecutionId;
use model::manifest::{self, ManifestRule};
use model::outcome::Outcome;
use model::result_ref::ResultRef;
use model::step_pointer::LoopPointer;
use serde_json::Value;

/// A result, as far as it is known without its bodies.
#[derive(Debug, Clone)]
pub enum LocatedResult {
    /// A value at hand: an inline result, or the error of a task that failed.
    Value(Value),
    /// A body outside the log.
    Body(Box<ResultRef>),
    /// What the parts of a manifest come to.
    Manifest(Box<ResultRef>, ManifestRule),
    /// The results of a loop's iterations, by index.
    Loop(ExecutionId, LoopPointer),
}

impl LocatedResult {
    /// What an outcome is; of a failure, its error.
    pub(crate) fn from_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok(success) => match success.reference {
                Some(reference) => Self::from_reference(*reference),
                None => Self::Value(success.result),
            },
            Outcome::Error(failure) => {
                Self::Value(serde_json::to_value(failure.error).unwrap_or_default())
            }
        }
    }

    /// What a reference leads to.
    pub fn from_reference(reference: ResultRef) -> Self {
        match ManifestRule::from_reference(&reference) {
            Some(rule) => Self::Manifest(Box::new(reference), rule),
            None => Self::Body(Box::new(reference)),
        }
    }

    /// What an event records.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        use model::event::EventBody;
        match &event.body {
            EventBody::AttemptDone(ended) | EventBody::AttemptFailed(ended) => {
                ended.outcome.parse_as().ok().map(Self::from_outcome)
            }
            EventBody::ManifestUpdated(stored) => {
                Some(Self::from_reference((*stored.result_ref).clone()))
            }
            _ => manifest::outcome_from_event(event).map(Self::from_outcome),
        }
    }

    /// The media type of its bytes.
    pub(crate) fn content_type(&self) -> &str {
        match self {
            Self::Body(reference) => &reference.meta.content_type,
            _ => "application/json",
        }
    }
}
