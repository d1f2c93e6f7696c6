//! The rows of a timeline: step runs, their tasks and their attempts, folded from the events of an outline.

use std::collections::BTreeMap;

use model::event::{Event, EventBody, ReusedPart, StepScheduled};
use model::id::{Name, Seq, StepRunId};
use model::playbook::Directive;
use model::time::Time;
use wire::api::{GraphStatus, TimelineAttempt, TimelineStep, TimelineTask};

use crate::execution_graph::{is_active, task_status};
use crate::timeline::critical_path::{PathNode, find_critical_path};

/// Maximum number of step runs, tasks and attempts together.
const ROWS_MAX: usize = 5_000;

/// Collects the rows of a timeline.
#[derive(Default)]
pub(super) struct TimelineRows {
    steps: Vec<TimelineStep>,
    /// For each step run, what released it.
    nodes: Vec<PathNode>,
    indices: BTreeMap<StepRunId, usize>,
    /// The step run that each `next.evaluated` event belongs to.
    releases: BTreeMap<Seq, usize>,
    row_count: usize,
    has_more: bool,
}

impl TimelineRows {
    /// Adds the next event.
    pub(super) fn fold(&mut self, event: &Event) {
        if let EventBody::PlaybookFinished(_) = event.body {
            self.steps.iter_mut().for_each(|step| stop_step(step, event.timestamp));
            return;
        }
        let Some(run) = find_run(event) else {
            return;
        };
        if let EventBody::StepScheduled(_) | EventBody::StepReused(_) = event.body
            && event.location.task.is_none()
        {
            self.add_step(run, event);
            return;
        }
        let Some(index) = self.indices.get(&run).copied() else {
            return;
        };
        if let EventBody::NextEvaluated(_) = event.body {
            self.releases.insert(event.seq, index);
        } else if let Some(task) = &event.location.task {
            self.fold_task(index, task, event);
        } else {
            fold_step(&mut self.steps[index], event);
        }
    }

    /// The step runs, with those on the critical path marked; and whether there are no more than the maximum.
    pub(super) fn finish(mut self) -> (Vec<TimelineStep>, bool) {
        for (node, step) in self.nodes.iter_mut().zip(&self.steps) {
            node.queued_at = step.queued_at;
            node.ended_at = if is_active(step.status) { None } else { step.ended_at };
        }
        let flags = find_critical_path(&self.nodes);
        for (step, is_critical) in self.steps.iter_mut().zip(flags) {
            step.is_critical = is_critical;
        }
        (self.steps, !self.has_more)
    }

    /// Whether one more row fits.
    fn has_space(&mut self) -> bool {
        let has_space = self.row_count < ROWS_MAX;
        self.has_more |= !has_space;
        self.row_count += usize::from(has_space);
        has_space
    }

    fn add_step(&mut self, run: StepRunId, event: &Event) {
        if self.indices.contains_key(&run) || !self.has_space() {
            return;
        }
        let (status, queued_at) = match &event.body {
            EventBody::StepReused(record) => match &record.part {
                ReusedPart::Step(step) if step.ok => (GraphStatus::Success, None),
                ReusedPart::Step(_) => (GraphStatus::Error, None),
                _ => return,
            },
            _ => (GraphStatus::Waiting, Some(event.timestamp)),
        };
        let released_by = match &event.body {
            EventBody::StepScheduled(scheduled) => self.find_releases(scheduled),
            _ => Vec::new(),
        };
        self.indices.insert(run.clone(), self.steps.len());
        self.nodes.push(PathNode {
            released_by,
            ..PathNode::default()
        });
        self.steps.push(TimelineStep {
            step: run.step,
            run: run.run,
            status,
            queued_at,
            started_at: None,
            ended_at: None,
            is_critical: false,
            is_reused: queued_at.is_none(),
            tasks: Vec::new(),
            loop_: None,
        });
    }

    /// The step runs that created the consumed tokens. The final step has none; the last end released it.
    fn find_releases(&self, scheduled: &StepScheduled) -> Vec<usize> {
        let tokens = scheduled.tokens.iter();
        let releases: Vec<usize> = tokens
            .filter_map(|token| self.releases.get(&token.seq).copied())
            .collect();
        if !releases.is_empty() || !scheduled.is_final {
            return releases;
        }
        let last = (0..self.steps.len()).max_by_key(|index| self.steps[*index].ended_at);
        last.into_iter().collect()
    }

