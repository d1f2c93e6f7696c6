//! Loading: computes an execution's state from its log, and reads the data that a decision needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{ExecutionState, PlaybookNet};
use language::template::{LazyValue, LoadedValues, Need, UnavailableBody};
use model::command::Fence;
use model::event::{Event, EventBody, LoopStats, ReusedIterationSet, ReusedPart, ReusedRecord};
use model::id::{EventId, ExecutionId, Seq};
use model::manifest::outcome_from_event;
use model::step_pointer::LoopPointer;
use serde_json::{Value, json};
use store::Store;

use crate::ServerShared;
use crate::error::Error;
use crate::result_reader::{LocatedResult, PARTS_AT_ONCE, PartIndex};

/// Format version of snapshots. Snapshots of another version are ignored and the log is replayed instead.
pub const SNAPSHOT_VERSION: u32 = 1;

/// An execution with its state, computed from the log.
pub(crate) struct FoldedExecution {
    pub(crate) net: Arc<PlaybookNet>,
    pub(crate) state: ExecutionState,
    pub(crate) recent_events: Vec<Event>,
    pub(crate) snapshot_seq: Seq,
    /// Current claims, if they were requested.
    pub(crate) claims: Option<Vec<Fence>>,
    /// The events of `ReloadChecks` that are in the log.
    pub(crate) confirmed: Vec<EventPosition>,
}

/// Result of loading an execution.
pub(crate) enum LoadResult {
    /// The execution does not exist.
    NotFound,
    /// Another process owns it; nothing was loaded.
    OwnedBy(store::OwnerId),
    /// It was loaded.
    Loaded(Box<FoldedExecution>),
}

/// Seq and ID of an event, which together identify it.
pub(crate) type EventPosition = (Seq, EventId);

/// A commit whose outcome is unknown.
#[derive(Debug, Clone)]
pub(crate) struct UnconfirmedCommit {
    /// Its first event; `None` if it has no events.
    pub(crate) first: Option<EventPosition>,
    /// Claims in the commit. The workers never received them.
    pub(crate) claims: Vec<Fence>,
}

/// What must be determined when an execution is loaded again.
#[derive(Debug, Default)]
pub(crate) struct ReloadChecks {
    /// Events of inputs whose outcome is unknown.
    pub(crate) positions: Vec<EventPosition>,
    /// Commits whose outcome is unknown.
    pub(crate) commits: Vec<UnconfirmedCommit>,
    /// Whether to return the current claims.
    pub(crate) needs_claims: bool,
}

/// Computes the current state of an execution.
pub(crate) async fn load_state(store: &dyn Store, execution: ExecutionId) -> Result<Option<ExecutionState>, Error> {
    let folded = fold_log(store, execution).await?;
    Ok(folded.map(|folded| folded.state))
}

/// Computes the current state of an execution from its newest snapshot; `None` if it has no snapshot.
pub(crate) async fn load_snapshot_state(
    store: &dyn Store,
    execution: ExecutionId,
) -> Result<Option<ExecutionState>, Error> {
    let folded = fold_log(store, execution).await?;
    Ok(folded
        .filter(|folded| folded.snapshot_seq > Seq(0))
        .map(|folded| folded.state))
}

/// State computed from a log.
struct FoldedLog {
    state: ExecutionState,
    recent_events: Vec<Event>,
    snapshot_seq: Seq,
}

/// Replays an execution's log from its newest snapshot.
async fn fold_log(store: &dyn Store, execution: ExecutionId) -> Result<Option<FoldedLog>, Error> {
    let Some(recorded) = store.load(execution, SNAPSHOT_VERSION).await? else {
        return Ok(None);
    };
    let snapshot = recorded.snapshot.as_ref();
    let snapshot_seq = snapshot.map_or(Seq(0), |snapshot| snapshot.seq);
    let state = snapshot.and_then(|snapshot| {
        let read = crate::snapshot::decode_snapshot::<ExecutionState>(&snapshot.bytes);
        read.inspect_err(|error| tracing::warn!(%execution, %error, "failed to read snapshot; replaying the whole log"))
            .ok()
    });
    let (state, tail) = match (state, snapshot.is_some()) {
        (None, true) => (None, store.events(execution, Seq(0), usize::MAX).await?),
        (state, _) => (state, recorded.tail),
    };
    let state = tail.iter().fold(state, engine::fold);
    Ok(Some(FoldedLog {
        state: state.ok_or(Error::BrokenLog(execution))?,
        recent_events: tail,
        snapshot_seq,
    }))
}

