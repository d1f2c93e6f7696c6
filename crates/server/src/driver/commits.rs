//! Commits: collects decisions, passes them to the store, and sends the replies once they are durable.

use std::collections::VecDeque;
use std::sync::OnceLock;

use engine::{Decision, Input};
use model::command::Fence;
use model::event::{Event, EventBody};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Seq, WorkerId};
use model::raw::RawJson;
use model::status::RunStatus;
use store::{CommitStatus, Message, MessageKey, Priority, Snapshot};
use wire::{CommandNotice, Verdict};

use crate::driver::effect::{Effect, Reply, Sweep};
use crate::driver::handle::{CommitNotice, InputError, InputReply};
use crate::driver::loaded_execution::{DecisionStage, ExecutionProgress, LoadedExecution, OpenExecution, Recovery};
use crate::driver::machine::DriverMachine;
use crate::driver::pending_commit::{IssueContext, OfferedCommand, PendingCommit};
use crate::driver::queued_input::{DecidedInput, QueuedInput};
use crate::driver::write_batch::{BatchEntry, FinishedCommit, PostCommit, record_metrics};
use crate::error::Error;
use crate::loading::{SNAPSHOT_VERSION, UnconfirmedCommit};
use crate::snapshot;
use crate::tamper::DriverBug;

/// Number of events between two snapshots of an execution.
const SNAPSHOT_EVERY: u64 = 5_000;

/// Maximum number of batches being written; further decisions are collected for the next batch. There are several, so
/// that one slow batch does not delay everything.
const BATCHES_MAX: usize = 4;

impl DriverMachine {
    /// Adds the decision about an input to the next commit of the execution.
    pub(super) fn add_decision(&mut self, execution: ExecutionId, queued: QueuedInput, mut decision: Decision) {
        let loaded = self.executions.get_mut(&execution);
        let Some(open) = loaded.and_then(LoadedExecution::open_mut) else {
            return;
        };
        let Some(net) = open.decision_net(&queued) else {
            return;
        };
        let replies_early = self.settings.hooks.has_bug(DriverBug::ReplyBeforeCommit);
        self.uncommitted.insert(execution);
        let priority = open.priority(&queued);
        open.add_recent_events(&decision);
        let mut decided = queued.into_decided();
        let state = open.progress.as_ref().map(|progress| &progress.state);
        let is_new = state.is_none();
        let pending = open.commit.collect(|| PendingCommit::new(execution, state));
        pending.commit.priority = priority;
        if is_new {
            pending.commit.creation.name = Some(net.playbook.name.clone());
            pending.commit.creation.owner = Some(self.settings.owner.clone());
        }
        let has_more = decision.has_more;
        let issue_context = IssueContext {
            now: self.stamps.now(),
            net: net.clone(),
        };
        // Holders are looked up before commands are closed, because closing removes them.
        let commands_to_stop = std::mem::take(&mut decision.commands_to_stop).into_iter();
        let commands_to_stop = commands_to_stop.map(|seq| (seq, self.claim_table.holder(CommandId { execution, seq })));
        pending.commands_to_stop.extend(commands_to_stop);
        for seq in std::mem::take(&mut decision.closed) {
            self.claim_table.forget_holder(CommandId { execution, seq });
            let change = store::CommandChange::Close { seq };
            pending.commit.commands.push(change);
        }
        for offer in std::mem::take(&mut decision.issued) {
            let change = pending.issue_command(&mut self.claim_table, &mut decided, offer, &issue_context);
            pending.commit.commands.push(change);
        }
        pending.add_external_event_keys(&mut decided, &decision.events);
        let consumed = decided.queued_input.attachments.consumed_message;
        pending.commit.consumed.extend(consumed);
        let state = pending.add_records(execution, decision);
        let reply = decided.queued_input.reply.take_if(|_| replies_early);
        let reply = reply.map(|sender| Reply::Input(sender, Ok(InputReply::unchanged())));
        self.effects.extend(reply.map(Effect::Reply));
        pending.decided_inputs.push(decided);
        pending.status = state.status();
        open.progress = Some(ExecutionProgress { net, state });
        open.add_snapshot_if_due();
        open.decision = DecisionStage::default();
        if has_more {
            // The continuation waits until this part is durable, so that other executions and inputs get their turn.
            open.decision.wait_for_commit();
            if let Some(loaded) = self.executions.get_mut(&execution) {
                loaded.enqueue_continuation();
            }
        }
    }

    /// The next commit of an execution.
    fn pending_commit(&mut self, execution: ExecutionId) -> Option<&mut PendingCommit> {
        let open = self.executions.get_mut(&execution)?.open_mut()?;
        self.uncommitted.insert(execution);
        let state = open.progress.as_ref().map(|progress| &progress.state);
        Some(open.commit.collect(|| PendingCommit::new(execution, state)))
    }

