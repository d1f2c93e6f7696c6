//! Applies events to the view.

use model::event::{Awaits, Body, Event, Finished, PolicyEvaluated, TaskEnded, TaskStarted};
use model::id::Name;
use model::outcome::{Outcome, TaskError};
use model::playbook::Directive;
use model::status::RunStatus;

use crate::view::run::RunView;
use crate::view::steps::{FAILURES_KEPT, LoopView, OpenTask, Standing, StepFailure, StepView};

impl RunView {
    /// Applies the next event of the log.
    pub(crate) fn fold(&mut self, event: &Event) {
        self.events += 1;
        self.last = event.seq;
        self.seen_at = event.recorded_at;
        self.fold_life(event);
        if let Some(step) = self.step_run(event) {
            step.fold(event);
        }
    }

    fn fold_life(&mut self, event: &Event) {
        match &event.body {
            Body::ExecutionRequested(request) => {
                self.started_at = Some(event.recorded_at);
                self.path = Some(request.path.clone());
                self.hash = Some(request.hash.clone());
            }
            Body::PlaybookSwitched(switched) => self.hash = Some(switched.hash.clone()),
            Body::PlaybookPaused(_) => self.status = RunStatus::Paused,
            Body::PlaybookResumed(_) => self.status = RunStatus::Running,
            Body::CancelRequested(_) => self.cancelling = true,
            Body::ExecutionRetried(retried) => {
                self.status = RunStatus::Running;
                self.cancelling = false;
                self.generation = retried.generation;
                self.generation_at = Some(event.recorded_at);
                self.finished_at = None;
                self.error = None;
                self.result = None;
            }
            Body::PlaybookFinished(finished) => self.finish(finished, event),
            _ => {}
        }
    }

    fn finish(&mut self, finished: &Finished, event: &Event) {
        self.status = finished.ended.into();
        self.cancelling = false;
        self.finished_at = Some(event.recorded_at);
        self.error.clone_from(&finished.error);
        self.result.clone_from(&finished.result);
        for step in &mut self.steps {
            if step.standing == Standing::Running {
                step.end(Standing::Stopped, event);
            }
        }
    }

    /// Returns the step run of an event; creates it at its first event.
    fn step_run(&mut self, event: &Event) -> Option<&mut StepView> {
        let name = event.at.step.as_ref()?;
        if event.at.run == 0 {
            return None;
        }
        let is_it = |step: &StepView| step.run == event.at.run && step.step == *name;
        let known = self.steps.iter().rposition(is_it);
        let index = known.unwrap_or_else(|| {
            let step = StepView::new(name.clone(), event.at.run, event.recorded_at);
            self.steps.push(step);
            self.steps.len() - 1
        });
        self.steps.get_mut(index)
    }
}

impl StepView {
    pub(super) fn fold(&mut self, event: &Event) {
        let iteration = event.at.iteration;
        match &event.body {
            Body::CommandIssued(_) => self.reopen(event),
            Body::StepStarted(_) => {
                self.reopen(event);
                // A worker reports start and end together, so only the timestamp of its own clock is the start.
                self.started_at = event.timestamp;
            }
            Body::StepDone(_) | Body::StepReused(_) => self.end(Standing::Done, event),
            Body::StepFailed(failed) => {
                self.fail(None, &failed.error);
                self.end(Standing::Failed, event);
            }
            Body::TaskStarted(started) => self.start_task(started, event),
            Body::AttemptStarted(_) => self.open_task(event).retrying = event.at.attempt > 1,
            Body::PolicyEvaluated(policy) => self.policy(policy, event),
            Body::TaskDone(ended) | Body::TaskFailed(ended) => self.end_task(ended, event),
            Body::LoopStarted(started) => {
                self.lap = Some(LoopView {
                    total: started.total,
                    ..LoopView::default()
                });
            }
            Body::FrameClaimed(frame) => self.lap().total = frame.from + frame.rows,
            Body::IterationStarted(_) => {
                self.reopen(event);
                self.lap().in_flight.extend(iteration);
            }
            Body::IterationDone(_) => self.end_iteration(event, None),
            Body::IterationFailed(failed) => self.end_iteration(event, Some(&failed.error)),
            Body::LoopDone(done) => {
                self.lap().total = done.stats.total;
                self.end(Standing::Done, event);
            }
            _ => {}
        }
    }

