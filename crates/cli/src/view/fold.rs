//! Applies events to the view.

use model::event::{AwaitTarget, Event, EventBody, ExecutionFinished, PolicyEvaluated, TaskEnded, TaskStarted};
use model::events;
use model::id::Name;
use model::outcome::{Outcome, TaskError};
use model::playbook::Directive;
use model::status::RunStatus;

use crate::view::run::RunView;
use crate::view::steps::{FAILURES_MAX, LoopView, OpenTask, StepFailure, StepStatus, StepView};

impl RunView {
    /// Applies the next event of the log.
    pub(crate) fn fold(&mut self, event: &Event) {
        self.events += 1;
        self.last_seq = event.seq;
        self.last_event_at = event.recorded_at;
        self.fold_status(event);
        if let Some(step) = self.step_run(event) {
            step.fold(event);
        }
    }

    fn fold_status(&mut self, event: &Event) {
        match &event.body {
            EventBody::ExecutionRequested(request) => {
                self.started_at = Some(event.recorded_at);
                self.path = Some(request.path.clone());
                self.hash = Some(request.hash.clone());
            }
            EventBody::PlaybookSwitched(switched) => self.hash = Some(switched.hash.clone()),
            EventBody::PlaybookPaused(_) => self.status = RunStatus::Paused,
            EventBody::PlaybookResumed(_) => self.status = RunStatus::Running,
            EventBody::CancelRequested(_) => self.is_cancelling = true,
            EventBody::ExecutionRetried(retried) => {
                self.status = RunStatus::Running;
                self.is_cancelling = false;
                self.generation = retried.generation;
                self.generation_started_at = Some(event.recorded_at);
                self.finished_at = None;
                self.error = None;
                self.result = None;
            }
            EventBody::PlaybookFinished(finished) => self.finish(finished, event),
            events!(
                RequestEvaluated PlaybookStarted PlaybookProcessed WorkflowStarted WorkflowFinished StepReused
                SignalReceived TimerSet TimerFired AdmitEvaluated StepScheduled NextEvaluated CtxPatched CommandIssued
                CommandClaimed CommandExpired CommandFailed StepStarted StepDone StepFailed TaskStarted AttemptStarted
                AttemptDone AttemptFailed TaskDone TaskFailed PolicyEvaluated LoopStarted FrameClaimed
                IterationScheduled IterationStarted IterationDone IterationFailed LoopDone ResultStored ManifestUpdated
                BatchAccepted BatchProcessing BatchCompleted BatchFailed
            ) => {}
        }
    }

    fn finish(&mut self, finished: &ExecutionFinished, event: &Event) {
        self.status = finished.ended.into();
        self.is_cancelling = false;
        self.finished_at = Some(event.recorded_at);
        self.error.clone_from(&finished.error);
        self.result.clone_from(&finished.result);
        for step in &mut self.steps {
            if step.status == StepStatus::Running {
                step.end(StepStatus::Stopped, event);
            }
        }
    }

    /// Returns the step run of an event; creates it at its first event.
    fn step_run(&mut self, event: &Event) -> Option<&mut StepView> {
        let name = event.location.step.as_ref()?;
        if event.location.run == 0 {
            return None;
        }
        let is_it = |step: &StepView| step.run == event.location.run && step.step == *name;
        let position = self.steps.iter().rposition(is_it);
        let index = position.unwrap_or_else(|| {
            let step = StepView::new(name.clone(), event.location.run, event.recorded_at);
            self.steps.push(step);
            self.steps.len() - 1
        });
        self.steps.get_mut(index)
    }
}

impl StepView {
    pub(super) fn fold(&mut self, event: &Event) {
        let iteration = event.location.iteration;
        match &event.body {
            EventBody::CommandIssued(_) => self.reopen(event),
            EventBody::StepStarted(_) => {
                self.reopen(event);
                // A worker reports start and end together, so only the timestamp of its own clock is the start.
                self.started_at = event.timestamp;
            }
            EventBody::StepDone(_) | EventBody::StepReused(_) => self.end(StepStatus::Done, event),
            EventBody::StepFailed(failed) => {
                self.record_failure(None, &failed.error);
                self.end(StepStatus::Failed, event);
            }
            EventBody::TaskStarted(started) => self.start_task(started, event),
            EventBody::AttemptStarted(_) => {
                self.open_task(event).is_retrying = event.location.attempt > 1;
            }
            EventBody::PolicyEvaluated(policy) => self.apply_policy(policy, event),
            EventBody::TaskDone(ended) | EventBody::TaskFailed(ended) => {
                self.end_task(ended, event);
            }
            EventBody::LoopStarted(started) => self.start_loop(started.total),
            EventBody::FrameClaimed(frame) => self.loop_view().total = frame.from + frame.rows,
            EventBody::IterationStarted(_) => {
                self.reopen(event);
                self.loop_view().in_flight.extend(iteration);
            }
            EventBody::IterationDone(_) => self.end_iteration(event, None),
            EventBody::IterationFailed(failed) => self.end_iteration(event, Some(&failed.error)),
            EventBody::LoopDone(done) => {
                self.loop_view().total = done.stats.total;
                self.end(StepStatus::Done, event);
            }
            events!(
                ExecutionRequested RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched
                PlaybookFinished PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested ExecutionRetried
                SignalReceived TimerSet TimerFired AdmitEvaluated StepScheduled NextEvaluated CtxPatched CommandClaimed
                CommandExpired CommandFailed AttemptDone AttemptFailed IterationScheduled ResultStored ManifestUpdated
                BatchAccepted BatchProcessing BatchCompleted BatchFailed
            ) => {}
        }
    }

