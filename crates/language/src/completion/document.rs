//! The names that a document defines: steps, tasks, inputs and entries of the keychain.

use crate::completion::outline::{NodeKind, Outline};
use crate::reference::find_section;

/// The names of the steps, in order.
pub(crate) fn step_names<'t>(outline: &Outline<'t>) -> Vec<&'t str> {
    let Some(workflow) = outline.find_key(0, "workflow") else {
        return Vec::new();
    };
    let items = outline.children(workflow);
    items.filter_map(|item| outline.find_scalar(item, "step")).collect()
}

/// The item of the step around a node.
pub(crate) fn step_around(outline: &Outline<'_>, node: usize) -> Option<usize> {
    let workflow = outline.find_key(0, "workflow")?;
    let mut current = node;
    while current != 0 {
        let parent = outline.node(current).parent;
        if parent == workflow {
            return Some(current);
        }
        current = parent;
    }
    None
}

/// The labels of the tasks of the step around a node.
pub(crate) fn task_labels<'t>(outline: &Outline<'t>, node: usize) -> Vec<&'t str> {
    let tool = step_around(outline, node).and_then(|step| outline.find_key(step, "tool"));
    let Some(tool) = tool else {
        return Vec::new();
    };
    let items = outline
        .children(tool)
        .filter(|item| outline.node(*item).kind == NodeKind::Item);
    items.filter_map(|item| task_label(outline, item)).collect()
}

fn task_label<'t>(outline: &Outline<'t>, item: usize) -> Option<&'t str> {
    if outline.find_key(item, "kind").is_some() {
        return outline.find_scalar(item, "name");
    }
    outline.keys(item).next()
}

/// The name of the element of the loop around a node.
pub(crate) fn iterator<'t>(outline: &Outline<'t>, node: usize) -> Option<&'t str> {
    let step = step_around(outline, node)?;
    outline.find_scalar(outline.find_key(step, "loop")?, "iterator")
}

/// The keys of a section of the document, such as `workload`.
pub(crate) fn section_keys<'t>(outline: &Outline<'t>, section: &str) -> Vec<&'t str> {
    let node = outline.find_key(0, section);
    node.map(|node| outline.keys(node).collect()).unwrap_or_default()
}

/// The names of the entries of the keychain.
pub(crate) fn keychain_names<'t>(outline: &Outline<'t>) -> Vec<&'t str> {
    let Some(keychain) = outline.find_key(0, "keychain") else {
        return Vec::new();
    };
    let items = outline.children(keychain);
    items.filter_map(|item| outline.find_scalar(item, "name")).collect()
}

/// The names of the tasks under `workbook`.
pub(crate) fn workbook_names<'t>(outline: &Outline<'t>) -> Vec<&'t str> {
    let Some(workbook) = outline.find_key(0, "workbook") else {
        return Vec::new();
    };
    let tasks = outline.find_key(workbook, "tasks").unwrap_or(workbook);
    let is_task = |key: &&str| find_section("task").is_none_or(|task| task.find_key(key).is_none());
    outline.keys(tasks).filter(is_task).collect()
}
