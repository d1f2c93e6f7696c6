//! The checkers: the invariants of a finished run, by their numbers.
//!
//! Enters: the data of one run. Leaves: `Ok`, or the violated invariant. Each checker has a control in
//! `controls.rs` that passes it data which violates the invariant.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{ExecutionState, Graph};
use model::event::{Event, EventBody, EventKind};
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use serde_json::Value;
use wire::api::ExecutionDetail;

use crate::e2e::load::StartedExecution;
use crate::sim::Violation;
use crate::sim::checks::{CheckResult, CheckedPlaybook, check_invariant};
use crate::sim::log_checker::LogChecker;

/// Label of tasks whose effects are recorded.
const EFFECT_TASK: &str = "effect";
/// Label of tasks whose effects may happen at most once.
const ONCE_TASK: &str = "once";

/// What the API returns for one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiView {
    /// Status according to the list, the detail and the status route.
    pub(crate) statuses: Vec<RunStatus>,
    /// Last sequence number according to each of them.
    pub(crate) seqs: Vec<Seq>,
    /// Type and sequence number of each event that the event route returns.
    pub(crate) events: Vec<(String, Seq)>,
    /// Response of the replay route: sequence number, status and state.
    pub(crate) replayed: (Seq, RunStatus, Value),
}

/// Rows that the database still has for a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LeftoverRows {
    /// Number of commands.
    pub(crate) commands: i64,
    /// Number of timers.
    pub(crate) timers: i64,
    /// Number of unconsumed messages.
    pub(crate) messages: i64,
}

/// Checks the log: sequence numbers, causes, ends, loops, attempts, tokens. Returns the state after replay.
pub(crate) fn check_log(playbook: &str, log: &[Event]) -> Result<ExecutionState, Violation> {
    let parsed = language::playbook::parse("run", playbook.as_bytes());
    let playbook = parsed.playbook.expect("the playbook of a run is valid");
    let graph = Graph::from_playbook(&playbook);
    let mut watch = LogChecker::new(Arc::new(CheckedPlaybook { playbook, graph }));
    let mut state: Option<ExecutionState> = None;
    for event in log {
        watch.check_event(event, state.as_ref(), event.recorded_at)?;
        let seq = event.seq;
        state = engine::fold(state, event);
        check_invariant(44, state.is_some(), || format!("cannot replay event {seq}"))?;
    }
    let state = state.ok_or_else(|| new_violation(2, "the log is empty"))?;
    let live = i64::try_from(state.tokens.len()).expect("the number of tokens fits");
    check_invariant(17, watch.tokens == live, || {
        format!("expected {} live tokens, found {live}", watch.tokens)
    })?;
    Ok(state)
}

/// Each generation has one end, which is the last event of the log.
pub(crate) fn check_single_end(log: &[Event]) -> CheckResult {
    let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
    for event in log {
        if let EventBody::PlaybookFinished(finished) = &event.body {
            *ends.entry(finished.generation).or_default() += 1;
        }
    }
    let twice = ends.iter().find(|(_, count)| **count != 1);
    check_invariant(10, twice.is_none(), || format!("(generation, ends) {twice:?}"))?;
    let last = log.last().map(Event::kind);
    check_invariant(10, last == Some(EventKind::PlaybookProcessed), || {
        format!("the last event of the log is {last:?}")
    })
}

/// A finished run has no open commands, timers or messages.
pub(crate) fn check_no_leftovers(state: &ExecutionState, leftovers: &LeftoverRows) -> CheckResult {
    check_invariant(11, state.is_ended(), || "the run has not finished".to_owned())?;
    let unfinished_count = state.commands.len() + state.timers.len();
    check_invariant(11, unfinished_count == 0, || {
        format!("the run has finished, but its state has {unfinished_count} open commands and timers")
    })?;
    check_invariant(11, *leftovers == LeftoverRows::default(), || {
        format!("the run has finished, but the database has {leftovers:?}")
    })
}

/// All routes agree with each other and with the log.
pub(crate) fn check_routes(state: &ExecutionState, log: &[Event], view: &ApiView) -> CheckResult {
    let status = state.status();
    let others = view.statuses.iter().find(|other| **other != status);
    check_invariant(12, others.is_none(), || {
        format!(
            "the status is {status} in the log and {:?} in the routes",
            view.statuses
        )
    })?;
    let behind = view.seqs.iter().find(|seq| **seq != state.seq);
    check_invariant(12, behind.is_none(), || {
        format!(
            "the last sequence number is {} in the log and {:?} in the routes",
            state.seq, view.seqs
        )
    })?;
    let events: Vec<(String, Seq)> = log.iter().map(|event| (event.kind().to_string(), event.seq)).collect();
    check_invariant(12, events == view.events, || {
        format!("the route returns {} of {} events", view.events.len(), events.len())
    })
}

