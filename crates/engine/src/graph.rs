//! Reachability: which steps can lead to which other steps.

use std::collections::BTreeMap;

use language::playbook::Playbook;
use model::id::{Name, TokenId};
use roaring::RoaringBitmap;

use crate::state::SharedMap;

/// The arcs of the net, and for every step the steps that lead to it, computed once.
///
/// Steps that lead to each other form one cycle. Cycles and single steps are numbered in topological order, so arcs
/// between them only lead to higher numbers. The predecessors of each are a set of step numbers.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    steps: BTreeMap<Name, StepPosition>,
    /// Step names by number.
    names: Vec<Name>,
    /// By cycle: the steps of other cycles that lead to it.
    before: Vec<RoaringBitmap>,
}

/// The position of a step in the net.
#[derive(Debug, Clone, Copy)]
struct StepPosition {
    number: u32,
    cycle: usize,
    has_several_sources: bool,
}

impl Graph {
    /// Builds the graph of a playbook. The final step is outside the net: its `next` is ignored.
    pub fn from_playbook(playbook: &Playbook) -> Self {
        let arcs = NumberedArcs::from_playbook(playbook);
        let sorted = arcs.sorted_cycles();
        let mut graph = Self::default();
        let mut positions = vec![None; arcs.names.len()];
        let mut number = 0;
        for (cycle, members) in sorted.iter().enumerate() {
            for member in members {
                positions[*member] = Some(StepPosition {
                    number,
                    cycle,
                    has_several_sources: arcs.sources[*member].len() > 1,
                });
                number += 1;
            }
        }
        let positions: Vec<StepPosition> = positions.into_iter().flatten().collect();
        for (cycle, members) in sorted.iter().enumerate() {
            let mut before = RoaringBitmap::new();
            for source in members.iter().flat_map(|member| &arcs.sources[*member]) {
                let source = positions[*source];
                if source.cycle != cycle {
                    before |= &graph.before[source.cycle];
                    let cycle_steps = sorted[source.cycle].iter();
                    before.extend(cycle_steps.map(|step| positions[*step].number));
                }
            }
            before.optimize();
            graph.before.push(before);
        }
        let members = sorted.iter().flatten();
        graph.names = members.map(|member| arcs.names[*member].clone()).collect();
        graph.steps = arcs.names.into_iter().zip(positions).collect();
        graph
    }

    /// Whether tokens can meet at this step, because several steps lead to it.
    pub fn is_join(&self, step: &Name) -> bool {
        self.steps
            .get(step)
            .is_some_and(|position| position.has_several_sources)
    }

    /// Whether a token that leaves `from` can reach `to` without passing through `to` earlier.
    pub fn reaches(&self, from: &Name, to: &Name) -> bool {
        let (Some(start), Some(end)) = (self.steps.get(from), self.steps.get(to)) else {
            return false;
        };
        if start.cycle == end.cycle {
            return start.number != end.number;
        }
        self.before[end.cycle].contains(start.number)
    }

    /// Whether `from` leads to `to` and no path leads back.
    pub fn precedes(&self, from: &Name, to: &Name) -> bool {
        let (Some(start), Some(end)) = (self.steps.get(from), self.steps.get(to)) else {
            return false;
        };
        start.cycle != end.cycle && self.before[end.cycle].contains(start.number)
    }

    /// Whether one of `token_steps` leads to `step`, no path leads back, and `matches` is true for it. Searches the
    /// predecessors of `step` or `token_steps`, whichever are fewer. `matches` must be false for any step that is not in
    /// `token_steps`.
    pub(crate) fn any_before(
        &self,
        step: &Name,
        token_steps: &SharedMap<TokenId, Name>,
        matches: impl Fn(&Name) -> bool,
    ) -> bool {
        let Some(position) = self.steps.get(step) else {
            return false;
        };
        let before = &self.before[position.cycle];
        if before.len() < token_steps.len() as u64 {
            let names = before.iter().map(|number| &self.names[number as usize]);
            return names.into_iter().any(matches);
        }
        let mut others = token_steps.values();
        others.any(|other| self.precedes(other, step) && matches(other))
    }
}

/// The arcs by number, for steps and for targets that are not steps.
struct NumberedArcs {
    names: Vec<Name>,
    targets: Vec<Vec<usize>>,
    sources: Vec<Vec<usize>>,
}

