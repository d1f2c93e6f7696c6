//! Loading: an execution's state from its log, and what a decision must read before it can be made.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Net, State};
use model::event::{Body, Event, Reused, ReusedItems, ReusedPart};
use model::id::{EventId, ExecutionId, LeaseEpoch, Seq};
use model::outcome::Outcome;
use model::template::{Data, Loaded, LoopPointer, Need, Unavailable};
use serde_json::{Value, json};

use crate::Shared;
use crate::error::Error;

/// The form of snapshots; one of another form is passed over and the log folded instead.
pub(crate) const SNAPSHOT_VERSION: u32 = 1;

/// How many events are read at once when a loop's results are gathered from the log.
const PAGE: usize = 5_000;

/// An execution brought into memory.
pub(crate) struct Opened {
    pub(crate) net: Arc<Net>,
    pub(crate) state: State,
    pub(crate) tail: Vec<Event>,
    pub(crate) snapshot_seq: Seq,
    /// Who drives it.
    pub(crate) owner: Option<store::OwnerId>,
    /// The claims that are current, where they were asked for.
    pub(crate) claims: Option<Vec<(Seq, LeaseEpoch)>>,
    /// The events asked about that are in the log.
    pub(crate) landed: Vec<Mark>,
}

/// An event by its place and its id: no other event has both.
pub(crate) type Mark = (Seq, EventId);

/// Folds an execution's log, from its newest snapshot on.
pub(crate) async fn open(
    shared: &Shared,
    execution: ExecutionId,
) -> Result<Option<Box<Opened>>, Error> {
    let Some(recorded) = shared.store.load(execution, SNAPSHOT_VERSION).await? else {
        return Ok(None);
    };
    let snapshot = recorded.snapshot.as_ref();
    let snapshot_seq = snapshot.map_or(Seq(0), |snapshot| snapshot.seq);
    let state = snapshot
        .and_then(|snapshot| ciborium::from_reader::<State, _>(snapshot.bytes.as_slice()).ok());
    let (state, tail) = match (state, snapshot.is_some()) {
        (None, true) => (
            None,
            shared.store.events(execution, Seq(0), usize::MAX).await?,
        ),
        (state, _) => (state, recorded.tail),
    };
    let state = tail.iter().fold(state, engine::fold);
    let state = state.ok_or(Error::BrokenLog(execution))?;
    let net = shared.playbooks.net(&state.hash).await?;
    Ok(Some(Box::new(Opened {
        net,
        state,
        tail,
        snapshot_seq,
        owner: recorded.row.owner,
        claims: None,
        landed: Vec::new(),
    })))
}

/// Folds an execution's log and tells which of these events are in it.
pub(crate) async fn reopen(
    shared: &Shared,
    execution: ExecutionId,
    doubts: Vec<Mark>,
    is_fenced: bool,
) -> Result<Option<Box<Opened>>, Error> {
    let Some(mut opened) = open(shared, execution).await? else {
        return Ok(None);
    };
    if !doubts.is_empty() {
        let seqs: Vec<Seq> = doubts.iter().map(|(seq, _)| *seq).collect();
        let found = shared.store.events_at(execution, &seqs).await?;
        let marks = found.iter().map(|event| (event.seq, event.event_id));
        opened.landed = marks.filter(|mark| doubts.contains(mark)).collect();
    }
    if is_fenced {
        let commands = shared.store.open_commands(execution).await?;
        let claims = commands.iter();
        let claims = claims.map(|open| (open.command.id.seq, open.lease_epoch));
        opened.claims = Some(claims.collect());
    }
    Ok(Some(opened))
}

/// Loads what a decision needs.
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
        for event in events_at(shared, execution, &outcomes).await? {
            if let Some(outcome) = outcome_of(&event) {
                loaded.outcomes.insert(event.seq, Arc::new(outcome));
            }
        }
    }
    for need in needs {
        match need {
            // Outcomes were loaded together, and the engine asks for no files: they are a worker's.
            Need::Outcome(_) | Need::File(_) => {}
            Need::Body(reference) => match shared.bodies.get(&reference).await {
                Ok(bytes) => {
                    // What is not JSON is text.
                    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
                    let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
                    loaded
                        .bodies
                        .insert(reference.uri.clone(), Data::new(value));
                }
                Err(error) if error.is_missing() => {
                    let unavailable = Unavailable {
                        code: error.code(),
                        message: error.told_of(&reference),
                    };
                    loaded
                        .unavailable
                        .insert(reference.uri.clone(), unavailable);
                }
                Err(error) => return Err(error.into()),
            },
            Need::Loop(pointer) => {
                let value = loop_results(shared, execution, &pointer).await?;
                loaded.loops.insert(pointer.done, Data::new(value));
            }
        }
    }
    Ok(loaded)
}

