//! Commits: collects decisions, writes them, and sends the replies once they are durable.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Decision, Input};
use model::command::Fence;
use model::id::{CommandId, ExecutionId, LeaseEpoch, Seq, WorkerId};
use model::raw::RawJson;
use model::status::RunStatus;
use store::{CommitStatus, Message, MessageKey, Priority, Snapshot};
use wire::{CommandNotice, Verdict};

use crate::driver::actor::{DriverEvent, ExecutionDriver};
use crate::driver::handle::{CommitNotice, InputError, InputReply};
use crate::driver::loaded_execution::{DecidedInput, LoadedExecution, QueuedInput};
use crate::driver::pending_commit::{IssueContext, OfferedCommand, PendingCommit};
use crate::driver::write_batch::{FinishedCommit, PostCommit, record_metrics, write_batch};
use crate::error::Error;
use crate::loading::{SNAPSHOT_VERSION, UnconfirmedCommit};
use crate::snapshot;

/// Number of events between two snapshots of an execution.
const SNAPSHOT_EVERY: u64 = 5_000;

/// Maximum number of batches being written; further decisions are collected for the next batch. There are several, so
/// that one slow batch does not delay everything.
const BATCHES_MAX: usize = 4;

/// Reply channel of the caller of an input.
type ReplySender = tokio::sync::oneshot::Sender<Result<InputReply, InputError>>;

impl ExecutionDriver {
    /// Adds a decision to the next commit of the execution.
    pub(super) fn add_decision(
        &mut self,
        execution: ExecutionId,
        waiting: QueuedInput,
        mut decision: Decision,
    ) {
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        self.uncommitted.insert(execution);
        let priority = slot.priority(&waiting);
        slot.add_recent_events(&decision);
        let command = match &waiting.input {
            Input::Report(report) => Some(report.command),
            _ => None,
        };
        let mut decided = DecidedInput {
            queued_input: waiting,
            assigned: Vec::new(),
            command,
            recorded: Vec::new(),
        };
        let state = slot.state.as_ref();
        let gathered = slot
            .pending_commit
            .get_or_insert_with(|| PendingCommit::new(execution, state));
        gathered.commit.priority = priority;
        if state.is_none() {
            let name = slot.net.as_ref().map(|net| net.playbook.name.clone());
            gathered.commit.creation.name = Some(name.unwrap_or_else(|| "".into()));
            gathered.commit.creation.owner = Some(self.shared.owner.clone());
        }
        let more = decision.has_more;
        let issuing = IssueContext {
            now: self.shared.store.now(),
            net: slot.net.clone(),
        };
        // Holders are looked up before commands are closed, because closing removes them.
        let stops = std::mem::take(&mut decision.commands_to_stop).into_iter();
        let stops =
            stops.map(|(seq, _)| (seq, self.claim_table.holder(CommandId { execution, seq })));
        gathered.commands_to_stop.extend(stops);
        for seq in std::mem::take(&mut decision.closed) {
            self.claim_table.forget_holder(CommandId { execution, seq });
            let change = store::CommandChange::Close { seq };
            gathered.commit.commands.push(change);
        }
        for offer in std::mem::take(&mut decision.issued) {
            let change =
                gathered.issue_command(&mut self.claim_table, &mut decided, offer, &issuing);
            gathered.commit.commands.push(change);
        }
        gathered.add_external_event_keys(&mut decided, &decision.events);
        let consumed = decided.queued_input.attachments.consumed_message;
        gathered.commit.consumed.extend(consumed);
        let state = gathered.add_records(execution, decision);
        gathered.decided_inputs.push(decided);
        gathered.status = state.status();
        slot.state = Some(state);
        slot.add_snapshot_if_due();
        if more {
            // The continuation waits until this part is durable, so that other executions and inputs get their turn.
            slot.enqueue_continuation();
            slot.is_waiting_for_commit = true;
        }
    }

