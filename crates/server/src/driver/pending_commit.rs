//! The next commit of an execution: the collected decisions, and the workers that get the commands in them.

use std::sync::Arc;

use engine::{BodyToStore, CommandOffer, ExecutionState, PlaybookNet};
use model::command::Fence;
use model::event::Event;
use model::id::{ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use model::status::RunStatus;
use model::time::Time;
use store::{CommandChange, Commit, ExternalEventKey, IssuedCommand};

use crate::driver::claim_table::ClaimTable;
use crate::driver::queued_input::DecidedInput;

/// Decisions that will be committed together.
pub(super) struct PendingCommit {
    pub(super) commit: Commit,
    pub(super) bodies: Vec<BodyToStore>,
    pub(super) decided_inputs: Vec<DecidedInput>,
    pub(super) commands_to_stop: Vec<(Seq, Option<WorkerId>)>,
    /// Commands assigned to workers that were waiting for work.
    pub(super) assigned: Vec<(WorkerId, Fence)>,
    /// Commands without a worker, offered to the next claim.
    pub(super) offers: Vec<OfferedCommand>,
    /// Status of the execution after this commit; later decisions may already have changed it in memory.
    pub(super) status: RunStatus,
}

/// An offered command.
pub(super) struct OfferedCommand {
    /// Pool whose workers can claim it.
    pub(super) pool: Name,
    /// Tool kinds that its step needs.
    pub(super) kinds: Arc<[Name]>,
    /// Seq of the event that issued it.
    pub(super) seq: Seq,
}

/// Data needed to issue new commands.
pub(super) struct IssueContext {
    pub(super) now: Time,
    pub(super) net: Arc<PlaybookNet>,
}

impl IssueContext {
    /// Tool kinds that the tasks of a step need.
    fn kinds(&self, step: &Name) -> Arc<[Name]> {
        let step = self.net.playbook.step(step.as_str());
        let tasks = step.into_iter().flat_map(language::playbook::Step::all_tasks);
        let mut kinds: Vec<Name> = Vec::with_capacity(1);
        for task in tasks {
            if !kinds.contains(&task.kind) {
                kinds.push(task.kind.clone());
            }
        }
        kinds.into()
    }
}

impl PendingCommit {
    /// An empty commit on top of a state.
    pub(super) fn new(execution: ExecutionId, state: Option<&ExecutionState>) -> Self {
        let expected = state.map_or(Seq(0), |state| state.seq);
        Self {
            commit: Commit::new(execution, expected, Vec::new()),
            bodies: Vec::new(),
            decided_inputs: Vec::new(),
            commands_to_stop: Vec::new(),
            assigned: Vec::new(),
            offers: Vec::new(),
            status: state.map_or(RunStatus::Running, ExecutionState::status),
        }
    }

    /// Records the IDs of events that clients sent, so that a repeated event is recognized.
    pub(super) fn add_external_event_keys(&mut self, decided: &mut DecidedInput, events: &[Event]) {
        let hashes = &decided.queued_input.attachments.external_event_hashes;
        if hashes.is_empty() {
            return;
        }
        for event in events {
            if let Some(hash) = hashes.get(&event.event_id) {
                decided.recorded.push((event.event_id, event.seq));
                self.commit.external_events.push(ExternalEventKey {
                    event_id: event.event_id,
                    seq: event.seq,
                    hash: *hash,
                });
            }
        }
    }

    /// Converts an offered command for the store. It is assigned to a worker if one is waiting for work.
    pub(super) fn issue_command(
        &mut self,
        claims: &mut ClaimTable,
        decided: &mut DecidedInput,
        offer: CommandOffer,
        issuing: &IssueContext,
    ) -> CommandChange {
        let command = offer.command;
        let claim = Fence {
            command: command.id.seq,
            lease_epoch: LeaseEpoch(1),
        };
        let kinds = issuing.kinds(&command.run.step);
        let holder = claims.assign(
            &command,
            &kinds,
            decided.queued_input.attachments.capacity.as_ref(),
            decided.assigned.len(),
        );
        let kinds_needed = kinds.to_vec();
        match &holder {
            Some((_, true)) => decided.assigned.push(claim),
            Some((worker, false)) => self.assigned.push((worker.clone(), claim)),
            None => self.offers.push(OfferedCommand {
                pool: command.pool.clone(),
                kinds,
                seq: claim.command,
            }),
        }
        CommandChange::Issue(Box::new(IssuedCommand {
            command,
            claimed: holder.map(|(worker, _)| (worker, claim.lease_epoch)),
            kinds: kinds_needed,
            start_by: Some(issuing.now.after(offer.schedule_to_start)),
        }))
    }
}
