//! The active pipelines of a state, with the `iter` values that their tasks wrote.

use std::collections::BTreeMap;

use engine::{ExecutionState, StepRun};
use model::command::{Continuation, PipelineCursor};
use model::event::Event;
use model::id::{Name, Seq, StepRunId};
use serde_json::Value;
use store::Store;
use wire::api::{StateEntry, StatePipeline};

use super::{parse_map, pipeline_status, to_entry};
use crate::error::Error;
use crate::state_replay::to_writer;

/// Maximum number of pipelines that are listed.
const PIPELINES_MAX: usize = 100;
/// Maximum number of events that are read for the `iter` values of a pipeline: the latest ones.
const WRITES_MAX: usize = 100;

/// The listed pipelines.
pub(super) struct PipelineList {
    pub(super) pipelines: Vec<StatePipeline>,
    /// Whether every active pipeline and all its writes are included.
    pub(super) is_complete: bool,
}

/// An active pipeline.
struct ActivePipeline<'a> {
    run: &'a StepRunId,
    iteration: Option<u64>,
    continuation: &'a Continuation,
}

/// Lists the active pipelines of a state.
pub(super) async fn list_pipelines(store: &dyn Store, state: &ExecutionState) -> Result<PipelineList, Error> {
    let mut active: Vec<ActivePipeline<'_>> = active_pipelines(state).take(PIPELINES_MAX + 1).collect();
    let mut is_complete = active.len() <= PIPELINES_MAX;
    active.truncate(PIPELINES_MAX);
    let mut seqs: Vec<Seq> = Vec::new();
    for pipeline in &active {
        let writes = &pipeline.continuation.iter_writes;
        is_complete &= writes.len() <= WRITES_MAX;
        seqs.extend(latest_writes(writes));
    }
    seqs.sort_unstable();
    seqs.dedup();
    let events = store.events_at(state.execution, &seqs).await?;
    let events: BTreeMap<Seq, &Event> = events.iter().map(|event| (event.seq, event)).collect();
    let pipelines = active.iter().map(|pipeline| describe(pipeline, &events));
    Ok(PipelineList {
        pipelines: pipelines.collect(),
        is_complete,
    })
}

fn active_pipelines(state: &ExecutionState) -> impl Iterator<Item = ActivePipeline<'_>> {
    let is_active = |run: &StepRun| run.boundary.is_none() && !run.held;
    let runs = state
        .runs
        .iter()
        .filter(move |(_, run)| !state.is_ended() && is_active(run));
    runs.flat_map(|(id, run)| {
        let plain = run.loop_.is_none().then_some((None, &run.pipeline));
        let iterations = run.loop_.iter().flat_map(|loop_| &loop_.live);
        let iterations = iterations.map(|(index, continuation)| (Some(*index), continuation));
        let pipelines = plain.into_iter().chain(iterations);
        pipelines.map(move |(iteration, continuation)| ActivePipeline {
            run: id,
            iteration,
            continuation,
        })
    })
}

fn latest_writes(writes: &[Seq]) -> &[Seq] {
    &writes[writes.len().saturating_sub(WRITES_MAX)..]
}

fn describe(pipeline: &ActivePipeline<'_>, events: &BTreeMap<Seq, &Event>) -> StatePipeline {
    let continuation = pipeline.continuation;
    let mut values: BTreeMap<String, (Value, &Event)> = BTreeMap::new();
    for event in latest_writes(&continuation.iter_writes)
        .iter()
        .filter_map(|seq| events.get(seq))
    {
        for (key, value) in event.body.writes().iter.map(parse_map).unwrap_or_default() {
            values.insert(key, (value, event));
        }
    }
    let entries = values.iter();
    let entries = entries.map(|(key, (value, event))| to_entry(key, value, Some(to_writer(event))));
    let iter: Vec<StateEntry> = entries.collect();
    StatePipeline {
        step: pipeline.run.step.clone(),
        run: pipeline.run.run,
        iteration: pipeline.iteration,
        task: current_task(continuation),
        status: pipeline_status(continuation),
        iter,
    }
}

fn current_task(continuation: &Continuation) -> Option<Name> {
    match &continuation.cursor {
        PipelineCursor::Start => None,
        PipelineCursor::At(label) | PipelineCursor::After(label) => Some(label.clone()),
    }
}
