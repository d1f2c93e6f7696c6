//! Reachability: which steps can still lead to which.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::id::Name;
use model::playbook::Playbook;

/// The net's arcs, ready for questions.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    targets: BTreeMap<Name, BTreeSet<Name>>,
    sources: BTreeMap<Name, BTreeSet<Name>>,
}

impl Graph {
    /// Reads the arcs of a playbook. The final step stands outside the net: its `next` is ignored.
    pub fn of(playbook: &Playbook) -> Self {
        let mut graph = Self::default();
        for step in &playbook.steps {
            if playbook.executor.final_step.as_ref() == Some(&step.name) {
                continue;
            }
            for arc in &step.next.arcs {
                graph
                    .targets
                    .entry(step.name.clone())
                    .or_default()
                    .insert(arc.step.clone());
                graph
                    .sources
                    .entry(arc.step.clone())
                    .or_default()
                    .insert(step.name.clone());
            }
        }
        graph
    }

    /// Whether tokens can meet at this step: several steps lead to it.
    pub fn is_meeting_place(&self, step: &Name) -> bool {
        self.sources
            .get(step)
            .is_some_and(|sources| sources.len() > 1)
    }

    /// Whether a token that leaves `from` can come to `to` without passing through `to` before.
    pub fn reaches(&self, from: &Name, to: &Name) -> bool {
        if from == to {
            return false;
        }
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([from]);
        while let Some(step) = queue.pop_front() {
            for target in self.targets.get(step).into_iter().flatten() {
                if target == to {
                    return true;
                }
                if seen.insert(target) {
                    queue.push_back(target);
                }
            }
        }
        false
    }
}
