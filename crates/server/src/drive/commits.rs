//! Commits: collects decisions, writes them, and sends the replies once they are durable.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Decision, Input};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Seq, WorkerId};
use model::raw::Raw;
use model::status::RunStatus;
use store::{Commit, Committed, Fence, Message, MessageKey, Priority, Snapshot};
use tokio::time::Instant;
use wire::{Told, Verdict};

use crate::Shared;
use crate::drive::actor::{Done, Drive};
use crate::drive::gathered::{Gathered, Issuing, Offered};
use crate::drive::handle::{Posted, Published, Reply};
use crate::drive::slot::{Decided, Slot, Waiting};
use crate::error::Error;
use crate::loading::{DoubtfulCommit, SNAPSHOT_VERSION};
use crate::snapshot;

/// Number of events between two snapshots of an execution.
const SNAPSHOT_EVERY: u64 = 5_000;

/// Maximum number of batches being written; further decisions are collected for the next batch. There are several, so
/// that one slow batch does not delay everything.
const BATCHES_MAX: usize = 4;

/// Reply channel of the caller of an input.
type Asker = tokio::sync::oneshot::Sender<Result<Reply, Posted>>;

/// A finished commit with the actions that follow from it.
pub(super) struct Outcome {
    result: Result<Committed, Error>,
    rest: Rest,
}

/// Actions after a commit.
struct Rest {
    events: Vec<model::event::Event>,
    stops: Vec<(Seq, Option<WorkerId>)>,
    handed: Vec<(WorkerId, Seq, LeaseEpoch)>,
    offered: Vec<Offered>,
    status: RunStatus,
    has_messages: bool,
    has_timers: bool,
}

