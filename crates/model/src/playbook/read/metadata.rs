//! `metadata`: name, path and free-form data.

use serde_json::{Map, Value as Json};

use crate::id::Name;
use crate::playbook::read::reader::Reader;
use crate::source::Span;
use crate::yaml::{Node, Value};

/// The parsed `metadata`.
#[derive(Default)]
pub(crate) struct Metadata {
    pub(crate) name: Option<Name>,
    pub(crate) path: Option<Name>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) rest: Map<String, Json>,
}

impl Reader {
    pub(crate) fn metadata(&mut self, node: Option<&Node>, root: Span) -> Metadata {
        let mut metadata = Metadata::default();
        let Some(entries) = node.and_then(Node::as_map) else {
            match node {
                Some(node) => self.wrong_type(node, "metadata", "a map"),
                None => self.missing("metadata", "the playbook", root, "metadata: {name: …}"),
            }
            return metadata;
        };
        for entry in entries {
            let value = &entry.value;
            match &*entry.key {
                "name" => metadata.name = self.name(value, "metadata.name"),
                "path" => metadata.path = self.name(value, "metadata.path"),
                "version" if !value.is_null() => {
                    metadata.version = self.text(value, "metadata.version");
                }
                "description" if !value.is_null() => {
                    metadata.description = self.text(value, "metadata.description");
                }
                key => {
                    self.known_metadata(key, value);
                    metadata.rest.insert(key.to_owned(), value.to_json());
                }
            }
        }
        if !entries.iter().any(|entry| &*entry.key == "name") {
            let span = node.map_or(root, |node| node.span);
            self.missing("name", "metadata", span, "name: my_playbook");
        }
        metadata
    }

    fn known_metadata(&mut self, key: &str, value: &Node) {
        match (key, &value.value) {
            ("labels", Value::Map(_) | Value::Null)
            | ("tags", Value::List(_) | Value::Text(_) | Value::Null) => {}
            ("labels", _) => self.wrong_type(value, "metadata.labels", "a map"),
            ("tags", _) => self.wrong_type(value, "metadata.tags", "a list or text"),
            _ => {}
        }
    }
}
