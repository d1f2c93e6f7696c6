//! Describes the state of a run for people: variables with their writers, steps, pipelines and branches, and the
//! difference of two states.

mod compare;
mod pipelines;

use std::collections::BTreeMap;

use engine::{BoundaryKind, ExecutionState, StepRun};
use language::playbook::Playbook;
use model::command::{Continuation, PipelineStage};
use model::id::{ExecutionId, Name, Seq};
use model::raw::RawJson;
use serde_json::{Map, Value};
use wire::api::{GraphStatus, StateEntry, StateResponse, StateStep, StateToken, StateWriter};

use crate::Server;
use crate::error::Error;
use crate::state_replay::{ReplayedState, replay_state, to_writer};

/// Maximum number of keys and of tokens that are listed.
const LISTED_MAX: usize = 1_000;
/// Maximum size of a value that is included as a whole.
const VALUE_BYTES_MAX: usize = 16 * 1024;
/// Number of bytes of a larger value that are included.
const PREVIEW_BYTES_MAX: usize = 1024;

impl Server {
    /// The state of a run at an event, and its difference from the state at another one.
    pub(crate) async fn state_at(
        &self,
        id: ExecutionId,
        at: Option<Seq>,
        compare: Option<Seq>,
    ) -> Result<StateResponse, Error> {
        let store = &*self.shared.store;
        let row = store.execution(id).await?.ok_or(Error::NotFound(id))?;
        let limit = |seq: Seq| seq.clamp(Seq(1), row.version);
        let at = limit(at.unwrap_or(row.version));
        let compare = compare.map(limit).filter(|other| *other != at);
        let first = replay_state(store, id, compare.map_or(at, |other| at.min(other)), None).await?;
        let second = match compare {
            Some(other) => Some(replay_state(store, id, at.max(other), Some(&first)).await?),
            None => None,
        };
        let (selected, compared) = match &second {
            Some(second) if first.state.seq == at => (&first, Some(second)),
            Some(second) => (second, Some(&first)),
            None => (&first, None),
        };
        let net = self.shared.catalog.net(&selected.state.hash).await?;
        let request = store.events_at(id, &[Seq(1)]).await?;
        let description = Description {
            replayed: selected,
            playbook: &net.playbook,
            request: request.first().map(to_writer),
        };
        let mut response = description.to_response(row.version);
        let listed = pipelines::list_pipelines(store, &selected.state).await?;
        response.is_complete &= listed.is_complete;
        response.pipelines = listed.pipelines;
        if let Some(other) = compared {
            let other_net = self.shared.catalog.net(&other.state.hash).await?;
            let other = Description {
                replayed: other,
                playbook: &other_net.playbook,
                request: description.request.clone(),
            };
            response.comparison = Some(compare::compare_states(&description, &other));
        }
        Ok(response)
    }
}

/// A state with what is needed to describe it.
struct Description<'a> {
    replayed: &'a ReplayedState,
    playbook: &'a Playbook,
    /// The event that requested the run.
    request: Option<StateWriter>,
}

impl Description<'_> {
    fn to_response(&self, newest: Seq) -> StateResponse {
        let state = &self.replayed.state;
        let (mut ctx, mut workload) = (self.ctx(), self.workload());
        let is_complete = ctx.len().max(workload.len()).max(state.tokens.len()) <= LISTED_MAX;
        ctx.truncate(LISTED_MAX);
        workload.truncate(LISTED_MAX);
        StateResponse {
            execution_id: state.execution,
            seq: state.seq,
            newest_seq: newest,
            recorded_at: self.replayed.recorded_at,
            status: state.status(),
            ctx,
            workload,
            pipelines: Vec::new(),
            steps: self.steps(),
            tokens: list_tokens(state),
            is_complete,
            writers_since: self.replayed.writers.since,
            comparison: None,
        }
    }

    fn ctx(&self) -> Vec<StateEntry> {
        let writers = &self.replayed.writers.by_key;
        let values = self.replayed.state.ctx.iter();
        let entries = values.map(|(key, value)| to_entry(key, value, writers.get(key).cloned()));
        entries.collect()
    }

    fn workload(&self) -> Vec<StateEntry> {
        let workload = parse_map(&self.replayed.state.workload);
        let entries = workload.iter();
        let entries = entries.map(|(key, value)| to_entry(key, value, self.request.clone()));
        entries.collect()
    }

    fn steps(&self) -> Vec<StateStep> {
        let state = &self.replayed.state;
        let runs: BTreeMap<&Name, &StepRun> = state.runs.iter().map(|(id, run)| (&id.step, run)).collect();
        let steps = self.playbook.steps.iter();
        let steps = steps.map(|step| describe_step(state, &step.name, runs.get(&step.name).copied()));
        steps.collect()
    }
}

