//! The driver's loop: receives requests, makes decisions, starts commits and sends replies.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::Input;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use language::template::Need;
use model::id::{ExecutionId, Seq};
use tokio::sync::{mpsc, oneshot};
use wire::Verdict;

use crate::ServerShared;
use crate::driver::claims::ClaimTable;
use crate::driver::decide::TimedDecision;
use crate::driver::handle::{DriverRequest, InputAttachments, InputError, InputReply};
use crate::driver::loaded_execution::{DecisionId, LoadedExecution, QueuedInput};
use crate::driver::remote_commands::RemoteCommands;
use crate::driver::write_batch::FinishedCommit;
use crate::error::Error;
use crate::loading::{self, EventPosition, FoldedExecution, LoadResult, ReloadChecks};

/// Pause before an operation is retried that the store or the disk rejected.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Maximum number of requests that are handled before their decisions are committed together.
const REQUESTS_AT_ONCE_MAX: usize = 256;

pub(super) struct ExecutionDriver {
    pub(super) shared: Arc<ServerShared>,
    pub(super) executions: HashMap<ExecutionId, LoadedExecution>,
    pub(super) claim_table: ClaimTable,
    pub(super) pending_work: FuturesUnordered<BoxFuture<'static, DriverEvent>>,
    /// Executions with decisions that were not passed to the store yet.
    pub(super) uncommitted: BTreeSet<ExecutionId>,
    /// Number of batches that the store is writing.
    pub(super) batches_in_flight: usize,
    /// Number of decisions made on threads of their own.
    pub(super) decision_count: u64,
    drain_replies: Vec<oneshot::Sender<()>>,
}

/// A finished future that the driver awaited.
pub(super) enum DriverEvent {
    ExecutionLoaded(LoadTicket, Result<LoadResult, Error>),
    NeedsLoaded(LoadTicket, Result<language::template::LoadedValues, Error>),
    Committed(Vec<(ExecutionId, FinishedCommit)>),
    CommandsClaimed(
        Result<Vec<store::CommandClaim>, Error>,
        wire::api::ClaimRequest,
        oneshot::Sender<Result<Vec<wire::ClaimedCommand>, Error>>,
    ),
    Decided(ExecutionId, DecisionId, Box<TimedDecision>),
    CommandsFetched(
        RemoteCommands,
        wire::api::ClaimRequest,
        oneshot::Sender<Result<Vec<wire::ClaimedCommand>, Error>>,
    ),
    ReloadDue(LoadTicket),
    LoadRetryDue(LoadTicket),
}

/// Identifies one load of an execution; it is outdated once the slot has another number.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadTicket {
    execution: ExecutionId,
    number: u64,
}

/// Runs until every handle is dropped or the server stops.
pub(crate) async fn run(shared: Arc<ServerShared>, mut orders: mpsc::Receiver<DriverRequest>) {
    let stop = shared.stop.clone();
    let mut drive = ExecutionDriver {
        shared,
        executions: HashMap::new(),
        claim_table: ClaimTable::default(),
        pending_work: FuturesUnordered::new(),
        uncommitted: BTreeSet::new(),
        batches_in_flight: 0,
        decision_count: 0,
        drain_replies: Vec::new(),
    };
    // This future never completes. Without it, `FuturesUnordered` wakes its task again after polling all futures, and
    // a single pending future would be polled twice, often by another thread the second time.
    drive.pending_work.push(Box::pin(std::future::pending()));
    let mut taken = Vec::with_capacity(REQUESTS_AT_ONCE_MAX);
    let in_memory = metrics::gauge!(crate::metrics::IN_MEMORY);
    loop {
        tokio::select! {
            biased;
            Some(done) = drive.pending_work.next() => drive.handle_event(done),
            count = orders.recv_many(&mut taken, REQUESTS_AT_ONCE_MAX) => {
                if count == 0 {
                    break;
                }
                taken.drain(..).for_each(|order| drive.handle_request(order));
            }
            () = stop.cancelled() => break,
        }
        drive.flush_commits();
        drive.reply_to_drains();
        in_memory.set(f64::from(
            u32::try_from(drive.executions.len()).unwrap_or(u32::MAX),
        ));
    }
}

