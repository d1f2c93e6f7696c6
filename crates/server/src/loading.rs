//! Loading: computes an execution's state from its log, and reads the data that a decision needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Net, State};
use model::event::{Body, Event, LoopStats, Reused, ReusedItems, ReusedPart};
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Seq};
use model::manifest::outcome_of;
use model::template::{Data, Loaded, LoopPointer, Need, Unavailable};
use serde_json::{Value, json};
use store::Store;

use crate::Shared;
use crate::error::Error;
use crate::reading::{Found, PARTS_AT_ONCE, Parts};

/// Format version of snapshots. Snapshots of another version are ignored and the log is replayed instead.
pub const SNAPSHOT_VERSION: u32 = 1;

/// An execution with its state, computed from the log.
pub(crate) struct Opened {
    pub(crate) net: Arc<Net>,
    pub(crate) state: State,
    pub(crate) tail: Vec<Event>,
    pub(crate) snapshot_seq: Seq,
    /// Current claims, if they were requested.
    pub(crate) claims: Option<Vec<(Seq, LeaseEpoch)>>,
    /// The events of `OpenQuestions` that are in the log.
    pub(crate) landed: Vec<Mark>,
}

/// Result of loading an execution.
pub(crate) enum Opening {
    /// The execution does not exist.
    Unknown,
    /// Another process owns it; nothing was loaded.
    Elsewhere(store::OwnerId),
    /// It was loaded.
    Opened(Box<Opened>),
}

/// Seq and ID of an event, which together identify it.
pub(crate) type Mark = (Seq, EventId);

/// A commit whose outcome is unknown.
#[derive(Debug, Clone)]
pub(crate) struct DoubtfulCommit {
    /// Its first event; `None` if it has no events.
    pub(crate) first: Option<Mark>,
    /// Claims in the commit. The workers never received them.
    pub(crate) claims: Vec<(Seq, LeaseEpoch)>,
}

/// What must be determined when an execution is loaded again.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    /// Events of inputs whose outcome is unknown.
    pub(crate) marks: Vec<Mark>,
    /// Commits whose outcome is unknown.
    pub(crate) commits: Vec<DoubtfulCommit>,
    /// Whether to return the current claims.
    pub(crate) is_fenced: bool,
}

/// Computes the current state of an execution.
pub(crate) async fn state(
    store: &dyn Store,
    execution: ExecutionId,
) -> Result<Option<State>, Error> {
    let folded = fold(store, execution).await?;
    Ok(folded.map(|folded| folded.state))
}

/// State computed from a log.
struct Folded {
    state: State,
    tail: Vec<Event>,
    snapshot_seq: Seq,
}

/// Replays an execution's log from its newest snapshot.
async fn fold(store: &dyn Store, execution: ExecutionId) -> Result<Option<Folded>, Error> {
    let Some(recorded) = store.load(execution, SNAPSHOT_VERSION).await? else {
        return Ok(None);
    };
    let snapshot = recorded.snapshot.as_ref();
    let snapshot_seq = snapshot.map_or(Seq(0), |snapshot| snapshot.seq);
    let state = snapshot.and_then(|snapshot| {
        let read = crate::snapshot::read::<State>(&snapshot.bytes);
        read.inspect_err(
            |error| tracing::warn!(%execution, %error, "failed to read snapshot; replaying the whole log"),
        )
        .ok()
    });
    let (state, tail) = match (state, snapshot.is_some()) {
        (None, true) => (None, store.events(execution, Seq(0), usize::MAX).await?),
        (state, _) => (state, recorded.tail),
    };
    let state = tail.iter().fold(state, engine::fold);
    Ok(Some(Folded {
        state: state.ok_or(Error::BrokenLog(execution))?,
        tail,
        snapshot_seq,
    }))
}

/// Loads an execution into memory.
pub(crate) async fn open(
    shared: &Shared,
    execution: ExecutionId,
) -> Result<Option<Box<Opened>>, Error> {
    let Some(folded) = fold(&*shared.store, execution).await? else {
        return Ok(None);
    };
    let net = shared.playbooks.net(&folded.state.hash).await?;
    Ok(Some(Box::new(Opened {
        net,
        state: folded.state,
        tail: folded.tail,
        snapshot_seq: folded.snapshot_seq,
        claims: None,
        landed: Vec::new(),
    })))
}

