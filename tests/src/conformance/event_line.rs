//! Formats an event as one line, without IDs and times.

use std::fmt::Write as _;

use model::event::{
    AdmitEvaluated, AwaitTarget, Event, EventBody, ExecutionFinished, NextEvaluated, RerunOrigin, ReusedPart,
    ReusedRecord, TaskEnded, WorkflowStarted,
};
use model::id::Name;
use model::manifest::ManifestRule;
use model::number_range::NumberRange;
use model::outcome::{Outcome, TaskError};
use model::raw::RawJson;
use model::result_ref::ResultRef;
use serde_json::Value;

/// A longer text is replaced by its length.
const TEXT_BYTES_MAX: usize = 1_000;

/// Formats an event without its location, which the caller prints.
pub(crate) fn event_line(event: &Event) -> String {
    let parts = [event_name(event), event_details(event)];
    let parts: Vec<&str> = parts
        .iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(" ")
}

fn event_name(event: &Event) -> String {
    let location = &event.location;
    let mut text = event.kind().name().to_owned();
    if let Some(task) = &location.task {
        text.push(' ');
        text.push_str(task.as_str());
        if location.visit > 1 {
            let _ = write!(text, "#{}", location.visit);
        }
        if location.attempt > 1 {
            let _ = write!(text, " attempt {}", location.attempt);
        }
        if let Some(page) = location.page {
            let _ = write!(text, " page {page}");
        }
    }
    text
}

fn event_details(event: &Event) -> String {
    match &event.body {
        EventBody::ExecutionRequested(requested) => {
            let rerun_suffix = requested.rerun.as_deref().map_or_else(String::new, rerun_text);
            format!("workload={}{rerun_suffix}", data_text(&requested.workload))
        }
        EventBody::WorkflowStarted(started) => workflow_started_text(started),
        EventBody::CancelRequested(request) => {
            let cascade = if request.cascade { "" } else { "cascade=false" };
            let ending = request
                .ending
                .map_or_else(String::new, |status| serialized_name(&status));
            format!("{cascade}{ending}")
        }
        EventBody::PlaybookSwitched(switched) => {
            let unchanged = serde_json::to_value(&switched.kept).unwrap_or_default();
            let restarted = serde_json::to_value(&switched.restarted).unwrap_or_default();
            format!("version={} kept={unchanged} restarted={restarted}", switched.version)
        }
        EventBody::StepReused(reused) => reused_text(reused),
        EventBody::WorkflowFinished(finished) | EventBody::PlaybookFinished(finished) => execution_end_text(finished),
        EventBody::ExecutionRetried(retried) => format!("generation={}", retried.generation),
        EventBody::SignalReceived(signal) => {
            let payload = signal
                .payload
                .as_ref()
                .map_or_else(String::new, |raw| outcome_text(raw, None));
            format!("{} {payload}", signal.name).trim_end().to_owned()
        }
        EventBody::TimerSet(set) => {
            let span = set.due.since(event.recorded_at).as_secs_f64();
            format!("{} in {span:.1}s", serialized_name(&set.purpose))
        }
        EventBody::AdmitEvaluated(admit) => admission_text(admit),
        EventBody::StepScheduled(scheduled) => {
            let args = optional_text("args", scheduled.args.as_ref());
            let from = optional_text("args_from", scheduled.args_from.as_ref());
            let last = if scheduled.is_final { " final" } else { "" };
            format!("tokens={}{args}{from}{last}", scheduled.tokens.len())
        }
        EventBody::NextEvaluated(next) => routing_text(next),
        EventBody::CtxPatched(patched) => data_text(&patched.patch),
        EventBody::StepDone(done) => manifest_list_text(&done.manifests).trim_start().to_owned(),
        EventBody::StepFailed(failed) | EventBody::IterationFailed(failed) => {
            format!(
                "{}{}",
                error_text(&failed.error),
                optional_text("set_ctx", failed.set_ctx.as_ref())
            )
        }
        EventBody::IterationDone(done) => optional_text("set_ctx", done.set_ctx.as_ref()).trim_start().to_owned(),
        EventBody::TaskStarted(started) => started.awaits.as_deref().map_or_else(String::new, await_text),
        EventBody::AttemptDone(ended) | EventBody::AttemptFailed(ended) => {
            outcome_text(&ended.outcome, ended.result_ref.as_deref())
        }
        EventBody::TaskDone(ended) | EventBody::TaskFailed(ended) => task_end_text(ended),
        EventBody::PolicyEvaluated(policy) => {
            let action = serde_json::to_value(&policy.action).unwrap_or_default();
            format!("rule={} {action}", index_text(policy.matched_rule_index))
        }
        EventBody::LoopStarted(started) => format!(
            "total={}{}{} mode={} max_in_flight={} failure={}",
            started.total,
            if started.more { "+" } else { "" },
            started.range.as_ref().map_or_else(String::new, range_text),
            serialized_name(&started.mode),
            started.max_in_flight,
            serialized_name(&started.failure)
        ),
        EventBody::FrameClaimed(frame) => format!("from={} rows={}", frame.from, frame.rows),
        EventBody::ManifestUpdated(stored) => manifest_text(&stored.result_ref),
        EventBody::LoopDone(done) => {
            let stats = done.stats;
            let results = optional_text("results", done.results.as_ref());
            let manifests = manifest_list_text(&done.manifests);
            format!(
                "{}/{} failed={}{results}{manifests}",
                stats.succeeded, stats.total, stats.failed
            )
        }
        _ => String::new(),
    }
}

