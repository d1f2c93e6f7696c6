//! Loads executions into memory, and the data that their decisions need.
//!
//! After a failed commit the state in memory is not trusted any more: the log is loaded again, and the inputs of the
//! commit are decided again unless the log has them.

use std::collections::VecDeque;
use std::time::Duration;

use engine::Input;
use language::template::{LoadedValues, Need};
use model::id::ExecutionId;
use wire::Verdict;

use crate::driver::effect::{DriverTimer, Effect, Ticket};
use crate::driver::handle::{InputError, InputReply};
use crate::driver::loaded_execution::{DecisionStage, LoadedExecution, OpenExecution, Recovery, Stage};
use crate::driver::machine::DriverMachine;
use crate::driver::queued_input::QueuedInput;
use crate::error::Error;
use crate::loading::{self, EventPosition, FoldedExecution, LoadResult, ReloadChecks};
use crate::tamper::DriverBug;

/// Pause before an operation is retried that the store or the disk rejected.
const RETRY_AFTER: Duration = Duration::from_millis(100);

impl DriverMachine {
    /// Loads an execution unless it is in memory.
    pub(super) fn load_if_absent(&mut self, execution: ExecutionId) {
        if !self.executions.contains_key(&execution) {
            self.load_execution(execution, VecDeque::new());
        }
    }

    /// Loads an execution; its inputs are queued.
    pub(super) fn load_execution(&mut self, execution: ExecutionId, queue: VecDeque<QueuedInput>) {
        self.start_load(execution, queue, Recovery::default());
    }

    fn start_load(&mut self, execution: ExecutionId, queue: VecDeque<QueuedInput>, recovery: Recovery) {
        let positions = queue.iter().flat_map(|queued| &queued.unconfirmed);
        let checks = ReloadChecks {
            positions: positions.copied().collect(),
            commits: recovery.unconfirmed.clone(),
            needs_claims: recovery.is_fenced,
        };
        let ticket = self.new_ticket(execution);
        let stage = Stage::Loading(ticket, recovery);
        self.executions.insert(execution, LoadedExecution { queue, stage });
        self.effects.push(Effect::LoadExecution(ticket, checks));
    }

    /// Loads an execution after a pause; its inputs stay queued.
    pub(super) fn load_later(&mut self, execution: ExecutionId, queue: VecDeque<QueuedInput>, recovery: Recovery) {
        let ticket = self.new_ticket(execution);
        let stage = Stage::Loading(ticket, recovery);
        self.executions.insert(execution, LoadedExecution { queue, stage });
        let timer = DriverTimer::Reload(ticket);
        self.effects.push(Effect::ArmTimer(RETRY_AFTER, timer));
    }

    /// Removes an execution that waits for this load.
    fn take_loading(&mut self, ticket: Ticket) -> Option<(VecDeque<QueuedInput>, Recovery)> {
        let loaded = self.executions.get(&ticket.execution)?;
        if !loaded.waits_for(ticket) {
            return None;
        }
        let loaded = self.executions.remove(&ticket.execution)?;
        match loaded.stage {
            Stage::Loading(_, recovery) => Some((loaded.queue, recovery)),
            Stage::Open(_) => None,
        }
    }

    pub(super) fn on_reload_due(&mut self, ticket: Ticket) {
        if let Some((queue, recovery)) = self.take_loading(ticket) {
            self.start_load(ticket.execution, queue, recovery);
        }
    }

