//! Renders a call like the worker does.

use language::playbook::{Step, Task};
use language::template::{LazyValue, RenderError, Scope};
use serde_json::{Map, Value};

/// A rendered call.
#[derive(Debug, Clone, Default)]
pub(crate) struct RenderedTaskCall {
    pub(crate) fields: Map<String, Value>,
    pub(crate) input: Option<Map<String, Value>>,
    pub(crate) timeout: Option<Value>,
}

impl RenderedTaskCall {
    /// Timeouts of the call in seconds, in total or of its parts.
    pub(crate) fn timeout_seconds(&self) -> Value {
        let seconds = |value: &Value| model::duration::parse(value).map(|span| span.as_secs_f64());
        match &self.timeout {
            None => Value::Null,
            Some(Value::Object(parts)) => {
                let parts = parts
                    .iter()
                    .map(|(key, part)| (key.clone(), seconds(part).into()));
                Value::Object(parts.collect())
            }
            Some(whole) => serde_json::json!({"total": seconds(whole)}),
        }
    }
}

/// Renders everything that a call needs.
pub(crate) fn render_call(
    step: &Step,
    task: &Task,
    scope: &Scope,
) -> Result<RenderedTaskCall, RenderError> {
    let mut scope = scope.clone();
    let mut ready = RenderedTaskCall::default();
    scope.names_http_body = task.kind != "playbook";
    for tree in [&step.input, &task.input].into_iter().flatten() {
        let mut all = ready.input.take().unwrap_or_default();
        match tree.render(&scope)?.value {
            Value::Object(map) => all.extend(map),
            Value::Null => {}
            _ => {
                return Err(RenderError::Failed {
                    code: "TEMPLATE_ERROR",
                    message: "`input` must be a map".to_owned(),
                    span: task.span,
                });
            }
        }
        scope.input = LazyValue::new(Value::Object(all.clone()));
        ready.input = Some(all);
    }
    scope.names_http_body = false;
    for (key, tree) in &task.fields {
        ready.fields.insert(key.clone(), tree.render(&scope)?.value);
    }
    if let Some(tree) = &task.timeout {
        ready.timeout = Some(tree.render(&scope)?.value);
    }
    Ok(ready)
}