impl ExecutionDriver {
    fn handle_request(&mut self, order: DriverRequest) {
        match order {
            DriverRequest::Submit {
                submit,
                net,
                consumed_message: consumed,
                reply,
            } => {
                let execution = submit.execution;
                let extras = InputAttachments {
                    net: Some(net),
                    ..InputAttachments::from_message(consumed)
                };
                let waiting = QueuedInput::with_reply(Input::Submit(submit), extras, reply);
                // Another request may have submitted the same execution, so an existing slot is never replaced.
                let slots = &mut self.executions;
                slots
                    .entry(execution)
                    .or_insert_with(|| LoadedExecution::new(None, None, Vec::new(), Seq(0)));
                self.enqueue(execution, waiting);
            }
            DriverRequest::Apply {
                execution,
                input,
                attachments: extras,
                reply,
            } => {
                let waiting = QueuedInput::with_reply(input, extras, reply);
                if self.executions.contains_key(&execution) {
                    self.enqueue(execution, waiting);
                } else {
                    self.load_execution(execution, VecDeque::from([waiting]));
                }
            }
            DriverRequest::Claim {
                request: ask,
                reply,
            } => self.claim_commands(ask, reply),
            DriverRequest::Listen { worker, reply } => self.claim_table.add_listener(worker, reply),
            DriverRequest::RecheckOffers => self.recheck_offers(),
            DriverRequest::BuildCommands {
                worker,
                claims,
                reply,
            } => {
                // If the caller no longer waits, the claims expire with its session.
                let _ = reply.send(self.build_commands_for(&worker, &claims));
            }
            DriverRequest::ListRemoteClaims { worker, reply } => {
                let mut held = self.claim_table.remote_claims_of(&worker);
                held.retain(|command| !self.executions.contains_key(&command.execution));
                // The caller may have stopped waiting.
                let _ = reply.send(held);
            }
            DriverRequest::RecordRemoteClaims { worker, commands } => {
                self.claim_table.record_remote_claims(&worker, commands);
            }
            DriverRequest::ForgetHolder(command) => self.claim_table.forget_holder(command),
            DriverRequest::ListAssignments(reply) => {
                // The caller may have stopped waiting.
                let _ = reply.send(self.claim_table.assignments());
            }
            DriverRequest::Drain(reply) => self.drain_replies.push(reply),
        }
    }

    fn handle_event(&mut self, done: DriverEvent) {
        match done {
            DriverEvent::ExecutionLoaded(loading, _) | DriverEvent::NeedsLoaded(loading, _)
                if !self.is_current(loading) => {}
            DriverEvent::ReloadDue(loading) | DriverEvent::LoadRetryDue(loading)
                if !self.is_current(loading) => {}
            DriverEvent::ExecutionLoaded(loading, opened) => {
                self.on_loaded(loading.execution, opened);
            }
            DriverEvent::NeedsLoaded(loading, loaded) => self.on_needs_loaded(loading, loaded),
            DriverEvent::Committed(outcomes) => self.on_batch_committed(outcomes),
            DriverEvent::CommandsClaimed(claims, ask, reply) => self.on_claimed(claims, ask, reply),
            DriverEvent::CommandsFetched(fetched, ask, reply) => {
                self.on_commands_fetched(fetched, ask, reply);
            }
            DriverEvent::Decided(execution, id, decision) => {
                self.on_decided(execution, id, *decision);
            }
            DriverEvent::ReloadDue(LoadTicket { execution, .. }) => {
                if let Some(slot) = self.executions.remove(&execution) {
                    self.reload(execution, slot);
                }
            }
            DriverEvent::LoadRetryDue(LoadTicket { execution, .. }) => {
                if let Some(slot) = self.executions.get_mut(&execution) {
                    slot.is_loading = false;
                    self.decide(execution);
                }
            }
        }
    }

    /// Whether the result of a load is still needed: the execution may have been loaded again meanwhile.
    fn is_current(&self, loading: LoadTicket) -> bool {
        let slot = self.executions.get(&loading.execution);
        slot.is_some_and(|slot| slot.load_number == loading.number)
    }

    /// Loads an execution unless it is in memory.
    pub(super) fn load_if_absent(&mut self, execution: ExecutionId) {
        if !self.executions.contains_key(&execution) {
            self.load_execution(execution, VecDeque::new());
        }
    }

    /// Loads an execution; its inputs are queued.
    pub(super) fn load_execution(&mut self, execution: ExecutionId, queue: VecDeque<QueuedInput>) {
        let mut slot = LoadedExecution::new(None, None, Vec::new(), Seq(0));
        slot.queue = queue;
        self.reload(execution, slot);
    }

