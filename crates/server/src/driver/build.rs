//! Builds commands for workers: the work, its data, and its progress so far.

use model::command::{ClaimId, Command, CommandWork};
use model::id::{CommandId, LeaseEpoch};
use wire::{ClaimedCommand, ResumePoint};

use crate::driver::loaded_execution::ExecutionProgress;
use crate::driver::machine::DriverMachine;

impl DriverMachine {
    /// Builds a live command for a worker.
    pub(super) fn build_command(&mut self, claim: ClaimId) -> Option<ClaimedCommand> {
        let CommandId { execution, seq } = claim.command;
        let ExecutionProgress { net, state } = self.executions.get(&execution)?.open()?.progress.as_ref()?;
        let live = state.commands.get(&seq)?;
        let run = state.run(&live.run)?;
        let step = net.playbook.step(live.run.step.as_str())?;
        let command = Command {
            id: claim.command,
            playbook: state.hash.clone(),
            run: live.run.clone(),
            work: live.work_left(),
            dispatch: run.dispatches.max(1),
            pool: net.playbook.pool(step).clone(),
            args: run.args.clone(),
            loop_started: run.loop_.as_ref().map(|loop_| loop_.elements_event_of(live.work)),
        };
        self.build_claimed(&command, claim.lease_epoch)
    }

    pub(super) fn build_claimed(&mut self, command: &Command, lease_epoch: LeaseEpoch) -> Option<ClaimedCommand> {
        let loaded = self.executions.get_mut(&command.id.execution)?;
        let open = loaded.open_mut()?;
        let context = open.context(&command.run)?;
        let state = open.state()?;
        state.commands.get(&command.id.seq)?;
        let run = state.run(&command.run)?;
        metrics::counter!(crate::metrics::COMMANDS_CLAIMED).increment(1);
        let mut resume = Vec::new();
        let mut finished = Vec::new();
        match (command.work, &run.loop_) {
            (CommandWork::Range { from, to, .. }, Some(loop_)) => {
                let live = loop_
                    .live
                    .range(from..to)
                    .filter(|(index, _)| !loop_.suspended.contains(index));
                resume.extend(live.map(|(index, continuation)| ResumePoint {
                    iteration: Some(*index),
                    continuation: continuation.clone(),
                    started: true,
                }));
                let is_finished = |index: &u64| {
                    loop_.has_ended(*index) || loop_.suspended.contains(index) || loop_.awake.contains(index)
                };
                if loop_.ended_count() > 0 || !loop_.suspended.is_empty() || !loop_.awake.is_empty() {
                    finished.extend((from..to).filter(is_finished));
                }
            }
            (CommandWork::Iteration { index }, Some(loop_)) => {
                let continuation = loop_.live.get(&index).cloned().unwrap_or_default();
                let started = loop_.live.contains_key(&index);
                resume.push(ResumePoint {
                    iteration: Some(index),
                    continuation,
                    started,
                });
            }
            (CommandWork::Pipeline, _) if run.started => resume.push(own_resume_point(run)),
            (CommandWork::Prepare, _) if !run.pipeline.visits.is_empty() => {
                resume.push(own_resume_point(run));
            }
            _ => {}
        }
        Some(ClaimedCommand {
            command: command.clone(),
            lease_epoch,
            context,
            resume,
            finished,
        })
    }
}

/// Progress of the run's own pipeline.
fn own_resume_point(run: &engine::StepRun) -> ResumePoint {
    ResumePoint {
        iteration: None,
        continuation: run.pipeline.clone(),
        started: true,
    }
}
