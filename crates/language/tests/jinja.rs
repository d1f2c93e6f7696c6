//! Templates give the same results as Jinja2: `jinja/table.json` has its results, written by `jinja/generate.py`.

use language::template::{LazyValue, Scope, Template};
use model::source::Span;
use serde_json::Value;

/// Compares like Python: an integer equals the same float, also in lists and maps.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() == b.is_f64() && a.as_f64() == b.as_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((ka, a), (kb, b))| ka == kb && same(a, b))
        }
        _ => a == b,
    }
}

#[test]
fn templates_answer_as_jinja2_does() {
    let table: Value = serde_json::from_str(include_str!("jinja/table.json")).unwrap();
    let scope = Scope {
        workload: LazyValue::new(table["context"].clone()),
        ..Scope::default()
    };
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.len() >= 170, "the table has only {} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let source = row["template"].as_str().unwrap();
        let result = match Template::parse(source, Span::default()) {
            Ok(template) => template
                .render(&scope)
                .map(|rendered| rendered.value)
                .map_err(|error| format!("{error:?}")),
            Err(error) => Err(format!("{error:?}")),
        };
        let agrees = matches!(&result, Ok(value) if same(value, &row["expected"]));
        if agrees == row.get("differs").is_some() {
            wrong.push(format!("{source}\n   ours {result:?}\n   Jinja2 {}", row["expected"]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} rows:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}