    /// Loads an execution again; keeps only its inputs and its unresolved commits.
    pub(super) fn reload(&mut self, execution: ExecutionId, former: LoadedExecution) {
        let mut slot = LoadedExecution::new(None, None, Vec::new(), Seq(0));
        let marks = former.queue.iter().flat_map(|waiting| &waiting.unconfirmed);
        let questions = ReloadChecks {
            positions: marks.copied().collect(),
            commits: former.unconfirmed.clone(),
            needs_claims: former.is_fenced,
        };
        slot.queue = former.queue;
        slot.is_loading = true;
        slot.load_number = former.load_number + 1;
        let number = slot.load_number;
        slot.is_fenced = former.is_fenced;
        slot.unconfirmed = former.unconfirmed;
        slot.needs_reoffer = former.needs_reoffer;
        self.executions.insert(execution, slot);
        let shared = self.shared.clone();
        let opening = async move {
            let opened = loading::reload_execution(&shared, execution, questions).await;
            DriverEvent::ExecutionLoaded(LoadTicket { execution, number }, opened)
        };
        self.pending_work.push(Box::pin(opening));
    }

    fn on_loaded(&mut self, execution: ExecutionId, opened: Result<LoadResult, Error>) {
        let Some(slot) = self.executions.remove(&execution) else {
            return;
        };
        match opened {
            // This process never owned the execution, or it was considered dead and the execution was adopted.
            Ok(LoadResult::OwnedBy(owner)) => {
                self.claim_table.forget_execution(execution);
                let queue = accept_submissions(slot.queue);
                refuse_all(queue, || Error::OwnedBy(owner.clone()));
            }
            Ok(LoadResult::Loaded(opened)) => self.on_reloaded(execution, *opened, slot),
            Ok(LoadResult::NotFound) if slot.is_new() => {
                let mut fresh = LoadedExecution::new(None, None, Vec::new(), Seq(0));
                fresh.queue = slot.queue;
                self.executions.insert(execution, fresh);
                self.decide(execution);
            }
            Ok(LoadResult::NotFound) => refuse_all(slot.queue, || Error::NotFound(execution)),
            Err(error) if error.is_passing() => {
                tracing::warn!(%execution, %error, "failed to load execution; retrying");
                self.executions.insert(execution, slot);
                self.reload_later(execution);
            }
            Err(error) => {
                tracing::error!(%execution, %error, "failed to load execution");
                let mut error = Some(error);
                refuse_all(slot.queue, || {
                    error.take().unwrap_or(Error::NotFound(execution))
                });
            }
        }
    }

    /// Handles a loaded execution: replies to inputs whose commits are in the log, and decides the others.
    fn on_reloaded(
        &mut self,
        execution: ExecutionId,
        opened: FoldedExecution,
        former: LoadedExecution,
    ) {
        let live = &opened.state.commands;
        self.claim_table
            .forget_closed(execution, |seq| live.contains_key(&seq));
        let landed = opened.confirmed;
        let first = landed.iter().map(|(seq, _)| *seq).min();
        let tail = opened.recent_events.iter();
        let unseen = tail.filter(|event| first.is_some_and(|first| event.seq >= first));
        let unseen: Vec<_> = unseen.cloned().collect();
        let mut fresh = LoadedExecution::new(
            Some(opened.net),
            Some(opened.state),
            opened.recent_events,
            opened.snapshot_seq,
        );
        let queue = accept_submissions(former.queue);
        fresh.queue = accept_confirmed(&fresh, queue, &landed);
        let fenced = opened.claims.as_deref();
        let fenced = fenced.map(|claims| fresh.take_fenced(claims));
        self.executions.insert(execution, fresh);
        for waiting in fenced.into_iter().flatten() {
            self.refuse_input(execution, waiting, engine::Refusal::Fenced);
        }
        if first.is_some() {
            self.recover_unconfirmed(execution, unseen);
            if let Some(slot) = self.executions.get_mut(&execution) {
                // Continues with what follows from the commit whose response was lost.
                slot.queue.push_front(QueuedInput::new(Input::Continue));
            }
        }
        self.decide(execution);
        if former.needs_reoffer {
            // Commands that were being assigned to a worker are found again in the store.
            self.recheck_offers();
        }
    }

    /// Loads the execution again after a pause; its inputs stay queued.
    pub(super) fn reload_later(&mut self, execution: ExecutionId) {
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        slot.is_loading = true;
        slot.load_number += 1;
        let number = slot.load_number;
        self.pending_work.push(Box::pin(async move {
            tokio::time::sleep(RETRY_AFTER).await;
            DriverEvent::ReloadDue(LoadTicket { execution, number })
        }));
    }

    pub(super) fn enqueue(&mut self, execution: ExecutionId, waiting: QueuedInput) {
        if let Some(slot) = self.executions.get_mut(&execution) {
            slot.enqueue(waiting);
            self.decide(execution);
        }
    }

