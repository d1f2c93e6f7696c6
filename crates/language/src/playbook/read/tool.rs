//! `tool`: reads the pipeline of a step, in its several spellings, as labelled tasks.

use model::id::Name;
use model::source::Span;

use crate::playbook::Task;
use crate::playbook::read::reader::PlaybookReader;
use crate::playbook::read::task::TaskInheritance;
use crate::yaml::{Node, NodeValue};

const TOOL_FORM: &str = "write `tool: {kind: …}`, or a list of `- <label>: {kind: …}`";

/// One entry of a pipeline with its label.
struct PipelineItem<'n> {
    label: Name,
    span: Span,
    task: &'n Node,
}

impl PlaybookReader {
    pub(crate) fn read_tool(&mut self, node: &Node, step: &Name, inheritance: &TaskInheritance<'_>) -> Vec<Task> {
        let items = match &node.value {
            NodeValue::Map(_) => match self.read_single_task(node, step) {
                Some(item) => vec![item],
                None => return Vec::new(),
            },
            NodeValue::List(items) => {
                let items = items.iter().enumerate();
                items.filter_map(|(index, item)| self.read_item(item, index)).collect()
            }
            _ => {
                let message = format!("`tool` must be a map or a list, not {}", node.describe());
                self.report_error("E0122", message, node.span, TOOL_FORM);
                return Vec::new();
            }
        };
        self.check_unique_labels(&items, step);
        let mut tasks = Vec::new();
        for item in items {
            let uses = self.uses.len();
            match self.read_task(item.label, item.task, inheritance) {
                Some(task) => tasks.push(task),
                None => self.uses.truncate(uses),
            }
        }
        tasks
    }

    fn read_single_task<'n>(&mut self, node: &'n Node, step: &Name) -> Option<PipelineItem<'n>> {
        if node.get("kind").is_some() {
            let label = label_key(node).and_then(|name| self.read_name(name, "name"));
            return Some(PipelineItem {
                label: label.unwrap_or_else(|| step.clone()),
                span: node.span,
                task: node,
            });
        }
        let entries = node.as_map().unwrap_or_default();
        let are_tasks = entries.iter().all(|entry| entry.value.get("kind").is_some());
        if are_tasks && !entries.is_empty() {
            let message = "the tasks of a pipeline must be a list";
            self.report_error("E0122", message, node.span, "begin each task with `- `");
        } else {
            self.report_missing_key("kind", "the tool", node.span, "kind: python");
        }
        None
    }

    fn read_item<'n>(&mut self, node: &'n Node, index: usize) -> Option<PipelineItem<'n>> {
        let Some(entries) = node.as_map() else {
            let message = format!("a task must be a map, not {}", node.describe());
            self.report_error("E0122", message, node.span, TOOL_FORM);
            return None;
        };
        if node.get("kind").is_some() {
            let label = label_key(node).and_then(|name| self.read_name(name, "name"));
            let label = label.unwrap_or_else(|| format!("task_{index}").into());
            return Some(PipelineItem {
                label,
                span: node.span,
                task: node,
            });
        }
        match entries {
            [entry] if entry.value.as_map().is_some() => Some(PipelineItem {
                label: entry.key.to_string().into(),
                span: entry.span,
                task: &entry.value,
            }),
            [entry] => {
                let message = format!("the task `{}` must be a map", entry.key);
                self.report_error("E0122", message, entry.span, TOOL_FORM);
                None
            }
            _ => {
                self.report_missing_key("kind", "the task", node.span, "kind: python");
                None
            }
        }
    }

    fn check_unique_labels(&mut self, items: &[PipelineItem<'_>], step: &Name) {
        let mut labels = std::collections::BTreeMap::new();
        for PipelineItem { label, span, .. } in items {
            if let Some(first) = labels.insert(label.clone(), span.line) {
                let message = format!("step `{step}` has two tasks `{label}`");
                let advice = format!("first on line {first}; rename one of them");
                self.report_error("E0111", message, *span, advice);
            }
        }
    }
}

/// Returns `name` as the label of a task, unless it is the kind's own key.
fn label_key(node: &Node) -> Option<&Node> {
    let is_workbook = node.get("kind").and_then(Node::as_str) == Some("workbook");
    node.get("name").filter(|_| !is_workbook)
}