    pub(super) fn on_loaded(&mut self, ticket: Ticket, result: Result<LoadResult, Error>) {
        let execution = ticket.execution;
        let Some((queue, recovery)) = self.take_loading(ticket) else {
            return;
        };
        match result {
            // This process never owned the execution, or it was considered dead and the execution was adopted.
            Ok(LoadResult::OwnedBy(owner)) => {
                self.claim_table.forget_execution(execution);
                let queue = self.accept_submissions(queue);
                self.refuse_all(queue, || Error::OwnedBy(owner.clone()));
            }
            Ok(LoadResult::Loaded(folded)) => self.open_loaded(*folded, queue, &recovery),
            Ok(LoadResult::NotFound) => {
                let loaded = LoadedExecution::unsubmitted(queue);
                if loaded.is_new() {
                    self.executions.insert(execution, loaded);
                    self.decide(execution);
                } else {
                    self.refuse_all(loaded.queue, || Error::NotFound(execution));
                }
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%execution, %error, "failed to load execution; retrying");
                self.load_later(execution, queue, recovery);
            }
            Err(error) => {
                tracing::error!(%execution, %error, "failed to load execution");
                let mut error = Some(error);
                self.refuse_all(queue, || error.take().unwrap_or(Error::NotFound(execution)));
            }
        }
    }

    /// Opens a loaded execution: replies to inputs whose commits are in the log, and decides the others.
    fn open_loaded(&mut self, mut folded: FoldedExecution, queue: VecDeque<QueuedInput>, recovery: &Recovery) {
        let execution = folded.state.execution;
        let live = &folded.state.commands;
        self.claim_table.forget_closed(execution, |seq| live.contains_key(&seq));
        let confirmed = std::mem::take(&mut folded.confirmed);
        let claims = folded.claims.take();
        let first = confirmed.iter().map(|(seq, _)| *seq).min();
        let recent = folded.recent_events.iter();
        let unpublished = recent.filter(|event| first.is_some_and(|first| event.seq >= first));
        let unpublished: Vec<_> = unpublished.cloned().collect();
        let open = OpenExecution::from_log(folded);
        let queue = self.accept_submissions(queue);
        let queue = self.accept_confirmed(&open, queue, &confirmed);
        let mut loaded = LoadedExecution {
            queue,
            stage: Stage::Open(Box::new(open)),
        };
        let fenced = claims.map_or_else(Vec::new, |claims| loaded.take_fenced(&claims));
        self.executions.insert(execution, loaded);
        for queued in fenced {
            self.refuse_input(execution, queued, engine::Refusal::Fenced);
        }
        if first.is_some() {
            self.recover_unconfirmed(execution, unpublished);
            if let Some(loaded) = self.executions.get_mut(&execution) {
                // Continues with what follows from the commit whose response was lost.
                loaded.queue.push_front(QueuedInput::new(Input::Continue));
            }
        }
        self.decide(execution);
        if recovery.needs_reoffer {
            // Commands that were being assigned to a worker are found again in the store.
            self.recheck_offers();
        }
    }

    /// Removes an idle execution whose state in memory is stale; the next use loads it again.
    pub(super) fn unload_stale(&mut self, execution: ExecutionId) {
        let loaded = self.executions.get(&execution);
        if loaded.is_some_and(LoadedExecution::is_idle) {
            self.executions.remove(&execution);
        }
    }

    /// Loads the data that the first input needs, as far as it is not in memory.
    pub(super) fn load_needs(&mut self, execution: ExecutionId, needs: Vec<Need>) {
        let ticket = self.new_ticket(execution);
        let loaded = self.executions.get_mut(&execution);
        let Some(open) = loaded.and_then(LoadedExecution::open_mut) else {
            return;
        };
        let mut values = open.decision.take_values();
        let is_missing = |need: &Need| !loading::load_from_recent(|seq| open.recent_event(seq), need, &mut values);
        let needs: Vec<Need> = needs.into_iter().filter(is_missing).collect();
        if !needs.is_empty() && !open.commit.is_clean() {
            // The data may be in a commit that is not durable yet; when that commit ends, the input is decided again.
            open.decision = DecisionStage::WaitingForCommit(values);
            return;
        }
        open.decision = DecisionStage::LoadingNeeds(ticket);
        self.effects.push(Effect::LoadNeeds(ticket, needs, values));
    }

    pub(super) fn on_needs_loaded(&mut self, ticket: Ticket, result: Result<LoadedValues, Error>) {
        let execution = ticket.execution;
        let Some(open) = self.open_waiting_for(ticket) else {
            return;
        };
        match result {
            Ok(values) => {
                open.decision = DecisionStage::Ready(values);
                self.decide(execution);
            }
            Err(error) => {
                tracing::warn!(%execution, %error, "failed to load data for a decision; retrying");
                // The state stays, because a commit may be in progress; the next decision returns its needs again.
                let timer = DriverTimer::RetryNeeds(ticket);
                self.effects.push(Effect::ArmTimer(RETRY_AFTER, timer));
            }
        }
    }

    pub(super) fn on_needs_retry_due(&mut self, ticket: Ticket) {
        if let Some(open) = self.open_waiting_for(ticket) {
            open.decision = DecisionStage::default();
            self.decide(ticket.execution);
        }
    }

    /// The open execution that waits for this load or decision.
    pub(super) fn open_waiting_for(&mut self, ticket: Ticket) -> Option<&mut OpenExecution> {
        let loaded = self.executions.get_mut(&ticket.execution)?;
        if !loaded.waits_for(ticket) {
            return None;
        }
        loaded.open_mut()
    }

    /// Replies to inputs whose commits are in the log, and removes them; deciding them again would apply them twice.
    fn accept_confirmed(
        &mut self,
        open: &OpenExecution,
        queue: VecDeque<QueuedInput>,
        confirmed: &[EventPosition],
    ) -> VecDeque<QueuedInput> {
        let mut unconfirmed = VecDeque::with_capacity(queue.len());
        for queued in queue {
            let mut commits = queued.unconfirmed.iter();
            let repeats = self.has_bug(DriverBug::DecideConfirmedInputs);
            if repeats || !commits.any(|commit| confirmed.contains(commit)) {
                unconfirmed.push_back(queued);
                continue;
            }
            let verdict = match &queued.input {
                Input::Report(report) => open.verdict(report.command),
                _ => Verdict::Proceed,
            };
            let ids = queued.attachments.external_event_hashes.keys();
            let recorded = ids.filter_map(|id| Some((*id, open.seq_of(*id)?)));
            let reply = InputReply {
                verdict,
                next_commands: Vec::new(),
                recorded: recorded.collect(),
            };
            self.effects.extend(queued.into_reply(Ok(reply)));
        }
        unconfirmed
    }

    /// Replies to submissions that are already in the store; the other inputs will be decided on the state just
    /// loaded.
    fn accept_submissions(&mut self, queue: VecDeque<QueuedInput>) -> VecDeque<QueuedInput> {
        let mut other_inputs = VecDeque::with_capacity(queue.len());
        for mut queued in queue {
            queued.is_checked = true;
            if matches!(queued.input, Input::Submit(_)) {
                self.effects.extend(queued.into_unchanged_reply());
            } else {
                other_inputs.push_back(queued);
            }
        }
        other_inputs
    }

    fn refuse_all(&mut self, queue: VecDeque<QueuedInput>, mut error: impl FnMut() -> Error) {
        for queued in queue {
            let reply = queued.into_reply(Err(InputError::Failed(error())));
            self.effects.extend(reply);
        }
    }
}