    /// Reopens a step run that ended, when a retry of the run continues it.
    fn reopen(&mut self, event: &Event) {
        if self.standing != Standing::Running {
            self.standing = Standing::Running;
            self.started_at = event.recorded_at;
            self.ended_at = None;
            self.boundary = None;
            self.failures.remove(&None);
        }
    }

    pub(super) fn end(&mut self, standing: Standing, event: &Event) {
        self.standing = standing;
        self.ended_at = Some(event.recorded_at);
        self.boundary = Some(event.seq);
        self.open.clear();
        self.suspects.clear();
        if standing == Standing::Done {
            self.failures.remove(&None);
        }
        if let Some(lap) = &mut self.lap {
            lap.in_flight.clear();
            lap.outlined.in_flight = 0;
        }
    }

    fn lap(&mut self) -> &mut LoopView {
        self.lap.get_or_insert_default()
    }

    fn key(event: &Event) -> (Option<u64>, Name) {
        let label = event.at.task.clone().unwrap_or_else(|| Name::from(""));
        (event.at.iteration, label)
    }

    fn open_task(&mut self, event: &Event) -> &mut OpenTask {
        let task = self.open.entry(Self::key(event)).or_default();
        task.attempt = event.at.attempt.max(1);
        task
    }

    fn start_task(&mut self, started: &TaskStarted, event: &Event) {
        let waits_for = started.awaits.as_ref().map(|awaits| match &**awaits {
            Awaits::Child(child) => format!("playbook {}", child.path),
            Awaits::Wait(wait) => match (&wait.signal, wait.until) {
                (Some(signal), _) => format!("signal {signal}"),
                (None, Some(until)) => format!("until {until}"),
                (None, None) => "nothing".to_owned(),
            },
        });
        self.open_task(event).waits_for = waits_for;
    }

    fn policy(&mut self, policy: &PolicyEvaluated, event: &Event) {
        if policy.action.directive == Directive::Retry {
            self.retries += 1;
            let task = self.open_task(event);
            task.retrying = true;
            task.attempts_max = policy.action.attempts.or(task.attempts_max);
        }
    }

    fn end_task(&mut self, ended: &TaskEnded, event: &Event) {
        let task = self.open.remove(&Self::key(event));
        let iteration = event.at.iteration;
        if iteration.is_none() {
            self.outcome = Some(ended.outcome.clone());
            self.body.clone_from(&ended.result_ref);
        }
        if !matches!(event.body, Body::TaskFailed(_)) {
            self.suspects.remove(&iteration);
            return;
        }
        let outcome = ended.outcome.read::<Outcome>().ok();
        if let Some(error) = outcome.as_ref().and_then(Outcome::failure) {
            let suspect = StepFailure {
                task: event.at.task.clone(),
                attempt: event.at.attempt.max(1),
                attempts_max: task.and_then(|task| task.attempts_max),
                error: error.clone(),
            };
            self.suspects.insert(iteration, suspect);
        }
    }

    fn end_iteration(&mut self, event: &Event, error: Option<&TaskError>) {
        let Some(index) = event.at.iteration else {
            return;
        };
        self.open
            .retain(|(iteration, _), _| *iteration != Some(index));
        if let Some(error) = error {
            self.fail(Some(index), error);
        } else {
            self.suspects.remove(&Some(index));
            self.failures.remove(&Some(index));
        }
        let lap = self.lap();
        lap.in_flight.remove(&index);
        lap.took(event.duration_ms);
        if error.is_some() {
            lap.failed.insert(index);
        } else {
            lap.failed.remove(&index);
            lap.succeeded += 1;
        }
    }

    /// Records a failure, with its task and attempt if the log contains them.
    fn fail(&mut self, iteration: Option<u64>, error: &TaskError) {
        let suspect = self.suspects.remove(&iteration);
        let is_full = self.failures.len() >= FAILURES_KEPT;
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
