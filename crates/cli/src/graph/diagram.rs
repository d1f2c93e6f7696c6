//! Content of a diagram: steps with their marks, arcs with their labels.

use std::collections::BTreeMap;

use language::playbook::{Collection, Playbook, Step};
use serde_json::Value;

use crate::render::{human, lines};

/// Maximum length of a condition on an arc.
const LABEL_CHARS_MAX: usize = 32;

/// The steps and arcs of a playbook.
#[derive(Debug, Clone)]
pub(crate) struct Diagram {
    /// Steps in playbook order; then missing steps that arcs refer to.
    pub(crate) nodes: Vec<DiagramNode>,
    /// Arcs in playbook order.
    pub(crate) arcs: Vec<DiagramArc>,
    /// The first step.
    pub(crate) entry: usize,
    /// The step that runs last, without arcs.
    pub(crate) final_step: Option<usize>,
}

/// A step.
#[derive(Debug, Clone)]
pub(crate) struct DiagramNode {
    /// Name.
    pub(crate) name: String,
    /// Kind, as `render::lines::kind` returns it.
    pub(crate) kind: String,
    /// Loop mark.
    pub(crate) loop_mark: LoopMark,
}

/// Loop mark of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopMark {
    /// No loop.
    None,
    /// Loop over a known number of elements.
    Counted(usize),
    /// Loop over a number of elements that is known only at run time.
    Uncounted,
}

/// An arc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiagramArc {
    /// Index of the step it starts from.
    pub(crate) from: usize,
    /// Index of the step it leads to.
    pub(crate) to: usize,
    /// When it is followed.
    pub(crate) condition: ArcCondition,
}

/// When an arc is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArcCondition {
    /// After success.
    OnSuccess,
    /// After a failure.
    OnFailure,
    /// If its condition is true.
    When(String),
}

impl Diagram {
    /// Builds the diagram of a playbook.
    pub(crate) fn from_playbook(playbook: &Playbook) -> Self {
        let mut nodes: Vec<DiagramNode> = playbook.steps.iter().map(DiagramNode::from_step).collect();
        let mut indices: BTreeMap<String, usize> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            indices.insert(node.name.clone(), index);
        }
        let last = playbook.executor.final_step.as_ref();
        let mut arcs = Vec::new();
        for (from, step) in playbook.steps.iter().enumerate() {
            if last == Some(&step.name) {
                continue;
            }
            for arc in &step.next.arcs {
                let to = *indices.entry(arc.step.to_string()).or_insert_with(|| {
                    nodes.push(DiagramNode::missing(arc.step.as_str()));
                    nodes.len() - 1
                });
                let guard = arc.when.as_ref().map(language::template::Template::source);
                let arc = DiagramArc {
                    from,
                    to,
                    condition: ArcCondition::from_guard(guard),
                };
                if !arcs.contains(&arc) {
                    arcs.push(arc);
                }
            }
        }
        let index_of = |name: &str| indices.get(name).copied();
        Self {
            entry: index_of(playbook.entry().name.as_str()).unwrap_or(0),
            final_step: last.and_then(|name| index_of(name.as_str())),
            nodes,
            arcs,
        }
    }

    /// Returns the arcs that start at a step.
    pub(crate) fn arcs_from(&self, node: usize) -> impl Iterator<Item = &DiagramArc> {
        self.arcs.iter().filter(move |arc| arc.from == node)
    }
}

impl DiagramNode {
    fn from_step(step: &Step) -> Self {
        let loop_mark = step.loop_.as_ref().map_or(LoopMark::None, |loop_| {
            let length = match &loop_.collection {
                Collection::In(tree) => literal_length(tree),
                Collection::Cursor(_) => None,
            };
            length.map_or(LoopMark::Uncounted, LoopMark::Counted)
        });
        Self {
            name: step.name.to_string(),
            kind: lines::step_kind(step),
            loop_mark,
        }
    }

    fn missing(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: String::new(),
            loop_mark: LoopMark::None,
        }
    }
}

fn literal_length(tree: &language::template::Tree) -> Option<usize> {
    use language::template::Tree;
    match tree {
        Tree::List(items) => Some(items.len()),
        Tree::Literal(Value::Array(items)) => Some(items.len()),
        _ => None,
    }
}

impl ArcCondition {
    /// Classifies a condition: on failure, plain success, or any other condition with its text.
    fn from_guard(guard: Option<&str>) -> Self {
        let Some(guard) = guard else {
            return Self::OnSuccess;
        };
        let text = guard.trim();
        let text = text
            .strip_prefix("{{")
            .and_then(|text| text.strip_suffix("}}"))
            .unwrap_or(text);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let speaks_of = |phrases: &[&str]| phrases.iter().any(|mentions| text.contains(mentions));
        if speaks_of(&["step.failed", "call.error", "'error'", "\"error\"", "step_failed"]) {
            return Self::OnFailure;
        }
        let is_success = speaks_of(&["step.done", "loop.done", "call.done", "step.exit"]);
        let is_alone = !speaks_of(&[" and ", " or "]);
        if (is_success && is_alone) || text == "true" {
            return Self::OnSuccess;
        }
        Self::When(human::truncate(&text, LABEL_CHARS_MAX))
    }
}
