//! Formats values as a tree, or as a table if the value is a list of flat maps.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::render::table::table;
use crate::surface::Surface;

/// Maximum number of elements of a list or map to draw; the others are only counted.
const SHOWN_MAX: usize = 50;
/// Maximum length of text, in characters.
const TEXT_MAX: usize = 200;
/// Maximum number of columns of a table.
const COLUMNS_MAX: usize = 12;

/// Formats a value as a table if it is a list of flat maps with few keys.
pub(crate) fn as_table(value: &Value, surface: Surface) -> Option<String> {
    let items = value.as_array().filter(|items| items.len() > 1)?;
    let maps: Vec<&Map<String, Value>> =
        items.iter().map(Value::as_object).collect::<Option<_>>()?;
    let mut headings: Vec<&str> = Vec::new();
    for key in maps.iter().flat_map(|map| map.keys()) {
        if !headings.contains(&key.as_str()) {
            headings.push(key);
        }
    }
    let is_flat = |map: &&Map<String, Value>| {
        !map.values()
            .any(|value| value.is_object() || value.is_array())
    };
    if headings.is_empty() || headings.len() > COLUMNS_MAX || !maps.iter().all(is_flat) {
        return None;
    }
    let cell = |map: &Map<String, Value>, key: &str| map.get(key).map_or_else(String::new, scalar);
    let row = |map: &&Map<String, Value>| headings.iter().map(|key| cell(map, key)).collect();
    Some(table(&headings, maps.iter().map(row).collect(), surface))
}

/// Formats a value as a tree.
pub(crate) fn tree(value: &Value, surface: Surface) -> String {
    let mut text = String::new();
    match value {
        Value::Object(_) | Value::Array(_) => branches(value, "", surface, &mut text),
        other => text = scalar(other),
    }
    text.trim_end().to_owned()
}

fn branches(value: &Value, indent: &str, surface: Surface, text: &mut String) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered
                .map(|(index, value)| (index.to_string(), value))
                .collect()
        }
        _ => Vec::new(),
    };
    let hidden = children.len().saturating_sub(SHOWN_MAX);
    let count = children.len() - hidden;
    for (place, (name, child)) in children.into_iter().take(SHOWN_MAX).enumerate() {
        let is_last = place + 1 == count && hidden == 0;
        let (branch, below) = if is_last {
            (surface.either("└─ ", "`- "), "   ")
        } else {
            (surface.either("├─ ", "|- "), surface.either("│  ", "|  "))
        };
        let name = surface.strong(&name);
        let _ = writeln!(
            text,
            "{indent}{}{name}{}",
            surface.dim(branch),
            leaf(child, surface)
        );
        branches(
            child,
            &format!("{indent}{}", surface.dim(below)),
            surface,
            text,
        );
    }
    if hidden > 0 {
        let branch = surface.either("└─ ", "`- ");
        let more = format!("{branch}{} {hidden} more", surface.either("…", "..."));
        let _ = writeln!(text, "{indent}{}", surface.dim(&more));
    }
}

/// Returns the text after a name.
fn leaf(value: &Value, surface: Surface) -> String {
    match value {
        Value::Object(map) if map.is_empty() => ": {}".to_owned(),
        Value::Array(items) if items.is_empty() => ": []".to_owned(),
        Value::Object(_) => String::new(),
        Value::Array(items) => surface.dim(&format!("  {} elements", items.len())),
        other => format!(": {}", scalar(other)),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().nth(TEXT_MAX).is_none() => text.clone(),
        Value::String(text) => {
            let cut: String = text.chars().take(TEXT_MAX).collect();
            format!("{cut}… ({} characters)", text.chars().count())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_drawn_as_a_tree() {
        let value = json!({"name": "Ada", "rows": [{"id": 1}, []], "none": {}});
        let expected =
            "├─ name: Ada\n├─ rows  2 elements\n│  ├─ 0\n│  │  └─ id: 1\n│  └─ 1: []\n└─ none: {}";
        assert_eq!(tree(&value, Surface::PLAIN), expected);
        assert_eq!(tree(&json!("Ada"), Surface::PLAIN), "Ada");
    }

    #[test]
    fn a_long_list_is_counted_rather_than_drawn() {
        let drawn = tree(&json!(vec![0; 70]), Surface::PLAIN);
        assert_eq!(drawn.lines().count(), SHOWN_MAX + 1);
        assert!(drawn.ends_with("└─ … 20 more"), "{drawn}");
    }

    #[test]
    fn a_list_of_flat_maps_is_a_table() {
        let value = json!([{"id": 1, "name": "Ada"}, {"id": 2}]);
        let shown = as_table(&value, Surface::PLAIN).unwrap();
        assert_eq!(shown, "id  name\n1   Ada\n2");
        assert!(as_table(&json!([{"id": []}, {"id": 2}]), Surface::PLAIN).is_none());
        assert!(as_table(&json!([1, 2]), Surface::PLAIN).is_none());
    }
}