impl Drive {
    /// Adds a decision to the next commit of the execution.
    pub(super) fn gather(&mut self, execution: ExecutionId, waiting: Waiting, decision: Decision) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        self.gathering.insert(execution);
        let priority = slot.priority(&waiting);
        slot.remember(&decision);
        let command = match &waiting.input {
            Input::Report(report) => Some(report.command),
            _ => None,
        };
        let mut decided = Decided {
            waiting,
            handed: Vec::new(),
            command,
            recorded: Vec::new(),
        };
        let state = slot.state.as_ref();
        let gathered = slot
            .gathered
            .get_or_insert_with(|| Gathered::new(execution, state));
        gathered.commit.priority = priority;
        if state.is_none() {
            let name = slot.net.as_ref().map(|net| net.playbook.name.clone());
            gathered.commit.creation.name = Some(name.unwrap_or_else(|| "".into()));
            gathered.commit.creation.owner = Some(self.shared.owner.clone());
        }
        let more = decision.more;
        let issuing = Issuing {
            now: self.shared.store.now(),
            net: slot.net.clone(),
        };
        // Holders are looked up before commands are closed, because closing removes them.
        let stops = decision.stops.into_iter();
        let stops = stops.map(|(seq, _)| (seq, self.claims.holder(CommandId { execution, seq })));
        gathered.stops.extend(stops);
        for change in decision.commands {
            let change = gathered.command(&mut self.claims, &mut decided, change, &issuing);
            gathered.commit.commands.push(change);
        }
        gathered.key_foreign(&mut decided, &decision.events);
        gathered.commit.events.extend(decision.events);
        let consumed = decided.waiting.extras.consumed;
        gathered.commit.consumed.extend(consumed);
        gathered.commit.timers.extend(decision.timers);
        let messages = decision.messages.iter();
        let messages = messages.map(|message| out(execution, message));
        gathered.commit.messages.extend(messages);
        let keys = decision.keys.into_iter().map(key);
        gathered.commit.keys.extend(keys);
        let fence = |(command, lease_epoch)| Fence {
            command,
            lease_epoch,
        };
        let fences = decision.fences.into_iter().map(fence);
        gathered.commit.fences.extend(fences);
        gathered.bodies.extend(decision.bodies);
        gathered.decided.push(decided);
        gathered.status = decision.state.status();
        slot.state = Some(decision.state);
        slot.snapshot_if_due();
        if more {
            // The continuation waits until this part is durable, so that other executions and inputs get their turn.
            slot.continue_later();
            slot.waits_for_commit = true;
        }
    }

    /// Adds the assignment of an offered command to a waiting worker.
    pub(super) fn gather_hand(&mut self, command: CommandId, worker: WorkerId) {
        let execution = command.execution;
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        self.gathering.insert(execution);
        let state = slot.state.as_ref();
        let gathered = slot
            .gathered
            .get_or_insert_with(|| Gathered::new(execution, state));
        let (seq, lease_epoch) = (command.seq, LeaseEpoch(1));
        gathered.handed.push((worker.clone(), seq, lease_epoch));
        gathered.commit.commands.push(store::CommandChange::Hand {
            seq,
            worker,
            lease_epoch,
        });
    }

    /// Consumes the message of a refused input.
    pub(super) fn gather_consumed(&mut self, execution: ExecutionId, waiting: &Waiting) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        self.gathering.insert(execution);
        let state = slot.state.as_ref();
        let gathered = slot
            .gathered
            .get_or_insert_with(|| Gathered::new(execution, state));
        gathered.commit.consumed.extend(waiting.extras.consumed);
    }

    /// Passes the collected decisions to the store in one batch, with at most one commit per execution in progress.
    pub(super) fn flush(&mut self) {
        if self.batches >= BATCHES_MAX {
            // `batch_committed` leads to the next flush.
            return;
        }
        let mut batch = Vec::new();
        for execution in std::mem::take(&mut self.gathering) {
            let Some(slot) = self.slots.get_mut(&execution) else {
                continue;
            };
            if slot.under_way.is_some() {
                // The end of the commit in progress leads to the next flush.
                continue;
            }
            let Some(gathered) = slot.gathered.take() else {
                continue;
            };
            let Gathered {
                commit,
                bodies,
                decided,
                stops,
                handed,
                offered,
                status,
            } = gathered;
            slot.under_way = Some(decided);
            let rest = Rest {
                events: commit.events.clone(),
                stops,
                handed,
                offered,
                status,
                has_messages: !commit.messages.is_empty(),
                has_timers: !commit.timers.is_empty(),
            };
            batch.push((commit, bodies, rest));
        }
        if !batch.is_empty() {
            self.batches += 1;
            let shared = self.shared.clone();
            self.work.push(Box::pin(async move {
                Done::Committed(write(&shared, batch).await)
            }));
        }
    }

    /// Handles the results of a batch.
    pub(super) fn batch_committed(&mut self, outcomes: Vec<(ExecutionId, Outcome)>) {
        self.batches -= 1;
        for (execution, outcome) in outcomes {
            self.committed(execution, outcome);
            self.gathering.insert(execution);
        }
    }

    fn committed(&mut self, execution: ExecutionId, outcome: Outcome) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            // A slot with a commit in progress is never removed. If it were, its assignments must not leak.
            for (_, seq, _) in outcome.rest.handed {
                self.unassign(CommandId { execution, seq });
            }
            return;
        };
        let decided = slot.under_way.take().unwrap_or_default();
        count(&outcome);
        match outcome.result {
            Ok(Committed::Done) => self.announce(execution, decided, outcome.rest),
            Ok(Committed::Fenced) => {
                slot.is_fenced = true;
                self.put_back(execution, decided, &outcome.rest, NotDone::Again);
            }
            Ok(Committed::Moved { .. }) => {
                self.put_back(execution, decided, &outcome.rest, NotDone::Again);
            }
            Err(error) if error.refused_write().is_some() => {
                tracing::debug!(%execution, %error, "commit was not written");
                let unwritten = NotDone::Unwritten(error);
                self.put_back(execution, decided, &outcome.rest, unwritten);
            }
            Err(error) if error.is_passing() => {
                tracing::warn!(%execution, %error, "commit outcome unknown; retrying");
                let first = outcome.rest.events.first();
                let first = first.map(|event| (event.seq, event.event_id));
                let mut decided = decided;
                let handed = outcome.rest.handed.iter();
                let mut claims: Vec<_> = handed.map(|(_, seq, epoch)| (*seq, *epoch)).collect();
                for entry in &mut decided {
                    entry.waiting.doubts.extend(first);
                    claims.extend(&entry.handed);
                }
                slot.doubts.push(DoubtfulCommit { first, claims });
                self.put_back(execution, decided, &outcome.rest, NotDone::Again);
            }
            Err(error) => {
                tracing::error!(%execution, %error, "commit was rejected");
                let refused = NotDone::Refused(error);
                self.put_back(execution, decided, &outcome.rest, refused);
            }
        }
    }

    /// Handles a failed commit: its inputs are queued again on reloaded state, or get the error as their reply.
    fn put_back(
        &mut self,
        execution: ExecutionId,
        decided: Vec<Decided>,
        rest: &Rest,
        why: NotDone,
    ) {
        let Some(slot) = self.slots.get_mut(&execution) else {
            return;
        };
        let mut assigned: Vec<Seq> = rest.handed.iter().map(|(_, seq, _)| *seq).collect();
        self.claims.hold_again(execution, &rest.stops);
        let gathered = slot.gathered.take();
        let gathered = gathered.map_or_else(Vec::new, |gathered| {
            assigned.extend(gathered.handed.iter().map(|(_, seq, _)| *seq));
            self.claims.hold_again(execution, &gathered.stops);
            gathered.decided
        });
        let mut queue: VecDeque<Waiting> = VecDeque::new();
        let mut why = why;
        for entry in decided.into_iter().chain(gathered) {
            assigned.extend(entry.handed.iter().map(|(seq, _)| *seq));
            queue.extend(why.answer(entry.waiting));
        }
        queue.append(&mut slot.queue);
        slot.queue = queue;
        if matches!(why, NotDone::Unwritten(_)) {
            slot.put_control_first();
        }
        // Until the execution is loaded again, nothing may be decided, assigned or built from the state in memory.
        slot.state = None;
        slot.offers_again = true;
        slot.waits_for_commit = false;
        slot.deciding = None;
        for seq in assigned {
            self.unassign(CommandId { execution, seq });
        }
        self.again(execution);
    }

    /// Handles a durable commit: sends replies, notifications and stream updates.
    fn announce(&mut self, execution: ExecutionId, decided: Vec<Decided>, rest: Rest) {
        for (_, seq, epoch) in rest.handed {
            self.hand(CommandId { execution, seq }, epoch);
        }
        let answers = self.answers(execution, decided);
        if let Some(slot) = self.slots.get_mut(&execution) {
            slot.waits_for_commit = false;
        }
        self.decide(execution);
        self.hint(&rest.offered);
        for Offered { pool, kinds, seq } in rest.offered {
            self.offer(&pool, kinds, CommandId { execution, seq });
        }
        self.tell_stops(execution, &rest.stops);
        if rest.has_messages {
            self.shared.sweeps.messages.notify_one();
        }
        if rest.has_timers {
            self.shared.sweeps.timers.notify_one();
        }
        self.publish(execution, rest.events, rest.status);
        let ended = self.slots.get(&execution).is_some_and(|slot| {
            slot.is_idle() && slot.state.as_ref().is_some_and(engine::State::is_ended)
        });
        if ended {
            self.slots.remove(&execution);
        }
        // Replies go out last because the runtime runs the task woken last first, and only workers block on their
        // reply.
        for (reply, answer) in answers {
            if let Err(Ok(unheard)) = reply.send(Ok(answer)) {
                // The caller no longer waits: the commands assigned in the reply are offered again.
                for claimed in unheard.next {
                    self.give_back(claimed.command.id, claimed.lease_epoch);
                }
            }
        }
    }

    /// Builds the replies to the inputs of a commit.
    fn answers(&mut self, execution: ExecutionId, decided: Vec<Decided>) -> Vec<(Asker, Reply)> {
        let mut answers = Vec::with_capacity(decided.len());
        for entry in decided {
            let handed = entry.handed.iter();
            let next = handed.filter_map(|(seq, epoch)| self.build(execution, *seq, *epoch));
            let next = next.collect();
            let verdict = match (entry.command, self.slots.get(&execution)) {
                (Some(command), Some(slot)) => slot.verdict(command),
                _ => Verdict::Proceed,
            };
            let recorded = entry.recorded;
            answers.extend(entry.waiting.reply.map(|reply| {
                let answer = Reply {
                    verdict,
                    next,
                    recorded,
                };
                (reply, answer)
            }));
        }
        answers
    }

    /// Notifies the bus, if there is one, of unassigned commands and of events to publish.
    fn hint(&self, offered: &[Offered]) {
        let Some(bus) = &self.shared.bus else { return };
        self.shared.sweeps.outbox.notify_one();
        for offered in offered {
            let (bus, pool) = (bus.clone(), offered.pool.clone());
            tokio::spawn(async move { bus.offer(&pool).await });
        }
    }

    /// Handles a commit that happened although its response was lost: repeats its notifications from the loaded state.
    pub(super) fn catch_up(&mut self, execution: ExecutionId, unseen: Vec<model::event::Event>) {
        let slot = self.slots.get(&execution);
        let state = slot.and_then(|slot| slot.state.as_ref());
        let stopping = state.filter(|state| state.stop.is_some());
        let held = stopping.into_iter().flat_map(|state| state.commands.iter());
        let held = held.filter(|(_, live)| live.claimed.is_some());
        let held: Vec<_> = held.map(|(seq, _)| *seq).collect();
        let held: Vec<_> = held
            .into_iter()
            .map(|seq| (seq, self.claims.holder(CommandId { execution, seq })))
            .collect();
        let status = state.map_or(RunStatus::Running, engine::State::status);
        self.tell_stops(execution, &held);
        self.shared.sweeps.messages.notify_one();
        self.shared.sweeps.timers.notify_one();
        self.publish(execution, unseen, status);
        self.offered();
    }

    fn publish(
        &mut self,
        execution: ExecutionId,
        events: Vec<model::event::Event>,
        status: RunStatus,
    ) {
        if events
            .iter()
            .any(|event| matches!(event.body, model::event::Body::PlaybookResumed(_)))
        {
            self.offered();
        }
        let Some(slot) = self.slots.get(&execution) else {
            return;
        };
        if events
            .iter()
            .any(|event| matches!(event.body, model::event::Body::PlaybookPaused(_)))
        {
            let live = slot.commands(execution);
            for command in live {
                self.claims.tell(Told {
                    command,
                    verdict: Verdict::Yield,
                });
            }
        }
        // There may be no subscribers.
        let _ = self.shared.published.send(Arc::new(Published {
            execution,
            events,
            status,
        }));
        if status.is_terminal() {
            let _ = self.shared.ended.send(execution);
        }
    }

    /// Sends a stop notice to the holders of these commands; commands without a holder are withdrawn at once.
    fn tell_stops(&mut self, execution: ExecutionId, stops: &[(Seq, Option<WorkerId>)]) {
        for (seq, holder) in stops {
            let command = CommandId {
                execution,
                seq: *seq,
            };
            match holder {
                Some(worker) => self.claims.tell_worker(
                    worker,
                    Told {
                        command,
                        verdict: Verdict::Stop,
                    },
                ),
                None => self.line_up(execution, Waiting::new(Input::Unclaimed(*seq))),
            }
        }
    }
}

