//! Coverage: may a worker say this under that command, and is it news?
//!
//! Reports arrive at least once. What the log already holds changes nothing when it comes again.

use model::command::{Continuation, Cursor, Stage, Work};
use model::event::{Body, Emitter, Event};
use model::id::Seq;

use crate::decide::turn::Turn;
use crate::state::{LiveCommand, Run};

/// What an event of a report is to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Covered {
    /// News.
    Yes,
    /// Known already, or about something that has ended; it changes nothing.
    Late,
    /// Not this command's to say.
    No,
}

impl Turn<'_> {
    /// What an event is to the log, given what the one before it in the same report was.
    pub(super) fn covers(&self, command: Seq, event: &Event, before: Covered) -> Covered {
        if event.kind().emitter() == Emitter::Server {
            return Covered::No;
        }
        let Some(run_id) = event.at.step_run_id() else {
            return Covered::No;
        };
        let Some(run) = self.state.runs.get(&run_id) else {
            return Covered::Late;
        };
        if let Some(live) = self.state.commands.get(&command) {
            if live.run != run_id || !may_speak(live, event) {
                return Covered::No;
            }
            let carrier = self.state.carrier(&run_id, event.at.iteration);
            if event.at.iteration.is_some() && carrier.is_some_and(|carrier| carrier != command) {
                return Covered::Late;
            }
        } else if !is_afterword(event) {
            // The command ended within this very report; only the policy's word on its last outcome may follow.
            return Covered::Late;
        }
        if is_news(run, event, before) {
            Covered::Yes
        } else {
            Covered::Late
        }
    }
}

/// A command speaks of its own iterations; only that of a plain pipeline may end its step well.
fn may_speak(live: &LiveCommand, event: &Event) -> bool {
    match &event.body {
        Body::StepDone(_) | Body::StepStarted(_) => live.work == Work::Pipeline,
        _ => event.at.iteration.is_none() || live.covers(event.at.iteration),
    }
}

fn is_afterword(event: &Event) -> bool {
    matches!(event.body, Body::PolicyEvaluated(_))
}

fn is_news(run: &Run, event: &Event, before: Covered) -> bool {
    if run.boundary.is_some() {
        return false;
    }
    if let Some(index) = event.at.iteration {
        let Some(progress) = &run.loop_ else {
            return false;
        };
        let away = progress.suspended.contains(&index) || progress.awake.contains(&index);
        if progress.has_ended(index) || away {
            return false;
        }
        if matches!(event.body, Body::IterationStarted(_)) {
            return !progress.live.contains_key(&index);
        }
    }
    match &event.body {
        Body::StepStarted(_) => !run.started,
        Body::PolicyEvaluated(_) => before == Covered::Yes,
        _ => run
            .continuation(event.at.iteration)
            .is_none_or(|continuation| moves(continuation, event)),
    }
}

/// Whether a task event moves its pipeline.
fn moves(continuation: &Continuation, event: &Event) -> bool {
    let Some(label) = &event.at.task else {
        return true;
    };
    let visit = continuation.visits.get(label).copied().unwrap_or(0);
    let here = visit == event.at.visit && continuation.cursor == Cursor::At(label.clone());
    let attempt = event.at.attempt;
    let is_under_way = matches!(continuation.stage, Stage::Started | Stage::Answered { .. });
    match &event.body {
        Body::TaskStarted(_) => {
            let is_retried = matches!(continuation.stage, Stage::Retrying { .. });
            let is_next_try = here && is_retried && attempt == continuation.attempt + 1;
            event.at.visit > visit || is_next_try
        }
        Body::AttemptStarted(_) => match continuation.stage {
            Stage::Retrying { .. } => here && attempt == continuation.attempt + 1,
            // The first attempt is named only when a second one follows, in the same breath.
            _ => here && is_under_way && attempt == 1 && continuation.attempt == 1,
        },
        Body::AttemptDone(_) | Body::AttemptFailed(_) => {
            here && is_under_way && attempt == continuation.attempt
        }
        Body::TaskDone(_) | Body::TaskFailed(_) => here && is_under_way,
        _ => true,
    }
}