/// Serves an outcome from events that may not be durable yet.
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

/// The outcome that an event records.
pub(crate) fn outcome_of(event: &Event) -> Option<Outcome> {
    match &event.body {
        Body::TaskDone(ended) | Body::TaskFailed(ended) => ended.outcome.read().ok(),
        _ => None,
    }
}

/// The events at these seqs. One that was taken over from another run stands here with what it says there.
pub(crate) async fn events_at(
    shared: &Shared,
    execution: ExecutionId,
    seqs: &[Seq],
) -> Result<Vec<Event>, Error> {
    let mut events = shared.store.events_at(execution, seqs).await?;
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
        let found = shared.store.events_at(other, &seqs).await?;
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

/// Where a loop's results really are: a loop that was taken over points into another run's log.
pub(crate) async fn loop_source(
    shared: &Shared,
    execution: ExecutionId,
    pointer: &LoopPointer,
) -> Result<(ExecutionId, LoopPointer), Error> {
    let events = shared.store.events_at(execution, &[pointer.done]).await?;
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

/// A loop's results in index order, `{results: […], stats: {…}}`: inline where they are, else found through the log.
pub(crate) async fn loop_results(
    shared: &Shared,
    execution: ExecutionId,
    pointer: &LoopPointer,
) -> Result<Value, Error> {
    let (execution, pointer) = loop_source(shared, execution, pointer).await?;
    let ends = [pointer.started, pointer.done];
    let mut total = 0;
    let mut stats = Value::Null;
    let mut reused = None;
    for event in shared.store.events_at(execution, &ends).await? {
        match event.body {
            Body::LoopStarted(started) => {
                total = usize::try_from(started.total).unwrap_or(0);
                reused = started.reused;
            }
            Body::LoopDone(done) => {
                stats = serde_json::to_value(done.stats).unwrap_or_default();
                if let Some(results) = &done.results {
                    return Ok(json!({"results": results.value(), "stats": stats}));
                }
            }
            _ => {}
        }
    }
    let mut results = vec![Value::Null; total];
    for items in items_elsewhere(shared, execution, reused).await? {
        fill(shared, &items, &mut results).await?;
    }
    let own = ReusedItems {
        execution_id: execution,
        started: pointer.started,
        until: pointer.done,
        ranges: vec![(0, u64::MAX)],
    };
    fill(shared, &own, &mut results).await?;
    Ok(json!({"results": results, "stats": stats}))
}

/// The iterations that a loop took over, by the event that says so.
async fn items_elsewhere(
    shared: &Shared,
    execution: ExecutionId,
    reused: Option<Seq>,
) -> Result<Vec<ReusedItems>, Error> {
    let Some(seq) = reused else {
        return Ok(Vec::new());
    };
    let events = shared.store.events_at(execution, &[seq]).await?;
    let items = events.into_iter().find_map(|event| match event.body {
        Body::StepReused(reused) => match reused.part {
            ReusedPart::Iterations(iterations) => Some(iterations.items),
            _ => None,
        },
        _ => None,
    });
    Ok(items.unwrap_or_default())
}

/// Puts the results of these iterations in their places.
async fn fill(shared: &Shared, items: &ReusedItems, results: &mut [Value]) -> Result<(), Error> {
    let execution = items.execution_id;
    let started = shared.store.events_at(execution, &[items.started]).await?;
    let run = started.first().and_then(|event| event.at.step_run_id());
    let is_meant = |index: u64| {
        let mut ranges = items.ranges.iter();
        ranges.any(|(from, to)| (*from..*to).contains(&index))
    };
    let mut after = items.started;
    while after < items.until {
        let page = shared.store.events(execution, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        let inside = page.iter().filter(|event| event.seq <= items.until);
        for event in inside.filter(|event| event.at.step_run_id() == run) {
            let index = event.at.iteration.filter(|index| is_meant(*index));
            let place = index.and_then(|index| usize::try_from(index).ok());
            if let (Some(Outcome::Ok(success)), Some(place)) = (
                outcome_of(event),
                place.and_then(|place| results.get_mut(place)),
            ) {
                *place = match success.reference {
                    Some(reference) => serde_json::to_value(reference).unwrap_or_default(),
                    None => success.result,
                };
            }
        }
    }
    Ok(())
}
