//! A JSON schema of the inputs of a playbook, for forms.
//!
//! Input: the inputs as the playbook describes them. Output: a schema with their defaults.

use language::playbook::{InputField, InputKind};
use serde_json::{Map, Value, json};

/// The schema of a map of inputs.
pub(crate) fn build_schema(fields: &[InputField]) -> Value {
    let properties = fields.iter().map(|field| (field.name.clone(), build_property(field)));
    let properties: Map<String, Value> = properties.collect();
    let required = fields.iter().filter(|field| field.kind == InputKind::Required);
    let required: Vec<&str> = required.map(|field| &*field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn build_property(field: &InputField) -> Value {
    let mut property = match &field.kind {
        InputKind::Required => json!({}),
        InputKind::Template(source) => json!({"x-template": source}),
        InputKind::Scalar(value) => json!({"type": type_name(value), "default": value}),
        InputKind::List(items) => json!({"type": "array", "items": build_items(items), "default": items}),
        InputKind::Map(fields) => build_schema(fields),
    };
    if let Some(description) = &field.description {
        property["description"] = json!(description);
    }
    property
}

/// Items have a type if all defaults have the same.
fn build_items(items: &[Value]) -> Value {
    let mut types = items.iter().map(type_name);
    match types.next() {
        Some(first) if types.all(|name| name == first) => json!({"type": first}),
        _ => json!({}),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema_of(workload: &str) -> Value {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\nworkload:\n{workload}\n\
             workflow: [{{step: start, tool: {{kind: noop}}}}]\n"
        );
        let playbook = language::playbook::parse("p.yaml", text.as_bytes()).playbook.unwrap();
        build_schema(&language::playbook::describe_inputs(&playbook))
    }

    #[test]
    fn a_workload_becomes_a_form_with_its_defaults() {
        let schema = schema_of("  region: eu # where\n  limit: 3\n  ratio: 0.5\n  tags: [a]\n  deep: {on: true, to: }");
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "region": {"type": "string", "default": "eu", "description": "where"},
                    "limit": {"type": "integer", "default": 3},
                    "ratio": {"type": "number", "default": 0.5},
                    "tags": {"type": "array", "items": {"type": "string"}, "default": ["a"]},
                    "deep": {
                        "type": "object",
                        "properties": {"on": {"type": "boolean", "default": true}, "to": {}},
                        "required": ["to"],
                    },
                },
            })
        );
    }

    #[test]
    fn a_template_has_no_default_and_no_type() {
        let schema = schema_of("  day: \"{{ execution_id }}\"\n  mixed: [1, a]");
        let expected = json!({
            "day": {"x-template": "{{ execution_id }}"},
            "mixed": {"type": "array", "items": {}, "default": [1, "a"]},
        });
        assert_eq!(schema["properties"], expected);
    }
}
