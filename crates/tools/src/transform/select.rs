//! Paths into data: `a.b[0].c`, or a JSONPath that begins with `$`.

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use crate::call::type_name;

/// Selects values by a path, a list of paths or a map of names to paths; missing values are null.
pub(crate) fn select_paths(selection: &Value, input: &Value) -> Result<Value, TaskError> {
    match selection {
        Value::String(path) => value_at(path, input),
        Value::Object(names) => {
            let mut selected = Map::new();
            for (name, path) in names {
                selected.insert(name.clone(), select_paths(path, input)?);
            }
            Ok(Value::Object(selected))
        }
        Value::Array(paths) => {
            let mut selected = Map::new();
            for path in paths {
                let Value::String(path) = path else {
                    return Err(invalid_path_error(&format!(
                        "a path must be text, not {}",
                        type_name(path)
                    )));
                };
                let name = path.rsplit(['.', ']']).find(|part| !part.is_empty());
                let name = name.unwrap_or(path).to_owned();
                selected.insert(name, value_at(path, input)?);
            }
            Ok(Value::Object(selected))
        }
        other => Err(invalid_path_error(&format!(
            "a path must be text, not {}",
            type_name(other)
        ))),
    }
}

fn value_at(path: &str, input: &Value) -> Result<Value, TaskError> {
    if path.trim_start().starts_with('$') {
        let parsed = JsonPath::parse(path.trim())
            .map_err(|error| invalid_path_error(&format!("`{path}` is not a valid JSONPath: {error}")))?;
        let nodes = parsed.query(input).all();
        return Ok(match nodes[..] {
            [] => Value::Null,
            [one] => one.clone(),
            _ => Value::Array(nodes.into_iter().cloned().collect()),
        });
    }
    let mut value = input;
    for part in path_parts(path)? {
        let next = match value {
            Value::Object(map) => map.get(part),
            Value::Array(items) => parse_index(part, items.len()).and_then(|index| items.get(index)),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return Ok(Value::Null),
        }
    }
    Ok(value.clone())
}

/// Parts of a dotted path; an index can be in brackets or between dots.
fn path_parts(path: &str) -> Result<Vec<&str>, TaskError> {
    let mut parts = Vec::new();
    for step in path.trim().trim_start_matches('.').split('.') {
        let (name, indices) = step.split_at(step.find('[').unwrap_or(step.len()));
        if !name.is_empty() {
            parts.push(name);
        } else if indices.is_empty() && !path.trim().trim_matches('.').is_empty() {
            return Err(invalid_path_error(&format!("`{path}` has an empty part")));
        }
        let mut indices = indices;
        while !indices.is_empty() {
            let inner = indices.strip_prefix('[').and_then(|indices| indices.split_once(']'));
            let (inner, after) =
                inner.ok_or_else(|| invalid_path_error(&format!("`{path}` has an unclosed bracket")))?;
            parts.push(inner.trim_matches(['"', '\'']));
            indices = after;
        }
    }
    Ok(parts)
}

fn parse_index(part: &str, length: usize) -> Option<usize> {
    match part.parse::<i64>() {
        Ok(index) if index < 0 => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
        Ok(index) => usize::try_from(index).ok(),
        Err(_) => None,
    }
}

fn invalid_path_error(message: &str) -> TaskError {
    TaskError::new(ErrorKind::Schema, "TRANSFORM_PATH", message).with_detail("key", "select")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_reach_into_lists_and_maps() {
        let input = json!({"a": {"b": [{"c": 1}, {"c": 2}]}, "d": 3});
        for (path, wanted) in [
            (json!("a.b[1].c"), json!(2)),
            (json!("a.b.0.c"), json!(1)),
            (json!("a.b[-1].c"), json!(2)),
            (json!("$.a.b[*].c"), json!([1, 2])),
            (json!("$.d"), json!(3)),
            (json!("a.x.y"), Value::Null),
            (
                json!({"n": "d", "m": {"c": "a['b'][0].c"}}),
                json!({"n": 3, "m": {"c": 1}}),
            ),
            (json!(["d", "a.b"]), json!({"d": 3, "b": [{"c": 1}, {"c": 2}]})),
        ] {
            assert_eq!(select_paths(&path, &input).unwrap(), wanted, "{path}");
        }
    }

    #[test]
    fn an_invalid_path_is_reported() {
        for (path, problem) in [
            (json!("$.["), "`$.[` is not a valid JSONPath"),
            (json!("a..b"), "`a..b` has an empty part"),
            (json!("a."), "`a.` has an empty part"),
            (json!("a[0"), "`a[0` has an unclosed bracket"),
            (json!("a[0]b"), "`a[0]b` has an unclosed bracket"),
            (json!("a[0].b["), "`a[0].b[` has an unclosed bracket"),
            (json!(5), "a path must be text, not a number"),
            (json!([[]]), "a path must be text, not a list"),
        ] {
            let error = select_paths(&path, &json!({"a": [1]})).unwrap_err();
            assert_eq!(error.code, "TRANSFORM_PATH", "{path}");
            assert!(error.message.starts_with(problem), "{path}: {}", error.message);
        }
    }
}
