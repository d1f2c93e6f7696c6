//! Tasks that await an external event: the end of a child execution, a time, or a signal.
//!
//! Input: a rendered task. Output: what the task awaits after it frees its slot, or a short sleep in the slot.

use std::time::Duration;

use language::playbook::{Task, parse_catalog_id};
use language::template::{IterationView, Scope};
use model::event::{AwaitTarget, ChildStart, WaitFor};
use model::id::Name;
use model::outcome::{ErrorKind, TaskError};
use model::raw::RawJson;
use model::size::{EVENT_BYTES_MAX, json_bytes, size_error};
use model::time::Time;
use serde_json::{Map, Value};

use crate::policy::SUSPEND_DELAY_MIN;

/// Maximum size of an approval: a person reads it, and lists of approvals contain it.
const APPROVAL_BYTES_MAX: usize = 8 * 1024;

/// The parts of a rendered task that `child` and `wait` read.
#[derive(Debug, Clone, Copy)]
pub struct RenderedTask<'r> {
    /// The keys that belong to the tool kind.
    pub fields: &'r Map<String, Value>,
    /// The task's input.
    pub input: Option<&'r Value>,
    /// Maximum total duration.
    pub timeout: Option<Duration>,
}

/// What a `wait` task does.
#[derive(Debug)]
pub enum WaitAction {
    /// Sleeps in its slot.
    Sleep(Time),
    /// Frees its slot and awaits an event.
    Suspend(AwaitTarget),
}

/// Returns the child execution that a `playbook` task requests.
pub fn parse_child_task(task: &Task, rendered: RenderedTask<'_>, scope: &Scope) -> Result<AwaitTarget, Box<TaskError>> {
    let text = |key: &str| match rendered.fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(invalid_key_error(task, key, "text")),
    };
    let catalog_id = text("catalog_id")?;
    let catalog_id = catalog_id.as_deref().map(parse_catalog_id);
    let path = text("path")?.or(catalog_id.map(|(path, _)| path.to_owned()));
    let path = path.ok_or_else(|| invalid_key_error(task, "path", "set"))?;
    let version = match text("version")?.as_deref() {
        None => catalog_id.and_then(|(_, version)| version),
        Some("latest") => None,
        Some(version) => {
            let number = version.trim_start_matches('v').parse();
            Some(number.map_err(|_| invalid_key_error(task, "version", "a whole number"))?)
        }
    };
    let wait = match rendered.fields.get("wait") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(wait)) => *wait,
        Some(Value::String(text)) => !text.eq_ignore_ascii_case("false"),
        Some(_) => return Err(invalid_key_error(task, "wait", "true or false")),
    };
    let input = rendered
        .input
        .map_or_else(|| RawJson::from_serializable(&Map::new()), RawJson::from_serializable);
    let iter = scope.iter.as_ref().map(parent_iteration);
    let bytes = input.text().len() + iter.as_ref().map_or(0, |iter| iter.text().len());
    if let Some(error) = size_error("the input of a child run", bytes, EVENT_BYTES_MAX) {
        return Err(Box::new(error));
    }
    Ok(AwaitTarget::Child(ChildStart {
        path,
        version,
        input,
        return_step: text("return_step")?.map(Name::from),
        wait,
        iter,
    }))
}

/// The iteration, as the child sees it in `iter.parent`.
fn parent_iteration(iter: &IterationView) -> RawJson {
    let mut fields = Map::new();
    if let Some(index) = iter.index {
        fields.insert("index".to_owned(), index.into());
        fields.insert("length".to_owned(), iter.length.into());
    }
    if let Some(values) = iter.values.json().as_object() {
        fields.extend(values.clone());
    }
    if let Some(parent) = &iter.parent {
        fields.insert("parent".to_owned(), parent.json().clone());
    }
    RawJson::from_serializable(&fields)
}

