//! Reports: the events that a worker sends for a claimed command, and the decisions that follow immediately.

use model::command::{CommandWork, Fence, PipelineStage, ReportEnd};
use model::event::{
    AwaitTarget, CommandClaimed, CommandExpired, CommandFailed, Event, EventBody, EventLocation, FailurePayload,
    ReportedEvent, TimerPurpose,
};
use model::id::{LeaseEpoch, Seq, StepRunId, WorkerId};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{Directive, LoopMode};
use model::raw::RawJson;

use crate::decide::coverage::EventCoverage;
use crate::decide::decision_builder::{DecisionBuilder, run_location};
use crate::decide::{DecideError, Refusal};
use crate::input::CommandReport;
use crate::state::LiveCommand;

/// The work that may have crashed a worker.
#[derive(Debug, Clone, Copy)]
enum Suspect {
    /// The current task of this pipeline; `Some` names the iteration of a loop.
    Task(Option<u64>),
    /// One of several iterations.
    OneOfSeveral,
    /// No work: the pipeline was only waiting.
    None,
}

impl DecisionBuilder<'_> {
    /// Records a report, and emits the events that follow from each of its events.
    pub(super) fn apply_report(&mut self, report: CommandReport) -> Result<(), DecideError> {
        self.check_claim(report.command, report.lease_epoch)?;
        self.check_holder(&report)?;
        self.fences.push(Fence {
            command: report.command,
            lease_epoch: report.lease_epoch,
        });
        self.record_claim(report.command, &report.worker, report.lease_epoch);
        let mut coverage = EventCoverage::New;
        for event in report.events {
            coverage = self.coverage_of(report.command, &event, coverage);
            match coverage {
                EventCoverage::New => {}
                EventCoverage::Stale => continue,
                EventCoverage::NotCovered => return Err(Refusal::NotCovered.into()),
            }
            let ended_run = match &event.body {
                EventBody::StepDone(_) => event.location.step_run_id(),
                _ => None,
            };
            let event = self.with_manifests(event);
            let checkpoint = ended_run.as_ref().and_then(|run| self.checkpoint_for_set(run));
            let seq = self.emit_reported(event, report.command);
            self.set_cause(seq);
            self.apply_consequences(seq);
            if let Some(run) = ended_run {
                self.write_set(&run, checkpoint)?;
            }
        }
        self.end_report(report.command, report.lease_epoch, report.end);
        Ok(())
    }

    /// Records the manifests of a pipeline before the event that ends it, and adds their URIs to that event.
    fn with_manifests(&mut self, mut event: ReportedEvent) -> ReportedEvent {
        let first_manifest = self.events.len();
        self.record_manifests(&event);
        if let EventBody::StepDone(done) = &mut event.body {
            let manifests = self.events[first_manifest..].iter();
            let manifests = manifests.filter_map(|manifest| match &manifest.body {
                EventBody::ManifestUpdated(stored) => Some(stored.result_ref.uri.clone()),
                _ => None,
            });
            done.manifests = manifests.collect();
        }
        event
    }

    fn check_claim(&self, command: Seq, epoch: LeaseEpoch) -> Result<(), Refusal> {
        let live = self.state.commands.get(&command).ok_or(Refusal::Fenced)?;
        match &live.claimed {
            // A claim that is newer than the log comes from a direct assignment; the store checks that it is current.
            Some((_, current)) if *current > epoch => Err(Refusal::Fenced),
            _ => Ok(()),
        }
    }

    /// Checks that the worker that reports is the one that made the recorded claim.
    fn check_holder(&self, report: &CommandReport) -> Result<(), Refusal> {
        let live = self.state.commands.get(&report.command);
        let claimed = live.and_then(|live| live.claimed.as_ref());
        let is_other =
            |(worker, epoch): &(WorkerId, LeaseEpoch)| *epoch == report.lease_epoch && *worker != report.worker;
        if claimed.is_some_and(is_other) {
            Err(Refusal::Fenced)
        } else {
            Ok(())
        }
    }

    fn record_claim(&mut self, command: Seq, worker: &WorkerId, lease_epoch: LeaseEpoch) {
        let Some(live) = self.state.commands.get(&command) else {
            return;
        };
        let claimed_epoch = live.claimed.as_ref().map(|(_, epoch)| *epoch);
        if claimed_epoch.is_none_or(|claimed_epoch| claimed_epoch < lease_epoch) {
            let location = run_location(&live.run);
            self.set_cause(command);
            let claimed = CommandClaimed {
                command,
                worker: worker.clone(),
                lease_epoch,
            };
            self.emit(location, EventBody::CommandClaimed(claimed));
        }
    }

    /// Emits the events that follow immediately from the event just recorded.
    fn apply_consequences(&mut self, seq: Seq) {
        let event = self.events.last().expect("an event was just recorded").clone();
        debug_assert_eq!(event.seq, seq, "the last event is the one just recorded");
        let Some(run) = event.location.step_run_id() else {
            return;
        };
        let patch = event.body.writes().ctx;
        if let Some(patch) = patch.filter(|_| !self.is_parallel(&run)) {
            self.apply_task_patch(&run, &event, patch);
        }
        match &event.body {
            // The last events of work that is being stopped are recorded, but nothing follows from them.
            _ if self.state.stop.is_some() => {}
            EventBody::TaskStarted(started) => match started.awaits.as_deref() {
                Some(AwaitTarget::Child(start)) => self.start_child(&run, &event, start),
                Some(AwaitTarget::Wait(wait)) => {
                    let stage = self.stage_of(&run, event.location.iteration);
                    let is_waiting = matches!(stage, Some(PipelineStage::Awaiting { .. }));
                    if let Some(due) = wait.until.filter(|_| is_waiting) {
                        self.set_timer(&run, event.location.iteration, TimerPurpose::Wait, due);
                    }
                }
                None => {}
            },
            EventBody::PolicyEvaluated(policy) => {
                let action = &policy.action;
                if action.directive == Directive::Retry
                    && action.suspend
                    && let Some(PipelineStage::Retrying { due, .. }) = self.stage_of(&run, event.location.iteration)
                {
                    self.set_timer(&run, event.location.iteration, TimerPurpose::Retry, due);
                }
            }
            _ => {}
        }
    }

    fn stage_of(&self, run: &StepRunId, iteration: Option<u64>) -> Option<PipelineStage> {
        let continuation = self.state.runs.get(run)?.continuation(iteration)?;
        Some(continuation.stage)
    }

    /// A write to `ctx` takes effect when its report is appended, even if the step fails later.
    fn apply_task_patch(&mut self, run: &StepRunId, event: &Event, patch: &RawJson) {
        let patch = patch.parse_as().unwrap_or_default();
        let location = EventLocation {
            attempt: 0,
            page: None,
            ..event.location.clone()
        };
        if let Err(error) = self.patch_ctx(location, &patch) {
            self.fail_run(run, *error);
        }
    }

    fn is_parallel(&self, run: &StepRunId) -> bool {
        let run = self.state.runs.get(run);
        run.and_then(|run| run.loop_.as_ref())
            .is_some_and(|loop_| loop_.mode == LoopMode::Parallel)
    }

    fn end_report(&mut self, command: Seq, lease_epoch: LeaseEpoch, end: ReportEnd) {
        let Some(live) = self.state.commands.get(&command).cloned() else {
            return;
        };
        let location = run_location(&live.run);
        match end {
            ReportEnd::Open => {}
            ReportEnd::Finished | ReportEnd::Released => {
                let expired = CommandExpired {
                    command,
                    lease_epoch,
                    strikes: live.strikes,
                    released: true,
                };
                self.emit(location, EventBody::CommandExpired(expired));
            }
            ReportEnd::Stopped => self.withdraw_command(command),
        }
    }

    fn withdraw_command(&mut self, command: Seq) {
        let Some(live) = self.state.commands.get(&command) else {
            return;
        };
        let location = run_location(&live.run);
        let error = TaskError::permanent(ErrorKind::Cancelled, "CANCELLED", "the work was stopped");
        self.emit(
            location,
            EventBody::CommandFailed(Box::new(CommandFailed { command, error })),
        );
    }

    /// Withdraws all remaining commands after the stop grace period.
    pub(super) fn withdraw_all_commands(&mut self) {
        let commands: Vec<Seq> = self.state.commands.keys().copied().collect();
        for command in commands {
            self.withdraw_command(command);
        }
    }

    /// Handles the loss of a worker that claimed a command: its work is offered again, or dead-lettered after too many
    /// deaths.
    pub(super) fn on_claim_lost(
        &mut self,
        command: Seq,
        worker: &WorkerId,
        lease_epoch: LeaseEpoch,
        is_strike: bool,
    ) -> Result<(), DecideError> {
        self.check_claim(command, lease_epoch)?;
        self.fences.push(Fence { command, lease_epoch });
        let suspect = self.find_suspect(command);
        self.record_claim(command, worker, lease_epoch);
        if self.state.stop.is_some() {
            self.withdraw_command(command);
            return Ok(());
        }
        let live = self.state.commands[&command].clone();
        let strikes = match suspect {
            _ if !is_strike => live.strikes,
            Suspect::Task(_) => live.strikes + 1,
            Suspect::OneOfSeveral => live.strikes.max(1),
            Suspect::None => live.strikes,
        };
        let location = run_location(&live.run);
        let expired = CommandExpired {
            command,
            lease_epoch,
            strikes,
            released: false,
        };
        self.set_cause(command);
        let seq = self.emit(location, EventBody::CommandExpired(expired));
        self.set_cause(seq);
        if let Suspect::Task(iteration) = suspect
            && strikes >= self.net.limits.strikes_max
        {
            let message = format!("{strikes} workers died while running step `{}`", live.run.step);
            let error = TaskError::permanent(ErrorKind::Unknown, "DEAD_LETTER", message);
            self.fail_dead_letter(command, &live, iteration, error);
        }
        Ok(())
    }

    /// Determines which task may have crashed the worker that claimed a command.
    fn find_suspect(&self, command: Seq) -> Suspect {
        let Some(live) = self.state.commands.get(&command) else {
            return Suspect::None;
        };
        let Some(run) = self.state.runs.get(&live.run) else {
            return Suspect::None;
        };
        let iteration = match (live.work, &run.loop_) {
            // No task runs yet, but the worker computes the loop's collection.
            (CommandWork::Prepare, _) => return Suspect::Task(None),
            (CommandWork::Pipeline, _) => None,
            (CommandWork::Iteration { index }, _) => Some(index),
            (CommandWork::Range { from, to, .. }, Some(loop_)) => {
                match loop_.unfinished_ranges(from, to)[..] {
                    [(index, end)] if end - index == 1 => Some(index),
                    // It is unknown which iteration ran; the range is split until only one is left.
                    _ => return Suspect::OneOfSeveral,
                }
            }
            (CommandWork::Range { .. }, None) => return Suspect::None,
        };
        let step = self.net.playbook.step(live.run.step.as_str());
        let continuation = run.continuation(iteration);
        let Some((step, continuation)) = step.zip(continuation) else {
            return Suspect::Task(iteration);
        };
        if let PipelineStage::Retrying { due, .. } = continuation.stage
            && (live.claimed.is_some() || due > self.stamp.now)
        {
            // The last report was between two attempts, or the next attempt cannot have started yet.
            return Suspect::None;
        }
        match pipeline::next_action(step, continuation, self.stamp.now) {
            pipeline::NextAction::Run(attempt) if attempt.task.kind.as_str() == "wait" => Suspect::None,
            _ => Suspect::Task(iteration),
        }
    }

    fn fail_dead_letter(&mut self, command: Seq, live: &LiveCommand, iteration: Option<u64>, error: TaskError) {
        let location = run_location(&live.run);
        let failed = CommandFailed {
            command,
            error: error.clone(),
        };
        self.emit(location.clone(), EventBody::CommandFailed(Box::new(failed)));
        match iteration {
            Some(index) => {
                let failed = FailurePayload { error, set_ctx: None };
                self.emit(
                    location.with_iteration(Some(index)),
                    EventBody::IterationFailed(Box::new(failed)),
                );
            }
            None => self.fail_run(&live.run, error),
        }
    }

    /// Handles a command that no worker claimed in time, or that is unclaimed while the execution stops.
    pub(super) fn on_command_overdue(&mut self, command: Seq) -> Result<(), DecideError> {
        let live = self.state.commands.get(&command).cloned().ok_or(Refusal::Fenced)?;
        if live.claimed.is_some() {
            return Err(Refusal::Fenced.into());
        }
        self.set_cause(command);
        if self.state.stop.is_some() {
            self.withdraw_command(command);
            return Ok(());
        }
        if self.state.paused {
            // No worker may claim it while the execution is paused; it is offered again on resume.
            let expired = CommandExpired {
                command,
                lease_epoch: LeaseEpoch(0),
                strikes: live.strikes,
                released: true,
            };
            self.emit(run_location(&live.run), EventBody::CommandExpired(expired));
            return Ok(());
        }
        let message = format!(
            "no worker picked up step `{}` in time; check that a worker serves its pool",
            live.run.step
        );
        let error = TaskError::new(ErrorKind::Timeout, "SCHEDULE_TO_START", message);
        let failed = CommandFailed {
            command,
            error: error.clone(),
        };
        self.emit(run_location(&live.run), EventBody::CommandFailed(Box::new(failed)));
        self.fail_run(&live.run, error);
        Ok(())
    }
}