/// Why a commit failed; this decides what happens to its inputs.
enum NotDone {
    /// All inputs are decided again.
    Again,
    /// The first input gets the error as its reply; the others are decided again without it.
    Refused(Error),
    /// The store currently accepts no writes: callers get the error at once, and inputs without a caller are decided
    /// again.
    Unwritten(Error),
}

impl NotDone {
    /// Sends the error to the caller of an input, or returns the input to be decided again.
    fn answer(&mut self, waiting: Waiting) -> Option<Waiting> {
        let error = match self {
            Self::Again => return Some(waiting),
            Self::Refused(_) => match std::mem::replace(self, Self::Again) {
                Self::Refused(error) => error,
                _ => return Some(waiting),
            },
            // An earlier commit of the input may have happened, so an error could be wrong.
            Self::Unwritten(_) if !waiting.doubts.is_empty() => return Some(waiting),
            // The work that the log leaves undone must continue, whether or not a caller waits.
            Self::Unwritten(_) if matches!(waiting.input, Input::GoOn) => return Some(waiting),
            Self::Unwritten(_) if waiting.reply.is_none() => return Some(waiting),
            Self::Unwritten(error) => match error.refused_write() {
                Some(error) => error,
                None => return Some(waiting),
            },
        };
        if let Some(reply) = waiting.reply {
            // The caller may have stopped waiting.
            let _ = reply.send(Err(Posted::Failed(error)));
        }
        None
    }
}

