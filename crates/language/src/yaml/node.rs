//! Nodes of a YAML tree.

use std::sync::Arc;

use model::source::Span;
use serde_json::{Map, Number};

/// The weight of a node without its text.
const NODE_WEIGHT: usize = 64;

/// A value and its position.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: NodeValue,
}

/// The value of a node, by the core schema.
#[derive(Debug, Clone)]
pub(crate) enum NodeValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(Scalar),
    List(Vec<Node>),
    Map(Vec<MapEntry>),
}

/// A key of a map and its value.
#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    pub(crate) key: Arc<str>,
    pub(crate) span: Span,
    pub(crate) value: Node,
}

/// A scalar that is text.
#[derive(Debug, Clone)]
pub(crate) struct Scalar {
    pub(crate) text: Arc<str>,
    pub(crate) quoting: ScalarQuoting,
    /// Tagged `!raw`: not a template.
    pub(crate) is_raw: bool,
}

/// The quoting style of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarQuoting {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Block,
}

impl Node {
    /// Creates an empty map at `span`.
    pub(crate) fn empty_map(span: Span) -> Self {
        Self {
            span,
            value: NodeValue::Map(Vec::new()),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, NodeValue::Null)
    }

    pub(crate) fn as_text(&self) -> Option<&Scalar> {
        match &self.value {
            NodeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        self.as_text().map(|text| &*text.text)
    }

    pub(crate) fn as_map(&self) -> Option<&[MapEntry]> {
        match &self.value {
            NodeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value of a key, if this is a map with the key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let entries = self.as_map()?;
        let entry = entries.iter().find(|entry| &*entry.key == key)?;
        Some(&entry.value)
    }

    /// The type with its article, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Number(_) => "a number",
            NodeValue::Text(_) => "text",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a map",
        }
    }

    /// The approximate cost of a copy, in bytes.
    pub(crate) fn weight(&self) -> usize {
        NODE_WEIGHT
            + match &self.value {
                NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => 0,
                NodeValue::Text(text) => text.text.len(),
                NodeValue::List(items) => items.iter().map(Node::weight).sum(),
                NodeValue::Map(entries) => entries.iter().map(|entry| entry.key.len() + entry.value.weight()).sum(),
            }
    }

    /// The depth of nested collections, including itself.
    pub(crate) fn height(&self) -> usize {
        let deepest = match &self.value {
            NodeValue::List(items) => items.iter().map(Node::height).max(),
            NodeValue::Map(entries) => entries.iter().map(|entry| entry.value.height()).max(),
            _ => return 0,
        };
        1 + deepest.unwrap_or(0)
    }

    /// Converts to JSON, without spans.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            NodeValue::Null => Json::Null,
            NodeValue::Bool(value) => Json::Bool(*value),
            NodeValue::Number(number) => Json::Number(number.clone()),
            NodeValue::Text(text) => Json::String(text.text.to_string()),
            NodeValue::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            NodeValue::Map(entries) => Json::Object(map_to_json(entries)),
        }
    }
}

fn map_to_json(entries: &[MapEntry]) -> Map<String, serde_json::Value> {
    entries
        .iter()
        .map(|entry| (entry.key.to_string(), entry.value.to_json()))
        .collect()
}