    /// Adds the assignment of an offered command to a waiting worker.
    pub(super) fn add_assignment(&mut self, command: CommandId, worker: WorkerId) {
        let Some(pending) = self.pending_commit(command.execution) else {
            return;
        };
        let (seq, lease_epoch) = (command.seq, LeaseEpoch(1));
        let claim = Fence {
            command: seq,
            lease_epoch,
        };
        pending.assigned.push((worker.clone(), claim));
        pending.commit.commands.push(store::CommandChange::Assign {
            seq,
            worker,
            lease_epoch,
        });
    }

    /// Consumes the message of a refused input.
    pub(super) fn add_consumed_message(&mut self, execution: ExecutionId, queued: &QueuedInput) {
        if let Some(pending) = self.pending_commit(execution) {
            let consumed = queued.attachments.consumed_message;
            pending.commit.consumed.extend(consumed);
        }
    }

    /// Passes the collected decisions to the store in one batch, with at most one commit per execution in progress.
    pub(super) fn flush_commits(&mut self) {
        if self.batches_in_flight >= BATCHES_MAX {
            // The end of a batch leads to the next flush.
            return;
        }
        let mut batch = Vec::new();
        for execution in std::mem::take(&mut self.uncommitted) {
            let loaded = self.executions.get_mut(&execution);
            let open = loaded.and_then(LoadedExecution::open_mut);
            // If a commit is being written, its end leads to the next flush.
            let overlaps = self.settings.hooks.has_bug(DriverBug::CommitTwiceAtOnce);
            let pending = open.and_then(|open| {
                if overlaps {
                    open.commit.finish_writing();
                }
                open.commit.start_writing()
            });
            batch.extend(pending.map(PendingCommit::into_batch_entry));
        }
        if !batch.is_empty() {
            self.batches_in_flight += 1;
            self.effects.push(Effect::WriteBatch(batch));
        }
    }

    /// Handles the results of a batch.
    pub(super) fn on_batch_written(&mut self, commits: Vec<(ExecutionId, FinishedCommit)>) {
        self.batches_in_flight -= 1;
        for (execution, finished) in commits {
            record_metrics(&finished);
            self.on_committed(execution, finished);
            self.uncommitted.insert(execution);
        }
    }