/// The replay route returns the state that the log replays to.
pub(crate) fn check_replay(state: &ExecutionState, view: &ApiView) -> CheckResult {
    let (seq, status, value) = &view.replayed;
    check_invariant(44, (*seq, *status) == (state.seq, state.status()), || {
        format!("the replay route is at {seq} with status {status}")
    })?;
    let folded = ciborium::Value::serialized(state);
    let folded = folded.map_err(|error| new_violation(44, &format!("cannot serialize the state: {error}")))?;
    check_invariant(44, is_same_value(&folded, value), || {
        "the replay route returns another state than the log replays to".to_owned()
    })
}

/// Whether JSON equals a value. The route formats keys that are not text in its own way, so these are only counted.
fn is_same_value(value: &ciborium::Value, json: &Value) -> bool {
    match (value, json) {
        (ciborium::Value::Map(entries), Value::Object(json)) => {
            let same = |(key, value): &(ciborium::Value, ciborium::Value)| match key.as_text() {
                Some(key) => json.get(key).is_some_and(|json| is_same_value(value, json)),
                None => true,
            };
            entries.len() == json.len() && entries.iter().all(same)
        }
        (ciborium::Value::Array(items), Value::Array(json)) => {
            let pairs = items.iter().zip(json);
            items.len() == json.len() && pairs.into_iter().all(|(item, json)| is_same_value(item, json))
        }
        (ciborium::Value::Text(text), Value::String(json)) => text == json,
        (ciborium::Value::Bool(flag), Value::Bool(json)) => flag == json,
        (ciborium::Value::Integer(number), json) => {
            let number = i128::from(*number).to_string();
            let json = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
            number == json
        }
        (ciborium::Value::Null, json) => json.is_null(),
        (ciborium::Value::Float(number), json) => json.as_f64() == Some(*number),
        (ciborium::Value::Tag(_, value), json) => is_same_value(value, json),
        (ciborium::Value::Bytes(_), Value::String(_)) => true,
        _ => false,
    }
}

/// Every finished effect was recorded, and no at-most-once effect was recorded twice.
pub(crate) fn check_effects_recorded(log: &[Event], effects: &BTreeMap<String, u32>) -> CheckResult {
    for event in log {
        let Some(label) = event.location.task.as_ref().map(model::id::Name::as_str) else {
            continue;
        };
        if !matches!(label, EFFECT_TASK | ONCE_TASK) {
            continue;
        }
        let key = pipeline::idempotency_key(event.execution_id, &event.location);
        let count = effects.get(&key).copied().unwrap_or(0);
        check_invariant(37, label != ONCE_TASK || count <= 1, || {
            format!("`{key}` must happen at most once, but happened {count} times")
        })?;
        let is_done = matches!(event.body, EventBody::TaskDone(_));
        check_invariant(36, !is_done || count >= 1, || {
            format!("`{key}` is recorded as done, but no effect was recorded")
        })?;
    }
    Ok(())
}

/// Every recorded key belongs to a task in a log.
pub(crate) fn check_effect_causes(
    logs: &BTreeMap<ExecutionId, Vec<Event>>,
    effects: &BTreeMap<String, u32>,
) -> CheckResult {
    let executions: std::collections::BTreeSet<ExecutionId> = logs.keys().copied().collect();
    for key in effects.keys() {
        let execution = key.split('/').next().and_then(|id| id.parse().ok());
        let is_known = execution.is_some_and(|id| executions.contains(&id));
        check_invariant(36, is_known, || format!("`{key}` does not belong to any run"))?;
    }
    Ok(())
}

/// All events were published to NATS, despite its outages.
pub(crate) fn check_all_published(waiting: i64) -> CheckResult {
    check_invariant(48, waiting == 0, || format!("{waiting} rows are not published"))
}

pub(crate) fn new_violation(number: u32, message: &str) -> Violation {
    Violation {
        number,
        description: message.to_owned(),
    }
}

/// A run ends with the status and a result that its playbook defines.
pub(crate) fn check_end(execution: &StartedExecution, detail: &ExecutionDetail) -> CheckResult {
    let (recipe, n) = (execution.recipe, execution.n);
    let expected = recipe.end_status();
    check_invariant(50, detail.status == expected, || {
        let reason = detail.execution.error.clone().unwrap_or_default();
        format!(
            "{recipe:?} {n} ended with {} instead of {expected}: {reason}",
            detail.status
        )
    })?;
    let results = recipe.results(n);
    check_invariant(50, results.is_empty() || results.contains(&detail.result), || {
        format!("{recipe:?} {n} returned {}, expected one of {results:?}", detail.result)
    })
}

/// Two dumps of the projections are equal, row by row.
pub(crate) fn check_projections(before: &[String], after: &[String]) -> CheckResult {
    for (before, after) in before.iter().zip(after) {
        let lines = before.lines().zip(after.lines());
        let differs = lines.clone().find(|(before, after)| before != after);
        let is_same = before == after;
        check_invariant(46, is_same, || format!("a rebuilt projection differs: {differs:?}"))?;
    }
    Ok(())
}

/// A secret is in none of these texts.
pub(crate) fn check_secret_absent(texts: &[(&str, &str)], secret: &str) -> CheckResult {
    let leak = texts.iter().find(|(_, text)| text.contains(secret));
    check_invariant(56, leak.is_none(), || {
        format!("the secret is in {}", leak.map_or("", |(name, _)| name))
    })
}
