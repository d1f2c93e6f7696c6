//! The progress of a run as a graph: the steps and arcs of its playbook, with what its events say about them.
//!
//! Input: the playbook, and the outline of the run. Output: an [`ExecutionGraph`]. The cost does not depend on the number
//! of iterations. The graph at an earlier event is computed from all events up to that one, at most
//! [`REPLAYED_EVENTS_MAX`].

mod loop_counts;

use std::collections::{BTreeMap, BTreeSet};

use language::playbook::Playbook;
use model::event::{EndStatus, Event, EventBody, NextEvaluated, ReusedPart};
use model::id::{ExecutionId, Name, Seq};
use model::playbook::Directive;
use model::status::RunStatus;
use wire::api::{ExecutionGraph, GraphArc, GraphEvaluation, GraphLoop, GraphStatus, GraphStep, PlaybookGraph};

use crate::Server;
use crate::error::Error;
use crate::playbook_graph::build_playbook_graph;
use crate::result_reader::LoopOutline;
use crate::state_replay::REPLAYED_EVENTS_MAX;
use loop_counts::LoopCounts;

/// Number of events read at a time.
const PAGE: usize = 2_000;

impl Server {
    /// The graph of a run, now or as it was at an event.
    pub(crate) async fn execution_graph(&self, id: ExecutionId, as_of: Option<Seq>) -> Result<ExecutionGraph, Error> {
        let row = self.shared.store.execution(id).await?.ok_or(Error::NotFound(id))?;
        let net = self.shared.catalog.net(&row.hash).await?;
        let mut builder = GraphBuilder::new(&net.playbook);
        let earlier = as_of.filter(|seq| *seq < row.version);
        let (seq, is_complete) = match earlier {
            Some(seq) => (self.fold_until(id, seq, &mut builder).await?, true),
            None => self.fold_outline(id, &mut builder).await?,
        };
        let status = if earlier.is_some() { builder.status } else { row.status };
        let (steps, arcs) = builder.finish();
        Ok(ExecutionGraph {
            execution_id: id,
            seq,
            status,
            entry: net.playbook.entry().name.clone(),
            is_complete,
            steps,
            arcs,
        })
    }

    /// Adds the outline of a run; returns its last event, and whether the outline was read to its end.
    async fn fold_outline(&self, id: ExecutionId, builder: &mut GraphBuilder) -> Result<(Seq, bool), Error> {
        // Counts are read before the events, so that an event that the graph does not include is never counted.
        for entry in self.reader().loop_outlines(id).await? {
            builder.add_loop(&entry);
        }
        let end = self.read_outline(id, |event| builder.fold(&event)).await?;
        Ok((end.seq, end.is_complete))
    }

    /// Adds all events up to one; returns the last of them.
    async fn fold_until(&self, id: ExecutionId, until: Seq, builder: &mut GraphBuilder) -> Result<Seq, Error> {
        if until.0 > REPLAYED_EVENTS_MAX {
            return Err(Error::ReplayTooLong(until));
        }
        let mut counts = LoopCounts::default();
        let mut after = Seq(0);
        while after < until {
            let page = usize::try_from(until.0 - after.0).map_or(PAGE, |left| left.min(PAGE));
            let events = self.shared.store.events(id, after, page).await?;
            let Some(last) = events.last() else { break };
            after = last.seq;
            for event in &events {
                counts.count(event);
                if event.location.iteration.is_none() {
                    builder.fold(event);
                }
            }
        }
        builder.loops = counts.into_loops();
        Ok(after)
    }
}

/// Collects the progress of steps and arcs.
struct GraphBuilder {
    steps: Vec<GraphStep>,
    /// The index of each step.
    indices: BTreeMap<Name, usize>,
    arcs: Vec<GraphArc>,
    /// The loops whose number of items is unknown.
    cursor_loops: BTreeSet<Name>,
    /// Counts of loops, by step and run.
    loops: BTreeMap<(Name, u32), GraphLoop>,
    /// The latest loop run of each step that has one, and its number of items if that is known.
    latest_loops: BTreeMap<usize, (u32, Option<u64>)>,
    status: RunStatus,
}

impl GraphBuilder {
    fn new(playbook: &Playbook) -> Self {
        let PlaybookGraph { steps, arcs, .. } = build_playbook_graph(playbook);
        let indices = steps.iter().enumerate().map(|(index, step)| (step.step.clone(), index));
        let cursor_loops = playbook.steps.iter().filter(|step| step.cursor_claim().is_some());
        Self {
            indices: indices.collect(),
            cursor_loops: cursor_loops.map(|step| step.name.clone()).collect(),
            arcs,
            steps,
            loops: BTreeMap::new(),
            latest_loops: BTreeMap::new(),
            status: RunStatus::Running,
        }
    }

    fn add_loop(&mut self, outline: &LoopOutline) {
        let progress = &outline.progress;
        let counts = GraphLoop {
            total: None,
            succeeded: progress.succeeded,
            failed: progress.failed,
            in_flight: outline.in_flight,
            retries: progress.retries,
        };
        let run = &progress.run;
        self.loops.insert((run.step.clone(), run.run), counts);
    }