    fn on_committed(&mut self, execution: ExecutionId, finished: FinishedCommit) {
        let FinishedCommit { result, post_commit } = finished;
        let loaded = self.executions.get_mut(&execution);
        let Some(open) = loaded.and_then(LoadedExecution::open_mut) else {
            // An execution with a commit in progress is never removed. If it were, its assignments must not leak.
            for (_, claim) in post_commit.assigned {
                self.unassign(claim.claim_in(execution).command);
            }
            return;
        };
        let mut decided = open.commit.finish_writing();
        let mut recovery = Recovery {
            needs_reoffer: true,
            ..Recovery::default()
        };
        let error = match result {
            Ok(CommitStatus::Committed) => {
                return self.publish_commit(execution, decided, post_commit);
            }
            Ok(CommitStatus::Fenced) => {
                recovery.is_fenced = true;
                CommitError::Retry
            }
            Ok(CommitStatus::VersionConflict { .. }) => {
                if self.has_bug(DriverBug::PublishRefusedCommit) {
                    let events = post_commit.events.clone();
                    self.publish_events(execution, events, post_commit.status);
                }
                CommitError::Retry
            }
            Err(error) if error.as_write_refusal().is_some() => {
                tracing::debug!(%execution, %error, "commit was not written");
                CommitError::StoreUnwritable(error)
            }
            Err(error) if error.is_transient() && self.has_bug(DriverBug::TrustUnknownCommit) => {
                return self.publish_commit(execution, decided, post_commit);
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%execution, %error, "commit outcome unknown; retrying");
                let unconfirmed = mark_unconfirmed(&mut decided, &post_commit);
                recovery.unconfirmed.push(unconfirmed);
                CommitError::Retry
            }
            Err(error) => {
                tracing::error!(%execution, %error, "commit was rejected");
                CommitError::Refused(error)
            }
        };
        self.requeue(execution, decided, &post_commit, error, recovery);
    }

    /// Handles a failed commit: its inputs are queued again on reloaded state, or get the error as their reply.
    fn requeue(
        &mut self,
        execution: ExecutionId,
        decided: Vec<DecidedInput>,
        post_commit: &PostCommit,
        mut error: CommitError,
        recovery: Recovery,
    ) {
        let Some(mut loaded) = self.executions.remove(&execution) else {
            return;
        };
        let mut assigned: Vec<Seq> = post_commit.assigned.iter().map(|(_, claim)| claim.command).collect();
        self.claim_table
            .restore_holders(execution, &post_commit.commands_to_stop);
        let collected = loaded.open_mut().and_then(|open| open.commit.take_collected());
        let collected = collected.map_or_else(Vec::new, |pending| {
            assigned.extend(pending.assigned.iter().map(|(_, claim)| claim.command));
            self.claim_table.restore_holders(execution, &pending.commands_to_stop);
            pending.decided_inputs
        });
        let mut queue: VecDeque<QueuedInput> = VecDeque::new();
        for entry in decided.into_iter().chain(collected) {
            assigned.extend(entry.assigned.iter().map(|claim| claim.command));
            match error.reply_for(&entry.queued_input) {
                Some(error) => {
                    let reply = entry.queued_input.into_reply(Err(InputError::Failed(error)));
                    self.effects.extend(reply);
                }
                None if self.has_bug(DriverBug::DropFailedInputs) => {}
                None => queue.push_back(entry.queued_input),
            }
        }
        queue.append(&mut loaded.queue);
        loaded.queue = queue;
        if matches!(error, CommitError::StoreUnwritable(_)) {
            loaded.put_control_first();
        }
        self.load_later(execution, loaded.queue, recovery);
        if self.has_bug(DriverBug::KeepFailedAssignments) {
            return;
        }
        for seq in assigned {
            self.unassign(CommandId { execution, seq });
        }
    }

    /// Handles a durable commit: sends replies, notifications and stream updates.
    fn publish_commit(&mut self, execution: ExecutionId, decided: Vec<DecidedInput>, post_commit: PostCommit) {
        for (_, claim) in post_commit.assigned {
            self.deliver_assigned(claim.claim_in(execution));
        }
        let replies = self.collect_replies(execution, decided);
        let loaded = self.executions.get_mut(&execution);
        if let Some(open) = loaded.and_then(LoadedExecution::open_mut) {
            open.decision.resume_after_commit();
        }
        self.decide(execution);
        self.send_hints(&post_commit.offers);
        for OfferedCommand { pool, kinds, seq } in post_commit.offers {
            self.offer_command(&pool, kinds, CommandId { execution, seq });
        }
        self.notify_stops(execution, &post_commit.commands_to_stop);
        if post_commit.has_messages {
            self.effects.push(Effect::Wake(Sweep::Messages));
        }
        if post_commit.has_timers {
            self.effects.push(Effect::Wake(Sweep::Timers));
        }
        self.publish_events(execution, post_commit.events, post_commit.status);
        let is_ended = |loaded: &LoadedExecution| {
            let state = loaded.state();
            loaded.is_idle() && state.is_some_and(engine::ExecutionState::is_ended)
        };
        if self.executions.get(&execution).is_some_and(is_ended) {
            self.executions.remove(&execution);
        }
        // Replies go out last because the runtime runs the task woken last first, and only workers block on their
        // reply.
        self.effects.extend(replies.into_iter().map(Effect::Reply));
    }

    /// Builds the replies to the inputs of a commit.
    fn collect_replies(&mut self, execution: ExecutionId, decided: Vec<DecidedInput>) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(decided.len());
        for entry in decided {
            let assigned = entry.assigned.iter();
            let next_commands = assigned.filter_map(|claim| self.build_command(claim.claim_in(execution)));
            let next_commands = next_commands.collect();
            let open = self.executions.get(&execution).and_then(LoadedExecution::open);
            let verdict = match (entry.command, open) {
                (Some(command), Some(open)) => open.verdict(command),
                _ => Verdict::Proceed,
            };
            let Some(sender) = entry.queued_input.reply else {
                continue;
            };
            let reply = InputReply {
                verdict,
                next_commands,
                recorded: entry.recorded,
            };
            replies.push(Reply::Input(sender, Ok(reply)));
        }
        replies
    }

    /// Notifies the bus, if there is one, of unassigned commands and of events to publish.
    fn send_hints(&mut self, offers: &[OfferedCommand]) {
        if !self.settings.has_bus {
            return;
        }
        self.effects.push(Effect::Wake(Sweep::Outbox));
        let pools = offers.iter().map(|offer| offer.pool.clone());
        self.effects.extend(pools.map(Effect::NotifyPool));
    }

    /// Handles a commit that happened although its response was lost: repeats its notifications from the loaded state.
    pub(super) fn recover_unconfirmed(&mut self, execution: ExecutionId, unpublished: Vec<Event>) {
        let state = self.executions.get(&execution).and_then(LoadedExecution::state);
        let status = state.map_or(RunStatus::Running, engine::ExecutionState::status);
        let stopping = state.filter(|state| state.stop.is_some());
        let commands = stopping.into_iter().flat_map(|state| state.commands.iter());
        let claimed = commands.filter(|(_, live)| live.claimed.is_some());
        let stops = claimed.map(|(seq, _)| {
            let command = CommandId { execution, seq: *seq };
            (*seq, self.claim_table.holder(command))
        });
        let stops: Vec<_> = stops.collect();
        self.notify_stops(execution, &stops);
        self.effects.push(Effect::Wake(Sweep::Messages));
        self.effects.push(Effect::Wake(Sweep::Timers));
        self.publish_events(execution, unpublished, status);
        self.recheck_offers();
    }

    fn publish_events(&mut self, execution: ExecutionId, events: Vec<Event>, status: RunStatus) {
        let has_event = |is_kind: fn(&EventBody) -> bool| events.iter().any(|event| is_kind(&event.body));
        if has_event(|body| matches!(body, EventBody::PlaybookResumed(_))) {
            self.recheck_offers();
        }
        let Some(loaded) = self.executions.get(&execution) else {
            return;
        };
        if has_event(|body| matches!(body, EventBody::PlaybookPaused(_))) {
            let live_commands = loaded
                .open()
                .map_or_else(Vec::new, |open| open.live_commands(execution));
            for command in live_commands {
                let verdict = Verdict::Yield;
                self.notify_holder(CommandNotice { command, verdict });
            }
        }
        self.effects.push(Effect::PublishCommit(CommitNotice {
            execution,
            events,
            status,
            rendered: OnceLock::new(),
        }));
    }

    /// Sends a stop notice to the holders of these commands; commands without a holder are withdrawn at once.
    fn notify_stops(&mut self, execution: ExecutionId, stops: &[(Seq, Option<WorkerId>)]) {
        for (seq, holder) in stops {
            let command = CommandId { execution, seq: *seq };
            let verdict = Verdict::Stop;
            match holder {
                Some(worker) => self.notify_worker(worker, CommandNotice { command, verdict }),
                None => self.enqueue(execution, QueuedInput::new(Input::CommandOverdue(*seq))),
            }
        }
    }
}