    /// Reopens a step run that ended, when a retry of the run continues it.
    fn reopen(&mut self, event: &Event) {
        if self.status != StepStatus::Running {
            self.status = StepStatus::Running;
            self.started_at = event.recorded_at;
            self.ended_at = None;
            self.boundary = None;
            self.failures.remove(&None);
        }
    }

    pub(super) fn end(&mut self, status: StepStatus, event: &Event) {
        self.status = status;
        self.ended_at = Some(event.recorded_at);
        self.boundary = Some(event.seq);
        self.open_tasks.clear();
        self.unconfirmed_failures.clear();
        if status == StepStatus::Done {
            self.failures.remove(&None);
        }
        if let Some(loop_view) = &mut self.loop_view {
            loop_view.in_flight.clear();
            loop_view.outlined.in_flight = 0;
        }
    }

    fn start_loop(&mut self, total: u64) {
        self.loop_view = Some(LoopView {
            total,
            ..LoopView::default()
        });
    }

    fn loop_view(&mut self) -> &mut LoopView {
        self.loop_view.get_or_insert_default()
    }

    fn task_key(event: &Event) -> (Option<u64>, Name) {
        let label = event.location.task.clone().unwrap_or_else(|| Name::from(""));
        (event.location.iteration, label)
    }

    fn open_task(&mut self, event: &Event) -> &mut OpenTask {
        let task = self.open_tasks.entry(Self::task_key(event)).or_default();
        task.attempt = event.location.attempt.max(1);
        task
    }

    fn start_task(&mut self, started: &TaskStarted, event: &Event) {
        let waits_for = started.awaits.as_ref().map(|awaits| match &**awaits {
            AwaitTarget::Child(child) => format!("playbook {}", child.path),
            AwaitTarget::Wait(wait) => match (&wait.signal, wait.until) {
                (Some(signal), _) => format!("signal {signal}"),
                (None, Some(until)) => format!("until {until}"),
                (None, None) => "nothing".to_owned(),
            },
        });
        self.open_task(event).awaited = waits_for;
    }

    fn apply_policy(&mut self, policy: &PolicyEvaluated, event: &Event) {
        if policy.action.directive == Directive::Retry {
            self.retries += 1;
            let task = self.open_task(event);
            task.is_retrying = true;
            task.attempts_max = policy.action.attempts.or(task.attempts_max);
        }
    }

    fn end_task(&mut self, ended: &TaskEnded, event: &Event) {
        let task = self.open_tasks.remove(&Self::task_key(event));
        let iteration = event.location.iteration;
        if iteration.is_none() {
            self.outcome = Some(ended.outcome.clone());
            self.body.clone_from(&ended.result_ref);
        }
        if !matches!(event.body, EventBody::TaskFailed(_)) {
            self.unconfirmed_failures.remove(&iteration);
            return;
        }
        let outcome = ended.outcome.parse_as::<Outcome>().ok();
        if let Some(error) = outcome.as_ref().and_then(Outcome::failure) {
            let suspect = StepFailure {
                task: event.location.task.clone(),
                attempt: event.location.attempt.max(1),
                attempts_max: task.and_then(|task| task.attempts_max),
                error: error.clone(),
            };
            self.unconfirmed_failures.insert(iteration, suspect);
        }
    }

    fn end_iteration(&mut self, event: &Event, error: Option<&TaskError>) {
        let Some(index) = event.location.iteration else {
            return;
        };
        self.open_tasks.retain(|(iteration, _), _| *iteration != Some(index));
        if let Some(error) = error {
            self.record_failure(Some(index), error);
        } else {
            self.unconfirmed_failures.remove(&Some(index));
            self.failures.remove(&Some(index));
        }
        let loop_view = self.loop_view();
        loop_view.in_flight.remove(&index);
        loop_view.add_duration(event.duration_ms);
        if error.is_some() {
            loop_view.failed.insert(index);
        } else {
            loop_view.failed.remove(&index);
            loop_view.succeeded += 1;
        }
    }

    /// Records a failure, with its task and attempt if the log contains them.
    fn record_failure(&mut self, iteration: Option<u64>, error: &TaskError) {
        let suspect = self.unconfirmed_failures.remove(&iteration);
        let is_full = self.failures.len() >= FAILURES_MAX;
        if is_full && iteration.is_some() {
            return;
        }
        let task = error.details.get("task").and_then(|task| task.as_str());
        let failure = match suspect {
            Some(suspect) => StepFailure {
                error: error.clone(),
                ..suspect
            },
            None => StepFailure {
                task: task.map(Name::from),
                attempt: 0,
                attempts_max: None,
                error: error.clone(),
            },
        };
        self.failures.insert(iteration, failure);
    }
}