/// Replays an execution's log and answers the open questions.
pub(crate) async fn reopen(
    shared: &Shared,
    execution: ExecutionId,
    questions: OpenQuestions,
) -> Result<Opening, Error> {
    let OpenQuestions {
        mut marks,
        commits,
        is_fenced,
    } = questions;
    // The owner is in one small row, whereas the log may be long.
    let Some(row) = shared.store.execution(execution).await? else {
        return Ok(Opening::Unknown);
    };
    if let Some(owner) = row.owner.filter(|owner| *owner != shared.owner) {
        return Ok(Opening::Elsewhere(owner));
    }
    let Some(mut opened) = open(shared, execution).await? else {
        return Ok(Opening::Unknown);
    };
    marks.extend(commits.iter().filter_map(|commit| commit.first));
    if !marks.is_empty() {
        let seqs: Vec<Seq> = marks.iter().map(|(seq, _)| *seq).collect();
        let found = shared.store.events_at(execution, &seqs).await?;
        let found = found.iter().map(|event| (event.seq, event.event_id));
        opened.landed = found.filter(|mark| marks.contains(mark)).collect();
    }
    for commit in commits {
        let has_happened = |first: Mark| opened.landed.contains(&first);
        if commit.first.is_none_or(has_happened) {
            release_unheard(shared, execution, &commit.claims).await?;
        }
    }
    if is_fenced {
        let commands = shared.store.open_commands(execution).await?;
        let claims = commands.iter();
        let claims = claims.map(|open| (open.command.id.seq, open.lease_epoch));
        opened.claims = Some(claims.collect());
    }
    Ok(Opening::Opened(opened))
}

/// Releases commands whose claims never reached their workers.
async fn release_unheard(
    shared: &Shared,
    execution: ExecutionId,
    claims: &[(Seq, LeaseEpoch)],
) -> Result<(), Error> {
    for (seq, lease_epoch) in claims {
        let command = CommandId {
            execution,
            seq: *seq,
        };
        shared.store.release(command, *lease_epoch).await?;
    }
    Ok(())
}

/// Loads the data that a decision needs.
pub(crate) async fn load(
    shared: &Shared,
    execution: ExecutionId,
    needs: Vec<Need>,
    mut loaded: Loaded,
) -> Result<Loaded, Error> {
    let outcomes: Vec<Seq> = needs
        .iter()
        .filter_map(|need| match need {
            Need::Outcome(seq) => Some(*seq),
            _ => None,
        })
        .collect();
    if !outcomes.is_empty() {
        for event in events_at(&*shared.store, execution, &outcomes).await? {
            if let Some(outcome) = outcome_of(&event) {
                loaded.outcomes.insert(event.seq, Arc::new(outcome));
            }
        }
    }
    for need in needs {
        match need {
            // Outcomes were loaded together above. The engine requests no files; only workers do.
            Need::Outcome(_) | Need::File(_) => {}
            Need::Body(reference) => {
                let uri = reference.uri.clone();
                let found = Found::behind((*reference).clone());
                match shared.reader().value(found).await {
                    Ok(value) => {
                        loaded.bodies.insert(uri, Data::new(value));
                    }
                    Err(error @ Error::TooLarge(..)) => {
                        let (code, message) = ("BODY_TOO_LARGE", error.to_string());
                        loaded
                            .unavailable
                            .insert(uri, Unavailable { code, message });
                    }
                    Err(Error::Body(error)) if error.is_missing() => {
                        let (code, message) = (error.code(), error.told_of(&reference));
                        loaded
                            .unavailable
                            .insert(uri, Unavailable { code, message });
                    }
                    Err(error) => return Err(error),
                }
            }
            Need::Loop(pointer) => {
                let value = loop_results(shared, execution, &pointer).await?;
                loaded.loops.insert(pointer.done, Data::new(value));
            }
            Need::LoopStats(pointer) => {
                let stats = loop_stats(&*shared.store, execution, &pointer).await?;
                loaded.loop_stats.insert(pointer.done, stats);
            }
        }
    }
    Ok(loaded)
}

/// Takes an outcome from recent events, which may not be durable yet.
pub(crate) fn from_recent<'e>(
    recent: impl Fn(Seq) -> Option<&'e Event>,
    need: &Need,
    loaded: &mut Loaded,
) -> bool {
    let Need::Outcome(seq) = need else {
        return false;
    };
    let Some(outcome) = recent(*seq).and_then(outcome_of) else {
        return false;
    };
    loaded.outcomes.insert(*seq, Arc::new(outcome));
    true
}