/// Loads an execution into memory.
pub(crate) async fn load_execution(
    shared: &ServerShared,
    execution: ExecutionId,
) -> Result<Option<Box<FoldedExecution>>, Error> {
    let Some(folded) = fold_log(&*shared.store, execution).await? else {
        return Ok(None);
    };
    let net = shared.catalog.net(&folded.state.hash).await?;
    Ok(Some(Box::new(FoldedExecution {
        net,
        state: folded.state,
        recent_events: folded.recent_events,
        snapshot_seq: folded.snapshot_seq,
        claims: None,
        confirmed: Vec::new(),
    })))
}

/// Replays an execution's log and answers the open questions.
pub(crate) async fn reload_execution(
    shared: &ServerShared,
    execution: ExecutionId,
    questions: ReloadChecks,
) -> Result<LoadResult, Error> {
    let ReloadChecks {
        positions: mut marks,
        commits,
        needs_claims: is_fenced,
    } = questions;
    // The owner is in one small row, whereas the log may be long.
    let Some(row) = shared.store.execution(execution).await? else {
        return Ok(LoadResult::NotFound);
    };
    if let Some(owner) = row.owner.filter(|owner| *owner != shared.owner) {
        return Ok(LoadResult::OwnedBy(owner));
    }
    let Some(mut opened) = load_execution(shared, execution).await? else {
        return Ok(LoadResult::NotFound);
    };
    marks.extend(commits.iter().filter_map(|commit| commit.first));
    if !marks.is_empty() {
        let seqs: Vec<Seq> = marks.iter().map(|(seq, _)| *seq).collect();
        let events = shared.store.events_at(execution, &seqs).await?;
        let events = events.iter().map(|event| (event.seq, event.event_id));
        opened.confirmed = events.filter(|mark| marks.contains(mark)).collect();
    }
    for commit in commits {
        let has_happened = |first: EventPosition| opened.confirmed.contains(&first);
        if commit.first.is_none_or(has_happened) {
            release_unreceived_claims(shared, execution, &commit.claims).await?;
        }
    }
    if is_fenced {
        let commands = shared.store.open_commands(execution).await?;
        let claims = commands.iter();
        let claims = claims.map(|open| Fence {
            command: open.command.id.seq,
            lease_epoch: open.lease_epoch,
        });
        opened.claims = Some(claims.collect());
    }
    Ok(LoadResult::Loaded(opened))
}

/// Releases commands whose claims never reached their workers.
async fn release_unreceived_claims(
    shared: &ServerShared,
    execution: ExecutionId,
    claims: &[Fence],
) -> Result<(), Error> {
    for fence in claims {
        let claim = fence.claim_in(execution);
        let (command, lease_epoch) = (claim.command, claim.lease_epoch);
        shared.store.release_claim(command, lease_epoch).await?;
    }
    Ok(())
}

/// Loads the data that a decision needs.
pub(crate) async fn load_needs(
    shared: &ServerShared,
    execution: ExecutionId,
    needs: Vec<Need>,
    mut loaded: LoadedValues,
) -> Result<LoadedValues, Error> {
    let outcomes: Vec<Seq> = needs
        .iter()
        .filter_map(|need| match need {
            Need::Outcome(seq) => Some(*seq),
            _ => None,
        })
        .collect();
    if !outcomes.is_empty() {
        for event in load_events(&*shared.store, execution, &outcomes).await? {
            if let Some(outcome) = outcome_from_event(&event) {
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
                let located = LocatedResult::from_reference((*reference).clone());
                match shared.reader().load_value(located).await {
                    Ok(value) => {
                        loaded.bodies.insert(uri, LazyValue::new(value));
                    }
                    Err(error @ Error::TooLarge(..)) => {
                        let (code, message) = ("BODY_TOO_LARGE", error.to_string());
                        loaded.unavailable.insert(uri, UnavailableBody { code, message });
                    }
                    Err(Error::Body(error)) if error.is_missing() => {
                        let (code, message) = (error.code(), error.message_for(&reference));
                        loaded.unavailable.insert(uri, UnavailableBody { code, message });
                    }
                    Err(error) => return Err(error),
                }
            }
            Need::Loop(pointer) => {
                let value = load_loop_results(shared, execution, &pointer).await?;
                loaded.loops.insert(pointer.done, LazyValue::new(value));
            }
            Need::LoopStats(pointer) => {
                let stats = load_loop_stats(&*shared.store, execution, &pointer).await?;
                loaded.loop_stats.insert(pointer.done, stats);
            }
        }
    }
    Ok(loaded)
}

/// Takes an outcome from recent events, which may not be durable yet.
pub(crate) fn load_from_recent<'e>(
    recent: impl Fn(Seq) -> Option<&'e Event>,
    need: &Need,
    loaded: &mut LoadedValues,
) -> bool {
    let Need::Outcome(seq) = need else {
        return false;
    };
    let Some(outcome) = recent(*seq).and_then(outcome_from_event) else {
        return false;
    };
    loaded.outcomes.insert(*seq, Arc::new(outcome));
    true
}

