//! Labels: the outcomes of earlier tasks, as the later templates of a pipeline see them.
//!
//! A label holds its task's latest envelope. With `accumulate`, it holds the combined results of all visits.

use std::sync::Arc;

use language::playbook::Step;
use language::template::{AccumulatedPart, AccumulatedParts, Envelope, EnvelopeContent, Scope};
use model::command::Continuation;
use model::outcome::Outcome;

use crate::next_action::TaskAttempt;

/// Makes an outcome visible under its task's label. `page` is set if the visit succeeded.
pub fn expose_outcome(scope: &mut Scope, attempt: &TaskAttempt<'_>, page: Option<i64>, outcome: Outcome) {
    let label = &attempt.task.label;
    let outcome = Arc::new(outcome);
    let envelope = Envelope::from_outcome(outcome.clone());
    scope.previous = Some(envelope.clone());
    let Some(accumulate) = &attempt.task.result.accumulate else {
        scope.labels.insert(label.clone(), envelope);
        return;
    };
    let previous = scope.labels.remove(label).map(|envelope| envelope.content);
    let envelope = match (previous, page) {
        (Some(EnvelopeContent::Parts(mut parts)), Some(page)) => {
            Arc::make_mut(&mut parts).add(page, AccumulatedPart::Outcome(outcome));
            Envelope::from_parts(parts)
        }
        // A failed or retried visit does not remove the results collected so far.
        (Some(EnvelopeContent::Parts(parts)), None) => Envelope::from_parts(parts),
        (_, Some(page)) => {
            let mut parts = AccumulatedParts::new(accumulate.clone());
            parts.add(page, AccumulatedPart::Outcome(outcome));
            Envelope::from_parts(Arc::new(parts))
        }
        (_, None) => envelope,
    };
    scope.labels.insert(label.clone(), envelope);
}

/// Makes the recorded outcomes of the pipeline's tasks visible under their labels.
pub fn expose_recorded_outcomes(scope: &mut Scope, step: &Step, continuation: &Continuation) {
    for (label, pointer) in &continuation.outcomes {
        let envelope = Envelope::from_event(pointer.ok, pointer.seq);
        if continuation.last.as_ref() == Some(label) {
            scope.previous = Some(envelope.clone());
        }
        let task = step.task(label.as_str()).map(|(_, task)| task);
        let accumulate = task.and_then(|task| task.result.accumulate.as_ref());
        let envelope = match (accumulate, continuation.parts_of(label)) {
            (Some(accumulate), Some(parts)) => {
                let mut accumulated = AccumulatedParts::new(accumulate.clone());
                for (page, seq) in parts.by_page {
                    accumulated.add(page, AccumulatedPart::Event(seq));
                }
                Envelope::from_parts(Arc::new(accumulated))
            }
            _ => envelope,
        };
        scope.labels.insert(label.clone(), envelope);
    }
}
