//! `keychain`: named entries in order.

use std::collections::BTreeMap;

use crate::playbook::read::reader::PlaybookReader;
use crate::playbook::{KeychainEntry, KeychainKind, KeychainScope};
use crate::template::Tree;
use crate::yaml::{Node, NodeValue};

impl PlaybookReader {
    /// Reads the entries. Each needs a name, and a later entry may use earlier ones.
    pub(crate) fn read_keychain(&mut self, node: &Node) -> Vec<KeychainEntry> {
        if node.is_null() {
            return Vec::new();
        }
        let NodeValue::List(nodes) = &node.value else {
            self.report_wrong_type(node, "keychain", "a list of `{name, kind}`");
            return Vec::new();
        };
        let mut entries: Vec<KeychainEntry> = Vec::new();
        for node in nodes {
            let Some(entry) = self.read_keychain_entry(node) else {
                continue;
            };
            if let Some(first) = entries.iter().find(|earlier| earlier.name == entry.name) {
                let message = format!("two keychain entries have the name `{}`", entry.name);
                let label = format!("first on line {}; rename one of them", first.span.line);
                self.report_error("E0110", message, entry.span, label);
            }
            entries.push(entry);
        }
        entries
    }

    fn read_keychain_entry(&mut self, node: &Node) -> Option<KeychainEntry> {
        let Some(pairs) = node.as_map() else {
            self.report_wrong_type(node, "a keychain entry", "a map with `name` and `kind`");
            return None;
        };
        let Some(name_node) = node.get("name") else {
            self.report_missing_key("name", "the keychain entry", node.span, "name: pg_main");
            return None;
        };
        let name = self.read_name(name_node, "the name of a keychain entry")?;
        let kind = node.get("kind").or_else(|| node.get("type"));
        let kind = kind.and_then(|kind| self.read_text(kind, "the kind of a keychain entry"));
        let scope = node.get("scope").and_then(Node::as_str);
        let scope = scope.and_then(KeychainScope::parse);
        let mut fields: BTreeMap<String, Tree> = BTreeMap::new();
        for pair in pairs {
            // Any other `scope` is the OAuth scope of a token request.
            let is_ours = match &*pair.key {
                "name" | "kind" => true,
                "scope" => scope.is_some(),
                _ => false,
            };
            if !is_ours && !pair.value.is_null() {
                fields.insert(pair.key.to_string(), self.read_tree(&pair.value));
            }
        }
        Some(KeychainEntry {
            kind: KeychainKind::parse(kind.as_deref().unwrap_or("credential"), &fields),
            scope: scope.unwrap_or_default(),
            name,
            fields,
            span: node.span,
        })
    }
}