    /// Adds the assignment of an offered command to a waiting worker.
    pub(super) fn add_assignment(&mut self, command: CommandId, worker: WorkerId) {
        let execution = command.execution;
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        self.uncommitted.insert(execution);
        let state = slot.state.as_ref();
        let gathered = slot
            .pending_commit
            .get_or_insert_with(|| PendingCommit::new(execution, state));
        let (seq, lease_epoch) = (command.seq, LeaseEpoch(1));
        let claim = Fence {
            command: seq,
            lease_epoch,
        };
        gathered.assigned.push((worker.clone(), claim));
        gathered.commit.commands.push(store::CommandChange::Assign {
            seq,
            worker,
            lease_epoch,
        });
    }

    /// Consumes the message of a refused input.
    pub(super) fn add_consumed_message(&mut self, execution: ExecutionId, waiting: &QueuedInput) {
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        self.uncommitted.insert(execution);
        let state = slot.state.as_ref();
        let gathered = slot
            .pending_commit
            .get_or_insert_with(|| PendingCommit::new(execution, state));
        gathered
            .commit
            .consumed
            .extend(waiting.attachments.consumed_message);
    }

    /// Passes the collected decisions to the store in one batch, with at most one commit per execution in progress.
    pub(super) fn flush_commits(&mut self) {
        if self.batches_in_flight >= BATCHES_MAX {
            // `on_batch_committed` leads to the next flush.
            return;
        }
        let mut batch = Vec::new();
        for execution in std::mem::take(&mut self.uncommitted) {
            let Some(slot) = self.executions.get_mut(&execution) else {
                continue;
            };
            if slot.committing.is_some() {
                // The end of the commit in progress leads to the next flush.
                continue;
            }
            let Some(gathered) = slot.pending_commit.take() else {
                continue;
            };
            let PendingCommit {
                commit,
                bodies,
                decided_inputs: decided,
                commands_to_stop: stops,
                assigned: handed,
                offers: offered,
                status,
            } = gathered;
            slot.committing = Some(decided);
            let rest = PostCommit {
                events: commit.events.clone(),
                commands_to_stop: stops,
                assigned: handed,
                offers: offered,
                status,
                has_messages: !commit.messages.is_empty(),
                has_timers: !commit.timers.is_empty(),
            };
            batch.push((commit, bodies, rest));
        }
        if !batch.is_empty() {
            self.batches_in_flight += 1;
            let shared = self.shared.clone();
            self.pending_work.push(Box::pin(async move {
                DriverEvent::Committed(write_batch(&shared, batch).await)
            }));
        }
    }

    /// Handles the results of a batch.
    pub(super) fn on_batch_committed(&mut self, outcomes: Vec<(ExecutionId, FinishedCommit)>) {
        self.batches_in_flight -= 1;
        for (execution, outcome) in outcomes {
            self.on_committed(execution, outcome);
            self.uncommitted.insert(execution);
        }
    }

