//! What an execution will commit next: the decisions that have gathered, and who gets the commands among them.

use std::sync::Arc;

use engine::{BodyToKeep, CommandChange, Net, State};
use model::event::Event;
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use model::status::RunStatus;
use model::time::Time;
use store::{Commit, Foreign, Issue};

use crate::drive::claims::Claims;
use crate::drive::slot::Decided;

/// Decisions that will be committed together.
pub(super) struct Gathered {
    pub(super) commit: Commit,
    pub(super) bodies: Vec<BodyToKeep>,
    pub(super) decided: Vec<Decided>,
    pub(super) stops: Vec<(Seq, Option<WorkerId>)>,
    /// Commands handed to workers that were waiting for work.
    pub(super) handed: Vec<(WorkerId, Seq, LeaseEpoch)>,
    /// Commands on offer to whoever asks.
    pub(super) offered: Vec<Offered>,
    /// How the execution stands with it; what is decided later may be ahead of that.
    pub(super) status: RunStatus,
}

/// A command on offer.
pub(super) struct Offered {
    /// Who may take it.
    pub(super) pool: Name,
    /// The tool kinds its step needs.
    pub(super) kinds: Arc<[Name]>,
    /// The event that issued it.
    pub(super) seq: Seq,
}

/// What new commands are issued with.
pub(super) struct Issuing {
    pub(super) now: Time,
    pub(super) net: Option<Arc<Net>>,
}

impl Issuing {
    /// The tool kinds that a step's tasks need.
    fn kinds(&self, step: &Name) -> Arc<[Name]> {
        let step = self
            .net
            .as_ref()
            .and_then(|net| net.playbook.step(step.as_str()));
        let tasks = step.into_iter().flat_map(model::playbook::Step::all_tasks);
        let mut kinds: Vec<Name> = Vec::with_capacity(1);
        for task in tasks {
            if !kinds.contains(&task.kind) {
                kinds.push(task.kind.clone());
            }
        }
        kinds.into()
    }
}

impl Gathered {
    /// Nothing yet, on top of this state.
    pub(super) fn new(execution: ExecutionId, state: Option<&State>) -> Self {
        let expected = state.map_or(Seq(0), |state| state.seq);
        Self {
            commit: Commit::new(execution, expected, Vec::new()),
            bodies: Vec::new(),
            decided: Vec::new(),
            stops: Vec::new(),
            handed: Vec::new(),
            offered: Vec::new(),
            status: state.map_or(RunStatus::Running, State::status),
        }
    }

    /// Events whose ids came from outside are kept by id, so that they are known when they come again.
    pub(super) fn key_foreign(&mut self, decided: &mut Decided, events: &[Event]) {
        let hashes = &decided.waiting.extras.foreign;
        if hashes.is_empty() {
            return;
        }
        for event in events {
            if let Some(hash) = hashes.get(&event.event_id) {
                decided.recorded.push((event.event_id, event.seq));
                self.commit.foreign.push(Foreign {
                    event_id: event.event_id,
                    seq: event.seq,
                    hash: *hash,
                });
            }
        }
    }

    /// A change among the commands, with the worker that gets a new one, if one waits for work.
    pub(super) fn command(
        &mut self,
        claims: &mut Claims,
        decided: &mut Decided,
        change: CommandChange,
        issuing: &Issuing,
    ) -> store::CommandChange {
        let (command, schedule_to_start) = match change {
            CommandChange::Close { seq } => {
                let execution = self.commit.execution;
                claims.forget(CommandId { execution, seq });
                return store::CommandChange::Close { seq };
            }
            CommandChange::Issue {
                command,
                schedule_to_start,
            } => (command, schedule_to_start),
        };
        let (seq, epoch) = (command.id.seq, LeaseEpoch(1));
        let kinds = issuing.kinds(&command.run.step);
        let holder = claims.assign(
            &command,
            &kinds,
            decided.waiting.extras.hands.as_ref(),
            decided.handed.len(),
        );
        let kinds_needed = kinds.to_vec();
        match &holder {
            Some((_, true)) => decided.handed.push((seq, epoch)),
            Some((worker, false)) => self.handed.push((worker.clone(), seq, epoch)),
            None => self.offered.push(Offered {
                pool: command.pool.clone(),
                kinds,
                seq,
            }),
        }
        store::CommandChange::Issue(Box::new(Issue {
            command: *command,
            claimed: holder.map(|(worker, _)| (worker, epoch)),
            kinds: kinds_needed,
            start_by: Some(issuing.now.after(schedule_to_start)),
        }))
    }
}
