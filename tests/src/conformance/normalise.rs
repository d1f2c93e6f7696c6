//! Normalizes logs so that they can be compared: one sub-log for each step run and iteration, the server's decisions in
//! their global order, and the end of the run. It drops IDs, times, and the assignment of commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use engine::ExecutionState;
use model::event::{AllowedSource, Event, EventBody, EventKind};
use model::outcome::Outcome;
use regex::Regex;
use serde_json::{Map, Value};

use crate::conformance::event_line::{abbreviate, event_line};

/// The log of one execution, and its name.
#[derive(Debug, Clone)]
pub struct CaseLog {
    /// `root`, or the child's path and its index among its siblings.
    pub name: String,
    /// The log.
    pub events: Vec<Event>,
}

/// The logs of a case as one text.
pub fn normalise(logs: &[CaseLog]) -> String {
    let mut text = String::new();
    for log in logs {
        let _ = writeln!(text, "{}:", log.name);
        write_log(&log.events, &mut text);
    }
    without_times(&text, logs)
}

/// Replaces times and execution IDs in data, because they differ between runs.
fn without_times(text: &str, logs: &[CaseLog]) -> String {
    let time = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z").expect("a valid pattern");
    let text = time.replace_all(text, "<time>").into_owned();
    let ids = logs.iter().filter_map(|log| log.events.first());
    ids.fold(text, |text, first| {
        text.replace(&first.execution_id.to_string(), "<id>")
    })
}

fn write_log(events: &[Event], text: &mut String) {
    let state = events.iter().fold(None, engine::fold);
    let status = state
        .as_ref()
        .map_or("none", |state: &ExecutionState| state.status().name());
    let _ = writeln!(text, "  status: {status}");
    let _ = writeln!(
        text,
        "  result: '{}'",
        abbreviate(log_result(events)).to_string().replace('\'', "''")
    );
    let _ = writeln!(
        text,
        "  ctx: '{}'",
        abbreviate(Value::Object(folded_ctx(events)))
            .to_string()
            .replace('\'', "''")
    );
    let _ = writeln!(text, "  decided: |");
    for event in events.iter().filter(|event| is_decision(event)) {
        let step = match event.location.step_run_id() {
            Some(run) => format!("{}:{} ", run.step, run.run),
            None => event
                .location
                .step
                .as_ref()
                .map_or_else(String::new, |step| format!("{step} ")),
        };
        let _ = writeln!(text, "    {step}{}", event_line(event));
    }
    let _ = writeln!(text, "  steps:");
    for (key, lines) in sub_logs(events) {
        let _ = writeln!(text, "    {key}: |");
        for line in lines {
            let _ = writeln!(text, "      {line}");
        }
    }
}

/// Whether an event is a decision of the server, other than the assignment of work.
fn is_decision(event: &Event) -> bool {
    is_compared(event.kind())
        && (event.kind().allowed_source() == AllowedSource::Server || event.kind() == EventKind::StepFailed)
}

fn is_compared(kind: EventKind) -> bool {
    !matches!(
        kind,
        EventKind::CommandIssued
            | EventKind::CommandClaimed
            | EventKind::CommandExpired
            | EventKind::CommandFailed
            | EventKind::IterationScheduled
    )
}

type SubLogKey = (String, u32, Option<u64>);

/// The ordered sub-log of each step run and iteration.
fn sub_logs(events: &[Event]) -> Vec<(String, Vec<String>)> {
    let mut order: Vec<SubLogKey> = Vec::new();
    let mut logs: BTreeMap<SubLogKey, Vec<String>> = BTreeMap::new();
    for event in events.iter().filter(|event| is_compared(event.kind())) {
        let Some(run) = event.location.step_run_id() else {
            continue;
        };
        let key = (run.step.to_string(), run.run, event.location.iteration);
        if !logs.contains_key(&key) {
            order.push(key.clone());
        }
        logs.entry(key).or_default().push(event_line(event));
    }
    // Runs are sorted by when they were scheduled, iterations by index below their run.
    let first = |key: &SubLogKey| order.iter().position(|other| (&other.0, other.1) == (&key.0, key.1));
    let mut keys: Vec<&SubLogKey> = logs.keys().collect();
    keys.sort_by_key(|key| (first(key), key.2));
    let named_logs = keys.into_iter().map(|key| {
        let index = key.2.map_or_else(String::new, |index| format!("[{index}]"));
        (format!("'{}:{}{index}'", key.0, key.1), logs[key].clone())
    });
    named_logs.collect()
}

/// The result of the run.
fn log_result(events: &[Event]) -> Value {
    let pointer = events.iter().rev().find_map(|event| match &event.body {
        EventBody::PlaybookFinished(finished) => finished.result.clone(),
        _ => None,
    });
    let boundary = pointer.and_then(|pointer| events.iter().find(|event| event.seq == pointer.seq));
    let Some(boundary) = boundary else {
        return Value::Null;
    };
    if let EventBody::LoopDone(done) = &boundary.body {
        return done
            .results
            .as_ref()
            .map(model::raw::RawJson::to_value)
            .unwrap_or_default();
    }
    let of_run =
        |event: &&Event| event.location.step_run_id() == boundary.location.step_run_id() && event.seq < boundary.seq;
    let last = events.iter().rev().filter(of_run).find_map(|event| match &event.body {
        EventBody::TaskDone(ended) => ended.outcome.parse_as::<Outcome>().ok(),
        _ => None,
    });
    match last {
        Some(Outcome::Ok(success)) => success.result,
        _ => Value::Null,
    }
}

/// `ctx` after all patches.
fn folded_ctx(events: &[Event]) -> Map<String, Value> {
    let mut ctx = Map::new();
    for event in events {
        if let EventBody::CtxPatched(patched) = &event.body {
            model::ctx::apply_patch(&mut ctx, &patched.patch.parse_as().unwrap_or_default());
        }
    }
    ctx
}
