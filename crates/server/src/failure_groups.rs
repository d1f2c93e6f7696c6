//! The failures of a run, grouped by error.
//!
//! Input: the outline of the run, and the ends of its failed iterations. Output: one group for each step, task and error,
//! the largest first.

use std::collections::BTreeMap;

use model::event::{Event, EventBody};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::outcome::TaskError;
use wire::api::{FailureGroup, FailureList};

use crate::Server;
use crate::error::Error;

/// Maximum number of failed iterations of a loop that are read.
const ITERATIONS_MAX: usize = 10_000;
/// Maximum number of iterations, and of events, that a group lists.
const LISTED_ITERATIONS_MAX: usize = 100;
/// Maximum number of groups.
const GROUPS_MAX: usize = 100;

impl Server {
    /// The failures of a run, grouped by error.
    pub(crate) async fn failures(&self, id: ExecutionId) -> Result<FailureList, Error> {
        let store = &self.shared.store;
        let mut failed_steps: BTreeMap<StepRunId, Event> = BTreeMap::new();
        let mut groups = FailureGroups::default();
        let loops = store.loops(id).await?;
        self.read_outline(id, |event| record_step_end(&mut failed_steps, event))
            .await?;
        for progress in loops.into_iter().filter(|progress| progress.failed > 0) {
            // The failure of the step repeats that of an iteration.
            failed_steps.remove(&progress.run);
            let failed = store.failed_iterations(id, &progress.run, ITERATIONS_MAX).await?;
            for iterations in failed.chunk_by(|first, next| first + 1 == *next) {
                let range = iterations[0]..iterations[iterations.len() - 1] + 1;
                for event in store.iteration_events(id, &progress.run, range).await? {
                    groups.add_iteration(&event);
                }
            }
        }
        for (run, event) in &failed_steps {
            if let EventBody::StepFailed(failure) = &event.body {
                groups.add(&run.step, None, &failure.error, event.seq);
            }
        }
        Ok(groups.into_list())
    }
}

/// Remembers how a step run ended; a retried one can end again.
fn record_step_end(failed_steps: &mut BTreeMap<StepRunId, Event>, event: Event) {
    let Some(run) = event.location.step_run_id() else {
        return;
    };
    match &event.body {
        EventBody::StepFailed(_) => {
            failed_steps.insert(run, event);
        }
        EventBody::StepDone(_) | EventBody::LoopDone(_) => {
            failed_steps.remove(&run);
        }
        _ => {}
    }
}

/// What the failures of a group have in common: the step, the task, the code, and the message without its numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    step: Name,
    task: Option<String>,
    code: String,
    message: String,
}

#[derive(Default)]
struct FailureGroups {
    groups: BTreeMap<GroupKey, FailureGroup>,
}

impl FailureGroups {
    fn add_iteration(&mut self, event: &Event) {
        if let (EventBody::IterationFailed(failure), Some(step)) = (&event.body, &event.location.step) {
            self.add(step, event.location.iteration, &failure.error, event.seq);
        }
    }

    fn add(&mut self, step: &Name, iteration: Option<u64>, error: &TaskError, seq: Seq) {
        let text = |key: &str| error.details.get(key).and_then(|value| value.as_str());
        let number = |key: &str| error.details.get(key).and_then(serde_json::Value::as_u64);
        let task = text("task").map(str::to_owned);
        let key = GroupKey {
            step: step.clone(),
            task: task.clone(),
            code: error.code.clone(),
            message: without_numbers(&error.message),
        };
        let group = self.groups.entry(key).or_insert_with(|| FailureGroup {
            step: step.clone(),
            task: task.as_deref().map(Name::from),
            code: error.code.clone(),
            message: error.message.clone(),
            line: number("line"),
            column: number("column"),
            count: 0,
            iterations: Vec::new(),
            seqs: Vec::new(),
            first_seq: seq,
        });
        group.count += 1;
        group.first_seq = group.first_seq.min(seq);
        if group.iterations.len() < LISTED_ITERATIONS_MAX {
            group.iterations.extend(iteration);
        }
        if group.seqs.len() < LISTED_ITERATIONS_MAX {
            group.seqs.push(seq);
        }
    }

    fn into_list(self) -> FailureList {
        let mut groups: Vec<FailureGroup> = self.groups.into_values().collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.count), group.first_seq));
        groups.truncate(GROUPS_MAX);
        FailureList { groups }
    }
}

/// The message with each number replaced by `#`, so that messages about different items are alike.
fn without_numbers(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for character in message.chars() {
        if !character.is_ascii_digit() {
            text.push(character);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use model::outcome::ErrorKind;

    use super::*;

    #[test]
    fn failures_that_differ_only_in_numbers_are_one_group() {
        let mut groups = FailureGroups::default();
        let error =
            |message: &str| TaskError::new(ErrorKind::DbConstraint, "PG_23505", message).with_detail("task", "save");
        let step = Name::from("load");
        groups.add(&step, Some(7), &error("key 18 exists"), Seq(20));
        groups.add(&step, Some(3), &error("key 4 exists"), Seq(10));
        groups.add(&step, Some(9), &error("no connection"), Seq(30));
        let list = groups.into_list();
        let counts: Vec<_> = list
            .groups
            .iter()
            .map(|group| (group.count, &group.iterations[..], group.first_seq))
            .collect();
        assert_eq!(counts, [(2, &[7, 3][..], Seq(10)), (1, &[9][..], Seq(30))]);
        assert_eq!(list.groups[0].task, Some("save".into()));
    }
}