/// Counts the result of a commit in the metrics.
fn count(outcome: &Outcome) {
    use crate::metrics::{COMMITS, EVENTS, FENCED, MOVED, STORE_FAILURES};
    let name = match &outcome.result {
        Ok(Committed::Done) => {
            metrics::counter!(EVENTS).increment(outcome.rest.events.len() as u64);
            COMMITS
        }
        Ok(Committed::Moved { .. }) => MOVED,
        Ok(Committed::Fenced) => FENCED,
        Err(_) => STORE_FAILURES,
    };
    metrics::counter!(name).increment(1);
}

impl Slot {
    /// Adds a snapshot if one is due, except to commits that use the reserved space.
    fn snapshot_if_due(&mut self) {
        let (Some(state), Some(gathered)) = (&self.state, &mut self.gathered) else {
            return;
        };
        let is_due = state.seq.0 >= self.snapshot_seq.0 + SNAPSHOT_EVERY;
        if !is_due || gathered.commit.priority == Priority::Control {
            return;
        }
        if let Some(bytes) = snapshot::write(state) {
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

/// A commit, the bodies it refers to, and the actions that follow it.
type Pending = (Commit, Vec<engine::BodyToKeep>, Rest);

/// Stores the bodies first, then the events that refer to them.
async fn write(shared: &Shared, batch: Vec<Pending>) -> Vec<(ExecutionId, Outcome)> {
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut commits = Vec::with_capacity(batch.len());
    let mut rests = Vec::with_capacity(batch.len());
    for (commit, bodies, rest) in batch {
        match keep_bodies(shared, bodies).await {
            Ok(()) => {
                rests.push((commit.execution, rest));
                commits.push(commit);
            }
            Err(error) => {
                let result = Err(error);
                outcomes.push((commit.execution, Outcome { result, rest }));
            }
        }
    }
    let begun = Instant::now();
    let committed = shared.store.commit_all(commits).await;
    metrics::histogram!(crate::metrics::COMMIT_SECONDS).record(begun.elapsed().as_secs_f64());
    for ((execution, rest), result) in rests.into_iter().zip(committed) {
        let result = result.map_err(Error::from);
        outcomes.push((execution, Outcome { result, rest }));
    }
    outcomes
}

async fn keep_bodies(shared: &Shared, bodies: Vec<engine::BodyToKeep>) -> Result<(), Error> {
    for body in bodies {
        let bytes = Vec::from(body.text.text()).into();
        shared.bodies.put(::results::Source::Bytes(bytes)).await?;
    }
    Ok(())
}

fn key(key: engine::Key) -> store::Key {
    match key {
        engine::Key::Terminal { generation } => store::Key::Terminal { generation },
        engine::Key::Boundary { run, generation } => store::Key::Boundary { run, generation },
    }
}

fn out(from: ExecutionId, message: &engine::OutMessage) -> Message {
    Message {
        key: MessageKey {
            from,
            seq: message.seq,
            n: message.n,
        },
        to: message.to,
        body: Raw::of(&message.body),
    }
}
