//! Results that were found by an address.

use model::event::{Event, RecordedResult};
use model::id::ExecutionId;
use model::manifest::{self, ManifestRule};
use model::outcome::Outcome;
use model::result_ref::ResultRef;
use model::step_pointer::LoopPointer;
use serde_json::Value;

/// A result before its bodies are loaded.
#[derive(Debug, Clone)]
pub enum LocatedResult {
    /// An available value: an inline result, or the error of a task that failed.
    Value(Value),
    /// A body outside the log.
    Body(Box<ResultRef>),
    /// The combined parts of a manifest.
    Manifest(Box<ResultRef>, ManifestRule),
    /// The results of a loop's iterations, by index.
    Loop(ExecutionId, LoopPointer),
}

impl LocatedResult {
    /// Locates the result of an outcome; a failure gives its error.
    pub(crate) fn from_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok(success) => match success.reference {
                Some(reference) => Self::from_reference(*reference),
                None => Self::Value(success.result),
            },
            Outcome::Error(failure) => Self::Value(serde_json::to_value(failure.error).unwrap_or_default()),
        }
    }

    /// Locates the result of a reference.
    pub fn from_reference(reference: ResultRef) -> Self {
        match ManifestRule::from_reference(&reference) {
            Some(rule) => Self::Manifest(Box::new(reference), rule),
            None => Self::Body(Box::new(reference)),
        }
    }

    /// Locates the result that an event records.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        match event.body.recorded_result()? {
            RecordedResult::Attempt(ended) => ended.outcome.parse_as().ok().map(Self::from_outcome),
            RecordedResult::Manifest(stored) => Some(Self::from_reference((*stored.result_ref).clone())),
            RecordedResult::TaskDone(_) | RecordedResult::TaskFailed(_) => {
                manifest::outcome_from_event(event).map(Self::from_outcome)
            }
        }
    }

    /// The media type of the result's bytes.
    pub(crate) fn content_type(&self) -> &str {
        match self {
            Self::Body(reference) => &reference.meta.content_type,
            _ => "application/json",
        }
    }
}