/// Returns what a `wait` task waits for.
pub fn parse_wait_task(task: &Task, rendered: RenderedTask<'_>, now: Time) -> Result<WaitAction, Box<TaskError>> {
    let field = |key: &str| rendered.fields.get(key).filter(|value| !value.is_null());
    if let Some(value) = field("duration") {
        let duration = model::duration::parse(value);
        let duration = duration.ok_or_else(|| invalid_key_error(task, "duration", "a duration such as `30s`"))?;
        return Ok(wait_until(now.after(duration), now));
    }
    if let Some(time) = field("until") {
        let due = time.as_str().and_then(Time::parse);
        let due = due.ok_or_else(|| invalid_key_error(task, "until", "a time such as `2030-01-31T12:00:00Z`"))?;
        return Ok(wait_until(due, now));
    }
    let signal = match (field("signal"), field("approval")) {
        (Some(Value::String(name)), _) | (None, Some(Value::String(name))) => name.as_str(),
        (Some(_), _) => return Err(invalid_key_error(task, "signal", "text")),
        // An approval form may have a `name`; the default is the task's label.
        (None, Some(Value::Object(form))) => {
            let form_name = form.get("name").and_then(Value::as_str);
            form_name.unwrap_or(task.label.as_str())
        }
        (None, _) => return Err(invalid_key_error(task, "signal", "set")),
    };
    Ok(WaitAction::Suspend(AwaitTarget::Wait(WaitFor {
        until: rendered.timeout.map(|timeout| now.after(timeout)),
        signal: Some(signal.into()),
        times_out: rendered.timeout.is_some(),
    })))
}

/// Returns the `approval` of a `wait` task as it is recorded: always a mapping. It may have texts `title` and
/// `description`, and a JSON Schema `form`; other keys are recorded unchanged.
pub fn parse_approval(task: &Task, approval: Value) -> Result<RawJson, Box<TaskError>> {
    let approval = match approval {
        Value::Object(approval) => approval,
        name => Map::from_iter([("name".to_owned(), name)]),
    };
    for key in ["title", "description"] {
        if approval
            .get(key)
            .is_some_and(|text| !text.is_string() && !text.is_null())
        {
            return Err(invalid_key_error(task, &format!("approval.{key}"), "text"));
        }
    }
    if approval
        .get("form")
        .is_some_and(|form| !form.is_object() && !form.is_null())
    {
        return Err(invalid_key_error(
            task,
            "approval.form",
            "a JSON Schema, which is a mapping",
        ));
    }
    if json_bytes(&approval) > APPROVAL_BYTES_MAX {
        let expected = format!("at most {APPROVAL_BYTES_MAX} bytes as JSON");
        return Err(invalid_key_error(task, "approval", &expected));
    }
    Ok(RawJson::from_serializable(&approval))
}

fn wait_until(due: Time, now: Time) -> WaitAction {
    if due.since(now) <= SUSPEND_DELAY_MIN {
        return WaitAction::Sleep(due);
    }
    WaitAction::Suspend(AwaitTarget::Wait(WaitFor {
        until: Some(due),
        signal: None,
        times_out: false,
    }))
}

#[expect(
    clippy::unnecessary_box_returns,
    reason = "every caller returns it in an `Err`, and `TaskError` is large"
)]
fn invalid_key_error(task: &Task, key: &str, expected: &str) -> Box<TaskError> {
    let message = format!("`{key}` of a `{}` task must be {expected}", task.kind);
    let error = TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message)
        .with_detail("key", key)
        .with_detail("task", task.label.as_str())
        .with_detail("line", task.span.line);
    Box::new(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn approval(value: Value) -> Result<Value, String> {
        let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: a}\nworkflow:\n- step: s\n  \
                    tool: {kind: wait, approval: go}\n";
        let parsed = language::playbook::parse("a.yaml", text.as_bytes());
        let playbook = parsed.playbook.expect("the playbook is valid");
        let parsed = parse_approval(&playbook.steps[0].tasks[0], value).map_err(|error| error.message.clone());
        parsed.map(|raw| serde_json::from_str(raw.text()).expect("JSON"))
    }

    #[test]
    fn an_approval_is_recorded_as_a_mapping() {
        assert_eq!(approval(json!("go")), Ok(json!({"name": "go"})));
        let form = json!({"title": "Ship?", "form": {"properties": {"amount": {"type": "number"}}}, "team": 7});
        assert_eq!(approval(form.clone()), Ok(form));
    }

    #[test]
    fn an_approval_of_another_form_is_an_error() {
        let title = approval(json!({"title": 7})).unwrap_err();
        assert_eq!(title, "`approval.title` of a `wait` task must be text");
        assert!(
            approval(json!({"form": ["approved"]}))
                .unwrap_err()
                .contains("JSON Schema")
        );
        let long = "x".repeat(APPROVAL_BYTES_MAX);
        assert!(approval(json!({"title": long})).unwrap_err().contains("8192 bytes"));
    }
}
