//! The drive's loop: orders in, decisions made, commits under way, answers out.

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

/// How long the drive waits before it tries again what the store or the disk refused.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// So many orders are taken before what they led to is committed together.
const ORDERS_AT_ONCE: usize = 256;

pub(super) struct Drive {
    pub(super) shared: Arc<Shared>,
    pub(super) slots: HashMap<ExecutionId, Slot>,
    pub(super) claims: Claims,
    pub(super) work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Executions with decisions that are not handed to the store yet.
    pub(super) gathering: BTreeSet<ExecutionId>,
    /// Batches that the store is writing.
    pub(super) batches: usize,
    /// Counts the decisions made on threads of their own.
    pub(super) decisions: u64,
    drains: Vec<oneshot::Sender<()>>,
}

/// Something the drive was waiting for.
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

/// What is loaded for an execution, as long as its slot has this number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loading {
    execution: ExecutionId,
    number: u64,
}

/// Runs until every handle is gone or the server stops.
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
    // One that never ends: when all have been polled and none is done, they wake their task to be polled again, and what
    // waits alone would be polled twice, the second time often by another thread.
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
                // Another request may have begun the same execution: what is here is never thrown away.
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
                // Nobody waits for it any more: the claims lapse with the asker's session.
                let _ = reply.send(self.build_for(&worker, &commands));
            }
            Order::HeldElsewhere { worker, reply } => {
                let mut held = self.claims.held_elsewhere(&worker);
                held.retain(|command| !self.slots.contains_key(&command.execution));
                // Nobody waits for it any more: nothing to do.
                let _ = reply.send(held);
            }
            Order::Taken { worker, commands } => self.claims.take_elsewhere(&worker, commands),
            Order::Forget(command) => self.claims.forget(command),
            Order::Inspect(reply) => {
                // Whoever asked may have gone; nothing depends on the answer.
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

    /// Whether what was loaded is still wanted: the execution may have been loaded anew meanwhile.
    fn is_current(&self, loading: Loading) -> bool {
        let slot = self.slots.get(&loading.execution);
        slot.is_some_and(|slot| slot.load_number == loading.number)
    }

    /// Brings an execution into memory unless it is there.
    pub(super) fn open_if_absent(&mut self, execution: ExecutionId) {
        if !self.slots.contains_key(&execution) {
            self.open(execution, VecDeque::new());
        }
    }

    /// Brings an execution into memory; its inputs wait.
    pub(super) fn open(&mut self, execution: ExecutionId, queue: VecDeque<Waiting>) {
        let mut slot = Slot::new(None, None, Vec::new(), Seq(0));
        slot.queue = queue;
        self.reopen(execution, slot);
    }

    /// Loads an execution anew; of what is in memory only its inputs and what is open about it are kept.
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
            // This process never drove it, or was taken for dead and has lost it.
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
                tracing::warn!(%execution, %error, "cannot load an execution; trying again");
                self.slots.insert(execution, slot);
                self.again(execution);
            }
            Err(error) => {
                tracing::error!(%execution, %error, "cannot load an execution");
                let mut error = Some(error);
                refuse_all(slot.queue, || {
                    error.take().unwrap_or(Error::NotFound(execution))
                });
            }
        }
    }

    /// An execution is in memory; what turns out to be in its log already is answered, the rest is decided.
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
                // What was to follow from the commit whose answer was lost.
                slot.queue.push_front(Waiting::new(Input::GoOn));
            }
        }
        self.decide(execution);
        if former.offers_again {
            // Commands that were on their way to a worker are found again through the store.
            self.offered();
        }
    }

    /// Loads the execution again after a while, its inputs still in line.
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

    /// Forgets an execution that lacks what the store has: it is loaded anew when it is asked for again.
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
        if !needs.is_empty() && (slot.under_way.is_some() || slot.gathered.is_some()) {
            // What is needed may be in a commit that is not durable yet; the end of that commit asks again.
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
                tracing::warn!(%execution, %error, "cannot load what a decision needs; trying again");
                // The state stays, for a commit may be under way; the decision names its needs anew.
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

/// An input whose commit turns out to have happened has succeeded; to decide it again would be to do it twice.
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

/// A submission that turns out to be in the store already has succeeded; the rest meets a state loaded just now.
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
