//! Values of playbooks in a form that can be compared and shown.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::template::Tree;
use crate::yaml::is_plain_text;

/// A value of a playbook. Templates differ from data with the same text, and maps have no order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PlaybookValue {
    Data(Value),
    Template(String),
    List(Vec<PlaybookValue>),
    Map(BTreeMap<String, PlaybookValue>),
}

impl PlaybookValue {
    pub(super) fn text(text: &str) -> Self {
        Self::Data(Value::String(text.to_owned()))
    }

    pub(super) fn from_tree(tree: &Tree) -> Self {
        match tree {
            Tree::Literal(value) => Self::from_data(value),
            Tree::Template(template) => Self::Template(template.source().to_owned()),
            Tree::List(items) => Self::List(items.iter().map(Self::from_tree).collect()),
            Tree::Map(entries) => {
                let entries = entries.iter();
                Self::Map(
                    entries
                        .map(|(key, tree)| (key.clone(), Self::from_tree(tree)))
                        .collect(),
                )
            }
        }
    }

    pub(super) fn from_data(value: &Value) -> Self {
        match value {
            Value::Object(entries) => {
                let entries = entries.iter();
                Self::Map(
                    entries
                        .map(|(key, value)| (key.clone(), Self::from_data(value)))
                        .collect(),
                )
            }
            Value::Array(items) => Self::List(items.iter().map(Self::from_data).collect()),
            scalar => Self::Data(scalar.clone()),
        }
    }

    /// Replaces the text at a path of keys and list indexes by the template that it is.
    pub(super) fn insert_template(&mut self, path: &[String], source: &str) {
        let Some((first, tail)) = path.split_first() else {
            *self = Self::Template(source.to_owned());
            return;
        };
        let inner = match self {
            Self::Map(entries) => entries.get_mut(first),
            Self::List(items) => first.parse().ok().and_then(|index: usize| items.get_mut(index)),
            Self::Data(_) | Self::Template(_) => None,
        };
        if let Some(inner) = inner {
            inner.insert_template(tail, source);
        }
    }

    /// The value as people read it: text as it is, unless it would be read as something else.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Template(source) => source.clone(),
            Self::Data(Value::String(text)) if has_braces(text) => format!("!raw {text}"),
            Self::Data(Value::String(text)) if is_plain_text(text) => text.clone(),
            Self::Data(value) => value.to_string(),
            Self::List(_) | Self::Map(_) => serde_json::to_string_pretty(&self.to_json()).unwrap_or_default(),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Data(value) => value.clone(),
            Self::Template(source) => Value::String(source.clone()),
            Self::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Self::Map(entries) => {
                let entries = entries.iter();
                Value::Object(entries.map(|(key, value)| (key.clone(), value.to_json())).collect())
            }
        }
    }
}

fn has_braces(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}
