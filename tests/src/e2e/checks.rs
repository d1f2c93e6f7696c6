//! The checkers: what must hold of a run that has ended, by the number of the promise.
//!
//! Enters: what was found out about one run. Leaves: nothing, or the promise that is broken. Each has a control below
//! that shows it a broken world.

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

/// Tasks with this label have an effect that the witness sees.
const EFFECT: &str = "effect";
/// Tasks with this label have one that it must not see twice.
const ONCE: &str = "once";

/// What the routes say of one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    /// How the list, the detail, and the status route say it stands.
    pub(crate) statuses: Vec<RunStatus>,
    /// The last place in its log, as each of them says.
    pub(crate) seqs: Vec<Seq>,
    /// Type and place of each event that the log's route shows.
    pub(crate) events: Vec<(String, Seq)>,
    /// What the replay route folds: where, how it stands, and the state.
    pub(crate) replayed: (Seq, RunStatus, Value),
}

/// What the database still holds for a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Rows of commands.
    pub(crate) commands: i64,
    /// Timers.
    pub(crate) timers: i64,
    /// Messages nobody has taken.
    pub(crate) messages: i64,
}

/// The log keeps its own rules: places, causes, boundaries, loops, attempts, tokens; answers the state it folds to.
pub(crate) fn log_is_lawful(playbook: &str, log: &[Event]) -> Result<State, Violation> {
    let parsed = model::playbook::parse("run", playbook.as_bytes());
    let playbook = parsed.playbook.expect("what runs is a valid playbook");
    let graph = Graph::of(&playbook);
    let mut watch = Watch::new(Arc::new(Plan { playbook, graph }));
    let mut state: Option<State> = None;
    for event in log {
        watch.see(event, state.as_ref(), event.recorded_at)?;
        let seq = event.seq;
        state = engine::fold(state, event);
        must(44, state.is_some(), || format!("event {seq} does not fold"))?;
    }
    let state = state.ok_or_else(|| broken(2, "the log is empty"))?;
    let live = i64::try_from(state.tokens.len()).expect("few tokens");
    must(17, watch.tokens == live, || {
        format!("{} tokens should be live, {live} are", watch.tokens)
    })?;
    Ok(state)
}

/// Each generation has one end, and the last event is one.
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
        format!("the log ends with {last:?}")
    })
}

/// A run that has ended owes nothing to anybody.
pub(crate) fn nothing_is_left(state: &State, left: &Left) -> Done {
    must(11, state.is_ended(), || "it has not ended".to_owned())?;
    let owed = state.commands.len() + state.timers.len();
    must(11, owed == 0, || {
        format!("it has ended and its state owes {owed} commands and timers")
    })?;
    must(11, *left == Left::default(), || {
        format!("it has ended and the database holds {left:?}")
    })
}

/// Every route says the same of a run, and it is what its log says.
pub(crate) fn routes_agree(state: &State, log: &[Event], shown: &Shown) -> Done {
    let status = state.status();
    let others = shown.statuses.iter().find(|other| **other != status);
    must(12, others.is_none(), || {
        format!("the log says {status}, the routes {:?}", shown.statuses)
    })?;
    let behind = shown.seqs.iter().find(|seq| **seq != state.seq);
    must(12, behind.is_none(), || {
        format!(
            "the log ends at {}, the routes say {:?}",
            state.seq, shown.seqs
        )
    })?;
    let events: Vec<(String, Seq)> = log
        .iter()
        .map(|event| (event.kind().to_string(), event.seq))
        .collect();
    must(12, events == shown.events, || {
        format!(
            "the route shows {} of {} events",
            shown.events.len(),
            events.len()
        )
    })
}

/// The state that the replay route shows is the fold of the log.
pub(crate) fn replay_is_the_fold(state: &State, shown: &Shown) -> Done {
    let (seq, status, value) = &shown.replayed;
    must(44, (*seq, *status) == (state.seq, state.status()), || {
        format!("the replay route stands at {seq} as {status}")
    })?;
    let folded = ciborium::Value::serialized(state);
    let folded = folded.map_err(|error| broken(44, &format!("a state has no form: {error}")))?;
    must(44, is_shown(&folded, value), || {
        "the replay route shows another state than the log folds to".to_owned()
    })
}

/// Whether JSON shows a value; keys that are no text have a form of the route's own, and are only counted.
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

/// Every finished effect was seen, and none that must not was seen twice.
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
            format!("`{key}` must happen at most once and happened {count} times")
        })?;
        let is_done = matches!(event.body, Body::TaskDone(_));
        must(36, !is_done || count >= 1, || {
            format!("`{key}` is recorded as done and nobody saw it")
        })?;
    }
    Ok(())
}

/// No effect came from nowhere: each key that was seen is that of a task in a log.
pub(crate) fn effects_have_a_cause(
    logs: &BTreeMap<ExecutionId, Vec<Event>>,
    seen: &BTreeMap<String, u32>,
) -> Done {
    let known: std::collections::BTreeSet<ExecutionId> = logs.keys().copied().collect();
    for key in seen.keys() {
        let execution = key.split('/').next().and_then(|id| id.parse().ok());
        let is_known = execution.is_some_and(|id| known.contains(&id));
        must(36, is_known, || format!("`{key}` is of no run there is"))?;
    }
    Ok(())
}

/// The bus got everything, however often it was away.
pub(crate) fn everything_is_published(waiting: i64) -> Done {
    must(48, waiting == 0, || {
        format!("{waiting} rows wait to be published")
    })
}

pub(crate) fn broken(number: u32, what: &str) -> Violation {
    Violation {
        number,
        what: what.to_owned(),
    }
}

/// A run ends as its playbook says, with the result it says.
pub(crate) fn ends_as_it_must(begun: &Begun, detail: &RunAnswer) -> Done {
    let (recipe, n) = (begun.recipe, begun.n);
    let wanted = recipe.ending();
    must(50, detail.status == wanted, || {
        let why = detail.execution.error.clone().unwrap_or_default();
        format!(
            "{recipe:?} {n} ended {} instead of {wanted}: {why}",
            detail.status
        )
    })?;
    let results = recipe.results(n);
    must(
        50,
        results.is_empty() || results.contains(&detail.result),
        || {
            format!(
                "{recipe:?} {n} gives {}, not one of {results:?}",
                detail.result
            )
        },
    )
}

/// Two readings of the projections are the same, row by row.
pub(crate) fn projections_are_the_same(before: &[String], after: &[String]) -> Done {
    for (before, after) in before.iter().zip(after) {
        let lines = before.lines().zip(after.lines());
        let differs = lines.clone().find(|(before, after)| before != after);
        let is_same = before == after;
        must(46, is_same, || {
            format!("a projection rebuilt differs: {differs:?}")
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
