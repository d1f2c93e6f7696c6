//! Builds commands for workers: the work, its data, and its progress so far.

use model::command::{Command, Work};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Seq};
use wire::{Claimed, Resume};

use crate::drive::actor::Drive;

impl Drive {
    /// Builds a live command for a worker.
    pub(super) fn build(
        &mut self,
        execution: ExecutionId,
        seq: Seq,
        epoch: LeaseEpoch,
    ) -> Option<Claimed> {
        let slot = self.slots.get_mut(&execution)?;
        let state = slot.state.as_ref()?;
        let live = state.commands.get(&seq)?;
        let run = state.run(&live.run)?;
        let command = Command {
            id: CommandId { execution, seq },
            playbook: state.hash.clone(),
            run: live.run.clone(),
            work: live.work_left(),
            dispatch: run.dispatches.max(1),
            pool: "".into(),
            args: run.args.clone(),
            loop_started: run.loop_.as_ref().map(|loop_| loop_.holder_of(live.work)),
        };
        self.build_from(&command, epoch)
    }

    pub(super) fn build_from(
        &mut self,
        command: &Command,
        lease_epoch: LeaseEpoch,
    ) -> Option<Claimed> {
        let slot = self.slots.get_mut(&command.id.execution)?;
        let context = slot.context(&command.run)?;
        let state = slot.state.as_ref()?;
        state.commands.get(&command.id.seq)?;
        let run = state.run(&command.run)?;
        metrics::counter!(crate::metrics::CLAIMED).increment(1);
        let mut resume = Vec::new();
        let mut over = Vec::new();
        match (command.work, &run.loop_) {
            (Work::Range { from, to, .. }, Some(loop_)) => {
                let live = loop_
                    .live
                    .range(from..to)
                    .filter(|(index, _)| !loop_.suspended.contains(index));
                resume.extend(live.map(|(index, continuation)| Resume {
                    iteration: Some(*index),
                    continuation: continuation.clone(),
                    started: true,
                }));
                let is_over = |index: &u64| {
                    loop_.has_ended(*index)
                        || loop_.suspended.contains(index)
                        || loop_.awake.contains(index)
                };
                if loop_.ended() > 0 || !loop_.suspended.is_empty() || !loop_.awake.is_empty() {
                    over.extend((from..to).filter(is_over));
                }
            }
            (Work::Iteration { index }, Some(loop_)) => {
                let continuation = loop_.live.get(&index).cloned().unwrap_or_default();
                let started = loop_.live.contains_key(&index);
                resume.push(Resume {
                    iteration: Some(index),
                    continuation,
                    started,
                });
            }
            (Work::Pipeline, _) if run.started => resume.push(own(run)),
            (Work::Prepare, _) if !run.pipeline.visits.is_empty() => resume.push(own(run)),
            _ => {}
        }
        Some(Claimed {
            command: command.clone(),
            lease_epoch,
            context,
            resume,
            over,
        })
    }
}

/// Progress of the run's own pipeline.
fn own(run: &engine::Run) -> Resume {
    Resume {
        iteration: None,
        continuation: run.pipeline.clone(),
        started: true,
    }
}
