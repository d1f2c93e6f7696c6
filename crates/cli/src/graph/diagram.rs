//! Content of a diagram: steps with their marks, arcs with their labels.

use std::collections::BTreeMap;

use model::playbook::{Collection, Playbook, Step};
use serde_json::Value;

use crate::render::{human, lines};

/// Maximum length of a condition on an arc.
const LABEL_CHARS_MAX: usize = 32;

/// The steps and arcs of a playbook.
#[derive(Debug, Clone)]
pub(crate) struct Diagram {
    /// Steps in playbook order; then missing steps that arcs refer to.
    pub(crate) nodes: Vec<Node>,
    /// Arcs in playbook order.
    pub(crate) arcs: Vec<Arc>,
    /// The first step.
    pub(crate) entry: usize,
    /// The step that runs last, without arcs.
    pub(crate) last: Option<usize>,
}

/// A step.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Name.
    pub(crate) name: String,
    /// Kind, as `render::lines::kind` returns it.
    pub(crate) kind: String,
    /// Loop mark.
    pub(crate) lap: Lap,
}

/// Loop mark of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lap {
    /// No loop.
    None,
    /// Loop over a known number of elements.
    Of(usize),
    /// Loop over a number of elements that is known only at run time.
    Open,
}

/// An arc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arc {
    /// Index of the step it starts from.
    pub(crate) from: usize,
    /// Index of the step it leads to.
    pub(crate) to: usize,
    /// When it is followed.
    pub(crate) taken: Taken,
}

/// When an arc is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    /// After success.
    Plain,
    /// After a failure.
    OnFailure,
    /// If its condition is true.
    When(String),
}

impl Diagram {
    /// Builds the diagram of a playbook.
    pub(crate) fn of(playbook: &Playbook) -> Self {
        let mut nodes: Vec<Node> = playbook.steps.iter().map(Node::of).collect();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            places.insert(node.name.clone(), index);
        }
        let last = playbook.executor.final_step.as_ref();
        let mut arcs = Vec::new();
        for (from, step) in playbook.steps.iter().enumerate() {
            if last == Some(&step.name) {
                continue;
            }
            for arc in &step.next.arcs {
                let to = *places.entry(arc.step.to_string()).or_insert_with(|| {
                    nodes.push(Node::bare(arc.step.as_str()));
                    nodes.len() - 1
                });
                let guard = arc.when.as_ref().map(model::template::Template::source);
                let arc = Arc {
                    from,
                    to,
                    taken: Taken::by(guard),
                };
                if !arcs.contains(&arc) {
                    arcs.push(arc);
                }
            }
        }
        let place = |name: &str| places.get(name).copied();
        Self {
            entry: place(playbook.entry().name.as_str()).unwrap_or(0),
            last: last.and_then(|name| place(name.as_str())),
            nodes,
            arcs,
        }
    }

    /// Returns the arcs that start at a step.
    pub(crate) fn from(&self, node: usize) -> impl Iterator<Item = &Arc> {
        self.arcs.iter().filter(move |arc| arc.from == node)
    }
}

impl Node {
    fn of(step: &Step) -> Self {
        let lap = step.loop_.as_ref().map_or(Lap::None, |lap| {
            let length = match &lap.over {
                Collection::In(tree) => literal_length(tree),
                Collection::Cursor(_) => None,
            };
            length.map_or(Lap::Open, Lap::Of)
        });
        Self {
            name: step.name.to_string(),
            kind: lines::kind(step),
            lap,
        }
    }

    fn bare(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: String::new(),
            lap: Lap::None,
        }
    }
}

fn literal_length(tree: &model::template::Tree) -> Option<usize> {
    use model::template::Tree;
    match tree {
        Tree::List(items) => Some(items.len()),
        Tree::Literal(Value::Array(items)) => Some(items.len()),
        _ => None,
    }
}

impl Taken {
    /// Classifies a condition: on failure, plain success, or any other condition with its text.
    fn by(guard: Option<&str>) -> Self {
        let Some(guard) = guard else {
            return Self::Plain;
        };
        let text = guard.trim();
        let text = text
            .strip_prefix("{{")
            .and_then(|text| text.strip_suffix("}}"))
            .unwrap_or(text);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let speaks_of = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if speaks_of(&[
            "step.failed",
            "call.error",
            "'error'",
            "\"error\"",
            "step_failed",
        ]) {
            return Self::OnFailure;
        }
        let is_success = speaks_of(&["step.done", "loop.done", "call.done", "step.exit"]);
        let is_alone = !speaks_of(&[" and ", " or "]);
        if (is_success && is_alone) || text == "true" {
            return Self::Plain;
        }
        Self::When(human::cut(&text, LABEL_CHARS_MAX))
    }
}