impl NumberedArcs {
    fn from_playbook(playbook: &Playbook) -> Self {
        let mut numbers: BTreeMap<Name, usize> = BTreeMap::new();
        let mut names = Vec::new();
        let mut pairs = Vec::new();
        let mut number_of = |name: &Name| {
            *numbers.entry(name.clone()).or_insert_with(|| {
                names.push(name.clone());
                names.len() - 1
            })
        };
        for step in &playbook.steps {
            let from = number_of(&step.name);
            if playbook.executor.final_step.as_ref() == Some(&step.name) {
                continue;
            }
            pairs.extend(step.next.arcs.iter().map(|arc| (from, number_of(&arc.step))));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut targets = vec![Vec::new(); names.len()];
        let mut sources = vec![Vec::new(); names.len()];
        for (from, to) in pairs {
            targets[from].push(to);
            sources[to].push(from);
        }
        Self {
            names,
            targets,
            sources,
        }
    }

    /// The strongly connected components in topological order (Kosaraju's algorithm).
    fn sorted_cycles(&self) -> Vec<Vec<usize>> {
        let indices: Vec<usize> = (0..self.names.len()).collect();
        let left: Vec<usize> = walk_arcs(&self.targets, &indices).into_iter().flatten().collect();
        let last_left_first: Vec<usize> = left.into_iter().rev().collect();
        walk_arcs(&self.sources, &last_left_first)
    }
}

/// Runs a depth-first search from each start that no earlier search visited. Each result lists its steps in postorder.
fn walk_arcs(arcs: &[Vec<usize>], starts: &[usize]) -> Vec<Vec<usize>> {
    let mut is_visited = vec![false; arcs.len()];
    let mut walks = Vec::new();
    for start in starts {
        if std::mem::replace(&mut is_visited[*start], true) {
            continue;
        }
        let mut left = Vec::new();
        let mut path = vec![(*start, 0)];
        while let Some((step, next)) = path.last_mut() {
            let target = arcs[*step].get(*next).copied();
            *next += 1;
            match target {
                Some(target) if !std::mem::replace(&mut is_visited[target], true) => {
                    path.push((target, 0));
                }
                Some(_) => {}
                None => {
                    left.push(*step);
                    path.pop();
                }
            }
        }
        walks.push(left);
    }
    walks
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use super::*;

    fn playbook(arcs: &[(usize, usize)], steps: usize) -> Playbook {
        use std::fmt::Write;
        let mut text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\nworkflow:\n".to_owned();
        for step in 0..steps {
            let targets = arcs.iter().filter(|(from, _)| *from == step);
            let targets: Vec<String> = targets.map(|(_, to)| format!("{{step: s{to}}}")).collect();
            let targets = targets.join(", ");
            writeln!(
                text,
                "  - {{step: s{step}, next: {{spec: {{mode: inclusive}}, arcs: [{targets}]}}}}"
            )
            .expect("writing to a string cannot fail");
        }
        let parsed = language::playbook::parse("p", text.as_bytes());
        parsed.playbook.expect("the playbook is valid")
    }

    /// Reference implementation of `reaches`: a breadth-first search.
    fn is_reached(arcs: &[(usize, usize)], from: usize, to: usize) -> bool {
        let mut reached = BTreeSet::from([from]);
        let mut queue = VecDeque::from([from]);
        while let Some(step) = queue.pop_front() {
            for (_, target) in arcs.iter().filter(|(source, _)| *source == step) {
                if *target == to {
                    return from != to;
                }
                if reached.insert(*target) {
                    queue.push_back(*target);
                }
            }
        }
        false
    }

    #[test]
    fn what_is_computed_once_is_what_a_walk_along_the_arcs_finds() {
        const STEPS: usize = 9;
        let mut state = 7u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).expect("a 31-bit number fits into usize") % below
        };
        for round in 0..60 {
            let count = 4 + round % 12;
            let arcs: Vec<_> = (0..count).map(|_| (random(STEPS), random(STEPS))).collect();
            let graph = Graph::from_playbook(&playbook(&arcs, STEPS));
            let name = |step: usize| Name::from(format!("s{step}"));
            for from in 0..STEPS {
                let sources: BTreeSet<_> = arcs
                    .iter()
                    .filter(|(_, to)| *to == from)
                    .map(|(from, _)| *from)
                    .collect();
                assert_eq!(graph.is_join(&name(from)), sources.len() > 1);
                for to in 0..STEPS {
                    let onward = is_reached(&arcs, from, to);
                    let back = is_reached(&arcs, to, from);
                    assert_eq!(graph.reaches(&name(from), &name(to)), onward, "{arcs:?} {from} {to}");
                    assert_eq!(
                        graph.precedes(&name(from), &name(to)),
                        onward && !back,
                        "{arcs:?} {from} {to}"
                    );
                }
            }
        }
    }
}