/// Reads the events with these seqs. If an event refers to a reused task, it is replaced with the original event of
/// the other execution, under its own seq.
pub(crate) async fn load_events(store: &dyn Store, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
    let mut events = store.events_at(execution, seqs).await?;
    let mut in_other_logs: BTreeMap<ExecutionId, Vec<(Seq, usize)>> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        if let EventBody::StepReused(reused) = &event.body
            && matches!(reused.part, ReusedPart::Task { .. })
        {
            let indices = in_other_logs.entry(reused.execution_id).or_default();
            indices.push((reused.seq, index));
        }
    }
    for (other, indices) in in_other_logs {
        let seqs: Vec<Seq> = indices.iter().map(|(seq, _)| *seq).collect();
        let other_events = store.events_at(other, &seqs).await?;
        for (seq, index) in indices {
            if let Some(source) = other_events.iter().find(|event| event.seq == seq) {
                let own_seq = events[index].seq;
                events[index] = Event {
                    seq: own_seq,
                    ..source.clone()
                };
            }
        }
    }
    Ok(events)
}

/// Locates a loop's results: the results of a reused loop are in the log of another execution.
pub(crate) async fn locate_loop_results(
    store: &dyn Store,
    execution: ExecutionId,
    pointer: &LoopPointer,
) -> Result<(ExecutionId, LoopPointer), Error> {
    let events = store.events_at(execution, &[pointer.done]).await?;
    let source = events.into_iter().find_map(|event| match event.body {
        EventBody::StepReused(reused) => Some(*reused),
        _ => None,
    });
    Ok(match source {
        Some(ReusedRecord {
            execution_id,
            part: ReusedPart::Step(ended),
            ..
        }) => (execution_id, ended.loop_.unwrap_or_else(|| pointer.clone())),
        _ => (execution, pointer.clone()),
    })
}

/// Reads how many iterations of a loop succeeded and failed.
async fn load_loop_stats(store: &dyn Store, execution: ExecutionId, pointer: &LoopPointer) -> Result<LoopStats, Error> {
    let (execution, pointer) = locate_loop_results(store, execution, pointer).await?;
    let events = store.events_at(execution, &[pointer.done]).await?;
    let stats = events.iter().find_map(|event| match &event.body {
        EventBody::LoopDone(done) => Some(done.stats),
        _ => None,
    });
    Ok(stats.unwrap_or_default())
}

/// Returns a loop's results in index order as `{results: […], stats: {…}}`: inline from `loop.done`, or otherwise read
/// from the log.
pub(crate) async fn load_loop_results(
    shared: &ServerShared,
    execution: ExecutionId,
    pointer: &LoopPointer,
) -> Result<Value, Error> {
    let (execution, pointer) = locate_loop_results(&*shared.store, execution, pointer).await?;
    let mut stats = Value::Null;
    for event in shared.store.events_at(execution, &[pointer.done]).await? {
        if let EventBody::LoopDone(done) = event.body {
            stats = serde_json::to_value(done.stats).unwrap_or_default();
            if let Some(results) = &done.results {
                return Ok(json!({"results": results.to_value(), "stats": stats}));
            }
        }
    }
    let (started, done) = (pointer.started, pointer.done);
    let parts = PartIndex::from_loop(&*shared.store, execution, started, done).await?;
    let mut results = Vec::with_capacity(parts.len());
    while results.len() < parts.len() {
        let events = parts.load_events(&*shared.store, results.len(), PARTS_AT_ONCE);
        for event in events.await? {
            let outcome = event.as_deref().and_then(outcome_from_event);
            results.push(outcome.map_or(Value::Null, |outcome| outcome.to_listed_value()));
        }
    }
    Ok(json!({"results": results, "stats": stats}))
}

/// Returns the iterations that a loop reuses, according to the `step.reused` event at `reused`.
pub(crate) async fn reused_iterations(
    store: &dyn Store,
    execution: ExecutionId,
    reused: Option<Seq>,
) -> Result<Vec<ReusedIterationSet>, Error> {
    let Some(seq) = reused else {
        return Ok(Vec::new());
    };
    let events = store.events_at(execution, &[seq]).await?;
    let items = events.into_iter().find_map(|event| match event.body {
        EventBody::StepReused(reused) => match reused.part {
            ReusedPart::Iterations(iterations) => Some(iterations.items),
            _ => None,
        },
        _ => None,
    });
    Ok(items.unwrap_or_default())
}
