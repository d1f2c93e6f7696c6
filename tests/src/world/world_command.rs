//! A command that a worker holds: its pipelines, its unreported events, and the orders it received.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::ExecutionState;
use language::playbook::Playbook;
use language::template::Envelope;
use language::template::{ExecutionView, IterationView, LazyValue, Scope};
use model::command::ReportEnd;
use model::command::{Command, CommandWork, Continuation};
use model::event::{EmptyPayload, Event, EventBody, EventLocation, FailurePayload};
use model::id::{LeaseEpoch, WorkerId};
use model::number_range::NumberRange;
use model::outcome::{ErrorKind, TaskError};
use model::playbook::LoopMode;
use model::time::Time;
use serde_json::{Map, Value};

use crate::world::load::events_at;
use crate::world::outcome_source::OutcomeSource;
use crate::world::pipeline::{PipelineEnv, StepProgress, WorldPipeline, worker_event};
use crate::world::world_store::WorldStore;

/// What the worker may still do under its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Continue.
    Proceed,
    /// Finish the running tasks and start no more.
    Yield,
    /// Stop the running tasks.
    Stop,
}

/// Result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionResult {
    /// Something happened.
    Progressed,
    /// Nothing happens before this time.
    WaitsUntil(Time),
    /// Nothing is left to do.
    Finished(ReportEnd),
}

/// A command that a worker holds.
#[derive(Debug, Clone)]
pub struct WorldCommand {
    /// What to run.
    pub command: Command,
    /// The claim.
    pub epoch: LeaseEpoch,
    /// The holder.
    pub worker: WorkerId,
    /// Events that are not reported yet.
    pub outbox: Vec<Event>,
    /// The latest order from the server.
    pub verdict: Order,
    /// Maximum number of jumps of each of its pipelines.
    pub jumps_max: u32,
    playbook: Arc<Playbook>,
    scope: Scope,
    elements: Vec<Value>,
    /// Index of the first element.
    first_index: u64,
    pending: VecDeque<PendingPipeline>,
    active: Vec<WorldPipeline>,
    width: usize,
    is_sequential: bool,
    is_interrupted: bool,
}

/// The items of a range; the cases have small ranges.
fn range_items(range: &NumberRange) -> Value {
    (0..range.len())
        .filter_map(|index| range.item(index))
        .collect()
}

/// A pipeline that waits for its turn.
#[derive(Debug, Clone)]
struct PendingPipeline {
    iteration: Option<u64>,
    continuation: Option<Continuation>,
}

impl WorldCommand {
    /// Creates the worker's view of a command, with the current data of the execution.
    pub(crate) fn new(
        claim: store::CommandClaim,
        worker: &WorkerId,
        playbook: Arc<Playbook>,
        state: &ExecutionState,
        store: &WorldStore,
    ) -> Self {
        let command = claim.command;
        let started = command
            .loop_started
            .map(|seq| events_at(store, command.id.execution, &[seq]));
        let body = started
            .as_ref()
            .and_then(|events| events.first())
            .map(|event| &event.body);
        let elements = match body {
            Some(EventBody::LoopStarted(started)) => {
                let kept = started.collection_ref.as_ref();
                let kept = kept.and_then(|reference| store.body(reference));
                let inline = started.collection.as_ref();
                let listed = inline.map(model::raw::RawJson::to_value).or(kept);
                (
                    0,
                    listed.or_else(|| started.range.as_ref().map(range_items)),
                )
            }
            Some(EventBody::FrameClaimed(frame)) => (frame.from, store.body(&frame.collection_ref)),
            _ => (0, None),
        };
        let (first_index, elements) = elements;
        let (pending, width) = pending_pipelines(&command, state);
        let step = playbook.step(command.run.step.as_str());
        let loop_ = step.and_then(|step| step.loop_.as_ref());
        let is_sequential = loop_.is_none_or(|loop_| loop_.mode == LoopMode::Sequential);
        let mut scope = command_scope(state, &command);
        scope.args = command
            .args
            .clone()
            .map_or_else(LazyValue::default, LazyValue::from_raw);
        Self {
            epoch: claim.lease_epoch,
            worker: worker.clone(),
            outbox: Vec::new(),
            verdict: Order::Proceed,
            jumps_max: pipeline::JUMPS_MAX,
            playbook,
            scope,
            elements: elements
                .and_then(|value| value.as_array().cloned())
                .unwrap_or_default(),
            first_index,
            pending,
            active: Vec::new(),
            width,
            is_sequential,
            is_interrupted: false,
            command,
        }
    }