fn parse_map(raw: &RawJson) -> Map<String, Value> {
    raw.parse_as().unwrap_or_default()
}

/// An entry of a key; a large value is replaced by the beginning of its text.
fn to_entry(key: &str, value: &Value, writer: Option<StateWriter>) -> StateEntry {
    let bytes = model::size::json_bytes(value);
    let is_preview = bytes > VALUE_BYTES_MAX;
    let value = if is_preview {
        let text = value.to_string();
        let end = (0..=PREVIEW_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
        Value::from(&text[..end.unwrap_or(0)])
    } else {
        value.clone()
    };
    StateEntry {
        key: key.to_owned(),
        value,
        is_preview,
        bytes: bytes as u64,
        writer,
    }
}

fn list_tokens(state: &ExecutionState) -> Vec<StateToken> {
    let tokens = state.tokens.values().take(LISTED_MAX);
    let tokens = tokens.map(|token| StateToken {
        step: token.step.clone(),
        from: token.boundary.as_ref().map(|boundary| boundary.step.clone()),
        is_parked: token.parked,
    });
    tokens.collect()
}

/// A step; `run` is its latest run that is active or held.
fn describe_step(state: &ExecutionState, step: &Name, run: Option<&StepRun>) -> StateStep {
    let summary = state.steps.get(step);
    let latest = summary.and_then(|summary| summary.latest.as_ref());
    let (status, ended_seq) = match (run, latest) {
        (Some(run), _) => match &run.boundary {
            Some(end) => (end_status(end.end != BoundaryKind::Failed), Some(end.seq)),
            None => (run_status(state, run), None),
        },
        (None, Some(latest)) => (end_status(latest.ok), Some(latest.boundary)),
        (None, None) => (GraphStatus::NotReached, None),
    };
    StateStep {
        step: step.clone(),
        status,
        runs: summary.map_or(0, |summary| summary.runs),
        ended_seq,
    }
}

fn end_status(is_ok: bool) -> GraphStatus {
    if is_ok {
        GraphStatus::Success
    } else {
        GraphStatus::Error
    }
}

/// The status of a step run that has not ended.
fn run_status(state: &ExecutionState, run: &StepRun) -> GraphStatus {
    if state.is_ended() {
        GraphStatus::Cancelled
    } else if run.loop_.is_some() {
        GraphStatus::Running
    } else {
        let status = pipeline_status(&run.pipeline);
        if run.started && status == GraphStatus::Waiting && !run.waits.contains_key(&None) {
            GraphStatus::Running
        } else {
            status
        }
    }
}

/// The status of a pipeline at its position.
fn pipeline_status(pipeline: &Continuation) -> GraphStatus {
    match pipeline.stage {
        PipelineStage::Ready if pipeline.last.is_none() => GraphStatus::Waiting,
        PipelineStage::Ready | PipelineStage::Started | PipelineStage::WaitEnded { .. } => GraphStatus::Running,
        PipelineStage::Retrying { .. } => GraphStatus::Retrying,
        PipelineStage::Awaiting { .. } => GraphStatus::Waiting,
        PipelineStage::Done => GraphStatus::Success,
        PipelineStage::Failed => GraphStatus::Error,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_value_is_cut_between_characters() {
        let text = "é".repeat(VALUE_BYTES_MAX);
        let entry = to_entry("note", &json!(text), None);
        assert!(entry.is_preview);
        assert_eq!(entry.bytes, 2 * VALUE_BYTES_MAX as u64 + 2);
        let preview = entry.value.as_str().unwrap();
        assert!((PREVIEW_BYTES_MAX - 1..=PREVIEW_BYTES_MAX).contains(&preview.len()));
        let small = to_entry("note", &json!({"a": 1}), None);
        assert_eq!((small.is_preview, small.value), (false, json!({"a": 1})));
    }
}
