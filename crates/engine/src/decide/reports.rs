//! Reports: the events that a worker sends for a claimed command, and the decisions that follow immediately.

use model::command::{ReportEnd, Stage};
use model::event::{
    Awaits, Body, CommandClaimed, CommandExpired, CommandFailed, Event, Failed, TimerPurpose,
};
use model::id::{LeaseEpoch, Seq, StepRunId, WorkerId};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{Directive, LoopMode};
use model::raw::Raw;

use crate::decide::coverage::Covered;
use crate::decide::turn::{Turn, at_run, fatal};
use crate::decide::{Refusal, Undecided};
use crate::input::Report;
use crate::state::LiveCommand;
use model::command::Work;

/// The work that may have crashed a worker.
#[derive(Debug, Clone, Copy)]
enum Suspect {
    /// The current task of this pipeline; `Some` names the iteration of a loop.
    Task(Option<u64>),
    /// One of several iterations.
    SomeOfSeveral,
    /// No work: the pipeline was only waiting.
    None,
}

impl Turn<'_> {
    /// Records a report, and emits the events that follow from each of its events.
    pub(super) fn report(&mut self, report: Report) -> Result<(), Undecided> {
        self.must_hold(report.command, report.lease_epoch)?;
        self.must_be_holder(&report)?;
        self.fences.push((report.command, report.lease_epoch));
        self.record_claim(report.command, &report.worker, report.lease_epoch);
        let mut before = Covered::Yes;
        for event in report.events {
            before = self.covers(report.command, &event, before);
            match before {
                Covered::Yes => {}
                Covered::Late => continue,
                Covered::No => return Err(Refusal::Foreign.into()),
            }
            let ending = match &event.body {
                Body::StepDone(_) => event.at.step_run_id(),
                _ => None,
            };
            let event = self.with_manifests(event);
            let before = ending.as_ref().and_then(|run| self.mark_for_set(run));
            let seq = self.emit_reported(event, report.command);
            self.because_of(seq);
            self.follow(seq);
            if let Some(run) = ending {
                self.write_set(&run, before)?;
            }
        }
        self.end_report(report.command, report.lease_epoch, report.end);
        Ok(())
    }

    /// Records the manifests of a pipeline before the event that ends it, and adds their URIs to that event.
    fn with_manifests(&mut self, mut event: Event) -> Event {
        let recorded = self.events.len();
        self.record_manifests(&event);
        if let Body::StepDone(done) = &mut event.body {
            let manifests = self.events[recorded..].iter();
            let manifests = manifests.filter_map(|manifest| match &manifest.body {
                Body::ManifestUpdated(stored) => Some(stored.result_ref.uri.clone()),
                _ => None,
            });
            done.manifests = manifests.collect();
        }
        event
    }

    fn must_hold(&self, command: Seq, epoch: LeaseEpoch) -> Result<(), Refusal> {
        let live = self.state.commands.get(&command).ok_or(Refusal::Fenced)?;
        match &live.claimed {
            // A claim that is newer than the log comes from a direct assignment; the store checks that it is current.
            Some((_, current)) if *current > epoch => Err(Refusal::Fenced),
            _ => Ok(()),
        }
    }

    /// A recorded claim belongs to the worker that made it.
    fn must_be_holder(&self, report: &Report) -> Result<(), Refusal> {
        let live = self.state.commands.get(&report.command);
        let claimed = live.and_then(|live| live.claimed.as_ref());
        let is_other = |(worker, epoch): &(WorkerId, LeaseEpoch)| {
            *epoch == report.lease_epoch && *worker != report.worker
        };
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
        let known = live.claimed.as_ref().map(|(_, epoch)| *epoch);
        if known.is_none_or(|known| known < lease_epoch) {
            let at = at_run(&live.run);
            self.because_of(command);
            let claimed = CommandClaimed {
                command,
                worker: worker.clone(),
                lease_epoch,
            };
            self.emit(at, Body::CommandClaimed(claimed));
        }
    }

    /// Emits the events that follow immediately from the event just recorded.
    fn follow(&mut self, seq: Seq) {
        let event = self
            .events
            .last()
            .expect("an event was just recorded")
            .clone();
        debug_assert_eq!(event.seq, seq, "the last event is the one just recorded");
        let Some(run) = event.at.step_run_id() else {
            return;
        };
        let patch = event.body.written().ctx;
        if let Some(patch) = patch.filter(|_| !self.is_parallel(&run)) {
            self.patch_from_task(&run, &event, patch);
        }
        match &event.body {
            // The last events of work that is being stopped are recorded, but nothing follows from them.
            _ if self.state.stop.is_some() => {}
            Body::TaskStarted(started) => match started.awaits.as_deref() {
                Some(Awaits::Child(start)) => self.start_child(&run, &event, start),
                Some(Awaits::Wait(wait)) => {
                    let continuation = self
                        .state
                        .runs
                        .get(&run)
                        .and_then(|run| run.continuation(event.at.iteration));
                    let still =
                        continuation.is_some_and(|c| matches!(c.stage, Stage::Awaiting { .. }));
                    if let Some(due) = wait.until.filter(|_| still) {
                        self.set_timer(&run, event.at.iteration, TimerPurpose::Wait, due);
                    }
                }
                None => {}
            },
            Body::PolicyEvaluated(policy) => {
                let action = &policy.action;
                if action.directive == Directive::Retry && action.suspend {
                    let continuation = self
                        .state
                        .runs
                        .get(&run)
                        .and_then(|run| run.continuation(event.at.iteration));
                    if let Some(Stage::Retrying { due, .. }) =
                        continuation.map(|continuation| continuation.stage)
                    {
                        self.set_timer(&run, event.at.iteration, TimerPurpose::Retry, due);
                    }
                }
            }
            _ => {}
        }
    }

    /// A write to `ctx` takes effect when its report is appended, even if the step fails later.
    fn patch_from_task(&mut self, run: &StepRunId, event: &Event, patch: &Raw) {
        let map = patch.read().unwrap_or_default();
        let at = model::event::At {
            attempt: 0,
            page: None,
            ..event.at.clone()
        };
        if let Err(error) = self.patch_ctx(at, &map) {
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
        let at = at_run(&live.run);
        match end {
            ReportEnd::Open => {}
            ReportEnd::Finished | ReportEnd::Released => {
                let expired = CommandExpired {
                    command,
                    lease_epoch,
                    strikes: live.strikes,
                    released: true,
                };
                self.emit(at, Body::CommandExpired(expired));
            }
            ReportEnd::Stopped => self.withdraw(command),
        }
    }

    fn withdraw(&mut self, command: Seq) {
        let Some(live) = self.state.commands.get(&command) else {
            return;
        };
        let at = at_run(&live.run);
        let error = fatal(ErrorKind::Cancelled, "CANCELLED", "the work was stopped");
        self.emit(
            at,
            Body::CommandFailed(Box::new(CommandFailed { command, error })),
        );
    }

    /// Withdraws all remaining commands after the stop grace period.
    pub(super) fn withdraw_all(&mut self) {
        let left: Vec<Seq> = self.state.commands.keys().copied().collect();
        for command in left {
            self.withdraw(command);
        }
    }

    /// Handles the loss of a worker that held a command: its work is offered again, or dead-lettered after too many
    /// deaths.
    pub(super) fn lost(
        &mut self,
        command: Seq,
        worker: &WorkerId,
        lease_epoch: LeaseEpoch,
        is_strike: bool,
    ) -> Result<(), Undecided> {
        self.must_hold(command, lease_epoch)?;
        self.fences.push((command, lease_epoch));
        let suspect = self.suspect(command);
        self.record_claim(command, worker, lease_epoch);
        if self.state.stop.is_some() {
            self.withdraw(command);
            return Ok(());
        }
        let live = self.state.commands[&command].clone();
        let strikes = match suspect {
            _ if !is_strike => live.strikes,
            Suspect::Task(_) => live.strikes + 1,
            Suspect::SomeOfSeveral => live.strikes.max(1),
            Suspect::None => live.strikes,
        };
        let at = at_run(&live.run);
        let expired = CommandExpired {
            command,
            lease_epoch,
            strikes,
            released: false,
        };
        self.because_of(command);
        let seq = self.emit(at, Body::CommandExpired(expired));
        self.because_of(seq);
        if let Suspect::Task(iteration) = suspect
            && strikes >= self.net.limits.strikes_max
        {
            let message = format!(
                "{strikes} workers died while running step `{}`",
                live.run.step
            );
            let error = fatal(ErrorKind::Unknown, "DEAD_LETTER", message);
            self.dead_letter(command, &live, iteration, error);
        }
        Ok(())
    }

    /// Determines which task may have crashed the worker that held a command.
    fn suspect(&self, command: Seq) -> Suspect {
        let Some(live) = self.state.commands.get(&command) else {
            return Suspect::None;
        };
        let Some(run) = self.state.runs.get(&live.run) else {
            return Suspect::None;
        };
        let iteration = match (live.work, &run.loop_) {
            // No task runs yet, but the worker computes the loop's collection.
            (Work::Prepare, _) => return Suspect::Task(None),
            (Work::Pipeline, _) => None,
            (Work::Iteration { index }, _) => Some(index),
            (Work::Range { from, to, .. }, Some(loop_)) => match loop_.unfinished(from, to)[..] {
                [(index, end)] if end - index == 1 => Some(index),
                // It is unknown which iteration ran; the range is split until only one is left.
                _ => return Suspect::SomeOfSeveral,
            },
            (Work::Range { .. }, None) => return Suspect::None,
        };
        let step = self.net.playbook.step(live.run.step.as_str());
        let continuation = run.continuation(iteration);
        let Some((step, continuation)) = step.zip(continuation) else {
            return Suspect::Task(iteration);
        };
        if let Stage::Retrying { due, .. } = continuation.stage
            && (live.claimed.is_some() || due > self.stamp.now)
        {
            // The last report was between two attempts, or the next attempt cannot have started yet.
            return Suspect::None;
        }
        match pipeline::next(step, continuation, self.stamp.now) {
            pipeline::Next::Run(run) if run.task.kind.as_str() == "wait" => Suspect::None,
            _ => Suspect::Task(iteration),
        }
    }

    fn dead_letter(
        &mut self,
        command: Seq,
        live: &LiveCommand,
        iteration: Option<u64>,
        error: TaskError,
    ) {
        let at = at_run(&live.run);
        let failed = CommandFailed {
            command,
            error: error.clone(),
        };
        self.emit(at.clone(), Body::CommandFailed(Box::new(failed)));
        match iteration {
            Some(index) => {
                let failed = Failed {
                    error,
                    set_ctx: None,
                };
                self.emit(
                    at.iteration(Some(index)),
                    Body::IterationFailed(Box::new(failed)),
                );
            }
            None => self.fail_run(&live.run, error),
        }
    }

    /// Handles a command that no worker claimed in time, or that is unclaimed while the execution stops.
    pub(super) fn unclaimed(&mut self, command: Seq) -> Result<(), Undecided> {
        let live = self
            .state
            .commands
            .get(&command)
            .cloned()
            .ok_or(Refusal::Fenced)?;
        if live.claimed.is_some() {
            return Err(Refusal::Fenced.into());
        }
        self.because_of(command);
        if self.state.stop.is_some() {
            self.withdraw(command);
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
            self.emit(at_run(&live.run), Body::CommandExpired(expired));
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
        self.emit(at_run(&live.run), Body::CommandFailed(Box::new(failed)));
        self.fail_run(&live.run, error);
        Ok(())
    }
}
