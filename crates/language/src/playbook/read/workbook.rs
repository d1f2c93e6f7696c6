//! `workbook`: named tasks that steps use by name.

use std::collections::BTreeMap;

use crate::playbook::read::reader::PlaybookReader;
use crate::yaml::{MapEntry, Node, NodeValue, overlay};

/// Workbook tasks by name.
pub(crate) type Workbook = BTreeMap<String, Node>;

impl PlaybookReader {
    pub(crate) fn read_workbook(&mut self, node: &Node) -> Workbook {
        let inner = node.get("tasks").filter(|tasks| tasks.get("kind").is_none());
        match &inner.unwrap_or(node).value {
            NodeValue::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.to_string(), task_node(&entry.value).clone()))
                .collect(),
            NodeValue::List(items) => {
                let items = items.iter();
                items.filter_map(|item| self.read_named_task(item)).collect()
            }
            NodeValue::Null => Workbook::new(),
            _ => {
                self.report_wrong_type(node, "workbook", "a map of named tasks");
                Workbook::new()
            }
        }
    }

    fn read_named_task(&mut self, node: &Node) -> Option<(String, Node)> {
        let Some(name) = node.get("name") else {
            if node.as_map().is_some() {
                self.report_missing_key("name", "the workbook task", node.span, "name: my_task");
            } else {
                self.report_wrong_type(node, "a workbook task", "a map with `name` and `tool`");
            }
            return None;
        };
        let name = self.read_text(name, "name")?;
        let task = match node.get("tool") {
            Some(tool) => tool.clone(),
            None => without_keys(node, &["name"]),
        };
        Some((name, task))
    }

    /// Replaces `node` by the workbook task it refers to; keys of `node` override those of the task.
    pub(crate) fn expand_named_task(&mut self, node: &Node, workbook: &Workbook) -> Option<Node> {
        let mut current = node.clone();
        let mut expanded: Vec<String> = Vec::new();
        while current.get("kind").and_then(Node::as_str) == Some("workbook") {
            let Some(name_node) = current.get("name").cloned() else {
                let example = "name: <workbook task>";
                self.report_missing_key("name", "the workbook task", node.span, example);
                return None;
            };
            let name = self.read_text(&name_node, "name")?;
            let Some(task) = workbook.get(&name) else {
                self.report_unknown_task(&name_node, &name, workbook);
                return None;
            };
            if expanded.contains(&name) {
                let message = format!("workbook task `{name}` refers to itself");
                self.report_error("E0119", message, name_node.span, "set a tool kind in one of the tasks");
                return None;
            }
            expanded.push(name);
            if !self.may_inherit(task) {
                return None;
            }
            let caller = with_canonical_input(&without_keys(&current, &["kind", "name"]));
            current = overlay(&with_canonical_input(task), &caller);
        }
        Some(current)
    }

    fn report_unknown_task(&mut self, name_node: &Node, name: &str, workbook: &Workbook) {
        let names: Vec<&str> = workbook.keys().map(String::as_str).collect();
        let label = match self.suggest(name, names.iter().copied()) {
            Some(suggestion) => format!("did you mean `{suggestion}`?"),
            None if names.is_empty() => "this playbook has no `workbook`".to_owned(),
            None => format!("(workbook has: {})", names.join(" ")),
        };
        let message = format!("unknown workbook task `{name}`");
        self.report_error("E0118", message, name_node.span, label);
    }
}

/// Returns the task itself, which may be under `tool`.
fn task_node(node: &Node) -> &Node {
    match node.get("tool") {
        Some(tool) if node.get("kind").is_none() => tool,
        _ => node,
    }
}

fn without_keys(node: &Node, keys: &[&str]) -> Node {
    let entries = node.as_map().unwrap_or_default().iter();
    let remaining = entries.filter(|entry| !keys.contains(&&*entry.key));
    Node {
        span: node.span,
        value: NodeValue::Map(remaining.cloned().collect()),
    }
}

/// Renames `args` to `input`, so that one overrides the other.
fn with_canonical_input(node: &Node) -> Node {
    let has_both = node.get("args").is_some() && node.get("input").is_some();
    let entries = node.as_map().unwrap_or_default().iter();
    let entries = entries.map(|entry| match &*entry.key {
        "args" if !has_both => MapEntry {
            key: "input".into(),
            ..entry.clone()
        },
        _ => entry.clone(),
    });
    Node {
        span: node.span,
        value: NodeValue::Map(entries.collect()),
    }
}
