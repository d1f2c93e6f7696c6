//! Formats values as a tree, or as a table if the value is a list of flat maps.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::render::table::render_table;
use crate::terminal_style::TerminalStyle;

/// Maximum number of elements of a list or map to draw; the others are only counted.
const ITEMS_SHOWN_MAX: usize = 50;
/// Maximum length of text, in characters.
const TEXT_CHARS_MAX: usize = 200;
/// Maximum number of columns of a table.
const COLUMNS_MAX: usize = 12;

/// Formats a value as a table if it is a list of flat maps with few keys.
pub(crate) fn render_as_table(value: &Value, style: TerminalStyle) -> Option<String> {
    let items = value.as_array().filter(|items| items.len() > 1)?;
    let maps: Vec<&Map<String, Value>> = items.iter().map(Value::as_object).collect::<Option<_>>()?;
    let mut headings: Vec<&str> = Vec::new();
    for key in maps.iter().flat_map(|map| map.keys()) {
        if !headings.contains(&key.as_str()) {
            headings.push(key);
        }
    }
    let is_flat = |map: &&Map<String, Value>| !map.values().any(|value| value.is_object() || value.is_array());
    if headings.is_empty() || headings.len() > COLUMNS_MAX || !maps.iter().all(is_flat) {
        return None;
    }
    let cell = |map: &Map<String, Value>, key: &str| map.get(key).map_or_else(String::new, scalar_text);
    let row = |map: &&Map<String, Value>| headings.iter().map(|key| cell(map, key)).collect();
    Some(render_table(&headings, maps.iter().map(row).collect(), style))
}

/// Formats a value as a tree.
pub(crate) fn render_tree(value: &Value, style: TerminalStyle) -> String {
    let mut text = String::new();
    match value {
        Value::Object(_) | Value::Array(_) => write_branches(value, "", style, &mut text),
        other => text = scalar_text(other),
    }
    text.trim_end().to_owned()
}

fn write_branches(value: &Value, indent: &str, style: TerminalStyle, text: &mut String) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let hidden = children.len().saturating_sub(ITEMS_SHOWN_MAX);
    let count = children.len() - hidden;
    for (position, (name, child)) in children.into_iter().take(ITEMS_SHOWN_MAX).enumerate() {
        let is_last = position + 1 == count && hidden == 0;
        let (branch, below) = if is_last {
            (style.choose("└─ ", "`- "), "   ")
        } else {
            (style.choose("├─ ", "|- "), style.choose("│  ", "|  "))
        };
        let name = style.strong(&name);
        let _ = writeln!(text, "{indent}{}{name}{}", style.dim(branch), leaf_text(child, style));
        write_branches(child, &format!("{indent}{}", style.dim(below)), style, text);
    }
    if hidden > 0 {
        let branch = style.choose("└─ ", "`- ");
        let more_line = format!("{branch}{} {hidden} more", style.choose("…", "..."));
        let _ = writeln!(text, "{indent}{}", style.dim(&more_line));
    }
}

/// Returns the text after a name.
fn leaf_text(value: &Value, style: TerminalStyle) -> String {
    match value {
        Value::Object(map) if map.is_empty() => ": {}".to_owned(),
        Value::Array(items) if items.is_empty() => ": []".to_owned(),
        Value::Object(_) => String::new(),
        Value::Array(items) => style.dim(&format!("  {} elements", items.len())),
        other => format!(": {}", scalar_text(other)),
    }
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().nth(TEXT_CHARS_MAX).is_none() => text.clone(),
        Value::String(text) => {
            let shortened: String = text.chars().take(TEXT_CHARS_MAX).collect();
            format!("{shortened}… ({} characters)", text.chars().count())
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
        let expected = "├─ name: Ada\n├─ rows  2 elements\n│  ├─ 0\n│  │  └─ id: 1\n│  └─ 1: []\n└─ none: {}";
        assert_eq!(render_tree(&value, TerminalStyle::PLAIN), expected);
        assert_eq!(render_tree(&json!("Ada"), TerminalStyle::PLAIN), "Ada");
    }

    #[test]
    fn a_long_list_is_counted_rather_than_drawn() {
        let text = render_tree(&json!(vec![0; 70]), TerminalStyle::PLAIN);
        assert_eq!(text.lines().count(), ITEMS_SHOWN_MAX + 1);
        assert!(text.ends_with("└─ … 20 more"), "{text}");
    }

    #[test]
    fn a_list_of_flat_maps_is_a_table() {
        let value = json!([{"id": 1, "name": "Ada"}, {"id": 2}]);
        let table = render_as_table(&value, TerminalStyle::PLAIN).unwrap();
        assert_eq!(table, "id  name\n1   Ada\n2");
        assert!(render_as_table(&json!([{"id": []}, {"id": 2}]), TerminalStyle::PLAIN).is_none());
        assert!(render_as_table(&json!([1, 2]), TerminalStyle::PLAIN).is_none());
    }
}
