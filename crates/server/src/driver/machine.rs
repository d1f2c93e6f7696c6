//! The state machine of the driver: inputs go in, effects come out. It performs no I/O and reads no clock of its own.
//!
//! The shell passes each input to `handle`, then performs what `finish_step` returns.

use std::collections::{BTreeSet, HashMap, VecDeque};

use engine::{ExecutionState, Input};
use model::command::ClaimId;
use model::id::ExecutionId;
use store::OwnerId;
use tokio::sync::oneshot;

use crate::driver::claim_table::ClaimTable;
use crate::driver::effect::{DriverInput, DriverTimer, Effect, Reply, StampSource, Ticket};
use crate::driver::handle::{DriverRequest, InputAttachments};
use crate::driver::hooks::Hooks;
use crate::driver::loaded_execution::LoadedExecution;
use crate::driver::queued_input::QueuedInput;
use crate::tamper::DriverBug;

/// Properties of this process that decide how executions are driven.
pub(super) struct DriverSettings {
    /// This process.
    pub(super) owner: OwnerId,
    /// Whether other servers use the same store.
    pub(super) has_peers: bool,
    /// Whether a bus is configured.
    pub(super) has_bus: bool,
    /// What a simulation changes.
    pub(super) hooks: Hooks,
}

/// The executions and claims of this process.
pub(super) struct DriverMachine {
    pub(super) settings: DriverSettings,
    pub(super) stamps: Box<dyn StampSource>,
    pub(super) executions: HashMap<ExecutionId, LoadedExecution>,
    pub(super) claim_table: ClaimTable,
    /// Executions with decisions that were not passed to the store yet.
    pub(super) uncommitted: BTreeSet<ExecutionId>,
    /// Number of batches that the store is writing.
    pub(super) batches_in_flight: usize,
    /// Effects of the current step.
    pub(super) effects: Vec<Effect>,
    last_ticket: u64,
    drain_replies: Vec<oneshot::Sender<()>>,
}

impl DriverMachine {
    /// A machine without executions.
    pub(super) fn new(settings: DriverSettings, stamps: Box<dyn StampSource>) -> Self {
        Self {
            settings,
            stamps,
            executions: HashMap::new(),
            claim_table: ClaimTable::default(),
            uncommitted: BTreeSet::new(),
            batches_in_flight: 0,
            effects: Vec::new(),
            last_ticket: 0,
            drain_replies: Vec::new(),
        }
    }

    /// Number of executions in memory.
    pub(super) fn execution_count(&self) -> usize {
        self.executions.len()
    }

    /// Handles one input. Its effects are collected until `finish_step`.
    pub(super) fn handle(&mut self, input: DriverInput) {
        match input {
            DriverInput::Request(request) => self.handle_request(request),
            DriverInput::ExecutionLoaded(ticket, result) => self.on_loaded(ticket, result),
            DriverInput::NeedsLoaded(ticket, result) => self.on_needs_loaded(ticket, result),
            DriverInput::BatchWritten(commits) => self.on_batch_written(commits),
            DriverInput::Decided(ticket, decision) => self.on_decided(ticket, *decision),
            DriverInput::CommandsClaimed(claim, result) => self.on_claimed(claim, result),
            DriverInput::CommandsFetched(claim, fetched) => {
                self.on_commands_fetched(claim, fetched);
            }
            DriverInput::ClaimReleased => self.recheck_offers(),
            DriverInput::TimerDue(DriverTimer::Reload(ticket)) => self.on_reload_due(ticket),
            DriverInput::TimerDue(DriverTimer::RetryNeeds(ticket)) => {
                self.on_needs_retry_due(ticket);
            }
            DriverInput::CommandsUndelivered(commands) => {
                for claimed in commands {
                    self.release_claim(ClaimId {
                        command: claimed.command.id,
                        lease_epoch: claimed.lease_epoch,
                    });
                }
            }
            DriverInput::NoticesUndelivered(worker, notices) => {
                self.claim_table.restore_notices(worker, notices);
            }
        }
    }

