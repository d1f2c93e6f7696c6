//! Compares the state replayed from the log with the state with which the server works.

use std::time::Duration;

use engine::ExecutionState;
use model::id::{ExecutionId, Seq};
use serde_json::{Value, json};
use store::ExecutionRow;
use wire::api::{StateCheckResponse, StateCheckSource};

use crate::error::Error;
use crate::loading;
use crate::state_json::{json_checksum, state_to_json};
use crate::state_replay::{REPLAYED_EVENTS_MAX, replay_state};
use crate::{Server, ServerShared};

/// How often the end of the log is awaited, if the state in memory is ahead of it.
const COMMIT_CHECKS_MAX: u32 = 40;
/// Pause between these checks.
const COMMIT_PAUSE: Duration = Duration::from_millis(50);

/// What a replayed state must equal.
struct LiveState {
    source: StateCheckSource,
    seq: Seq,
    value: Value,
}

impl Server {
    /// Checks that the replayed state of a run equals its live state; `None` if the newest events are not durable yet.
    pub(crate) async fn check_state(&self, id: ExecutionId) -> Result<Option<StateCheckResponse>, Error> {
        let shared = &*self.shared;
        let live = read_live_state(shared, id).await?;
        if live.seq.0 > REPLAYED_EVENTS_MAX {
            return Err(Error::ReplayTooLong(live.seq));
        }
        if !wait_for_commit(shared, id, live.seq).await? {
            return Ok(None);
        }
        let replayed = replay_state(&*shared.store, id, live.seq, None).await?.state;
        let value = match live.source {
            StateCheckSource::Memory | StateCheckSource::Snapshot => state_value(&replayed),
            StateCheckSource::Summary => summarize_state(&replayed),
        };
        Ok(Some(StateCheckResponse {
            execution_id: id,
            seq: live.seq,
            source: live.source,
            is_equal: value == live.value,
            replayed: json_checksum(&value),
            live: json_checksum(&live.value),
        }))
    }
}

async fn read_live_state(shared: &ServerShared, id: ExecutionId) -> Result<LiveState, Error> {
    let row = shared.store.execution(id).await?.ok_or(Error::NotFound(id))?;
    if let Some(state) = shared.driver.state(id).await? {
        return Ok(LiveState {
            source: StateCheckSource::Memory,
            seq: state.seq,
            value: state_value(&state),
        });
    }
    if let Some(state) = loading::load_snapshot_state(&*shared.store, id).await? {
        return Ok(LiveState {
            source: StateCheckSource::Snapshot,
            seq: state.seq,
            value: state_value(&state),
        });
    }
    Ok(LiveState {
        source: StateCheckSource::Summary,
        seq: row.version,
        value: summarize_row(&row),
    })
}

/// Waits until the log has an event, and returns whether it has; a state in memory includes decisions that are not durable
/// yet.
async fn wait_for_commit(shared: &ServerShared, id: ExecutionId, seq: Seq) -> Result<bool, Error> {
    for _ in 0..COMMIT_CHECKS_MAX {
        let row = shared.store.execution(id).await?.ok_or(Error::NotFound(id))?;
        if row.version >= seq {
            return Ok(true);
        }
        tokio::time::sleep(COMMIT_PAUSE).await;
    }
    Ok(false)
}

fn state_value(state: &ExecutionState) -> Value {
    state_to_json(state).unwrap_or_default()
}

fn summarize_state(state: &ExecutionState) -> Value {
    json!([state.seq, state.status(), state.generation, state.hash, state.version])
}

fn summarize_row(row: &ExecutionRow) -> Value {
    json!([row.version, row.status, row.generation, row.hash, row.playbook_version])
}
