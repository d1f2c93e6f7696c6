//! Loads the data that a rendering needs from the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use language::template::{LazyValue, LoadedValues, Need, RenderError, Scope, UnavailableBody};
use model::event::{Event, EventBody, ReusedIterationSet, ReusedPart};
use model::id::{ExecutionId, Seq};
use model::manifest::{ManifestRule, execution_of_uri, is_pipeline_outcome, outcome_from_event};
use model::outcome::Outcome;
use model::result_ref::ResultRef;
use model::step_pointer::LoopPointer;
use serde_json::{Value, json};
use store::Store as _;

use crate::world::world_store::WorldStore;

/// Maximum number of times that a rendering may request more data.
const ROUNDS_MAX: usize = 8;

/// Polls a future that is always ready, because the store is in memory.
pub(crate) fn block_on_ready<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("a store in memory responds at once")
}

/// Reads a whole log.
pub fn read_log(store: &WorldStore, execution: ExecutionId) -> Vec<Event> {
    block_on_ready(store.events(execution, Seq(0), usize::MAX))
        .expect("a store in memory can be read")
}

/// Reads the events at some sequence numbers.
pub(crate) fn events_at(store: &WorldStore, execution: ExecutionId, seqs: &[Seq]) -> Vec<Event> {
    let found =
        block_on_ready(store.events_at(execution, seqs)).expect("a store in memory can be read");
    let follow = |event: Event| match &event.body {
        EventBody::StepReused(reused) if matches!(reused.part, ReusedPart::Task { .. }) => {
            let source = events_at(store, reused.execution_id, &[reused.seq]);
            let source = source.into_iter().next().expect("reused events exist");
            Event {
                seq: event.seq,
                ..source
            }
        }
        _ => event,
    };
    found.into_iter().map(follow).collect()
}

/// Loads what is needed.
pub(crate) fn load_needs(
    store: &WorldStore,
    execution: ExecutionId,
    needs: Vec<Need>,
    loaded: &mut LoadedValues,
) {
    for need in needs {
        match need {
            Need::Outcome(seq) => {
                let events = events_at(store, execution, &[seq]);
                let outcome = events.first().and_then(outcome_from_event);
                let outcome = outcome.unwrap_or_else(|| Outcome::ok(Value::Null));
                loaded.outcomes.insert(seq, Arc::new(outcome));
            }
            Need::Loop(pointer) => {
                let results = loop_results(store, execution, &pointer);
                loaded.loops.insert(pointer.done, LazyValue::new(results));
            }
            Need::LoopStats(pointer) => {
                let mut results = loop_results(store, execution, &pointer);
                let stats = serde_json::from_value(results["stats"].take());
                loaded
                    .loop_stats
                    .insert(pointer.done, stats.expect("a loop that is done has counts"));
            }
            // A world has no files.
            Need::File(_) => {}
            Need::Body(reference) => {
                let uri = reference.uri.clone();
                if let Some(value) = load_reference(store, &reference) {
                    loaded.bodies.insert(uri, LazyValue::new(value));
                } else {
                    let unavailable = UnavailableBody {
                        code: "REFERENCE_NOT_AVAILABLE",
                        message: "it was never stored".to_owned(),
                    };
                    loaded.unavailable.insert(uri, unavailable);
                }
            }
        }
    }
}

/// Renders, loading what it needs; anything still missing is a permanent failure.
pub(crate) fn render_with_loading<T>(
    store: &WorldStore,
    execution: ExecutionId,
    scope: &mut Scope,
    render: impl Fn(&Scope) -> Result<T, RenderError>,
) -> Result<T, RenderError> {
    for _ in 0..ROUNDS_MAX {
        match render(scope) {
            Err(RenderError::Needs(needs)) => {
                load_needs(store, execution, needs, Arc::make_mut(&mut scope.loaded));
            }
            other => return other,
        }
    }
    render(scope)
}

