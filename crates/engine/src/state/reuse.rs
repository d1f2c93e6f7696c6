//! Folds what an execution reuses from another one: step results by reference, tokens, and finished iterations.

use model::event::{
    Event, EventKind, InitialToken, LoopStarted, ResultPointer, ReusedIterations, ReusedPart, ReusedRecord, ReusedStep,
    TokenOrigin, WorkflowStarted,
};
use model::id::{Seq, TokenId};
use model::step_pointer::{LoopPointer, StepPointer};
use serde_json::{Map, Value};

use crate::state::{Boundary, BoundaryKind, ExecutionState, LoopRun, ReturnedRange, Token};

/// Creates the initial tokens of an execution.
pub(super) fn add_initial_tokens(state: &mut ExecutionState, started: &WorkflowStarted, seq: Seq) {
    let entry = || {
        vec![InitialToken {
            step: started.entry.clone(),
            args: None,
            from: None,
        }]
    };
    let tokens = started.tokens.clone().unwrap_or_else(entry);
    for (arc, placed) in (0u32..).zip(tokens) {
        let token = Token {
            step: placed.step,
            args: placed.args,
            boundary: placed.from.map(to_boundary),
            parked: false,
        };
        state.tokens.insert(TokenId { seq, arc }, token);
    }
}

fn to_boundary(from: TokenOrigin) -> Boundary {
    let end = match from.event {
        EventKind::StepFailed => BoundaryKind::Failed,
        EventKind::LoopDone => BoundaryKind::LoopDone,
        _ => BoundaryKind::Done,
    };
    Boundary {
        seq: from.seq,
        step: from.step,
        end,
        timestamp: from.timestamp,
    }
}

/// Folds a reused part. Pointers refer to events of this log, which name the original event.
pub(super) fn fold_reused(state: &mut ExecutionState, reused: &ReusedRecord, event: &Event) {
    let Some(step) = event.location.step.clone() else {
        return;
    };
    if let ReusedPart::Iterations(iterations) = &reused.part {
        let iterations = (event.seq, (**iterations).clone());
        state.reusing.insert(step, iterations);
        return;
    }
    let summary = state.steps.get_or_default(&step);
    let latest = summary.latest.get_or_insert_with(|| StepPointer {
        boundary: event.seq,
        ok: true,
        last: None,
        tasks: Vec::new(),
        loop_: None,
        error: None,
    });
    match (&reused.part, &event.location.task) {
        (ReusedPart::Task { ok }, Some(label)) => {
            latest.tasks.push((label.clone(), event.seq, *ok));
        }
        (ReusedPart::Step(ended), _) => {
            set_step_end(latest, ended, event.seq);
            let pointer = ResultPointer {
                step: step.clone(),
                seq: event.seq,
            };
            if step == "end" {
                state.end_boundary = Some(pointer.clone());
            }
            state.last_boundary = Some(pointer);
        }
        (ReusedPart::Task { .. }, None) | (ReusedPart::Iterations(_), _) => {}
    }
}

fn set_step_end(latest: &mut StepPointer, ended: &ReusedStep, seq: Seq) {
    latest.boundary = seq;
    latest.ok = ended.ok;
    latest.last.clone_from(&ended.last);
    latest.error.clone_from(&ended.error);
    latest.loop_ = ended.loop_.as_ref().map(|_| LoopPointer {
        started: seq,
        done: seq,
    });
}

/// Returns the iterations that a starting loop reuses, if `loop.started` names them.
pub(super) fn take_reused(
    state: &mut ExecutionState,
    started: &LoopStarted,
    event: &Event,
) -> Option<ReusedIterations> {
    started.reused?;
    let (_, reused) = state.reusing.remove(event.location.step.as_ref()?)?;
    Some(reused)
}

impl LoopRun {
    /// Marks the reused iterations as done; the gaps between them remain to be run.
    pub(super) fn apply_reuse(&mut self, reused: &ReusedIterations) {
        self.is_partly_reused = true;
        for (from, to) in reused.ranges() {
            let to = to.min(self.total);
            if self.next < from {
                self.returned.push(ReturnedRange {
                    from: self.next,
                    to: from,
                    strikes: 0,
                });
            }
            self.done.insert_range(from..to);
            self.next = self.next.max(to);
        }
        for (index, patch) in &reused.set_ctx {
            if let Ok(patch) = patch.parse_as::<Map<String, Value>>() {
                self.patches.add(*index, &patch);
            }
        }
    }
}