    /// Passes collected decisions to the store, and returns the effects of all inputs since the last call.
    pub(super) fn finish_step(&mut self) -> Vec<Effect> {
        self.flush_commits();
        self.reply_to_drains();
        std::mem::take(&mut self.effects)
    }

    fn handle_request(&mut self, request: DriverRequest) {
        match request {
            DriverRequest::Submit {
                submit,
                net,
                consumed_message,
                reply,
            } => {
                let execution = submit.execution;
                let attachments = InputAttachments {
                    net: Some(net),
                    ..InputAttachments::from_message(consumed_message)
                };
                let queued = QueuedInput::with_reply(Input::Submit(submit), attachments, reply);
                if self.has_bug(DriverBug::OverwriteExecution) {
                    self.executions.remove(&execution);
                }
                // Another request may have submitted the same execution, so an existing entry is never replaced.
                self.executions
                    .entry(execution)
                    .or_insert_with(|| LoadedExecution::unsubmitted(VecDeque::new()));
                self.enqueue(execution, queued);
            }
            DriverRequest::Apply {
                execution,
                input,
                attachments,
                reply,
            } => {
                let queued = QueuedInput::with_reply(input, attachments, reply);
                if self.executions.contains_key(&execution) {
                    self.enqueue(execution, queued);
                } else {
                    self.load_execution(execution, VecDeque::from([queued]));
                }
            }
            DriverRequest::Claim(claim) => self.claim_commands(claim),
            DriverRequest::Listen { worker, reply } => {
                let notices = self.claim_table.add_listener(worker, reply);
                self.effects.extend(notices);
            }
            DriverRequest::RecheckOffers => self.recheck_offers(),
            DriverRequest::BuildCommands { worker, claims, reply } => {
                let built = self.build_commands_for(&worker, &claims);
                self.send(Reply::BuiltCommands(reply, built));
            }
            DriverRequest::ListRemoteClaims { worker, reply } => {
                let mut claims = self.claim_table.remote_claims_of(&worker);
                claims.retain(|command| !self.executions.contains_key(&command.execution));
                self.send(Reply::RemoteClaims(reply, claims));
            }
            DriverRequest::RecordRemoteClaims { worker, commands } => {
                self.claim_table.record_remote_claims(&worker, commands);
            }
            DriverRequest::ForgetHolder(command) => self.claim_table.forget_holder(command),
            DriverRequest::ListAssignments(reply) => {
                let assignments = self.claim_table.assignments();
                self.send(Reply::Assignments(reply, assignments));
            }
            DriverRequest::ReadState { execution, reply } => self.send_state(execution, reply),
            DriverRequest::Drain(reply) => self.drain_replies.push(reply),
        }
    }

    /// Whether a simulation has built this bug into the driver.
    pub(super) fn has_bug(&self, bug: DriverBug) -> bool {
        self.settings.hooks.has_bug(bug)
    }

    /// Sends a reply after this step.
    pub(super) fn send(&mut self, reply: Reply) {
        self.effects.push(Effect::Reply(reply));
    }

    /// A ticket that no other load or decision has.
    pub(super) fn new_ticket(&mut self, execution: ExecutionId) -> Ticket {
        self.last_ticket += 1;
        Ticket {
            execution,
            number: self.last_ticket,
        }
    }

    /// Queues an input of an execution in memory, and decides what can be decided.
    pub(super) fn enqueue(&mut self, execution: ExecutionId, queued: QueuedInput) {
        if let Some(loaded) = self.executions.get_mut(&execution) {
            loaded.enqueue(queued);
            self.decide(execution);
        }
    }

    fn send_state(&mut self, execution: ExecutionId, reply: oneshot::Sender<Option<Box<ExecutionState>>>) {
        let state = self.executions.get(&execution).and_then(LoadedExecution::state);
        let state = state.cloned().map(Box::new);
        self.send(Reply::State(reply, state));
    }

    fn reply_to_drains(&mut self) {
        if !self.drain_replies.is_empty() && self.executions.values().all(LoadedExecution::is_idle) {
            for reply in std::mem::take(&mut self.drain_replies) {
                self.send(Reply::Drained(reply));
            }
        }
    }
}
