//! Switching: a retry continues with another version of the playbook, as far as both versions agree.

use std::collections::BTreeSet;

use language::playbook::{Playbook, Step};
use model::event::{EventBody, EventLocation, PlaybookSwitched, UnchangedTasks};
use model::id::Name;

use crate::decide::decision_builder::DecisionBuilder;
use crate::input::PlaybookSwitch;

impl DecisionBuilder<'_> {
    /// Returns a step that has unfinished work but does not exist in the new version.
    pub(super) fn missing_step(&self) -> Option<Name> {
        let tokens = self.state.tokens.values().map(|token| &token.step);
        let runs = self.state.runs.iter().filter(|(_, run)| !run.is_final);
        let mut steps = tokens.chain(runs.map(|(id, _)| &id.step));
        let is_missing = |step: &&Name| self.net.playbook.step(step.as_str()).is_none();
        steps.find(is_missing).cloned()
    }

    /// Records the new version, and the unchanged tasks of open step runs.
    pub(super) fn record_switch(&mut self, switch: &PlaybookSwitch) {
        if switch.hash == self.state.hash {
            return;
        }
        let open = self.state.runs.iter();
        let open = open.filter(|(_, run)| run.boundary.is_none());
        let steps: BTreeSet<Name> = open.map(|(id, _)| id.step.clone()).collect();
        let (mut unchanged, mut restarted) = (Vec::new(), Vec::new());
        for name in steps {
            match unchanged_labels(&switch.previous, &self.net.playbook, &name) {
                Some(labels) => unchanged.push(UnchangedTasks { step: name, labels }),
                None => restarted.push(name),
            }
        }
        let switched = PlaybookSwitched {
            version: switch.version,
            hash: switch.hash.clone(),
            kept: unchanged,
            restarted,
        };
        self.emit(EventLocation::default(), EventBody::PlaybookSwitched(switched));
    }
}

/// The leading tasks with the same labels and kinds in both versions; `None` if only one of them is a loop.
fn unchanged_labels(before: &Playbook, after: &Playbook, step: &Name) -> Option<Vec<Name>> {
    let (before, after) = (before.step(step.as_str())?, after.step(step.as_str())?);
    if before.loop_.is_some() != after.loop_.is_some() {
        return None;
    }
    let tasks = |step: &Step| -> Vec<(Name, Name)> {
        let named_tasks = step.tasks.iter();
        named_tasks
            .map(|task| (task.label.clone(), task.kind.clone()))
            .collect()
    };
    let same = tasks(before).into_iter().zip(tasks(after));
    let same = same.take_while(|(before, after)| before == after);
    Some(same.map(|((label, _), _)| label).collect())
}
