//! Initial values of a run's `workload` and `ctx`.
//!
//! Input: the defaults as written, their templates in order of dependency, and the request's payload. Output:
//! [`FirstValues`], which the log records. Values of the request are data and are never rendered.

use model::merge::merge_into;
use model::source::Span;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::playbook::Playbook;
use crate::template::{LazyValue, RenderError, Scope, Template};

/// A template among the defaults.
#[derive(Debug, Clone)]
pub struct DefaultTemplate {
    /// The section of the playbook.
    pub section: Section,
    /// Its path in the section: keys and list indexes.
    pub path: Vec<String>,
    /// The template to render.
    pub template: Template,
    /// The length of the longest chain of other templates that must be rendered before it.
    pub level: usize,
}

/// A section of a playbook with initial values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// `workload`.
    Workload,
    /// `ctx`.
    Ctx,
}

/// The initial values of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FirstValues {
    /// The inputs.
    pub workload: Map<String, Value>,
    /// The state.
    pub ctx: Map<String, Value>,
}

/// A default that could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("cannot render `{name}` (line {}): {message}", span.line)]
pub struct DefaultError {
    /// The default: `workload.region`.
    pub name: String,
    /// The cause.
    pub message: String,
    /// Its position in the playbook.
    pub span: Span,
}

impl Section {
    /// The name in playbooks and templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Ctx => "ctx",
        }
    }
}

impl DefaultTemplate {
    /// The default as templates refer to it: `workload.db.host`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section.name(), self.path.join("."))
    }
}

impl Playbook {
    /// Merges the payload into the defaults as written: maps merge deeply, lists and scalars replace.
    pub fn merged_workload(&self, payload: Option<&Map<String, Value>>) -> Map<String, Value> {
        let mut merged = self.workload.clone();
        if let Some(payload) = payload {
            merge_into(&mut merged, payload.clone());
        }
        merged
    }

    /// Merges the payload into the defaults and renders every default that the payload does not replace. `scope`
    /// provides the run and the environment.
    pub fn first_values(
        &self,
        payload: Option<&Map<String, Value>>,
        scope: &Scope,
    ) -> Result<FirstValues, DefaultError> {
        let mut values = FirstValues {
            workload: self.merged_workload(payload),
            ctx: self.ctx.clone(),
        };
        for level in self.default_templates.chunk_by(|a, b| a.level == b.level) {
            let scope = Scope {
                workload: LazyValue::new(Value::Object(values.workload.clone())),
                ctx: LazyValue::new(Value::Object(values.ctx.clone())),
                ..scope.clone()
            };
            for default in level {
                if default.section == Section::Workload && is_overridden(payload, &default.path) {
                    continue;
                }
                let rendered = default.template.render(&scope);
                let rendered = rendered.map_err(|error| default_error(default, error))?;
                values.put(default, rendered.value);
            }
        }
        Ok(values)
    }
}

impl FirstValues {
    fn put(&mut self, default: &DefaultTemplate, value: Value) {
        let map = match default.section {
            Section::Workload => &mut self.workload,
            Section::Ctx => &mut self.ctx,
        };
        let Some((first, path)) = default.path.split_first() else {
            return;
        };
        let mut target = map.get_mut(first);
        for part in path {
            target = target.and_then(|value| match value {
                Value::Object(map) => map.get_mut(part),
                Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
                _ => None,
            });
        }
        if let Some(target) = target {
            *target = value;
        }
    }
}

/// Whether the payload replaces the default at this path.
fn is_overridden(payload: Option<&Map<String, Value>>, path: &[String]) -> bool {
    let Some(mut map) = payload else {
        return false;
    };
    for part in path {
        match map.get(part) {
            None => return false,
            Some(Value::Object(inner)) => map = inner,
            Some(_) => return true,
        }
    }
    true
}

fn default_error(default: &DefaultTemplate, error: RenderError) -> DefaultError {
    let (message, span) = match error {
        RenderError::Failed { message, span, .. } => (message, span),
        RenderError::Needs(_) => (
            "it reads a value that is not available before the run starts".to_owned(),
            default.template.span(),
        ),
    };
    DefaultError {
        name: default.name(),
        message,
        span,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::id::ExecutionId;
    use serde_json::json;

    use super::*;
    use crate::playbook::parse;
    use crate::template::ExecutionView;

    fn first_values(defaults: &str, payload: &Value) -> Result<Value, String> {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\n{defaults}\n\
             workflow: [{{step: start, tool: {{kind: noop}}}}]\n"
        );
        let parsed = parse("p", text.as_bytes());
        let playbook = parsed.playbook.expect("the text is a playbook");
        let run = ExecutionView {
            execution_id: Some(ExecutionId(7)),
            ..ExecutionView::default()
        };
        let scope = Scope {
            execution: Arc::new(run),
            ..Scope::default()
        };
        let values = playbook.first_values(payload.as_object(), &scope);
        let values = values.map_err(|error| error.to_string())?;
        Ok(json!({"workload": values.workload, "ctx": values.ctx}))
    }

    #[test]
    fn defaults_are_rendered_in_the_order_of_their_needs() {
        let defaults = "workload: {url: 'http://{{ workload.db.host }}/{{ name }}', \
             db: {host: '{{ region }}.example', port: 5432}, name: 'run_{{ execution_id }}', region: eu, list: ['{{ db.port }}']}\n\
             ctx: {page: '{{ workload.db.port + 1 }}', next: '{{ ctx.page + 1 }}'}";
        let values = first_values(defaults, &json!({})).expect("the defaults can be rendered");
        assert_eq!(values["workload"]["url"], "http://eu.example/run_7");
        assert_eq!(values["workload"]["list"], json!([5432]));
        assert_eq!(values["ctx"], json!({"page": 5433, "next": 5434}));
    }

    #[test]
    fn values_in_the_request_are_not_rendered() {
        let defaults = "workload: {a: '{{ b }}', b: 1, c: {d: '{{ b }}', e: '{{ b }}'}}";
        let payload = json!({"b": "{{ 1 + 1 }}", "c": {"d": "{{ x }}"}, "f": "{{ g }}"});
        let values = first_values(defaults, &payload).expect("the defaults can be rendered");
        let expected =
            json!({"a": "{{ 1 + 1 }}", "b": "{{ 1 + 1 }}", "c": {"d": "{{ x }}", "e": "{{ 1 + 1 }}"}, "f": "{{ g }}"});
        assert_eq!(values["workload"], expected);
    }

    #[test]
    fn a_default_that_cannot_be_rendered_names_itself_and_its_line() {
        let error = first_values("workload: {a: '{{ nobody.x }}'}", &json!({}));
        let error = error.expect_err("the name is not defined");
        assert!(error.starts_with("cannot render `workload.a` (line 4)"), "{error}");
        let values = first_values("workload: {a: '{{ nobody.x }}'}", &json!({"a": 1}));
        assert_eq!(values.expect("the payload has the value")["workload"], json!({"a": 1}));
    }
}
