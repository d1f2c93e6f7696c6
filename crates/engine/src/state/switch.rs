//! Folds a switch to another version of the playbook: unchanged tasks continue, changed ones start again.

use model::command::{Continuation, PipelineCursor};
use model::event::PlaybookSwitched;
use model::id::Name;

use crate::state::ExecutionState;

/// Switches the state to the new version.
pub(super) fn fold_switch(state: &mut ExecutionState, switched: &PlaybookSwitched) {
    state.version = switched.version;
    state.hash = switched.hash.clone();
    let open = state.runs.iter_mut();
    for (id, run) in open.filter(|(_, run)| run.boundary.is_none()) {
        if switched.restarted.contains(&id.step) {
            run.loop_ = None;
            run.prepared = None;
            restart_pipeline(&mut run.pipeline);
            continue;
        }
        let unchanged = switched.kept.iter().find(|unchanged| unchanged.step == id.step);
        let unchanged = unchanged.map_or(&[][..], |unchanged| unchanged.labels.as_slice());
        restart_if_changed(&mut run.pipeline, unchanged);
        let live = run.loop_.iter_mut().flat_map(|loop_| loop_.live.values_mut());
        live.for_each(|continuation| restart_if_changed(continuation, unchanged));
    }
}

fn restart_if_changed(continuation: &mut Continuation, unchanged: &[Name]) {
    let is_unchanged = match &continuation.cursor {
        PipelineCursor::Start => true,
        PipelineCursor::At(label) | PipelineCursor::After(label) => unchanged.contains(label),
    };
    if !is_unchanged {
        restart_pipeline(continuation);
    }
}

/// Resets to the first task. Visits keep counting: a repeated task is a new task run with a new idempotency key.
fn restart_pipeline(continuation: &mut Continuation) {
    let visits = std::mem::take(&mut continuation.visits);
    *continuation = Continuation {
        visits,
        ..Continuation::default()
    };
}