    fn on_committed(&mut self, execution: ExecutionId, outcome: FinishedCommit) {
        let Some(slot) = self.executions.get_mut(&execution) else {
            // A slot with a commit in progress is never removed. If it were, its assignments must not leak.
            for (_, Fence { command: seq, .. }) in outcome.post_commit.assigned {
                self.unassign(CommandId { execution, seq });
            }
            return;
        };
        let decided = slot.committing.take().unwrap_or_default();
        record_metrics(&outcome);
        match outcome.result {
            Ok(CommitStatus::Committed) => {
                self.publish_commit(execution, decided, outcome.post_commit);
            }
            Ok(CommitStatus::Fenced) => {
                slot.is_fenced = true;
                self.requeue(execution, decided, &outcome.post_commit, CommitError::Retry);
            }
            Ok(CommitStatus::VersionConflict { .. }) => {
                self.requeue(execution, decided, &outcome.post_commit, CommitError::Retry);
            }
            Err(error) if error.as_write_refusal().is_some() => {
                tracing::debug!(%execution, %error, "commit was not written");
                let unwritten = CommitError::StoreUnwritable(error);
                self.requeue(execution, decided, &outcome.post_commit, unwritten);
            }
            Err(error) if error.is_passing() => {
                tracing::warn!(%execution, %error, "commit outcome unknown; retrying");
                let first = outcome.post_commit.events.first();
                let first = first.map(|event| (event.seq, event.event_id));
                let mut decided = decided;
                let handed = outcome.post_commit.assigned.iter();
                let mut claims: Vec<_> = handed.map(|(_, claim)| *claim).collect();
                for entry in &mut decided {
                    entry.queued_input.unconfirmed.extend(first);
                    claims.extend(&entry.assigned);
                }
                slot.unconfirmed.push(UnconfirmedCommit { first, claims });
                self.requeue(execution, decided, &outcome.post_commit, CommitError::Retry);
            }
            Err(error) => {
                tracing::error!(%execution, %error, "commit was rejected");
                let refused = CommitError::Refused(error);
                self.requeue(execution, decided, &outcome.post_commit, refused);
            }
        }
    }

    /// Handles a failed commit: its inputs are queued again on reloaded state, or get the error as their reply.
    fn requeue(
        &mut self,
        execution: ExecutionId,
        decided: Vec<DecidedInput>,
        rest: &PostCommit,
        why: CommitError,
    ) {
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        let mut assigned: Vec<Seq> = rest
            .assigned
            .iter()
            .map(|(_, claim)| claim.command)
            .collect();
        self.claim_table
            .restore_holders(execution, &rest.commands_to_stop);
        let gathered = slot.pending_commit.take();
        let gathered = gathered.map_or_else(Vec::new, |gathered| {
            assigned.extend(gathered.assigned.iter().map(|(_, claim)| claim.command));
            self.claim_table
                .restore_holders(execution, &gathered.commands_to_stop);
            gathered.decided_inputs
        });
        let mut queue: VecDeque<QueuedInput> = VecDeque::new();
        let mut why = why;
        for entry in decided.into_iter().chain(gathered) {
            assigned.extend(entry.assigned.iter().map(|claim| claim.command));
            queue.extend(why.reply_or_requeue(entry.queued_input));
        }
        queue.append(&mut slot.queue);
        slot.queue = queue;
        if matches!(why, CommitError::StoreUnwritable(_)) {
            slot.put_control_first();
        }
        // Until the execution is loaded again, nothing may be decided, assigned or built from the state in memory.
        slot.state = None;
        slot.needs_reoffer = true;
        slot.is_waiting_for_commit = false;
        slot.decision_in_progress = None;
        for seq in assigned {
            self.unassign(CommandId { execution, seq });
        }
        self.reload_later(execution);
    }

    /// Handles a durable commit: sends replies, notifications and stream updates.
    fn publish_commit(
        &mut self,
        execution: ExecutionId,
        decided: Vec<DecidedInput>,
        rest: PostCommit,
    ) {
        for (_, claim) in rest.assigned {
            self.deliver_assigned(claim.claim_in(execution));
        }
        let answers = self.collect_replies(execution, decided);
        if let Some(slot) = self.executions.get_mut(&execution) {
            slot.is_waiting_for_commit = false;
        }
        self.decide(execution);
        self.send_hints(&rest.offers);
        for OfferedCommand { pool, kinds, seq } in rest.offers {
            self.offer_command(&pool, kinds, CommandId { execution, seq });
        }
        self.notify_stops(execution, &rest.commands_to_stop);
        if rest.has_messages {
            self.shared.sweep_signals.messages.notify_one();
        }
        if rest.has_timers {
            self.shared.sweep_signals.timers.notify_one();
        }
        self.publish_events(execution, rest.events, rest.status);
        let ended = self.executions.get(&execution).is_some_and(|slot| {
            slot.is_idle()
                && slot
                    .state
                    .as_ref()
                    .is_some_and(engine::ExecutionState::is_ended)
        });
        if ended {
            self.executions.remove(&execution);
        }
        // Replies go out last because the runtime runs the task woken last first, and only workers block on their
        // reply.
        for (reply, answer) in answers {
            if let Err(Ok(unheard)) = reply.send(Ok(answer)) {
                // The caller no longer waits: the commands assigned in the reply are offered again.
                for claimed in unheard.next_commands {
                    self.release_claim(claimed.command.id, claimed.lease_epoch);
                }
            }
        }
    }

