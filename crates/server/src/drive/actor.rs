//! The driver's loop: receives requests, makes decisions, starts commits and sends replies.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::Input;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use model::id::{ExecutionId, Seq};
use model::template::Need;
use tokio::sync::{mpsc, oneshot};
use wire::Verdict;

use crate::Shared;
use crate::drive::claims::Claims;
use crate::drive::commits::Outcome;
use crate::drive::deciding::TimedDecision;
use crate::drive::fetch::Fetched;
use crate::drive::handle::{Extras, Order, Posted, Reply};
use crate::drive::slot::{DecisionId, Slot, Waiting};
use crate::error::Error;
use crate::loading::{self, Mark, OpenQuestions, Opened, Opening};

/// Pause before an operation is retried that the store or the disk rejected.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Maximum number of requests that are handled before their decisions are committed together.
const ORDERS_AT_ONCE: usize = 256;

pub(super) struct Drive {
    pub(super) shared: Arc<Shared>,
    pub(super) slots: HashMap<ExecutionId, Slot>,
    pub(super) claims: Claims,
    pub(super) work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Executions with decisions that were not passed to the store yet.
    pub(super) gathering: BTreeSet<ExecutionId>,
    /// Number of batches that the store is writing.
    pub(super) batches: usize,
    /// Number of decisions made on threads of their own.
    pub(super) decisions: u64,
    drains: Vec<oneshot::Sender<()>>,
}

/// A finished future that the driver awaited.
pub(super) enum Done {
    Opened(Loading, Result<Opening, Error>),
    Loaded(Loading, Result<model::template::Loaded, Error>),
    Committed(Vec<(ExecutionId, Outcome)>),
    Claimed(
        Result<Vec<store::Claim>, Error>,
        wire::Ask,
        oneshot::Sender<Result<Vec<wire::Claimed>, Error>>,
    ),
    Decided(ExecutionId, DecisionId, Box<TimedDecision>),
    Fetched(
        Fetched,
        wire::Ask,
        oneshot::Sender<Result<Vec<wire::Claimed>, Error>>,
    ),
    Again(Loading),
    LoadAgain(Loading),
}

/// Identifies one load of an execution; it is outdated once the slot has another number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loading {
    execution: ExecutionId,
    number: u64,
}

/// Runs until every handle is dropped or the server stops.
pub(crate) async fn run(shared: Arc<Shared>, mut orders: mpsc::Receiver<Order>) {
    let stop = shared.stop.clone();
    let mut drive = Drive {
        shared,
        slots: HashMap::new(),
        claims: Claims::default(),
        work: FuturesUnordered::new(),
        gathering: BTreeSet::new(),
        batches: 0,
        decisions: 0,
        drains: Vec::new(),
    };
    // This future never completes. Without it, `FuturesUnordered` wakes its task again after polling all futures, and
    // a single pending future would be polled twice, often by another thread the second time.
    drive.work.push(Box::pin(std::future::pending()));
    let mut taken = Vec::with_capacity(ORDERS_AT_ONCE);
    let in_memory = metrics::gauge!(crate::metrics::IN_MEMORY);
    loop {
        tokio::select! {
            biased;
            Some(done) = drive.work.next() => drive.done(done),
            count = orders.recv_many(&mut taken, ORDERS_AT_ONCE) => {
                if count == 0 {
                    break;
                }
                taken.drain(..).for_each(|order| drive.take(order));
            }
            () = stop.cancelled() => break,
        }
        drive.flush();
        drive.answer_drains();
        in_memory.set(f64::from(
            u32::try_from(drive.slots.len()).unwrap_or(u32::MAX),
        ));
    }
}