    /// Applies an order; an earlier, stricter order stays in force.
    pub fn restrict(&mut self, verdict: Order) {
        self.verdict = self.verdict.max(verdict);
    }

    /// How the command ends, once nothing is left to do.
    pub fn report_end(&self) -> Option<ReportEnd> {
        let may_go_on = self.verdict == Order::Proceed && self.width > 0;
        let idle = self.active.is_empty() && (self.pending.is_empty() || !may_go_on);
        idle.then_some(match self.verdict {
            Order::Stop => ReportEnd::Stopped,
            _ if self.is_interrupted || !self.pending.is_empty() => ReportEnd::Released,
            _ => ReportEnd::Finished,
        })
    }

    /// Performs one action of one pipeline; `pick` chooses the pipeline.
    pub fn advance(
        &mut self,
        store: &WorldStore,
        answers: &mut dyn OutcomeSource,
        now: Time,
        pick: usize,
    ) -> ActionResult {
        let playbook = self.playbook.clone();
        let Some(step) = playbook.step(self.command.run.step.as_str()) else {
            return ActionResult::Finished(ReportEnd::Released);
        };
        let worker = self.worker.clone();
        let is_preparing = self.command.work == CommandWork::Prepare;
        let claim = step.cursor_claim().filter(|_| is_preparing);
        let step = claim.map_or(step, |claim| &claim.step);
        let mut env = PipelineEnv {
            store,
            outcomes: answers,
            execution: self.command.id.execution,
            step,
            worker: &worker,
            now,
            may_start: self.verdict == Order::Proceed,
            must_stop: self.verdict == Order::Stop,
            is_parallel: step
                .loop_
                .as_ref()
                .is_some_and(|loop_| loop_.mode == LoopMode::Parallel),
            jumps_max: self.jumps_max,
            claim,
        };
        if is_preparing && claim.is_none() {
            return self.fail_preparation(&env);
        }
        if self.start_pending(&mut env) {
            return ActionResult::Progressed;
        }
        if let Some(end) = self.report_end() {
            return ActionResult::Finished(end);
        }
        let mut earliest = Time(i64::MAX);
        for turn in 0..self.active.len() {
            let index = (pick + turn) % self.active.len();
            match self.active[index].advance(&mut env, &mut self.outbox) {
                StepProgress::Progressed => return ActionResult::Progressed,
                StepProgress::WaitsUntil(until) => earliest = earliest.min(until),
                StepProgress::Ended => {
                    self.remove_pipeline(index);
                    return ActionResult::Progressed;
                }
                StepProgress::Suspended { interrupted } => {
                    self.is_interrupted |= interrupted;
                    self.remove_pipeline(index);
                    // An iteration that leaves its slot to wait still counts as in flight.
                    self.width -= usize::from(!interrupted);
                    return ActionResult::Progressed;
                }
            }
        }
        ActionResult::WaitsUntil(earliest)
    }

    /// Ends a pipeline; in a sequential loop the next one sees its writes.
    fn remove_pipeline(&mut self, index: usize) {
        let pipeline = self.active.remove(index);
        if self.is_sequential {
            self.scope.ctx = pipeline.scope.ctx;
        }
    }

    /// Starts as many pipelines as the limit allows. Returns whether something was recorded or started.
    fn start_pending(&mut self, env: &mut PipelineEnv<'_>) -> bool {
        let mut moved = false;
        while env.may_start && self.active.len() < self.width {
            let Some(begin) = self.pending.pop_front() else {
                break;
            };
            let at = EventLocation::of_step_run(&self.command.run).with_iteration(begin.iteration);
            let mut pipeline = WorldPipeline::new(
                at.clone(),
                self.pipeline_scope(begin.iteration, env),
                env.now,
            );
            match (begin.continuation, begin.iteration) {
                (Some(continuation), _) => pipeline.restore(continuation, env),
                (None, None) if env.claim.is_some() => {}
                (None, iteration) => {
                    let body = match iteration {
                        None => EventBody::StepStarted(EmptyPayload {}),
                        Some(_) => EventBody::IterationStarted(EmptyPayload {}),
                    };
                    self.outbox.push(worker_event(env, at, body));
                }
            }
            self.active.push(pipeline);
            moved = true;
        }
        moved
    }

