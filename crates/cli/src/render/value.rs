//! Formats values as text or JSON, and resolves paths into them.

use serde_json::Value;

use crate::cli_error::{CliError, Exit};

/// Formats a result: a string without quotes, anything else as JSON.
pub(crate) fn to_plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => to_pretty_json(other),
    }
}

/// Formats a value as indented JSON.
pub(crate) fn to_pretty_json(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a value serializes to JSON")
}

/// Returns the part of a value at a path such as `.data.rows[0].id`.
pub(crate) fn value_at<'v>(value: &'v Value, path: &str) -> Result<&'v Value, CliError> {
    let mut target = value;
    for part in parse_path(path)? {
        let next = match &part {
            PathPart::Key(key) => target.get(key.as_str()),
            PathPart::Index(index) => list_element(target, *index),
        };
        target = next.ok_or_else(|| missing_part_error(target, path, &part))?;
    }
    Ok(target)
}

#[derive(Debug, PartialEq)]
enum PathPart {
    Key(String),
    Index(i64),
}

/// Returns an element of a list; a negative index counts from the end.
fn list_element(value: &Value, index: i64) -> Option<&Value> {
    let list = value.as_array()?;
    let offset = match usize::try_from(index) {
        Ok(offset) => offset,
        Err(_) => list.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    list.get(offset)
}

fn parse_path(path: &str) -> Result<Vec<PathPart>, CliError> {
    let invalid = || {
        CliError::usage(format!("invalid path `{path}`"))
            .help("use for example rows[0].id, or [\"a.b\"] for a key with dots")
    };
    let mut remaining_path = path.trim().trim_start_matches('$');
    let mut parts = Vec::new();
    while !remaining_path.is_empty() {
        if let Some(inner) = remaining_path.strip_prefix('[') {
            let (text, tail) = inner.split_once(']').ok_or_else(invalid)?;
            let quoted = text
                .strip_prefix(['"', '\''])
                .and_then(|text| text.strip_suffix(['"', '\'']));
            parts.push(match quoted {
                Some(key) => PathPart::Key(key.to_owned()),
                None => PathPart::Index(text.trim().parse().map_err(|_| invalid())?),
            });
            remaining_path = tail;
            continue;
        }
        let text = remaining_path.strip_prefix('.').unwrap_or(remaining_path);
        if text.is_empty() && parts.is_empty() {
            break;
        }
        let end = text.find(['.', '[']).unwrap_or(text.len());
        let (key, tail) = text.split_at(end);
        match (key.is_empty(), key.parse::<i64>()) {
            (true, _) if tail.starts_with('[') => {}
            (true, _) => return Err(invalid()),
            (false, Ok(index)) => parts.push(PathPart::Index(index)),
            (false, Err(_)) => parts.push(PathPart::Key(key.to_owned())),
        }
        remaining_path = tail;
    }
    Ok(parts)
}

fn missing_part_error(value: &Value, path: &str, part: &PathPart) -> CliError {
    let name = match part {
        PathPart::Key(key) => format!("`{key}`"),
        PathPart::Index(index) => format!("element {index}"),
    };
    let problem = CliError::new(
        Exit::NotFound,
        "PATH_NOT_FOUND",
        format!("path `{path}` not found: the value has no {name}"),
    );
    match value {
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().take(12).map(String::as_str).collect();
            problem.help(format!("available keys: {}", keys.join(", ")))
        }
        Value::Array(list) => problem.help(format!("the value is a list of {}", list.len())),
        _ => problem.help("the value is neither a map nor a list"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_printed_unchanged_and_other_values_as_json() {
        assert_eq!(to_plain_text(&json!("Hello, Ada")), "Hello, Ada");
        assert_eq!(to_plain_text(&json!(3)), "3");
        assert_eq!(to_plain_text(&json!({"a": 1})), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn paths_reach_into_maps_and_lists() {
        let value = json!({"rows": [{"id": 7}, {"id": 8}], "a.b": 1, "n": {"0": "x"}});
        for (path, expected) in [
            ("rows[1].id", json!(8)),
            (".rows[-1].id", json!(8)),
            ("rows.0.id", json!(7)),
            ("$.rows[0]['id']", json!(7)),
            ("[\"a.b\"]", json!(1)),
        ] {
            assert_eq!(value_at(&value, path).unwrap(), &expected, "{path}");
        }
        assert_eq!(value_at(&value, ".").unwrap(), &value);
    }

    #[test]
    fn a_missing_part_is_reported_with_the_existing_ones() {
        let problem = value_at(&json!({"rows": [1]}), "rows[4]").unwrap_err();
        assert_eq!(problem.exit, Exit::NotFound);
        assert!(problem.help[0].contains("list of 1"));
        let problem = value_at(&json!({"rows": []}), "cols").unwrap_err();
        assert!(problem.help[0].contains("rows"));
        assert_eq!(value_at(&json!(1), "a[x]").unwrap_err().exit, Exit::Usage);
    }
}
