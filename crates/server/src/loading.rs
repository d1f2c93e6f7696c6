//! Loading: an execution's state from its log, and what a decision must read before it can be made.

use std::sync::Arc;

use engine::{Net, State};
use model::event::{Body, Event};
use model::id::{ExecutionId, LeaseEpoch, Seq};
use model::outcome::Outcome;
use model::template::{Data, Loaded, LoopPointer, Need};
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
}

/// Folds an execution's log, and looks up which claims on its commands are current.
pub(crate) async fn open_with_claims(
    shared: &Shared,
    execution: ExecutionId,
) -> Result<Option<Box<Opened>>, Error> {
    let Some(mut opened) = open(shared, execution).await? else {
        return Ok(None);
    };
    let commands = shared.store.open_commands(execution).await?;
    let claims = commands.iter();
    let claims = claims.map(|open| (open.command.id.seq, open.lease_epoch));
    opened.claims = Some(claims.collect());
    Ok(Some(opened))
}

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
    })))
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
        for event in shared.store.events_at(execution, &outcomes).await? {
            if let Some(outcome) = outcome_of(&event) {
                loaded.outcomes.insert(event.seq, Arc::new(outcome));
            }
        }
    }
    for need in needs {
        match need {
            Need::Outcome(_) => {}
            Need::Body(reference) => match shared.bodies.get(&reference).await {
                Ok(bytes) => {
                    let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                    loaded
                        .bodies
                        .insert(reference.uri.clone(), Data::new(value));
                }
                Err(error) if error.is_missing() => {
                    loaded
                        .unavailable
                        .insert(reference.uri.clone(), error.to_string());
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

/// A loop's results in index order, `{results: […], stats: {…}}`: inline where they are, else found through the log.
pub(crate) async fn loop_results(
    shared: &Shared,
    execution: ExecutionId,
    pointer: &LoopPointer,
) -> Result<Value, Error> {
    let ends = shared
        .store
        .events_at(execution, &[pointer.started, pointer.done])
        .await?;
    let mut total = 0;
    let mut stats = Value::Null;
    let mut run = None;
    for event in &ends {
        match &event.body {
            Body::LoopStarted(started) => {
                total = usize::try_from(started.total).unwrap_or(0);
                run = event.at.step_run_id();
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
    let mut after = pointer.started;
    while after < pointer.done {
        let page = shared.store.events(execution, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for event in page
            .iter()
            .filter(|event| event.seq < pointer.done && event.at.step_run_id() == run)
        {
            let Some(index) = event
                .at
                .iteration
                .and_then(|index| usize::try_from(index).ok())
            else {
                continue;
            };
            if let (Some(Outcome::Ok(success)), Some(place)) =
                (outcome_of(event), results.get_mut(index))
            {
                *place = match success.reference {
                    Some(reference) => serde_json::to_value(reference).unwrap_or_default(),
                    None => success.result,
                };
            }
        }
    }
    Ok(json!({"results": results, "stats": stats}))
}
