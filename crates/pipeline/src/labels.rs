//! Labels: the outcomes of earlier tasks, as the later templates of a pipeline see them.
//!
//! A label holds its task's latest envelope. With `accumulate`, it holds the combined results of all visits.

use std::sync::Arc;

use model::command::Continuation;
use model::outcome::Outcome;
use model::playbook::Step;
use model::template::{Content, Envelope, Gathered, Part, Scope};

use crate::next::TaskRun;

/// Makes an outcome visible under its task's label. `part` is its page number, if the visit succeeded.
pub fn see(scope: &mut Scope, run: &TaskRun<'_>, part: Option<i64>, outcome: Outcome) {
    let label = &run.task.label;
    let outcome = Arc::new(outcome);
    let envelope = Envelope::of(outcome.clone());
    scope.previous = Some(envelope.clone());
    let Some(accumulate) = &run.task.result.accumulate else {
        scope.labels.insert(label.clone(), envelope);
        return;
    };
    let before = scope.labels.remove(label).map(|envelope| envelope.content);
    let shown = match (before, part) {
        (Some(Content::Parts(mut parts)), Some(page)) => {
            Arc::make_mut(&mut parts).add(page, Part::Outcome(outcome));
            Envelope::gathered(parts)
        }
        // A failed or retried visit keeps the results collected so far.
        (Some(Content::Parts(parts)), None) => Envelope::gathered(parts),
        (_, Some(page)) => {
            let mut parts = Gathered::new(accumulate.clone());
            parts.add(page, Part::Outcome(outcome));
            Envelope::gathered(Arc::new(parts))
        }
        (_, None) => envelope,
    };
    scope.labels.insert(label.clone(), shown);
}

/// Makes the recorded outcomes of the pipeline's tasks visible under their labels.
pub fn recall(scope: &mut Scope, step: &Step, continuation: &Continuation) {
    for (label, pointer) in &continuation.outcomes {
        let envelope = Envelope::recorded(pointer.ok, pointer.seq);
        if continuation.last.as_ref() == Some(label) {
            scope.previous = Some(envelope.clone());
        }
        let task = step.task(label.as_str()).map(|(_, task)| task);
        let accumulate = task.and_then(|task| task.result.accumulate.as_ref());
        let shown = match (accumulate, continuation.parts_of(label)) {
            (Some(accumulate), Some(parts)) => {
                let mut gathered = Gathered::new(accumulate.clone());
                for (page, seq) in parts.by_page {
                    gathered.add(page, Part::Event(seq));
                }
                Envelope::gathered(Arc::new(gathered))
            }
            _ => envelope,
        };
        scope.labels.insert(label.clone(), shown);
    }
}
