//! Coverage: checks whether a worker may report an event under its command, and whether the event is new.
//!
//! Reports arrive at least once. An event that the log already contains changes nothing.

use model::command::{CommandWork, Continuation, PipelineCursor, PipelineStage};
use model::event::{AllowedSource, EventBody, ReportedEvent};
use model::id::Seq;

use crate::decide::decision_builder::DecisionBuilder;
use crate::state::{LiveCommand, StepRun};

/// Whether the log accepts an event of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventCoverage {
    /// The event is new.
    New,
    /// The log already contains the event, or its subject has ended; it changes nothing.
    Stale,
    /// The command does not cover the event.
    NotCovered,
}

impl DecisionBuilder<'_> {
    /// Classifies an event, given the classification of the event before it in the same report.
    pub(super) fn coverage_of(&self, command: Seq, event: &ReportedEvent, before: EventCoverage) -> EventCoverage {
        if event.kind().allowed_source() == AllowedSource::Server {
            return EventCoverage::NotCovered;
        }
        let Some(run_id) = event.location.step_run_id() else {
            return EventCoverage::NotCovered;
        };
        let Some(run) = self.state.runs.get(&run_id) else {
            return EventCoverage::Stale;
        };
        if let Some(live) = self.state.commands.get(&command) {
            if live.run != run_id || !may_report(live, event) {
                return EventCoverage::NotCovered;
            }
            let covering = self.state.command_covering(&run_id, event.location.iteration);
            if event.location.iteration.is_some() && covering.is_some_and(|covering| covering != command) {
                return EventCoverage::Stale;
            }
        } else if !is_follow_up(event) {
            // The command ended within this report; only `policy.evaluated` of its last outcome may follow.
            return EventCoverage::Stale;
        }
        if is_new(run, event, before) {
            EventCoverage::New
        } else {
            EventCoverage::Stale
        }
    }
}

/// A command covers its own iterations. Only a `Work::Pipeline` command may end its step successfully.
fn may_report(live: &LiveCommand, event: &ReportedEvent) -> bool {
    match &event.body {
        EventBody::StepDone(_) | EventBody::StepStarted(_) => live.work == CommandWork::Pipeline,
        _ => event.location.iteration.is_none() || live.covers(event.location.iteration),
    }
}

fn is_follow_up(event: &ReportedEvent) -> bool {
    matches!(event.body, EventBody::PolicyEvaluated(_))
}

fn is_new(run: &StepRun, event: &ReportedEvent, before: EventCoverage) -> bool {
    if run.boundary.is_some() {
        return false;
    }
    if let Some(index) = event.location.iteration {
        let Some(progress) = &run.loop_ else {
            return false;
        };
        let is_waiting = progress.suspended.contains(&index) || progress.awake.contains(&index);
        if progress.has_ended(index) || is_waiting {
            return false;
        }
        if matches!(event.body, EventBody::IterationStarted(_)) {
            return !progress.live.contains_key(&index);
        }
    }
    match &event.body {
        EventBody::StepStarted(_) => !run.started,
        EventBody::PolicyEvaluated(_) => before == EventCoverage::New,
        _ => run
            .continuation(event.location.iteration)
            .is_none_or(|continuation| moves_pipeline(continuation, event)),
    }
}

/// Whether a task event changes its pipeline's position.
fn moves_pipeline(continuation: &Continuation, event: &ReportedEvent) -> bool {
    let Some(label) = &event.location.task else {
        return true;
    };
    let visit = continuation.visits.get(label).copied().unwrap_or(0);
    let is_current_visit = visit == event.location.visit && continuation.cursor == PipelineCursor::At(label.clone());
    let attempt = event.location.attempt;
    let is_running = matches!(
        continuation.stage,
        PipelineStage::Started | PipelineStage::WaitEnded { .. }
    );
    match &event.body {
        EventBody::TaskStarted(_) => {
            let is_retried = matches!(continuation.stage, PipelineStage::Retrying { .. });
            let is_next_try = is_current_visit && is_retried && attempt == continuation.attempt + 1;
            event.location.visit > visit || is_next_try
        }
        EventBody::AttemptStarted(_) => match continuation.stage {
            PipelineStage::Retrying { .. } => is_current_visit && attempt == continuation.attempt + 1,
            // `task.attempt.started` of attempt 1 is only written when a retry follows, in the same report as the end
            // of the attempt.
            _ => is_current_visit && is_running && attempt == 1 && continuation.attempt == 1,
        },
        EventBody::AttemptDone(_) | EventBody::AttemptFailed(_) => {
            is_current_visit && is_running && attempt == continuation.attempt
        }
        EventBody::TaskDone(_) | EventBody::TaskFailed(_) => is_current_visit && is_running,
        _ => true,
    }
}