/// Reads the events with these seqs. If an event refers to a reused task, it is replaced with the original event of
/// the other execution, under its own seq.
pub(crate) async fn events_at(
    store: &dyn Store,
    execution: ExecutionId,
    seqs: &[Seq],
) -> Result<Vec<Event>, Error> {
    let mut events = store.events_at(execution, seqs).await?;
    let mut elsewhere: BTreeMap<ExecutionId, Vec<(Seq, usize)>> = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        if let Body::StepReused(reused) = &event.body
            && matches!(reused.part, ReusedPart::Task { .. })
        {
            let wanted = elsewhere.entry(reused.execution_id).or_default();
            wanted.push((reused.seq, place));
        }
    }
    for (other, wanted) in elsewhere {
        let seqs: Vec<Seq> = wanted.iter().map(|(seq, _)| *seq).collect();
        let found = store.events_at(other, &seqs).await?;
        for (seq, place) in wanted {
            if let Some(source) = found.iter().find(|event| event.seq == seq) {
                let own = events[place].seq;
                events[place] = Event {
                    seq: own,
                    ..source.clone()
                };
            }
        }
    }
    Ok(events)
}

/// Locates a loop's results: the results of a reused loop are in the log of another execution.
pub(crate) async fn loop_source(
    store: &dyn Store,
    execution: ExecutionId,
    pointer: &LoopPointer,
) -> Result<(ExecutionId, LoopPointer), Error> {
    let events = store.events_at(execution, &[pointer.done]).await?;
    let taken = events.into_iter().find_map(|event| match event.body {
        Body::StepReused(reused) => Some(*reused),
        _ => None,
    });
    Ok(match taken {
        Some(Reused {
            execution_id,
            part: ReusedPart::Step(ended),
            ..
        }) => (execution_id, ended.loop_.unwrap_or_else(|| pointer.clone())),
        _ => (execution, pointer.clone()),
    })
}

/// Reads how many iterations of a loop succeeded and failed.
async fn loop_stats(
    store: &dyn Store,
    execution: ExecutionId,
    pointer: &LoopPointer,
) -> Result<LoopStats, Error> {
    let (execution, pointer) = loop_source(store, execution, pointer).await?;
    let events = store.events_at(execution, &[pointer.done]).await?;
    let stats = events.iter().find_map(|event| match &event.body {
        Body::LoopDone(done) => Some(done.stats),
        _ => None,
    });
    Ok(stats.unwrap_or_default())
}

/// Returns a loop's results in index order as `{results: […], stats: {…}}`: inline from `loop.done`, or otherwise read
/// from the log.
pub(crate) async fn loop_results(
    shared: &Shared,
    execution: ExecutionId,
    pointer: &LoopPointer,
) -> Result<Value, Error> {
    let (execution, pointer) = loop_source(&*shared.store, execution, pointer).await?;
    let mut stats = Value::Null;
    for event in shared.store.events_at(execution, &[pointer.done]).await? {
        if let Body::LoopDone(done) = event.body {
            stats = serde_json::to_value(done.stats).unwrap_or_default();
            if let Some(results) = &done.results {
                return Ok(json!({"results": results.value(), "stats": stats}));
            }
        }
    }
    let ends = (pointer.started, pointer.done);
    let parts = Parts::of_loop(&*shared.store, execution, ends).await?;
    let mut results = Vec::with_capacity(parts.len());
    while results.len() < parts.len() {
        let events = parts.events(&*shared.store, results.len(), PARTS_AT_ONCE);
        for event in events.await? {
            let outcome = event.as_deref().and_then(outcome_of);
            results.push(outcome.map_or(Value::Null, |outcome| outcome.shown()));
        }
    }
    Ok(json!({"results": results, "stats": stats}))
}

/// Returns the iterations that a loop reuses, according to the `step.reused` event at `reused`.
pub(crate) async fn items_elsewhere(
    store: &dyn Store,
    execution: ExecutionId,
    reused: Option<Seq>,
) -> Result<Vec<ReusedItems>, Error> {
    let Some(seq) = reused else {
        return Ok(Vec::new());
    };
    let events = store.events_at(execution, &[seq]).await?;
    let items = events.into_iter().find_map(|event| match event.body {
        Body::StepReused(reused) => match reused.part {
            ReusedPart::Iterations(iterations) => Some(iterations.items),
            _ => None,
        },
        _ => None,
    });
    Ok(items.unwrap_or_default())
}
