//! Nodes of the tree.

use std::sync::Arc;

use serde_json::{Map, Number};

use crate::source::Span;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// What a node holds, by the core schema.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a map and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    pub(crate) span: Span,
    pub(crate) value: Node,
}

/// A scalar that is text.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: Arc<str>,
    pub(crate) style: Style,
    /// Tagged `!raw`: never a template.
    pub(crate) raw: bool,
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Block,
}

impl Node {
    /// An empty map that stands at `span`.
    pub(crate) fn empty_map(span: Span) -> Self {
        Self {
            span,
            value: Value::Map(Vec::new()),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    pub(crate) fn as_text(&self) -> Option<&Text> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        self.as_text().map(|text| &*text.text)
    }

    pub(crate) fn as_map(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a key, if this is a map that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let entries = self.as_map()?;
        let entry = entries.iter().find(|entry| &*entry.key == key)?;
        Some(&entry.value)
    }

    /// What it is, with its article, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The same value without places.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(number) => Json::Number(number.clone()),
            Value::Text(text) => Json::String(text.text.to_string()),
            Value::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(entries) => Json::Object(map_to_json(entries)),
        }
    }
}

fn map_to_json(entries: &[Entry]) -> Map<String, serde_json::Value> {
    entries
        .iter()
        .map(|entry| (entry.key.to_string(), entry.value.to_json()))
        .collect()
}