    fn fold_task(&mut self, index: usize, label: &Name, event: &Event) {
        let visit = event.location.visit.max(1);
        let is_same = |task: &TimelineTask| task.task == *label && task.visit == visit;
        let position = self.steps[index].tasks.iter().rposition(is_same);
        let Some(position) = position.or_else(|| self.add_task(index, label, visit)) else {
            return;
        };
        let number = event.location.attempt.max(1);
        let attempts = &self.steps[index].tasks[position].attempts;
        let is_new = attempts.iter().all(|attempt| attempt.attempt != number);
        if is_new && self.has_space() {
            let task = &mut self.steps[index].tasks[position];
            task.attempts.push(new_attempt(number));
        }
        let step = &mut self.steps[index];
        let task = &mut step.tasks[position];
        if let Some(attempt) = task.attempts.iter_mut().find(|attempt| attempt.attempt == number) {
            fold_attempt(attempt, event);
        }
        let Some(status) = task_status(&event.body) else {
            return;
        };
        task.status = status;
        if is_active(status) {
            task.started_at.get_or_insert(event.timestamp);
            task.ended_at = None;
            // A failed step is active again after the run was retried.
            step.status = status;
            step.started_at.get_or_insert(event.timestamp);
            step.ended_at = None;
        } else {
            task.ended_at = Some(event.timestamp);
            if is_active(step.status) {
                step.status = GraphStatus::Running;
            }
        }
    }

    fn add_task(&mut self, index: usize, label: &Name, visit: u32) -> Option<usize> {
        if !self.has_space() {
            return None;
        }
        let tasks = &mut self.steps[index].tasks;
        tasks.push(TimelineTask {
            task: label.clone(),
            visit,
            status: GraphStatus::Waiting,
            started_at: None,
            ended_at: None,
            attempts: Vec::new(),
        });
        Some(tasks.len() - 1)
    }
}

fn new_attempt(number: u32) -> TimelineAttempt {
    TimelineAttempt {
        attempt: number,
        status: GraphStatus::Waiting,
        started_at: None,
        ended_at: None,
    }
}

/// The step run that an event is about; a reused step has one run.
fn find_run(event: &Event) -> Option<StepRunId> {
    let location = &event.location;
    let is_reused = matches!(event.body, EventBody::StepReused(_));
    let run = if is_reused { location.run.max(1) } else { location.run };
    let step = location.step.clone()?;
    (run > 0).then_some(StepRunId { step, run })
}

fn fold_step(step: &mut TimelineStep, event: &Event) {
    match &event.body {
        EventBody::StepStarted(_) | EventBody::LoopStarted(_) => {
            step.started_at.get_or_insert(event.timestamp);
            step.status = GraphStatus::Running;
        }
        EventBody::StepDone(_) | EventBody::LoopDone(_) => {
            step.ended_at = Some(event.timestamp);
            step.status = GraphStatus::Success;
        }
        EventBody::StepFailed(_) => {
            step.ended_at = Some(event.timestamp);
            step.status = GraphStatus::Error;
        }
        EventBody::IterationScheduled(_) if !is_active(step.status) => {
            step.ended_at = None;
            step.status = GraphStatus::Running;
        }
        _ => {}
    }
}

fn fold_attempt(attempt: &mut TimelineAttempt, event: &Event) {
    let (status, is_end) = match &event.body {
        EventBody::TaskStarted(started) if started.awaits.is_some() => (GraphStatus::Waiting, false),
        EventBody::TaskStarted(_) | EventBody::AttemptStarted(_) => (GraphStatus::Running, false),
        EventBody::AttemptDone(_) | EventBody::TaskDone(_) => (GraphStatus::Success, true),
        EventBody::AttemptFailed(_) | EventBody::TaskFailed(_) => (GraphStatus::Error, true),
        EventBody::PolicyEvaluated(policy) if policy.action.directive == Directive::Retry => (GraphStatus::Error, true),
        _ => return,
    };
    attempt.status = status;
    if is_end {
        attempt.ended_at.get_or_insert(event.timestamp);
    } else {
        attempt.started_at.get_or_insert(event.timestamp);
        attempt.ended_at = None;
    }
}

/// What is active at the end of a run was stopped.
fn stop_step(step: &mut TimelineStep, at: Time) {
    if !is_active(step.status) {
        return;
    }
    stop(&mut step.status, &mut step.ended_at, at);
    for task in &mut step.tasks {
        stop(&mut task.status, &mut task.ended_at, at);
        for attempt in &mut task.attempts {
            stop(&mut attempt.status, &mut attempt.ended_at, at);
        }
    }
}

fn stop(status: &mut GraphStatus, ended_at: &mut Option<Time>, at: Time) {
    if is_active(*status) {
        *status = GraphStatus::Cancelled;
        *ended_at = Some(at);
    }
}