    /// Builds the replies to the inputs of a commit.
    fn collect_replies(
        &mut self,
        execution: ExecutionId,
        decided: Vec<DecidedInput>,
    ) -> Vec<(ReplySender, InputReply)> {
        let mut answers = Vec::with_capacity(decided.len());
        for entry in decided {
            let handed = entry.assigned.iter();
            let next = handed.filter_map(|claim| self.build_command(claim.claim_in(execution)));
            let next = next.collect();
            let verdict = match (entry.command, self.executions.get(&execution)) {
                (Some(command), Some(slot)) => slot.verdict(command),
                _ => Verdict::Proceed,
            };
            let recorded = entry.recorded;
            answers.extend(entry.queued_input.reply.map(|reply| {
                let answer = InputReply {
                    verdict,
                    next_commands: next,
                    recorded,
                };
                (reply, answer)
            }));
        }
        answers
    }

    /// Notifies the bus, if there is one, of unassigned commands and of events to publish.
    fn send_hints(&self, offered: &[OfferedCommand]) {
        let Some(bus) = &self.shared.bus else { return };
        self.shared.sweep_signals.outbox.notify_one();
        for offered in offered {
            let (bus, pool) = (bus.clone(), offered.pool.clone());
            tokio::spawn(async move { bus.notify_pool(&pool).await });
        }
    }

    /// Handles a commit that happened although its response was lost: repeats its notifications from the loaded state.
    pub(super) fn recover_unconfirmed(
        &mut self,
        execution: ExecutionId,
        unseen: Vec<model::event::Event>,
    ) {
        let slot = self.executions.get(&execution);
        let state = slot.and_then(|slot| slot.state.as_ref());
        let stopping = state.filter(|state| state.stop.is_some());
        let held = stopping.into_iter().flat_map(|state| state.commands.iter());
        let held = held.filter(|(_, live)| live.claimed.is_some());
        let held: Vec<_> = held.map(|(seq, _)| *seq).collect();
        let held: Vec<_> = held
            .into_iter()
            .map(|seq| (seq, self.claim_table.holder(CommandId { execution, seq })))
            .collect();
        let status = state.map_or(RunStatus::Running, engine::ExecutionState::status);
        self.notify_stops(execution, &held);
        self.shared.sweep_signals.messages.notify_one();
        self.shared.sweep_signals.timers.notify_one();
        self.publish_events(execution, unseen, status);
        self.recheck_offers();
    }

    fn publish_events(
        &mut self,
        execution: ExecutionId,
        events: Vec<model::event::Event>,
        status: RunStatus,
    ) {
        if events
            .iter()
            .any(|event| matches!(event.body, model::event::EventBody::PlaybookResumed(_)))
        {
            self.recheck_offers();
        }
        let Some(slot) = self.executions.get(&execution) else {
            return;
        };
        if events
            .iter()
            .any(|event| matches!(event.body, model::event::EventBody::PlaybookPaused(_)))
        {
            let live = slot.live_commands(execution);
            for command in live {
                self.claim_table.notify_holder(CommandNotice {
                    command,
                    verdict: Verdict::Yield,
                });
            }
        }
        // There may be no subscribers.
        let _ = self.shared.commit_notices.send(Arc::new(CommitNotice {
            execution,
            events,
            status,
        }));
        if status.is_terminal() {
            let _ = self.shared.ended_executions.send(execution);
        }
    }

