//! What the language expects at a node of an outline.

use crate::completion::outline::{NodeKind, Outline};
use crate::playbook::kinds;
use crate::reference::{KeyDoc, NameSite, SectionDoc, ValueType, find_kind_doc, find_section};

/// Deeper nodes are not understood.
const DEPTH_MAX: usize = 64;

/// What the value of a node can be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExpectedValue {
    /// A map with the keys of a section.
    Keys(&'static SectionDoc),
    /// A map with the keys of a task, or with a label and a task.
    PipelineItem,
    /// The value of a key.
    Value(&'static KeyDoc),
    /// Anything.
    Free,
}

impl ExpectedValue {
    /// What the value of a node can be.
    pub(crate) fn of(outline: &Outline<'_>, node: usize) -> Self {
        let mut path = vec![node];
        let mut current = node;
        while current != 0 {
            current = outline.node(current).parent;
            path.push(current);
            if path.len() > DEPTH_MAX {
                return Self::Free;
            }
        }
        let mut expected = find_section("playbook").map_or(Self::Free, Self::Keys);
        for pair in path.windows(2).rev() {
            expected = expected.descend(outline, pair[1], pair[0]);
        }
        expected
    }

    /// What `child` can be in a value that is `self`.
    fn descend(self, outline: &Outline<'_>, parent: usize, child: usize) -> Self {
        let kind = outline.node(child).kind;
        match (self, kind) {
            (Self::Value(doc), NodeKind::Item) => item_value(doc.value),
            (_, NodeKind::Key(key)) => match self.find_key(outline, parent, key) {
                Some(doc) => Self::Value(doc),
                None => self.unnamed_value(key),
            },
            _ => Self::Free,
        }
    }

    /// What follows a key that the author chose.
    fn unnamed_value(self, key: &str) -> Self {
        let is_task = match self {
            Self::PipelineItem => true,
            Self::Value(doc) => match doc.value {
                ValueType::NamedTasks if key == "tasks" => return self,
                ValueType::NamedTasks | ValueType::Pipeline => true,
                _ => false,
            },
            _ => false,
        };
        if is_task { task_value() } else { Self::Free }
    }

    /// The section of a map that is the value.
    pub(crate) fn section(self) -> Option<&'static SectionDoc> {
        match self {
            Self::Keys(section) => Some(section),
            Self::PipelineItem => find_section("task"),
            Self::Value(doc) => match doc.value {
                ValueType::NamedTasks | ValueType::List(_) => None,
                value => value.section().and_then(find_section),
            },
            Self::Free => None,
        }
    }

    /// The keys of a map at `node`, whose value is `self`: those of the section, and those of the kind of a task.
    pub(crate) fn list_keys(self, outline: &Outline<'_>, node: usize) -> Vec<&'static KeyDoc> {
        let Some(section) = self.section() else {
            return Vec::new();
        };
        let own = matches!(section.name, "task" | "cursor").then(|| kind_keys(outline, node));
        section.keys.iter().chain(own.unwrap_or_default()).collect()
    }

    /// The description of a key of a map at `node`.
    pub(crate) fn find_key(self, outline: &Outline<'_>, node: usize, key: &str) -> Option<&'static KeyDoc> {
        let section = self.section()?;
        if let Some(doc) = section.find_key(key) {
            return Some(doc);
        }
        let kind = kinds::find_kind(outline.find_scalar(node, "kind")?)?;
        let name = kind.find_key(key)?.name;
        let mut keys = kind_keys(outline, node).iter();
        keys.find(|doc| doc.key == name && matches!(section.name, "task" | "cursor"))
    }
}

/// The own keys of the kind that a task names.
fn kind_keys(outline: &Outline<'_>, node: usize) -> &'static [KeyDoc] {
    let kind = outline.find_scalar(node, "kind").and_then(kinds::find_kind);
    let doc = kind.and_then(|kind| find_kind_doc(kind.name));
    doc.map_or(&[], |doc| doc.keys)
}

fn task_value() -> ExpectedValue {
    find_section("task").map_or(ExpectedValue::Free, ExpectedValue::Keys)
}

/// What an item of a list can be.
fn item_value(list: ValueType) -> ExpectedValue {
    let section = match list {
        ValueType::List(section) | ValueType::MapOrList(_, section) => section,
        ValueType::Pipeline => return ExpectedValue::PipelineItem,
        ValueType::NamedTasks => "task",
        _ => return ExpectedValue::Free,
    };
    find_section(section).map_or(ExpectedValue::Free, ExpectedValue::Keys)
}

/// Which names templates can read at a node.
pub(crate) fn name_site(outline: &Outline<'_>, node: usize) -> NameSite {
    let mut site = NameSite::Call;
    let mut current = node;
    let mut depth = 0;
    let mut is_in_tool = false;
    while current != 0 && depth < DEPTH_MAX {
        let parent = outline.node(current).parent;
        if let NodeKind::Key(key) = outline.node(current).kind {
            match key {
                "admit" => return NameSite::Admission,
                "next" => return NameSite::Condition,
                "workload" | "ctx" if parent == 0 => return NameSite::Default,
                "policy" | "set" => site = NameSite::Outcome,
                "tool" | "workbook" => is_in_tool = true,
                _ => {}
            }
        }
        current = parent;
        depth += 1;
    }
    match site {
        NameSite::Outcome if !is_in_tool && depth <= STEP_DEPTH => NameSite::Condition,
        site => site,
    }
}

/// The number of nodes from the document to a key of a step's `set`: `workflow`, item, `set`, key.
const STEP_DEPTH: usize = 4;