    fn pipeline_scope(&self, iteration: Option<u64>, env: &PipelineEnv<'_>) -> Scope {
        let mut scope = self.scope.clone();
        let Some(index) = iteration else {
            return scope;
        };
        let element = index
            .checked_sub(self.first_index)
            .and_then(|index| usize::try_from(index).ok())
            .and_then(|index| self.elements.get(index));
        let name = env
            .step
            .loop_
            .as_ref()
            .map(|loop_| loop_.iterator.to_string());
        let values: Map<String, Value> = name
            .into_iter()
            .map(|name| (name, element.cloned().unwrap_or_default()))
            .collect();
        scope.iter = Some(IterationView {
            values: LazyValue::new(Value::Object(values)),
            index: Some(index),
            length: self.first_index + self.elements.len() as u64,
            parent: scope.iter.take().and_then(|iter| iter.parent),
        });
        scope
    }

    fn fail_preparation(&mut self, env: &PipelineEnv<'_>) -> ActionResult {
        let error = TaskError::new(
            ErrorKind::Storage,
            "REFERENCE_NOT_AVAILABLE",
            "a world prepares no collections",
        );
        let failed = FailurePayload {
            error,
            set_ctx: None,
        };
        let at = EventLocation::of_step_run(&self.command.run);
        self.outbox.push(worker_event(
            env,
            at,
            EventBody::StepFailed(Box::new(failed)),
        ));
        ActionResult::Finished(ReportEnd::Finished)
    }
}

/// The pipelines of a command, and how many may run at once.
fn pending_pipelines(
    command: &Command,
    state: &ExecutionState,
) -> (VecDeque<PendingPipeline>, usize) {
    let run = state.run(&command.run);
    let loop_ = run.and_then(|run| run.loop_.as_ref());
    let begin = |index: u64| PendingPipeline {
        iteration: Some(index),
        continuation: loop_.and_then(|loop_| loop_.live.get(&index).cloned()),
    };
    let is_elsewhere = |index: &u64| {
        loop_.is_some_and(|loop_| {
            loop_.has_ended(*index)
                || loop_.suspended.contains(index)
                || loop_.awake.contains(index)
        })
    };
    match command.work {
        CommandWork::Pipeline | CommandWork::Prepare => {
            let continuation = run
                .filter(|run| run.started || !run.pipeline.visits.is_empty())
                .map(|run| run.pipeline.clone());
            let plain = PendingPipeline {
                iteration: None,
                continuation,
            };
            (VecDeque::from([plain]), 1)
        }
        CommandWork::Iteration { index } => (VecDeque::from([begin(index)]), 1),
        CommandWork::Range { from, to, width } => {
            // Iterations that left their slot to wait still count as in flight.
            let live = state.commands.get(&command.id.seq);
            let width = live.map_or(width, |live| live.width);
            let indices = (from..to).filter(|index| !is_elsewhere(index));
            (indices.map(begin).collect(), width as usize)
        }
    }
}

/// Data that every template of the execution can read.
fn command_scope(state: &ExecutionState, command: &Command) -> Scope {
    let latest = state
        .steps
        .iter()
        .filter_map(|(name, step)| Some((name.clone(), Envelope::from(step.latest.as_ref()?))));
    let parent = state.parent.as_ref();
    let parent_iter = parent.and_then(|parent| parent.iter.clone());
    Scope {
        workload: LazyValue::from_raw(state.workload.clone()),
        ctx: LazyValue::new(Value::Object((**state.ctx_of(&command.run)).clone())),
        steps: Arc::new(latest.collect()),
        iter: parent_iter.map(|raw| IterationView {
            parent: Some(LazyValue::from_raw(raw)),
            ..IterationView::default()
        }),
        execution: Arc::new(ExecutionView {
            execution_id: Some(state.execution),
            path: Some(state.path.clone()),
            version: Some(state.version),
            parent_execution_id: parent.map(|parent| parent.execution_id),
        }),
        ..Scope::default()
    }
}