    fn fold(&mut self, event: &Event) {
        match &event.body {
            EventBody::NextEvaluated(next) => self.evaluate_arcs(event, next),
            EventBody::PlaybookFinished(finished) => {
                self.status = end_status(finished.ended);
                self.stop_active_steps(event);
            }
            EventBody::PlaybookPaused(_) => self.status = RunStatus::Paused,
            EventBody::PlaybookResumed(_) | EventBody::ExecutionRetried(_) => self.status = RunStatus::Running,
            _ => {}
        }
        let location = &event.location;
        let index = location.step.as_ref().and_then(|step| self.indices.get(step)).copied();
        let Some(index) = index else {
            return;
        };
        let step = &mut self.steps[index];
        if let Some(label) = &location.task {
            fold_task(step, label, event);
            return;
        }
        fold_step(step, event);
        if let EventBody::LoopStarted(started) = &event.body {
            let total = (!self.cursor_loops.contains(&step.step)).then_some(started.total);
            self.latest_loops.insert(index, (location.run, total));
        }
    }

    fn evaluate_arcs(&mut self, event: &Event, next: &NextEvaluated) {
        let Some(from) = &event.location.step else {
            return;
        };
        let arcs = self.arcs.iter_mut().filter(|arc| arc.from == *from);
        for (arc, value) in arcs.zip(&next.guards) {
            let Some(value) = *value else { continue };
            arc.last = Some(GraphEvaluation { seq: event.seq, value });
            if !value {
                arc.refused += 1;
            } else if next.selected.iter().any(|selected| selected.step == arc.to) {
                arc.followed += 1;
            }
        }
    }

    /// Steps that are active at the end of a run were stopped.
    fn stop_active_steps(&mut self, event: &Event) {
        for step in &mut self.steps {
            if is_active(step.status) {
                step.status = GraphStatus::Cancelled;
                step.ended_at = Some(event.timestamp);
                for task in step.tasks.iter_mut().filter(|task| is_active(task.status)) {
                    task.status = GraphStatus::Cancelled;
                }
            }
        }
    }

    fn finish(mut self) -> (Vec<GraphStep>, Vec<GraphArc>) {
        for (index, (run, total)) in self.latest_loops {
            let step = &mut self.steps[index];
            let counts = self.loops.remove(&(step.step.clone(), run)).unwrap_or_default();
            step.loop_ = Some(GraphLoop { total, ..counts });
        }
        (self.steps, self.arcs)
    }
}

fn end_status(ended: EndStatus) -> RunStatus {
    match ended {
        EndStatus::Success => RunStatus::Completed,
        EndStatus::Error => RunStatus::Failed,
        EndStatus::Cancelled => RunStatus::Cancelled,
    }
}

/// Applies an event about a step, not about one of its tasks.
fn fold_step(step: &mut GraphStep, event: &Event) {
    let status = match &event.body {
        EventBody::StepScheduled(_) => {
            step.runs = step.runs.max(event.location.run);
            step.started_at = Some(event.timestamp);
            step.ended_at = None;
            step.error = None;
            step.is_reused = false;
            for task in &mut step.tasks {
                task.status = GraphStatus::NotReached;
                task.attempts = 0;
            }
            GraphStatus::Waiting
        }
        EventBody::StepReused(_) => {
            step.runs = step.runs.max(1);
            step.is_reused = true;
            GraphStatus::Success
        }
        EventBody::StepStarted(_) | EventBody::LoopStarted(_) | EventBody::IterationScheduled(_) => {
            GraphStatus::Running
        }
        EventBody::StepDone(_) | EventBody::LoopDone(_) => {
            step.ended_at = Some(event.timestamp);
            GraphStatus::Success
        }
        EventBody::StepFailed(failure) => {
            step.ended_at = Some(event.timestamp);
            step.error = Some(failure.error.clone());
            GraphStatus::Error
        }
        _ => return,
    };
    step.status = status;
}

/// Applies an event about a task.
fn fold_task(step: &mut GraphStep, label: &Name, event: &Event) {
    let Some(task) = step.tasks.iter_mut().find(|task| task.label == *label) else {
        return;
    };
    task.attempts = task.attempts.max(event.location.attempt);
    if let Some(status) = task_status(&event.body) {
        task.status = status;
    }
    if is_active(task.status) {
        // A failed step is active again after the run was retried.
        step.status = task.status;
        step.ended_at = None;
        step.error = None;
    } else if is_active(step.status) {
        step.status = GraphStatus::Running;
    }
}

/// The status of a task after an event about it.
pub(crate) fn task_status(body: &EventBody) -> Option<GraphStatus> {
    match body {
        EventBody::TaskStarted(started) if started.awaits.is_some() => Some(GraphStatus::Waiting),
        EventBody::TaskStarted(_) => Some(GraphStatus::Running),
        EventBody::PolicyEvaluated(policy) if policy.action.directive == Directive::Retry => {
            Some(GraphStatus::Retrying)
        }
        EventBody::TaskDone(_) => Some(GraphStatus::Success),
        EventBody::TaskFailed(_) => Some(GraphStatus::Error),
        EventBody::StepReused(record) => match record.part {
            ReusedPart::Task { ok: false } => Some(GraphStatus::Error),
            _ => Some(GraphStatus::Success),
        },
        _ => None,
    }
}

pub(crate) fn is_active(status: GraphStatus) -> bool {
    matches!(
        status,
        GraphStatus::Waiting | GraphStatus::Running | GraphStatus::Retrying
    )
}