impl Drive {
    fn take(&mut self, order: Order) {
        match order {
            Order::Submit {
                submit,
                net,
                consumed,
                reply,
            } => {
                let execution = submit.execution;
                let extras = Extras {
                    net: Some(net),
                    ..Extras::consuming(consumed)
                };
                let waiting = Waiting::answering(Input::Submit(submit), extras, reply);
                // Another request may have submitted the same execution, so an existing slot is never replaced.
                let slots = &mut self.slots;
                slots
                    .entry(execution)
                    .or_insert_with(|| Slot::new(None, None, Vec::new(), Seq(0)));
                self.line_up(execution, waiting);
            }
            Order::Move {
                execution,
                input,
                extras,
                reply,
            } => {
                let waiting = Waiting::answering(input, extras, reply);
                if self.slots.contains_key(&execution) {
                    self.line_up(execution, waiting);
                } else {
                    self.open(execution, VecDeque::from([waiting]));
                }
            }
            Order::Claim { ask, reply } => self.ask(ask, reply),
            Order::Listen { worker, reply } => self.claims.listen(worker, reply),
            Order::Offered => self.offered(),
            Order::Build {
                worker,
                commands,
                reply,
            } => {
                // If the caller no longer waits, the claims expire with its session.
                let _ = reply.send(self.build_for(&worker, &commands));
            }
            Order::HeldElsewhere { worker, reply } => {
                let mut held = self.claims.held_elsewhere(&worker);
                held.retain(|command| !self.slots.contains_key(&command.execution));
                // The caller may have stopped waiting.
                let _ = reply.send(held);
            }
            Order::Taken { worker, commands } => self.claims.take_elsewhere(&worker, commands),
            Order::Forget(command) => self.claims.forget(command),
            Order::Inspect(reply) => {
                // The caller may have stopped waiting.
                let _ = reply.send(self.claims.assignments());
            }
            Order::Drain(reply) => self.drains.push(reply),
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Opened(loading, _) | Done::Loaded(loading, _) if !self.is_current(loading) => {}
            Done::Again(loading) | Done::LoadAgain(loading) if !self.is_current(loading) => {}
            Done::Opened(loading, opened) => self.opened(loading.execution, opened),
            Done::Loaded(loading, loaded) => self.loaded(loading, loaded),
            Done::Committed(outcomes) => self.batch_committed(outcomes),
            Done::Claimed(claims, ask, reply) => self.claimed(claims, ask, reply),
            Done::Fetched(fetched, ask, reply) => self.fetched(fetched, ask, reply),
            Done::Decided(execution, id, decision) => self.decided(execution, id, *decision),
            Done::Again(Loading { execution, .. }) => {
                if let Some(slot) = self.slots.remove(&execution) {
                    self.reopen(execution, slot);
                }
            }
            Done::LoadAgain(Loading { execution, .. }) => {
                if let Some(slot) = self.slots.get_mut(&execution) {
                    slot.is_loading = false;
                    self.decide(execution);
                }
            }
        }
    }

    /// Whether the result of a load is still needed: the execution may have been loaded again meanwhile.
    fn is_current(&self, loading: Loading) -> bool {
        let slot = self.slots.get(&loading.execution);
        slot.is_some_and(|slot| slot.load_number == loading.number)
    }

    /// Loads an execution unless it is in memory.
    pub(super) fn open_if_absent(&mut self, execution: ExecutionId) {
        if !self.slots.contains_key(&execution) {
            self.open(execution, VecDeque::new());
        }
    }

    /// Loads an execution; its inputs are queued.
    pub(super) fn open(&mut self, execution: ExecutionId, queue: VecDeque<Waiting>) {
        let mut slot = Slot::new(None, None, Vec::new(), Seq(0));
        slot.queue = queue;
        self.reopen(execution, slot);
    }

    /// Loads an execution again; keeps only its inputs and its unresolved commits.
    pub(super) fn reopen(&mut self, execution: ExecutionId, former: Slot) {
        let mut slot = Slot::new(None, None, Vec::new(), Seq(0));
        let marks = former.queue.iter().flat_map(|waiting| &waiting.doubts);
        let questions = OpenQuestions {
            marks: marks.copied().collect(),
            commits: former.doubts.clone(),
            is_fenced: former.is_fenced,
        };
        slot.queue = former.queue;
        slot.is_loading = true;
        slot.load_number = former.load_number + 1;
        let number = slot.load_number;
        slot.is_fenced = former.is_fenced;
        slot.doubts = former.doubts;
        slot.offers_again = former.offers_again;
        self.slots.insert(execution, slot);
        let shared = self.shared.clone();
        let opening = async move {
            let opened = loading::reopen(&shared, execution, questions).await;
            Done::Opened(Loading { execution, number }, opened)
        };
        self.work.push(Box::pin(opening));
    }