    /// Removes an idle execution whose state in memory is stale; the next use loads it again.
    pub(super) fn unload_stale(&mut self, execution: ExecutionId) {
        if self
            .executions
            .get(&execution)
            .is_some_and(LoadedExecution::is_idle)
        {
            self.executions.remove(&execution);
        }
    }

    pub(super) fn load_needs(&mut self, execution: ExecutionId, needs: Vec<Need>) {
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        slot.is_loading = true;
        let mut loaded = std::mem::take(&mut slot.loaded);
        let needs: Vec<Need> = needs
            .into_iter()
            .filter(|need| {
                !loading::load_from_recent(|seq| slot.recent_event(seq), need, &mut loaded)
            })
            .collect();
        if !needs.is_empty() && slot.has_pending_commit() {
            // The data may be in a commit that is not durable yet; when that commit ends, the input is decided again.
            slot.loaded = loaded;
            slot.is_loading = false;
            slot.is_waiting_for_commit = true;
            return;
        }
        let number = slot.load_number;
        let shared = self.shared.clone();
        self.pending_work.push(Box::pin(async move {
            let result = loading::load_needs(&shared, execution, needs, loaded).await;
            DriverEvent::NeedsLoaded(LoadTicket { execution, number }, result)
        }));
    }

    fn on_needs_loaded(
        &mut self,
        loading: LoadTicket,
        loaded: Result<language::template::LoadedValues, Error>,
    ) {
        let execution = loading.execution;
        let Some(slot) = self.executions.get_mut(&execution) else {
            return;
        };
        slot.is_loading = false;
        match loaded {
            Ok(loaded) => {
                slot.loaded = loaded;
                self.decide(execution);
            }
            Err(error) => {
                tracing::warn!(%execution, %error, "failed to load data for a decision; retrying");
                // The state stays, because a commit may be in progress; the next decision returns its needs again.
                slot.is_loading = true;
                self.pending_work.push(Box::pin(async move {
                    tokio::time::sleep(RETRY_AFTER).await;
                    DriverEvent::LoadRetryDue(loading)
                }));
            }
        }
    }

    fn reply_to_drains(&mut self) {
        if !self.drain_replies.is_empty() && self.executions.values().all(LoadedExecution::is_idle)
        {
            for drain in self.drain_replies.drain(..) {
                let _ = drain.send(());
            }
        }
    }
}

/// Replies to inputs whose commits are in the log, and removes them; deciding them again would apply them twice.
fn accept_confirmed(
    slot: &LoadedExecution,
    queue: VecDeque<QueuedInput>,
    landed: &[EventPosition],
) -> VecDeque<QueuedInput> {
    let has_landed = |waiting: &QueuedInput| {
        waiting
            .unconfirmed
            .iter()
            .any(|doubt| landed.contains(doubt))
    };
    let mut rest = VecDeque::with_capacity(queue.len());
    for waiting in queue {
        if !has_landed(&waiting) {
            rest.push_back(waiting);
            continue;
        }
        let verdict = match &waiting.input {
            Input::Report(report) => slot.verdict(report.command),
            _ => Verdict::Proceed,
        };
        let foreign = waiting.attachments.external_event_hashes.keys();
        let recorded = foreign.filter_map(|id| Some((*id, slot.seq_of(*id)?)));
        let recorded = recorded.collect();
        if let Some(reply) = waiting.reply {
            let _ = reply.send(Ok(InputReply {
                verdict,
                next_commands: Vec::new(),
                recorded,
            }));
        }
    }
    rest
}

/// Replies to submissions that are already in the store; the other inputs will be decided on the state just loaded.
fn accept_submissions(queue: VecDeque<QueuedInput>) -> VecDeque<QueuedInput> {
    let mut rest = VecDeque::with_capacity(queue.len());
    for mut waiting in queue {
        waiting.is_checked = true;
        if !matches!(waiting.input, Input::Submit(_)) {
            rest.push_back(waiting);
        } else if let Some(reply) = waiting.reply {
            let _ = reply.send(Ok(InputReply {
                verdict: Verdict::Proceed,
                next_commands: Vec::new(),
                recorded: Vec::new(),
            }));
        }
    }
    rest
}

fn refuse_all(queue: VecDeque<QueuedInput>, mut error: impl FnMut() -> Error) {
    for waiting in queue {
        if let Some(reply) = waiting.reply {
            let _ = reply.send(Err(InputError::Failed(error())));
        }
    }
}
