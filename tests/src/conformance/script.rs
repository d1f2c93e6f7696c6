//! Scripted outcomes of the tasks of a case: by step and task, by iteration, and by the order of calls.

use std::collections::BTreeMap;
use std::time::Duration;

use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use serde_json::{Map, Value};

use crate::conformance::outcome_source::{AttemptQuery, OutcomeSource, TimedOutcome};

/// The scripted outcomes of a case.
#[derive(Debug, Clone, Default)]
pub struct Script {
    tasks: BTreeMap<String, Vec<ScriptedOutcome>>,
    /// Number of calls of each task in each iteration.
    calls: BTreeMap<String, usize>,
}

/// One outcome of a scripted tool.
#[derive(Debug, Clone)]
pub struct ScriptedOutcome {
    /// Only for this iteration.
    pub iteration: Option<u64>,
    /// Only for this attempt.
    pub attempt: Option<u32>,
    /// Only for this visit.
    pub visit: Option<u32>,
    /// Outcome of the call; `None` returns the task's input, or what `echo` names.
    pub outcome: Option<Outcome>,
    /// Keys of the call to return as its result: the keys of the tool kind, and `timeout`.
    pub echo: Vec<String>,
    /// Duration of the call.
    pub duration: Duration,
}

impl Script {
    /// Parses a map from `step.task` or `task` to one outcome or a list of outcomes.
    pub(crate) fn parse(tasks: Option<&Value>) -> Result<Self, String> {
        let mut script = Self::default();
        for (name, outcomes) in tasks.and_then(Value::as_object).into_iter().flatten() {
            let list = match outcomes {
                Value::Array(list) => list.iter().map(parse_outcome).collect::<Result<_, _>>()?,
                one => vec![parse_outcome(one)?],
            };
            script.tasks.insert(name.clone(), list);
        }
        Ok(script)
    }

    /// Whether no outcome has a delay.
    pub fn is_immediate(&self) -> bool {
        let mut outcomes = self.tasks.values().flatten();
        outcomes.all(|outcome| outcome.duration.is_zero())
    }

    fn outcomes_of(&self, step: &str, task: &str) -> Option<&[ScriptedOutcome]> {
        let own = self.tasks.get(&format!("{step}.{task}"));
        own.or_else(|| self.tasks.get(task)).map(Vec::as_slice)
    }

    /// Outcome of call number `call` of a task in its pipeline, from 0; the last outcome repeats.
    pub fn scripted_outcome(
        &self,
        step_and_task: (&str, &str),
        iteration: Option<u64>,
        visit: u32,
        attempt: u32,
        call: usize,
    ) -> Option<&ScriptedOutcome> {
        let list = self.outcomes_of(step_and_task.0, step_and_task.1)?;
        let fits = |scripted: &&ScriptedOutcome| {
            scripted.iteration.is_none_or(|only| Some(only) == iteration)
                && scripted.attempt.is_none_or(|only| only == attempt)
                && scripted.visit.is_none_or(|only| only == visit)
        };
        let is_keyed = |scripted: &&ScriptedOutcome| {
            scripted.iteration.is_some() || scripted.attempt.is_some() || scripted.visit.is_some()
        };
        let keyed: Vec<&ScriptedOutcome> = list.iter().filter(is_keyed).filter(fits).collect();
        let plain: Vec<&ScriptedOutcome> = list.iter().filter(|scripted| !is_keyed(scripted)).collect();
        let from = if keyed.is_empty() { plain } else { keyed };
        from.get(call).or_else(|| from.last()).copied()
    }
}

impl OutcomeSource for Script {
    fn next_outcome(&mut self, query: &AttemptQuery<'_>) -> Option<TimedOutcome> {
        let step_and_task = (query.step, query.task);
        self.outcomes_of(step_and_task.0, step_and_task.1)?;
        let iteration = query.iteration.map_or_else(String::new, |index| format!("#{index}"));
        let key = format!("{}.{}.{}{iteration}", query.execution, query.step, query.task);
        let call = self.calls.entry(key).or_default();
        let n = *call;
        *call += 1;
        let scripted = Script::scripted_outcome(self, step_and_task, query.iteration, query.visit, query.attempt, n);
        let Some(scripted) = scripted else {
            return Some(TimedOutcome::immediate(Outcome::ok(Value::Null)));
        };
        let key = |key: &String| match key.as_str() {
            "timeout" => (key.clone(), query.timeout.clone()),
            other => (key.clone(), query.fields.get(other).cloned().unwrap_or_default()),
        };
        let echo = || {
            if scripted.echo.is_empty() {
                return Outcome::ok(query.input.clone());
            }
            Outcome::ok(Value::Object(scripted.echo.iter().map(key).collect()))
        };
        Some(TimedOutcome {
            outcome: scripted.outcome.clone().unwrap_or_else(echo),
            duration: scripted.duration,
        })
    }
}

fn parse_outcome(entry: &Value) -> Result<ScriptedOutcome, String> {
    let invalid = |message: &str| format!("`{entry}`: {message}");
    let map = entry.as_object().ok_or_else(|| invalid("an outcome is a map"))?;
    let outcome = match (map.get("ok"), map.get("error")) {
        (Some(value), None) => Some(Outcome::ok(value.clone())),
        (None, Some(error)) => Some(Outcome::error(parse_error(error).map_err(|reason| invalid(&reason))?)),
        (None, None) => None,
        (Some(_), Some(_)) => return Err(invalid("an outcome is `ok` or `error`")),
    };
    let facets = Facets {
        http: map.get("http").cloned(),
        pg: map.get("pg").cloned(),
        py: map.get("py").cloned(),
    };
    let takes = match map.get("takes") {
        Some(span) => model::duration::parse(span).ok_or_else(|| invalid("`takes` is a duration"))?,
        None => Duration::ZERO,
    };
    let small = |key: &str| map.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    Ok(ScriptedOutcome {
        iteration: map.get("iteration").and_then(Value::as_u64),
        attempt: small("attempt"),
        visit: small("visit"),
        echo: parse_echo(map),
        outcome: outcome.map(|outcome| outcome.with_facets(facets)),
        duration: takes,
    })
}

fn parse_echo(map: &Map<String, Value>) -> Vec<String> {
    let keys = map.get("echo").and_then(Value::as_array);
    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
    keys.map(str::to_owned).collect()
}

fn parse_error(error: &Value) -> Result<TaskError, String> {
    let empty = Map::new();
    let map = error.as_object().unwrap_or(&empty);
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = map.get("kind").cloned().unwrap_or_else(|| "unknown".into());
    let kind: ErrorKind = serde_json::from_value(kind).map_err(|error| error.to_string())?;
    let code = text("code").unwrap_or_else(|| "SCRIPTED".to_owned());
    let message = text("message").unwrap_or_else(|| "it failed as scripted".to_owned());
    let mut task_error = TaskError::new(kind, code, message);
    if let Some(retryable) = map.get("retryable").and_then(Value::as_bool) {
        task_error.retryable = retryable;
    }
    Ok(task_error)
}
