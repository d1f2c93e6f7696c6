//! Replays the log of a run up to an event, and remembers which events wrote the variables.
//!
//! A replay reads at most [`REPLAYED_EVENTS_MAX`] events, from the start of the log, from an earlier result, or from the
//! latest snapshot.

use std::collections::BTreeMap;

use engine::ExecutionState;
use model::event::{Event, EventBody};
use model::id::{ExecutionId, Seq};
use model::time::Time;
use serde_json::{Map, Value};
use store::Store;
use wire::api::StateWriter;

use crate::error::Error;
use crate::loading::SNAPSHOT_VERSION;
use crate::snapshot::decode_snapshot;

/// Maximum number of events that a request replays; a state that needs more is refused with `REPLAY_TOO_LONG`.
pub(crate) const REPLAYED_EVENTS_MAX: u64 = 1_000_000;
/// Number of events read at a time.
const PAGE: usize = 5_000;

/// A state and the writers of its variables.
#[derive(Debug, Clone)]
pub(crate) struct ReplayedState {
    pub(crate) state: ExecutionState,
    /// When its last event was recorded.
    pub(crate) recorded_at: Time,
    pub(crate) writers: CtxWriters,
}

/// The last event that wrote each key of `ctx`.
#[derive(Debug, Clone, Default)]
pub(crate) struct CtxWriters {
    pub(crate) by_key: BTreeMap<String, StateWriter>,
    /// Writers are known for values written after this event.
    pub(crate) since: Seq,
}

impl CtxWriters {
    /// Remembers the keys that an event writes.
    fn record(&mut self, event: &Event) {
        let EventBody::CtxPatched(patched) = &event.body else {
            return;
        };
        let patch: Map<String, Value> = patched.patch.parse_as().unwrap_or_default();
        for (key, _) in patch {
            self.by_key.insert(key, to_writer(event));
        }
    }
}

/// Describes an event as the writer of a value.
pub(crate) fn to_writer(event: &Event) -> StateWriter {
    StateWriter {
        seq: event.seq,
        type_: event.kind(),
        step: event.location.step.clone(),
        task: event.location.task.clone(),
        iteration: event.location.iteration,
    }
}

/// Where a replay starts.
#[derive(Default)]
struct ReplayStart {
    state: Option<ExecutionState>,
    recorded_at: Time,
    writers: CtxWriters,
}

/// Replays the log of a run up to an event, which exists; continues from an earlier result if there is one.
pub(crate) async fn replay_state(
    store: &dyn Store,
    id: ExecutionId,
    until: Seq,
    earlier: Option<&ReplayedState>,
) -> Result<ReplayedState, Error> {
    let start = find_start(store, id, until, earlier).await?;
    let ReplayStart {
        mut state,
        mut recorded_at,
        mut writers,
    } = start;
    let mut after = state.as_ref().map_or(Seq(0), |state| state.seq);
    while after < until {
        let events = store.events(id, after, page_size(after, until)).await?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        recorded_at = last.recorded_at;
        for event in &events {
            writers.record(event);
            state = engine::fold(state, event);
        }
    }
    Ok(ReplayedState {
        state: state.ok_or(Error::BrokenLog(id))?,
        recorded_at,
        writers,
    })
}

fn page_size(after: Seq, until: Seq) -> usize {
    usize::try_from(until.0 - after.0).map_or(PAGE, |left| left.min(PAGE))
}

async fn find_start(
    store: &dyn Store,
    id: ExecutionId,
    until: Seq,
    earlier: Option<&ReplayedState>,
) -> Result<ReplayStart, Error> {
    let is_near = |seq: Seq| seq <= until && until.0 - seq.0 <= REPLAYED_EVENTS_MAX;
    if let Some(earlier) = earlier.filter(|earlier| is_near(earlier.state.seq)) {
        return Ok(ReplayStart {
            state: Some(earlier.state.clone()),
            recorded_at: earlier.recorded_at,
            writers: earlier.writers.clone(),
        });
    }
    if is_near(Seq(0)) {
        return Ok(ReplayStart::default());
    }
    let stored = store.load(id, SNAPSHOT_VERSION).await?.ok_or(Error::NotFound(id))?;
    let snapshot = stored.snapshot.filter(|snapshot| is_near(snapshot.seq));
    let state = snapshot.and_then(|snapshot| decode_snapshot::<ExecutionState>(&snapshot.bytes).ok());
    let Some(state) = state else {
        return Err(Error::ReplayTooLong(until));
    };
    let events = store.events_at(id, &[state.seq]).await?;
    Ok(ReplayStart {
        recorded_at: events.first().map_or(Time::default(), |event| event.recorded_at),
        writers: CtxWriters {
            since: state.seq,
            ..CtxWriters::default()
        },
        state: Some(state),
    })
}