/// Marks the inputs of a commit whose outcome is unknown.
fn mark_unconfirmed(decided: &mut [DecidedInput], post_commit: &PostCommit) -> UnconfirmedCommit {
    let first = post_commit.events.first();
    let first = first.map(|event| (event.seq, event.event_id));
    let assigned = post_commit.assigned.iter();
    let mut claims: Vec<_> = assigned.map(|(_, claim)| *claim).collect();
    for entry in decided {
        entry.queued_input.unconfirmed.extend(first);
        claims.extend(&entry.assigned);
    }
    UnconfirmedCommit { first, claims }
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
    /// The error for the caller of an input; `None` if the input is decided again.
    fn reply_for(&mut self, queued: &QueuedInput) -> Option<Error> {
        match self {
            Self::Retry => None,
            Self::Refused(_) => match std::mem::replace(self, Self::Retry) {
                Self::Refused(error) => Some(error),
                Self::Retry | Self::StoreUnwritable(_) => None,
            },
            // An earlier commit of the input may have happened, so an error could be wrong.
            Self::StoreUnwritable(_) if !queued.unconfirmed.is_empty() => None,
            // The work that the log leaves undone must continue, whether or not a caller waits.
            Self::StoreUnwritable(_) if matches!(queued.input, Input::Continue) => None,
            Self::StoreUnwritable(_) if queued.reply.is_none() => None,
            Self::StoreUnwritable(error) => error.as_write_refusal(),
        }
    }
}

impl OpenExecution {
    /// Adds a snapshot if one is due, except to commits that use the reserved space.
    fn add_snapshot_if_due(&mut self) {
        let (Some(progress), Some(pending)) = (&self.progress, self.commit.collected_mut()) else {
            return;
        };
        let state = &progress.state;
        let is_due = state.seq.0 >= self.snapshot_seq.0 + SNAPSHOT_EVERY;
        if !is_due || pending.commit.priority == Priority::Control {
            return;
        }
        if let Some(bytes) = snapshot::encode_snapshot(state) {
            self.snapshot_seq = state.seq;
            pending.commit.snapshot = Some(Snapshot {
                version: SNAPSHOT_VERSION,
                seq: state.seq,
                bytes,
            });
        }
    }
}

impl PendingCommit {
    /// The commit for the store, and what follows when it is durable. Its inputs stay with the execution.
    fn into_batch_entry(self) -> BatchEntry {
        let post_commit = PostCommit {
            events: self.commit.events.clone(),
            commands_to_stop: self.commands_to_stop,
            assigned: self.assigned,
            offers: self.offers,
            status: self.status,
            has_messages: !self.commit.messages.is_empty(),
            has_timers: !self.commit.timers.is_empty(),
        };
        (self.commit, self.bodies, post_commit)
    }

    /// Adds the events, timers, messages, keys, fences and bodies of a decision. Returns the new state.
    fn add_records(&mut self, execution: ExecutionId, decision: Decision) -> engine::ExecutionState {
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