/// The value of a reference: a body, or the combined parts of a manifest.
fn load_reference(store: &WorldStore, reference: &ResultRef) -> Option<Value> {
    let Some(rule) = ManifestRule::from_reference(reference) else {
        return store.body(reference);
    };
    let log = read_log(store, execution_of_uri(&reference.uri)?);
    let at = &log.iter().find(|event| event.seq == rule.seq)?.location;
    let is_part = |event: &&Event| {
        matches!(event.body, EventBody::TaskDone(_))
            && (rule.first..=rule.seq).contains(&event.seq)
            && event.location.step_run_id() == at.step_run_id()
            && (event.location.iteration, &event.location.task) == (at.iteration, &at.task)
    };
    let parts: BTreeMap<i64, &Event> = log
        .iter()
        .filter(is_part)
        .map(|event| {
            (
                event.location.page.unwrap_or(event.location.visit.into()),
                event,
            )
        })
        .collect();
    let mut bodies = Vec::new();
    for event in parts.into_values() {
        let Some(Outcome::Ok(success)) = outcome_from_event(event) else {
            continue;
        };
        bodies.push(match success.reference {
            Some(part) => store.body(&part)?,
            None => success.result,
        });
    }
    Some(rule.combiner().combine(bodies))
}

/// Results of a loop in index order, `{results: […], stats: {…}}`.
pub fn loop_results(store: &WorldStore, execution: ExecutionId, pointer: &LoopPointer) -> Value {
    let log = read_log(store, execution);
    let at = |seq: Seq| {
        log.iter()
            .find(|event| event.seq == seq)
            .map(|event| &event.body)
    };
    if let Some(EventBody::StepReused(reused)) = at(pointer.done)
        && let ReusedPart::Step(ended) = &reused.part
    {
        let source = ended.loop_.as_ref().expect("a loop was reused");
        return loop_results(store, reused.execution_id, source);
    }
    let mut stats = Value::Null;
    if let Some(EventBody::LoopDone(done)) = at(pointer.done) {
        stats = serde_json::to_value(done.stats).unwrap_or_default();
        if let Some(inline) = &done.results {
            return json!({"results": inline.to_value(), "stats": stats});
        }
    }
    let Some(EventBody::LoopStarted(started)) = at(pointer.started) else {
        return json!({"results": [], "stats": stats});
    };
    let total = stats["total"].as_u64().unwrap_or(started.total);
    let mut results = vec![Value::Null; usize::try_from(total).unwrap_or(0)];
    if let Some(EventBody::StepReused(reused)) = started.reused.and_then(at)
        && let ReusedPart::Iterations(iterations) = &reused.part
    {
        for items in &iterations.items {
            fill_reused(store, items, &mut results);
        }
    }
    let own = ReusedIterationSet {
        execution_id: execution,
        started: pointer.started,
        until: pointer.done,
        ranges: vec![(0, u64::MAX)],
    };
    fill_reused(store, &own, &mut results);
    json!({"results": results, "stats": stats})
}

/// Inserts the results of these iterations at their indexes.
fn fill_reused(store: &WorldStore, items: &ReusedIterationSet, results: &mut [Value]) {
    let log = read_log(store, items.execution_id);
    let started = log.iter().find(|event| event.seq == items.started);
    let run = started.and_then(|event| event.location.step_run_id());
    let inside = |event: &&Event| {
        let index = event.location.iteration.unwrap_or(u64::MAX);
        let mut ranges = items.ranges.iter();
        let is_meant = ranges.any(|(from, to)| (*from..*to).contains(&index));
        let is_of_loop = event.seq > items.started && event.seq <= items.until;
        let is_in_loop = is_of_loop && is_meant && event.location.step_run_id() == run;
        is_in_loop && is_pipeline_outcome(event)
    };
    for event in log.iter().filter(inside) {
        let index = event
            .location
            .iteration
            .and_then(|index| usize::try_from(index).ok());
        if let (Some(outcome), Some(index)) = (outcome_from_event(event), index) {
            results[index] = outcome.to_listed_value();
        }
    }
}