    /// Sends a stop notice to the holders of these commands; commands without a holder are withdrawn at once.
    fn notify_stops(&mut self, execution: ExecutionId, stops: &[(Seq, Option<WorkerId>)]) {
        for (seq, holder) in stops {
            let command = CommandId {
                execution,
                seq: *seq,
            };
            match holder {
                Some(worker) => self.claim_table.notify_worker(
                    worker,
                    CommandNotice {
                        command,
                        verdict: Verdict::Stop,
                    },
                ),
                None => self.enqueue(execution, QueuedInput::new(Input::CommandOverdue(*seq))),
            }
        }
    }
}

/// Why a commit failed; this decides what happens to its inputs.
enum CommitError {
    /// All inputs are decided again.
    Retry,
    /// The first input gets the error as its reply; the others are decided again without it.
    Refused(Error),
    /// The store currently accepts no writes: callers get the error at once, and inputs without a caller are decided
    /// again.
    StoreUnwritable(Error),
}

impl CommitError {
    /// Sends the error to the caller of an input, or returns the input to be decided again.
    fn reply_or_requeue(&mut self, waiting: QueuedInput) -> Option<QueuedInput> {
        let error = match self {
            Self::Retry => return Some(waiting),
            Self::Refused(_) => match std::mem::replace(self, Self::Retry) {
                Self::Refused(error) => error,
                _ => return Some(waiting),
            },
            // An earlier commit of the input may have happened, so an error could be wrong.
            Self::StoreUnwritable(_) if !waiting.unconfirmed.is_empty() => return Some(waiting),
            // The work that the log leaves undone must continue, whether or not a caller waits.
            Self::StoreUnwritable(_) if matches!(waiting.input, Input::Continue) => {
                return Some(waiting);
            }
            Self::StoreUnwritable(_) if waiting.reply.is_none() => return Some(waiting),
            Self::StoreUnwritable(error) => match error.as_write_refusal() {
                Some(error) => error,
                None => return Some(waiting),
            },
        };
        if let Some(reply) = waiting.reply {
            // The caller may have stopped waiting.
            let _ = reply.send(Err(InputError::Failed(error)));
        }
        None
    }
}

impl LoadedExecution {
    /// Adds a snapshot if one is due, except to commits that use the reserved space.
    fn add_snapshot_if_due(&mut self) {
        let (Some(state), Some(gathered)) = (&self.state, &mut self.pending_commit) else {
            return;
        };
        let is_due = state.seq.0 >= self.snapshot_seq.0 + SNAPSHOT_EVERY;
        if !is_due || gathered.commit.priority == Priority::Control {
            return;
        }
        if let Some(bytes) = snapshot::encode_snapshot(state) {
            self.snapshot_seq = state.seq;
            let snapshot = Snapshot {
                version: SNAPSHOT_VERSION,
                seq: state.seq,
                bytes,
            };
            gathered.commit.snapshot = Some(snapshot);
        }
    }
}

impl PendingCommit {
    /// Adds the events, timers, messages, keys, fences and bodies of a decision. Returns the new state.
    fn add_records(
        &mut self,
        execution: ExecutionId,
        decision: Decision,
    ) -> engine::ExecutionState {
        let commit = &mut self.commit;
        commit.events.extend(decision.events);
        commit.timers.extend(decision.timers);
        let messages = decision.messages.iter();
        let messages = messages.map(|message| to_store_message(execution, message));
        commit.messages.extend(messages);
        commit.keys.extend(decision.unique_keys);
        commit.fences.extend(decision.fences);
        self.bodies.extend(decision.bodies);
        decision.state
    }
}

fn to_store_message(from: ExecutionId, message: &engine::OutgoingMessage) -> Message {
    Message {
        key: MessageKey {
            from,
            seq: message.seq,
            n: message.n,
        },
        to: message.to,
        body: RawJson::from_serializable(&message.body),
    }
}