    fn opened(&mut self, execution: ExecutionId, opened: Result<Opening, Error>) {
        let Some(slot) = self.slots.remove(&execution) else {
            return;
        };
        match opened {
            // This process never owned the execution, or it was considered dead and the execution was adopted.
            Ok(Opening::Elsewhere(owner)) => {
                self.claims.forget_execution(execution);
                let queue = accept_submissions(slot.queue);
                refuse_all(queue, || Error::Elsewhere(owner.clone()));
            }
            Ok(Opening::Opened(opened)) => self.reopened(execution, *opened, slot),
            Ok(Opening::Unknown) if slot.is_new() => {
                let mut fresh = Slot::new(None, None, Vec::new(), Seq(0));
                fresh.queue = slot.queue;
                self.slots.insert(execution, fresh);
                self.decide(execution);
            }
            Ok(Opening::Unknown) => refuse_all(slot.queue, || Error::NotFound(execution)),
            Err(error) if error.is_passing() => {
                tracing::warn!(%execution, %error, "failed to load execution; retrying");
                self.slots.insert(execution, slot);
                self.again(execution);
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
    fn reopened(&mut self, execution: ExecutionId, opened: Opened, former: Slot) {
        let live = &opened.state.commands;
        self.claims
            .forget_closed(execution, |seq| live.contains_key(&seq));
        let landed = opened.landed;
        let first = landed.iter().map(|(seq, _)| *seq).min();
        let tail = opened.tail.iter();
        let unseen = tail.filter(|event| first.is_some_and(|first| event.seq >= first));
        let unseen: Vec<_> = unseen.cloned().collect();
        let mut fresh = Slot::new(
            Some(opened.net),
            Some(opened.state),
            opened.tail,
            opened.snapshot_seq,
        );
        let queue = accept_submissions(former.queue);
        fresh.queue = accept_landed(&fresh, queue, &landed);
        let fenced = opened.claims.as_deref();
        let fenced = fenced.map(|claims| fresh.take_fenced(claims));
        self.slots.insert(execution, fresh);
        for waiting in fenced.into_iter().flatten() {
            self.refuse(execution, waiting, engine::Refusal::Fenced);
        }
        if first.is_some() {
            self.catch_up(execution, unseen);
            if let Some(slot) = self.slots.get_mut(&execution) {
                // Continues with what follows from the commit whose response was lost.
                slot.queue.push_front(Waiting::new(Input::GoOn));
            }
        }
        self.decide(execution);
        if former.offers_again {
            // Commands that were being assigned to a worker are found again in the store.
            self.offered();
        }
    }

    /// Loads the execution again after a pause; its inputs stay queued.
    pub(super) fn again(&mut self, execution: ExecutionId) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        slot.is_loading = true;
        slot.load_number += 1;
        let number = slot.load_number;
        self.work.push(Box::pin(async move {
            tokio::time::sleep(RETRY_AFTER).await;
            Done::Again(Loading { execution, number })
        }));
    }

    pub(super) fn line_up(&mut self, execution: ExecutionId, waiting: Waiting) {
        if let Some(slot) = self.slots.get_mut(&execution) {
            slot.line_up(waiting);
            self.decide(execution);
        }
    }

    /// Removes an idle execution whose state in memory is stale; the next use loads it again.
    pub(super) fn forget_stale(&mut self, execution: ExecutionId) {
        if self.slots.get(&execution).is_some_and(Slot::is_idle) {
            self.slots.remove(&execution);
        }
    }

    pub(super) fn load(&mut self, execution: ExecutionId, needs: Vec<Need>) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        slot.is_loading = true;
        let mut loaded = std::mem::take(&mut slot.loaded);
        let needs: Vec<Need> = needs
            .into_iter()
            .filter(|need| !loading::from_recent(|seq| slot.recent(seq), need, &mut loaded))
            .collect();
        if !needs.is_empty() && slot.has_pending_commit() {
            // The data may be in a commit that is not durable yet; when that commit ends, the input is decided again.
            slot.loaded = loaded;
            slot.is_loading = false;
            slot.waits_for_commit = true;
            return;
        }
        let number = slot.load_number;
        let shared = self.shared.clone();
        self.work.push(Box::pin(async move {
            let result = loading::load(&shared, execution, needs, loaded).await;
            Done::Loaded(Loading { execution, number }, result)
        }));
    }

    fn loaded(&mut self, loading: Loading, loaded: Result<model::template::Loaded, Error>) {
        let execution = loading.execution;
        let Some(slot) = self.slots.get_mut(&execution) else {
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
                self.work.push(Box::pin(async move {
                    tokio::time::sleep(RETRY_AFTER).await;
                    Done::LoadAgain(loading)
                }));
            }
        }
    }

    fn answer_drains(&mut self) {
        if !self.drains.is_empty() && self.slots.values().all(Slot::is_idle) {
            for drain in self.drains.drain(..) {
                let _ = drain.send(());
            }
        }
    }
}

/// Replies to inputs whose commits are in the log, and removes them; deciding them again would apply them twice.
fn accept_landed(slot: &Slot, queue: VecDeque<Waiting>, landed: &[Mark]) -> VecDeque<Waiting> {
    let has_landed = |waiting: &Waiting| waiting.doubts.iter().any(|doubt| landed.contains(doubt));
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
        let foreign = waiting.extras.foreign.keys();
        let recorded = foreign.filter_map(|id| Some((*id, slot.place_of(*id)?)));
        let recorded = recorded.collect();
        if let Some(reply) = waiting.reply {
            let _ = reply.send(Ok(Reply {
                verdict,
                next: Vec::new(),
                recorded,
            }));
        }
    }
    rest
}

/// Replies to submissions that are already in the store; the other inputs will be decided on the state just loaded.
fn accept_submissions(queue: VecDeque<Waiting>) -> VecDeque<Waiting> {
    let mut rest = VecDeque::with_capacity(queue.len());
    for mut waiting in queue {
        waiting.is_checked = true;
        if !matches!(waiting.input, Input::Submit(_)) {
            rest.push_back(waiting);
        } else if let Some(reply) = waiting.reply {
            let _ = reply.send(Ok(Reply {
                verdict: Verdict::Proceed,
                next: Vec::new(),
                recorded: Vec::new(),
            }));
        }
    }
    rest
}

fn refuse_all(queue: VecDeque<Waiting>, mut error: impl FnMut() -> Error) {
    for waiting in queue {
        if let Some(reply) = waiting.reply {
            let _ = reply.send(Err(Posted::Failed(error())));
        }
    }
}
