//! Rendering a call, and what tasks that wait for something outside wait for; as the worker does it.

use model::event::{Awaits, ChildStart, WaitFor};
use model::id::Name;
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{Step, Task};
use model::raw::Raw;
use model::template::{Data, RenderError, Scope};
use model::time::Time;
use pipeline::SUSPEND_AFTER;
use serde_json::{Map, Value};

/// A call, rendered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ready {
    pub(crate) fields: Map<String, Value>,
    pub(crate) input: Option<Map<String, Value>>,
    pub(crate) timeout: Option<Value>,
}

/// What a `wait` task does.
pub(crate) enum Waiting {
    /// Sleeps in its slot.
    Sleep(Time),
    /// Frees its slot.
    Suspend(Awaits),
}

/// Renders everything a call takes.
pub(crate) fn render(step: &Step, task: &Task, scope: &Scope) -> Result<Ready, RenderError> {
    let mut scope = scope.clone();
    let mut ready = Ready::default();
    for tree in [&step.input, &task.input].into_iter().flatten() {
        let mut all = ready.input.take().unwrap_or_default();
        match tree.render(&scope)?.value {
            Value::Object(map) => all.extend(map),
            Value::Null => {}
            _ => {
                return Err(RenderError::Failed {
                    code: "TEMPLATE_ERROR",
                    message: "`input` must come to a map".to_owned(),
                    span: task.span,
                });
            }
        }
        scope.input = Data::new(Value::Object(all.clone()));
        ready.input = Some(all);
    }
    for (key, tree) in &task.fields {
        ready.fields.insert(key.clone(), tree.render(&scope)?.value);
    }
    if let Some(tree) = &task.timeout {
        ready.timeout = Some(tree.render(&scope)?.value);
    }
    Ok(ready)
}

/// What a `playbook` task asks for.
pub(crate) fn child(task: &Task, ready: &Ready, scope: &Scope) -> Result<Awaits, Box<TaskError>> {
    let text = |key: &str| match ready.fields.get(key) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let path = text("path").or_else(|| text("catalog_id"));
    let path = path.ok_or_else(|| Box::new(wrong(task, "path", "given")))?;
    let input = ready.input.clone().unwrap_or_default();
    let wait = match ready.fields.get("wait") {
        Some(Value::Bool(wait)) => *wait,
        Some(Value::String(text)) => !text.eq_ignore_ascii_case("false"),
        _ => true,
    };
    Ok(Awaits::Child(ChildStart {
        path,
        version: text("version").and_then(|version| version.parse().ok()),
        input: Raw::of(&input),
        return_step: text("return_step").map(Name::from),
        wait,
        iter: scope.iter.as_ref().map(iteration),
    }))
}

fn iteration(iter: &model::template::Iter) -> Raw {
    let mut all = Map::new();
    if let Some(index) = iter.index {
        all.insert("index".to_owned(), index.into());
        all.insert("length".to_owned(), iter.length.into());
    }
    all.extend(iter.values.json().as_object().cloned().unwrap_or_default());
    if let Some(parent) = &iter.parent {
        all.insert("parent".to_owned(), parent.json().clone());
    }
    Raw::of(&all)
}

/// What a `wait` task waits for.
pub(crate) fn wait(task: &Task, ready: &Ready, now: Time) -> Result<Waiting, Box<TaskError>> {
    let field = |key: &str| ready.fields.get(key).filter(|value| !value.is_null());
    if let Some(duration) = field("duration") {
        let span = model::duration::parse(duration);
        let span =
            span.ok_or_else(|| Box::new(wrong(task, "duration", "a duration such as `30s`")))?;
        return Ok(until(now.after(span), now));
    }
    if let Some(time) = field("until") {
        let due = time.as_str().and_then(Time::parse);
        let wanted = "a time such as `2030-01-31T12:00:00Z`";
        return Ok(until(
            due.ok_or_else(|| Box::new(wrong(task, "until", wanted)))?,
            now,
        ));
    }
    let signal = match (field("signal"), field("approval")) {
        (Some(Value::String(name)), _) | (None, Some(Value::String(name))) => name.as_str(),
        (None, Some(_)) => task.label.as_str(),
        _ => return Err(Box::new(wrong(task, "signal", "text"))),
    };
    let timeout = ready.timeout.as_ref().and_then(model::duration::parse);
    Ok(Waiting::Suspend(Awaits::Wait(WaitFor {
        until: timeout.map(|span| now.after(span)),
        signal: Some(signal.into()),
        times_out: timeout.is_some(),
    })))
}

fn until(due: Time, now: Time) -> Waiting {
    if due.since(now) <= SUSPEND_AFTER {
        return Waiting::Sleep(due);
    }
    Waiting::Suspend(Awaits::Wait(WaitFor {
        until: Some(due),
        signal: None,
        times_out: false,
    }))
}

fn wrong(task: &Task, key: &str, wanted: &str) -> TaskError {
    let message = format!("`{key}` of a `{}` task must be {wanted}", task.kind);
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message)
        .with("key", key)
        .with("task", task.label.as_str())
        .with("line", task.span.line)
}
