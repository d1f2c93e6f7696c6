//! `keychain`: named entries in order.

use std::collections::BTreeMap;

use crate::playbook::read::reader::Reader;
use crate::playbook::{KeychainEntry, KeychainKind, KeychainScope};
use crate::template::Tree;
use crate::yaml::{Node, Value};

impl Reader {
    /// Reads the entries. Each needs a name, and a later entry may use earlier ones.
    pub(crate) fn keychain(&mut self, node: &Node) -> Vec<KeychainEntry> {
        if node.is_null() {
            return Vec::new();
        }
        let Value::List(nodes) = &node.value else {
            self.wrong_type(node, "keychain", "a list of `{name, kind}`");
            return Vec::new();
        };
        let mut entries: Vec<KeychainEntry> = Vec::new();
        for node in nodes {
            let Some(entry) = self.keychain_entry(node) else {
                continue;
            };
            if let Some(first) = entries.iter().find(|known| known.name == entry.name) {
                let message = format!("two keychain entries have the name `{}`", entry.name);
                let label = format!("first on line {}; rename one of them", first.span.line);
                self.error("E0110", message, entry.span, label);
            }
            entries.push(entry);
        }
        entries
    }

    fn keychain_entry(&mut self, node: &Node) -> Option<KeychainEntry> {
        let Some(pairs) = node.as_map() else {
            self.wrong_type(node, "a keychain entry", "a map with `name` and `kind`");
            return None;
        };
        let Some(named) = node.get("name") else {
            self.missing("name", "the keychain entry", node.span, "name: pg_main");
            return None;
        };
        let name = self.name(named, "the name of a keychain entry")?;
        let kind = node.get("kind").or_else(|| node.get("type"));
        let kind = kind.and_then(|kind| self.text(kind, "the kind of a keychain entry"));
        let scope = node.get("scope").and_then(Node::as_str);
        let scope = scope.and_then(KeychainScope::of);
        let mut fields: BTreeMap<String, Tree> = BTreeMap::new();
        for pair in pairs {
            // Any other `scope` is the OAuth scope of a token request.
            let is_ours = match &*pair.key {
                "name" | "kind" => true,
                "scope" => scope.is_some(),
                _ => false,
            };
            if !is_ours && !pair.value.is_null() {
                fields.insert(pair.key.to_string(), self.tree(&pair.value));
            }
        }
        Some(KeychainEntry {
            kind: KeychainKind::of(kind.as_deref().unwrap_or("credential"), &fields),
            scope: scope.unwrap_or_default(),
            name,
            fields,
            span: node.span,
        })
    }
}