fn admission_text(admit: &AdmitEvaluated) -> String {
    let rule = admit
        .matched_rule_index
        .map_or("none".to_owned(), |rule| rule.to_string());
    let verdict = match (admit.discarded, admit.allow) {
        (true, _) => "discarded",
        (false, true) => "allow",
        (false, false) => "deny",
    };
    let reason = admit
        .error
        .as_ref()
        .map_or_else(String::new, |error| format!(" {}", error_text(error)));
    format!("{verdict} rule={rule} tokens={}{reason}", admit.tokens.len())
}

/// The addresses of manifests, without the execution ID.
fn manifest_list_text(uris: &[String]) -> String {
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

fn range_text(range: &NumberRange) -> String {
    format!(" range={}", RawJson::from_serializable(range).text())
}

fn manifest_text(reference: &ResultRef) -> String {
    let Some(rule) = ManifestRule::from_reference(reference) else {
        return "no rule".to_owned();
    };
    let path = rule.merge_path.as_deref().unwrap_or("$");
    let suffix = if rule.is_result { " is the result" } else { "" };
    let strategy = rule.strategy.name();
    format!("{} parts {strategy} {path}{suffix}", rule.parts)
}

fn workflow_started_text(started: &WorkflowStarted) -> String {
    let tokens = started.tokens.as_ref().map_or_else(String::new, |tokens| {
        let tokens = tokens.iter().map(|token| {
            let from = token.from.as_ref();
            let from = from.map_or_else(String::new, |from| format!(" from={}", from.step));
            format!("{}{}{from}", token.step, optional_text("args", token.args.as_ref()))
        });
        format!(" tokens=[{}]", tokens.collect::<Vec<_>>().join(", "))
    });
    format!("entry={}{tokens}", started.entry)
}

fn rerun_text(rerun: &RerunOrigin) -> String {
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
fn reused_text(reused: &ReusedRecord) -> String {
    let part = match &reused.part {
        ReusedPart::Task { ok } => format!("task ok={ok}"),
        ReusedPart::Step(step) => {
            let last = step.last.as_ref().map_or("none", |last| last.as_str());
            let is_loop = if step.loop_.is_some() { " loop" } else { "" };
            let error = step.error.as_ref();
            let error = error.map_or_else(String::new, |error| format!(" {}", error_text(error)));
            format!("step ok={} last={last}{is_loop}{error}", step.ok)
        }
        ReusedPart::Iterations(iterations) => {
            let patches = iterations.set_ctx.len();
            let ranges = iterations.ranges();
            format!("iterations={ranges:?} of {} patches={patches}", iterations.total)
        }
    };
    format!("from {} {part}", reused.execution_id)
}

fn execution_end_text(finished: &ExecutionFinished) -> String {
    let result = finished
        .result
        .as_ref()
        .map_or("none".to_owned(), |result| result.step.to_string());
    let error = finished
        .error
        .as_ref()
        .map_or_else(String::new, |error| format!(" {}", error_text(error)));
    format!(
        "{} generation={} result={result}{error}",
        serialized_name(&finished.ended),
        finished.generation
    )
}

fn routing_text(next: &NextEvaluated) -> String {
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
        .map(|arc| format!("{}{}", arc.step, optional_text("args", arc.args.as_ref())))
        .collect();
    let held_suffix = if next.held { " held" } else { "" };
    let error = next
        .error
        .as_ref()
        .map_or_else(String::new, |error| format!(" {}", error_text(error)));
    format!(
        "{} guards=[{}] selected=[{}]{held_suffix}{error}",
        serialized_name(&next.mode),
        guards.join(", "),
        arcs.join(", ")
    )
}

fn task_end_text(ended: &TaskEnded) -> String {
    let to = ended
        .to
        .as_ref()
        .map_or_else(String::new, |to: &Name| format!(" to={to}"));
    let writes = [
        optional_text("set_iter", ended.set_iter.as_ref()),
        optional_text("set_ctx", ended.set_ctx.as_ref()),
        optional_text("set", ended.set.as_ref()),
    ];
    format!(
        "{} rule={} do={}{to}{}",
        outcome_text(&ended.outcome, ended.result_ref.as_deref()),
        index_text(ended.matched_rule_index),
        serialized_name(&ended.directive),
        writes.concat()
    )
}

fn await_text(awaits: &AwaitTarget) -> String {
    match awaits {
        AwaitTarget::Child(child) => format!(
            "awaits child {} {} wait={}",
            child.path,
            data_text(&child.input),
            child.wait
        ),
        AwaitTarget::Wait(wait) => {
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
fn outcome_text(raw: &RawJson, reference: Option<&ResultRef>) -> String {
    match raw.parse_as::<Outcome>() {
        Ok(Outcome::Ok(success)) => match success.reference.as_deref().or(reference) {
            Some(reference) if ManifestRule::from_reference(reference).is_some() => {
                format!("ok {}", manifest_text(reference))
            }
            Some(reference) => {
                let extracted = Value::Object(reference.extracted.clone());
                format!("ok <body of {} bytes> extracted={extracted}", reference.meta.bytes)
            }
            None => format!("ok {}", abbreviate(success.result)),
        },
        Ok(Outcome::Error(failed)) => error_text(&failed.error),
        Err(_) => data_text(raw),
    }
}

/// Data in which large parts are replaced by a short description.
fn data_text(raw: &RawJson) -> String {
    let is_plain = |text: &str| !text.contains("result_ref") && !text.contains("\"manifest\"");
    if raw.text().len() <= TEXT_BYTES_MAX && is_plain(raw.text()) {
        return raw.text().to_owned();
    }
    abbreviate(raw.to_value()).to_string()
}

/// Describes a body or a long text by its size, because its location differs between runs.
pub(crate) fn abbreviate(value: Value) -> Value {
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
            let brief = map.into_iter().map(|(key, value)| (key, abbreviate(value)));
            Value::Object(brief.collect())
        }
        Value::Array(items) => items.into_iter().map(abbreviate).collect(),
        Value::String(text) if text.len() > TEXT_BYTES_MAX => format!("<text of {} bytes>", text.len()).into(),
        other => other,
    }
}

pub(crate) fn error_text(error: &TaskError) -> String {
    format!("error {}: {}", error.code, error.message)
}

fn optional_text(name: &str, raw: Option<&RawJson>) -> String {
    raw.map_or_else(String::new, |raw| format!(" {name}={}", data_text(raw)))
}

fn index_text(index: Option<u32>) -> String {
    index.map_or("none".to_owned(), |index| index.to_string())
}

fn serialized_name<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        other => other.unwrap_or_default().to_string(),
    }
}
