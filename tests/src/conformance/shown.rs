//! Formats an event as one line, without IDs and times.

use std::fmt::Write as _;

use model::event::{
    Awaits, Body, Event, Finished, NextEvaluated, Rerun, Reused, ReusedPart, TaskEnded,
    WorkflowStarted,
};
use model::id::Name;
use model::manifest::Rule;
use model::number_range::NumberRange;
use model::outcome::{Outcome, TaskError};
use model::raw::Raw;
use model::result_ref::ResultRef;
use serde_json::Value;

/// A longer text is replaced by its length.
const LONG: usize = 1_000;

/// Formats an event without its location, which the caller prints.
pub(crate) fn line(event: &Event) -> String {
    let words = [name(event), details(event)];
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

fn name(event: &Event) -> String {
    let at = &event.at;
    let mut text = event.kind().name().to_owned();
    if let Some(task) = &at.task {
        text.push(' ');
        text.push_str(task.as_str());
        if at.visit > 1 {
            let _ = write!(text, "#{}", at.visit);
        }
        if at.attempt > 1 {
            let _ = write!(text, " attempt {}", at.attempt);
        }
        if let Some(page) = at.page {
            let _ = write!(text, " page {page}");
        }
    }
    text
}

fn details(event: &Event) -> String {
    match &event.body {
        Body::ExecutionRequested(requested) => {
            let again = requested.rerun.as_deref().map_or_else(String::new, rerun);
            format!("workload={}{again}", data(&requested.workload))
        }
        Body::WorkflowStarted(started) => begun(started),
        Body::CancelRequested(request) => {
            let spares = if request.cascade { "" } else { "cascade=false" };
            let ending = request.ending.map_or_else(String::new, |it| word(&it));
            format!("{spares}{ending}")
        }
        Body::PlaybookSwitched(switched) => {
            let kept = serde_json::to_value(&switched.kept).unwrap_or_default();
            let restarted = serde_json::to_value(&switched.restarted).unwrap_or_default();
            format!(
                "version={} kept={kept} restarted={restarted}",
                switched.version
            )
        }
        Body::StepReused(reused) => taken_over(reused),
        Body::WorkflowFinished(finished) | Body::PlaybookFinished(finished) => ended(finished),
        Body::ExecutionRetried(retried) => format!("generation={}", retried.generation),
        Body::SignalReceived(signal) => {
            let payload = signal
                .payload
                .as_ref()
                .map_or_else(String::new, |raw| answer(raw, None));
            format!("{} {payload}", signal.name).trim_end().to_owned()
        }
        Body::TimerSet(set) => {
            let span = set.due.since(event.recorded_at).as_secs_f64();
            format!("{} in {span:.1}s", word(&set.purpose))
        }
        Body::AdmitEvaluated(admit) => {
            let rule = admit
                .matched_rule_index
                .map_or("none".to_owned(), |rule| rule.to_string());
            let answer = match (admit.discarded, admit.allow) {
                (true, _) => "discarded",
                (false, true) => "allow",
                (false, false) => "deny",
            };
            let why = admit
                .error
                .as_ref()
                .map_or_else(String::new, |error| format!(" {}", failure(error)));
            format!("{answer} rule={rule} tokens={}{why}", admit.tokens.len())
        }
        Body::StepScheduled(scheduled) => {
            let args = optional("args", scheduled.args.as_ref());
            let from = optional("args_from", scheduled.args_from.as_ref());
            let last = if scheduled.is_final { " final" } else { "" };
            format!("tokens={}{args}{from}{last}", scheduled.tokens.len())
        }
        Body::NextEvaluated(next) => routed(next),
        Body::CtxPatched(patched) => data(&patched.patch),
        Body::StepDone(done) => manifests(&done.manifests).trim_start().to_owned(),
        Body::StepFailed(failed) | Body::IterationFailed(failed) => {
            format!(
                "{}{}",
                failure(&failed.error),
                optional("set_ctx", failed.set_ctx.as_ref())
            )
        }
        Body::IterationDone(done) => optional("set_ctx", done.set_ctx.as_ref())
            .trim_start()
            .to_owned(),
        Body::TaskStarted(started) => started.awaits.as_deref().map_or_else(String::new, awaited),
        Body::AttemptDone(ended) | Body::AttemptFailed(ended) => {
            answer(&ended.outcome, ended.result_ref.as_deref())
        }
        Body::TaskDone(ended) | Body::TaskFailed(ended) => task(ended),
        Body::PolicyEvaluated(policy) => {
            let action = serde_json::to_value(&policy.action).unwrap_or_default();
            format!("rule={} {action}", index(policy.matched_rule_index))
        }
        Body::LoopStarted(started) => format!(
            "total={}{}{} mode={} max_in_flight={} failure={}",
            started.total,
            if started.more { "+" } else { "" },
            started.range.as_ref().map_or_else(String::new, range),
            word(&started.mode),
            started.max_in_flight,
            word(&started.failure)
        ),
        Body::FrameClaimed(frame) => format!("from={} rows={}", frame.from, frame.rows),
        Body::ManifestUpdated(stored) => manifest(&stored.result_ref),
        Body::LoopDone(done) => {
            let stats = done.stats;
            let results = optional("results", done.results.as_ref());
            let manifests = manifests(&done.manifests);
            format!(
                "{}/{} failed={}{results}{manifests}",
                stats.succeeded, stats.total, stats.failed
            )
        }
        _ => String::new(),
    }
}

/// The addresses of manifests, without the execution ID.
fn manifests(uris: &[String]) -> String {
    let path = |uri: &String| {
        let path = uri.split_once("/step/");
        path.map_or_else(|| uri.clone(), |(_, path)| path.to_owned())
    };
    let paths: Vec<String> = uris.iter().map(path).collect();
    if paths.is_empty() {
        return String::new();
    }
    format!(" manifests={}", paths.join(","))
}

fn range(range: &NumberRange) -> String {
    format!(" range={}", Raw::of(range).text())
}

fn manifest(reference: &ResultRef) -> String {
    let Some(rule) = Rule::of(reference) else {
        return "no rule".to_owned();
    };
    let path = rule.merge_path.as_deref().unwrap_or("$");
    let stands = if rule.is_result { " is the result" } else { "" };
    let strategy = rule.strategy.name();
    format!("{} parts {strategy} {path}{stands}", rule.parts)
}

fn begun(started: &WorkflowStarted) -> String {
    let tokens = started.tokens.as_ref().map_or_else(String::new, |tokens| {
        let tokens = tokens.iter().map(|token| {
            let from = token.from.as_ref();
            let from = from.map_or_else(String::new, |from| format!(" from={}", from.step));
            format!(
                "{}{}{from}",
                token.step,
                optional("args", token.args.as_ref())
            )
        });
        format!(" tokens=[{}]", tokens.collect::<Vec<_>>().join(", "))
    });
    format!("entry={}{tokens}", started.entry)
}

fn rerun(rerun: &Rerun) -> String {
    let step = rerun.from_step.as_ref();
    let step = step.map_or_else(String::new, |step| format!(" from={step}"));
    let index = rerun.from_iteration;
    let index = index.map_or_else(String::new, |index| format!("[{index}]"));
    format!(
        " rerun of {}{step}{index} pins={}",
        rerun.execution_id,
        rerun.pins.len()
    )
}

/// Sequence numbers differ between runs; the reused data is visible where it is used.
fn taken_over(reused: &Reused) -> String {
    let what = match &reused.part {
        ReusedPart::Task { ok } => format!("task ok={ok}"),
        ReusedPart::Step(step) => {
            let last = step.last.as_ref().map_or("none", |last| last.as_str());
            let is_loop = if step.loop_.is_some() { " loop" } else { "" };
            let error = step.error.as_ref();
            let error = error.map_or_else(String::new, |error| format!(" {}", failure(error)));
            format!("step ok={} last={last}{is_loop}{error}", step.ok)
        }
        ReusedPart::Iterations(iterations) => {
            let patches = iterations.set_ctx.len();
            let ranges = iterations.ranges();
            format!(
                "iterations={ranges:?} of {} patches={patches}",
                iterations.total
            )
        }
    };
    format!("from {} {what}", reused.execution_id)
}

fn ended(finished: &Finished) -> String {
    let result = finished
        .result
        .as_ref()
        .map_or("none".to_owned(), |result| result.step.to_string());
    let error = finished
        .error
        .as_ref()
        .map_or_else(String::new, |error| format!(" {}", failure(error)));
    format!(
        "{} generation={} result={result}{error}",
        word(&finished.ended),
        finished.generation
    )
}

fn routed(next: &NextEvaluated) -> String {
    let guards: Vec<&str> = next
        .guards
        .iter()
        .map(|guard| match guard {
            None => "-",
            Some(true) => "true",
            Some(false) => "false",
        })
        .collect();
    let arcs: Vec<String> = next
        .selected
        .iter()
        .map(|arc| format!("{}{}", arc.step, optional("args", arc.args.as_ref())))
        .collect();
    let held = if next.held { " held" } else { "" };
    let error = next
        .error
        .as_ref()
        .map_or_else(String::new, |error| format!(" {}", failure(error)));
    format!(
        "{} guards=[{}] selected=[{}]{held}{error}",
        word(&next.mode),
        guards.join(", "),
        arcs.join(", ")
    )
}

fn task(ended: &TaskEnded) -> String {
    let to = ended
        .to
        .as_ref()
        .map_or_else(String::new, |to: &Name| format!(" to={to}"));
    let writes = [
        optional("set_iter", ended.set_iter.as_ref()),
        optional("set_ctx", ended.set_ctx.as_ref()),
        optional("set", ended.set.as_ref()),
    ];
    format!(
        "{} rule={} do={}{to}{}",
        answer(&ended.outcome, ended.result_ref.as_deref()),
        index(ended.matched_rule_index),
        word(&ended.directive),
        writes.concat()
    )
}

fn awaited(awaits: &Awaits) -> String {
    match awaits {
        Awaits::Child(child) => format!(
            "awaits child {} {} wait={}",
            child.path,
            data(&child.input),
            child.wait
        ),
        Awaits::Wait(wait) => {
            let signal = wait
                .signal
                .as_ref()
                .map_or_else(String::new, |name| format!(" signal {name}"));
            let time = match (wait.until, wait.times_out) {
                (None, _) => "",
                (Some(_), false) => " a time",
                (Some(_), true) => " or a timeout",
            };
            format!("awaits{signal}{time}")
        }
    }
}

/// Formats an outcome and its reference, or other data.
fn answer(raw: &Raw, reference: Option<&ResultRef>) -> String {
    match raw.read::<Outcome>() {
        Ok(Outcome::Ok(success)) => match success.reference.as_deref().or(reference) {
            Some(reference) if Rule::of(reference).is_some() => {
                format!("ok {}", manifest(reference))
            }
            Some(reference) => {
                let extracted = Value::Object(reference.extracted.clone());
                format!(
                    "ok <body of {} bytes> extracted={extracted}",
                    reference.meta.bytes
                )
            }
            None => format!("ok {}", brief(success.result)),
        },
        Ok(Outcome::Error(failed)) => failure(&failed.error),
        Err(_) => data(raw),
    }
}

/// Data in which large parts are replaced by a short description.
fn data(raw: &Raw) -> String {
    let is_plain = |text: &str| !text.contains("result_ref") && !text.contains("\"manifest\"");
    if raw.text().len() <= LONG && is_plain(raw.text()) {
        return raw.text().to_owned();
    }
    brief(raw.value()).to_string()
}

/// Describes a body or a long text by its size, because its location differs between runs.
pub(crate) fn brief(value: Value) -> Value {
    match value {
        Value::Object(map) if map.get("kind").is_some_and(|kind| kind == "result_ref") => {
            let bytes = map.get("meta").and_then(|meta| meta.get("bytes"));
            format!("<body of {} bytes>", bytes.unwrap_or(&Value::Null)).into()
        }
        Value::Object(map) if map.get("kind").is_some_and(|kind| kind == "manifest") => {
            let parts = map.get("meta").and_then(|meta| meta.get("parts"));
            format!("<manifest of {} parts>", parts.unwrap_or(&Value::Null)).into()
        }
        Value::Object(map) => {
            let brief = map.into_iter().map(|(key, value)| (key, brief(value)));
            Value::Object(brief.collect())
        }
        Value::Array(items) => items.into_iter().map(brief).collect(),
        Value::String(text) if text.len() > LONG => {
            format!("<text of {} bytes>", text.len()).into()
        }
        other => other,
    }
}

pub(crate) fn failure(error: &TaskError) -> String {
    format!("error {}: {}", error.code, error.message)
}

fn optional(name: &str, raw: Option<&Raw>) -> String {
    raw.map_or_else(String::new, |raw| format!(" {name}={}", data(raw)))
}

fn index(index: Option<u32>) -> String {
    index.map_or("none".to_owned(), |index| index.to_string())
}

fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => other.unwrap_or_default().to_string(),
    }
}
