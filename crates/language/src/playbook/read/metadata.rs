//! `metadata`: name, path and free-form data.

use model::id::Name;
use model::source::Span;
use serde_json::{Map, Value as Json};

use crate::playbook::read::reader::PlaybookReader;
use crate::yaml::{Node, NodeValue};

/// The parsed `metadata`.
#[derive(Default)]
pub(crate) struct Metadata {
    pub(crate) name: Option<Name>,
    pub(crate) path: Option<Name>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) other_keys: Map<String, Json>,
}

impl PlaybookReader {
    pub(crate) fn read_metadata(&mut self, node: Option<&Node>, root: Span) -> Metadata {
        let mut metadata = Metadata::default();
        let Some(entries) = node.and_then(Node::as_map) else {
            match node {
                Some(node) => self.report_wrong_type(node, "metadata", "a map"),
                None => {
                    self.report_missing_key("metadata", "the playbook", root, "metadata: {name: …}");
                }
            }
            return metadata;
        };
        for entry in entries {
            let value = &entry.value;
            match &*entry.key {
                "name" => metadata.name = self.read_name(value, "metadata.name"),
                "path" => metadata.path = self.read_name(value, "metadata.path"),
                "version" if !value.is_null() => {
                    metadata.version = self.read_text(value, "metadata.version");
                }
                "description" if !value.is_null() => {
                    metadata.description = self.read_text(value, "metadata.description");
                }
                key => {
                    self.check_metadata_key(key, value);
                    metadata.other_keys.insert(key.to_owned(), value.to_json());
                }
            }
        }
        if !entries.iter().any(|entry| &*entry.key == "name") {
            let span = node.map_or(root, |node| node.span);
            self.report_missing_key("name", "metadata", span, "name: my_playbook");
        }
        metadata
    }

    fn check_metadata_key(&mut self, key: &str, value: &Node) {
        match (key, &value.value) {
            ("labels", NodeValue::Map(_) | NodeValue::Null)
            | ("tags", NodeValue::List(_) | NodeValue::Text(_) | NodeValue::Null) => {}
            ("labels", _) => self.report_wrong_type(value, "metadata.labels", "a map"),
            ("tags", _) => self.report_wrong_type(value, "metadata.tags", "a list or text"),
            _ => {}
        }
    }
}
