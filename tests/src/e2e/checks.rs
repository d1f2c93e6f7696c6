//! The checkers: what must hold for a finished run, by the number of the invariant.
//!
//! Enters: the data of one run. Leaves: `Ok`, or the violated invariant. Each checker has a control in
//! `controls.rs` that passes it data which violates the invariant.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Graph, State};
use model::event::{Body, Event, Kind};
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use serde_json::Value;
use wire::api::RunAnswer;

use crate::e2e::load::Begun;
use crate::sim::Violation;
use crate::sim::checks::{Done, Plan, must};
use crate::sim::watch::Watch;

/// Label of tasks whose effects the witness records.
const EFFECT: &str = "effect";
/// Label of tasks whose effects may happen at most once.
const ONCE: &str = "once";

/// What the API returns for one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
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
pub(crate) struct Left {
    /// Number of commands.
    pub(crate) commands: i64,
    /// Number of timers.
    pub(crate) timers: i64,
    /// Number of unconsumed messages.
    pub(crate) messages: i64,
}

/// Checks the log: sequence numbers, causes, ends, loops, attempts, tokens. Returns the state after replay.
pub(crate) fn log_is_lawful(playbook: &str, log: &[Event]) -> Result<State, Violation> {
    let parsed = model::playbook::parse("run", playbook.as_bytes());
    let playbook = parsed.playbook.expect("the playbook of a run is valid");
    let graph = Graph::of(&playbook);
    let mut watch = Watch::new(Arc::new(Plan { playbook, graph }));
    let mut state: Option<State> = None;
    for event in log {
        watch.see(event, state.as_ref(), event.recorded_at)?;
        let seq = event.seq;
        state = engine::fold(state, event);
        must(44, state.is_some(), || format!("cannot replay event {seq}"))?;
    }
    let state = state.ok_or_else(|| broken(2, "the log is empty"))?;
    let live = i64::try_from(state.tokens.len()).expect("the number of tokens fits");
    must(17, watch.tokens == live, || {
        format!("expected {} live tokens, found {live}", watch.tokens)
    })?;
    Ok(state)
}

/// Each generation has one end, which is the last event of the log.
pub(crate) fn ends_once(log: &[Event]) -> Done {
    let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
    for event in log {
        if let Body::PlaybookFinished(finished) = &event.body {
            *ends.entry(finished.generation).or_default() += 1;
        }
    }
    let twice = ends.iter().find(|(_, count)| **count != 1);
    must(10, twice.is_none(), || {
        format!("(generation, ends) {twice:?}")
    })?;
    let last = log.last().map(Event::kind);
    must(10, last == Some(Kind::PlaybookProcessed), || {
        format!("the last event of the log is {last:?}")
    })
}

/// A finished run has no open commands, timers or messages.
pub(crate) fn nothing_is_left(state: &State, left: &Left) -> Done {
    must(11, state.is_ended(), || {
        "the run has not finished".to_owned()
    })?;
    let owed = state.commands.len() + state.timers.len();
    must(11, owed == 0, || {
        format!("the run has finished, but its state has {owed} open commands and timers")
    })?;
    must(11, *left == Left::default(), || {
        format!("the run has finished, but the database has {left:?}")
    })
}

/// All routes agree with each other and with the log.
pub(crate) fn routes_agree(state: &State, log: &[Event], shown: &Shown) -> Done {
    let status = state.status();
    let others = shown.statuses.iter().find(|other| **other != status);
    must(12, others.is_none(), || {
        format!(
            "the status is {status} in the log and {:?} in the routes",
            shown.statuses
        )
    })?;
    let behind = shown.seqs.iter().find(|seq| **seq != state.seq);
    must(12, behind.is_none(), || {
        format!(
            "the last sequence number is {} in the log and {:?} in the routes",
            state.seq, shown.seqs
        )
    })?;
    let events: Vec<(String, Seq)> = log
        .iter()
        .map(|event| (event.kind().to_string(), event.seq))
        .collect();
    must(12, events == shown.events, || {
        format!(
            "the route returns {} of {} events",
            shown.events.len(),
            events.len()
        )
    })
}

/// The replay route returns the state that the log replays to.
pub(crate) fn replay_is_the_fold(state: &State, shown: &Shown) -> Done {
    let (seq, status, value) = &shown.replayed;
    must(44, (*seq, *status) == (state.seq, state.status()), || {
        format!("the replay route is at {seq} with status {status}")
    })?;
    let folded = ciborium::Value::serialized(state);
    let folded =
        folded.map_err(|error| broken(44, &format!("cannot serialize the state: {error}")))?;
    must(44, is_shown(&folded, value), || {
        "the replay route returns another state than the log replays to".to_owned()
    })
}

