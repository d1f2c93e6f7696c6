//! Coverage: checks whether a worker may report an event under its command, and whether the event is new.
//!
//! Reports arrive at least once. An event that the log already contains changes nothing.

use model::command::{Continuation, Cursor, Stage, Work};
use model::event::{Body, Emitter, Event};
use model::id::Seq;

use crate::decide::turn::Turn;
use crate::state::{LiveCommand, Run};

/// Whether the log accepts an event of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Covered {
    /// The event is new.
    Yes,
    /// The log already contains the event, or its subject has ended; it changes nothing.
    Late,
    /// The command does not cover the event.
    No,
}

impl Turn<'_> {
    /// Classifies an event, given the classification of the event before it in the same report.
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
            // The command ended within this report; only `policy.evaluated` of its last outcome may follow.
            return Covered::Late;
        }
        if is_news(run, event, before) {
            Covered::Yes
        } else {
            Covered::Late
        }
    }
}

/// A command covers its own iterations. Only a `Work::Pipeline` command may end its step successfully.
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

/// Whether a task event changes its pipeline's position.
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
            // `task.attempt.started` of attempt 1 is only written when a retry follows, in the same report as the end
            // of the attempt.
            _ => here && is_under_way && attempt == 1 && continuation.attempt == 1,
        },
        Body::AttemptDone(_) | Body::AttemptFailed(_) => {
            here && is_under_way && attempt == continuation.attempt
        }
        Body::TaskDone(_) | Body::TaskFailed(_) => here && is_under_way,
        _ => true,
    }
}
