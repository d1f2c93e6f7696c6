//! The fold of a switch to another text of the playbook: what the texts agree on goes on, the rest begins anew.

use model::command::{Continuation, Cursor};
use model::event::Switched;
use model::id::Name;

use crate::state::State;

/// Takes on the new text.
pub(super) fn fold(state: &mut State, switched: &Switched) {
    state.version = switched.version;
    state.hash = switched.hash.clone();
    let open = state.runs.iter_mut();
    for (id, run) in open.filter(|(_, run)| run.boundary.is_none()) {
        if switched.restarted.contains(&id.step) {
            run.loop_ = None;
            run.prepared = None;
            restart(&mut run.pipeline);
            continue;
        }
        let kept = switched.kept.iter().find(|kept| kept.step == id.step);
        let kept = kept.map_or(&[][..], |kept| kept.labels.as_slice());
        restart_beyond(&mut run.pipeline, kept);
        let live = run
            .loop_
            .iter_mut()
            .flat_map(|loop_| loop_.live.values_mut());
        live.for_each(|continuation| restart_beyond(continuation, kept));
    }
}

fn restart_beyond(continuation: &mut Continuation, kept: &[Name]) {
    let is_kept = match &continuation.cursor {
        Cursor::Start => true,
        Cursor::At(label) | Cursor::After(label) => kept.contains(label),
    };
    if !is_kept {
        restart(continuation);
    }
}

/// Back to the first task. Visits go on counting: what runs again is a new task run, under a new idempotency key.
fn restart(continuation: &mut Continuation) {
    let visits = std::mem::take(&mut continuation.visits);
    *continuation = Continuation {
        visits,
        ..Continuation::default()
    };
}