/// Whether JSON equals a value. The route formats keys that are not text in its own way, so these are only counted.
fn is_shown(value: &ciborium::Value, json: &Value) -> bool {
    match (value, json) {
        (ciborium::Value::Map(entries), Value::Object(shown)) => {
            let same = |(key, value): &(ciborium::Value, ciborium::Value)| match key.as_text() {
                Some(key) => shown.get(key).is_some_and(|json| is_shown(value, json)),
                None => true,
            };
            entries.len() == shown.len() && entries.iter().all(same)
        }
        (ciborium::Value::Array(items), Value::Array(shown)) => {
            let pairs = items.iter().zip(shown);
            items.len() == shown.len() && pairs.into_iter().all(|(item, json)| is_shown(item, json))
        }
        (ciborium::Value::Text(text), Value::String(shown)) => text == shown,
        (ciborium::Value::Bool(flag), Value::Bool(shown)) => flag == shown,
        (ciborium::Value::Integer(number), shown) => {
            let number = i128::from(*number).to_string();
            let shown = shown
                .as_str()
                .map_or_else(|| shown.to_string(), str::to_owned);
            number == shown
        }
        (ciborium::Value::Null, shown) => shown.is_null(),
        (ciborium::Value::Float(number), shown) => shown.as_f64() == Some(*number),
        (ciborium::Value::Tag(_, value), shown) => is_shown(value, shown),
        (ciborium::Value::Bytes(_), Value::String(_)) => true,
        _ => false,
    }
}

/// Every finished effect was seen, and no at-most-once effect was seen twice.
pub(crate) fn effects_were_seen(log: &[Event], seen: &BTreeMap<String, u32>) -> Done {
    for event in log {
        let Some(label) = event.at.task.as_ref().map(model::id::Name::as_str) else {
            continue;
        };
        if !matches!(label, EFFECT | ONCE) {
            continue;
        }
        let key = pipeline::idempotency_key(event.execution_id, &event.at);
        let count = seen.get(&key).copied().unwrap_or(0);
        must(37, label != ONCE || count <= 1, || {
            format!("`{key}` must happen at most once, but happened {count} times")
        })?;
        let is_done = matches!(event.body, Body::TaskDone(_));
        must(36, !is_done || count >= 1, || {
            format!("`{key}` is recorded as done, but no effect was seen")
        })?;
    }
    Ok(())
}

/// Every key that was seen belongs to a task in a log.
pub(crate) fn effects_have_a_cause(
    logs: &BTreeMap<ExecutionId, Vec<Event>>,
    seen: &BTreeMap<String, u32>,
) -> Done {
    let known: std::collections::BTreeSet<ExecutionId> = logs.keys().copied().collect();
    for key in seen.keys() {
        let execution = key.split('/').next().and_then(|id| id.parse().ok());
        let is_known = execution.is_some_and(|id| known.contains(&id));
        must(36, is_known, || {
            format!("`{key}` does not belong to any run")
        })?;
    }
    Ok(())
}

/// All events were published to NATS, despite its outages.
pub(crate) fn everything_is_published(waiting: i64) -> Done {
    must(48, waiting == 0, || {
        format!("{waiting} rows are not published")
    })
}

pub(crate) fn broken(number: u32, what: &str) -> Violation {
    Violation {
        number,
        what: what.to_owned(),
    }
}

/// A run ends with the status and a result that its playbook defines.
pub(crate) fn ends_as_it_must(begun: &Begun, detail: &RunAnswer) -> Done {
    let (recipe, n) = (begun.recipe, begun.n);
    let wanted = recipe.ending();
    must(50, detail.status == wanted, || {
        let why = detail.execution.error.clone().unwrap_or_default();
        format!(
            "{recipe:?} {n} ended with {} instead of {wanted}: {why}",
            detail.status
        )
    })?;
    let results = recipe.results(n);
    must(
        50,
        results.is_empty() || results.contains(&detail.result),
        || {
            format!(
                "{recipe:?} {n} returned {}, expected one of {results:?}",
                detail.result
            )
        },
    )
}

/// Two dumps of the projections are equal, row by row.
pub(crate) fn projections_are_the_same(before: &[String], after: &[String]) -> Done {
    for (before, after) in before.iter().zip(after) {
        let lines = before.lines().zip(after.lines());
        let differs = lines.clone().find(|(before, after)| before != after);
        let is_same = before == after;
        must(46, is_same, || {
            format!("a rebuilt projection differs: {differs:?}")
        })?;
    }
    Ok(())
}

/// A secret is in none of these texts.
pub(crate) fn secret_is_nowhere(texts: &[(&str, &str)], secret: &str) -> Done {
    let found = texts.iter().find(|(_, text)| text.contains(secret));
    must(56, found.is_none(), || {
        format!("the secret is in {}", found.map_or("", |(place, _)| place))
    })
}
