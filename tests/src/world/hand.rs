//! A command that a worker holds: its pipelines, its unreported events, and the orders it received.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::State;
use model::command::ReportEnd;
use model::command::{Command, Continuation, Work};
use model::event::{At, Body, Event, Failed, Nothing};
use model::id::{LeaseEpoch, WorkerId};
use model::number_range::NumberRange;
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{LoopMode, Playbook};
use model::template::{Data, Iter, RunView, Scope};
use model::time::Time;
use serde_json::{Map, Value};

use crate::world::answers::Answers;
use crate::world::kept::Kept;
use crate::world::load::events_at;
use crate::world::pipeline::{Env, Pipeline, Stepped, event};

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
pub enum Acted {
    /// Something happened.
    Went,
    /// Nothing happens before this time.
    Waits(Time),
    /// Nothing is left to do.
    Over(ReportEnd),
}

/// A command that a worker holds.
#[derive(Debug, Clone)]
pub struct Hand {
    /// What to run.
    pub command: Command,
    /// The claim.
    pub epoch: LeaseEpoch,
    /// The holder.
    pub worker: WorkerId,
    /// Events that are not reported yet.
    pub outbox: Vec<Event>,
    /// The latest order from the server.
    pub order: Order,
    /// Maximum number of jumps of each of its pipelines.
    pub jumps_max: u32,
    playbook: Arc<Playbook>,
    scope: Scope,
    elements: Vec<Value>,
    /// Index of the first element.
    first: u64,
    waiting: VecDeque<Begin>,
    active: Vec<Pipeline>,
    width: usize,
    is_sequential: bool,
    interrupted: bool,
}

/// The items of a range; the cases have small ranges.
fn list(range: &NumberRange) -> Value {
    (0..range.len())
        .filter_map(|index| range.item(index))
        .collect()
}

/// A pipeline that waits for its turn.
#[derive(Debug, Clone)]
struct Begin {
    iteration: Option<u64>,
    continuation: Option<Continuation>,
}

impl Hand {
    /// Creates the worker's view of a command, with the current data of the execution.
    pub(crate) fn new(
        claim: store::Claim,
        worker: &WorkerId,
        playbook: Arc<Playbook>,
        state: &State,
        store: &Kept,
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
            Some(Body::LoopStarted(started)) => {
                let kept = started.collection_ref.as_ref();
                let kept = kept.and_then(|reference| store.body(reference));
                let inline = started.collection.as_ref();
                let listed = inline.map(model::raw::Raw::value).or(kept);
                (0, listed.or_else(|| started.range.as_ref().map(list)))
            }
            Some(Body::FrameClaimed(frame)) => (frame.from, store.body(&frame.collection_ref)),
            _ => (0, None),
        };
        let (first, elements) = elements;
        let (waiting, width) = waiting(&command, state);
        let step = playbook.step(command.run.step.as_str());
        let loop_ = step.and_then(|step| step.loop_.as_ref());
        let is_sequential = loop_.is_none_or(|loop_| loop_.mode == LoopMode::Sequential);
        let mut scope = scope(state, &command);
        scope.args = command.args.clone().map_or_else(Data::default, Data::lazy);
        Self {
            epoch: claim.lease_epoch,
            worker: worker.clone(),
            outbox: Vec::new(),
            order: Order::Proceed,
            jumps_max: pipeline::JUMPS_MAX,
            playbook,
            scope,
            elements: elements
                .and_then(|value| value.as_array().cloned())
                .unwrap_or_default(),
            first,
            waiting,
            active: Vec::new(),
            width,
            is_sequential,
            interrupted: false,
            command,
        }
    }

    /// Applies an order; an earlier, stricter order stays in force.
    pub fn tell(&mut self, order: Order) {
        self.order = self.order.max(order);
    }

    /// How the command ends, once nothing is left to do.
    pub fn end(&self) -> Option<ReportEnd> {
        let may_go_on = self.order == Order::Proceed && self.width > 0;
        let idle = self.active.is_empty() && (self.waiting.is_empty() || !may_go_on);
        idle.then_some(match self.order {
            Order::Stop => ReportEnd::Stopped,
            _ if self.interrupted || !self.waiting.is_empty() => ReportEnd::Released,
            _ => ReportEnd::Finished,
        })
    }

    /// Performs one action of one pipeline; `pick` chooses the pipeline.
    pub fn act(
        &mut self,
        store: &Kept,
        answers: &mut dyn Answers,
        now: Time,
        pick: usize,
    ) -> Acted {
        let playbook = self.playbook.clone();
        let Some(step) = playbook.step(self.command.run.step.as_str()) else {
            return Acted::Over(ReportEnd::Released);
        };
        let worker = self.worker.clone();
        let is_preparing = self.command.work == Work::Prepare;
        let claim = step.claim().filter(|_| is_preparing);
        let step = claim.map_or(step, |claim| &claim.step);
        let mut env = Env {
            store,
            answers,
            execution: self.command.id.execution,
            step,
            worker: &worker,
            now,
            may_begin: self.order == Order::Proceed,
            must_stop: self.order == Order::Stop,
            is_parallel: step
                .loop_
                .as_ref()
                .is_some_and(|loop_| loop_.mode == LoopMode::Parallel),
            jumps_max: self.jumps_max,
            claim,
        };
        if is_preparing && claim.is_none() {
            return self.refuse_to_prepare(&env);
        }
        if self.begin_more(&mut env) {
            return Acted::Went;
        }
        if let Some(end) = self.end() {
            return Acted::Over(end);
        }
        let mut earliest = Time(i64::MAX);
        for turn in 0..self.active.len() {
            let index = (pick + turn) % self.active.len();
            match self.active[index].step(&mut env, &mut self.outbox) {
                Stepped::Went => return Acted::Went,
                Stepped::Waits(until) => earliest = earliest.min(until),
                Stepped::Ended => {
                    self.leave(index);
                    return Acted::Went;
                }
                Stepped::Left { interrupted } => {
                    self.interrupted |= interrupted;
                    self.leave(index);
                    // An iteration that leaves its slot to wait still counts as in flight.
                    self.width -= usize::from(!interrupted);
                    return Acted::Went;
                }
            }
        }
        Acted::Waits(earliest)
    }

    /// Ends a pipeline; in a sequential loop the next one sees its writes.
    fn leave(&mut self, index: usize) {
        let pipeline = self.active.remove(index);
        if self.is_sequential {
            self.scope.ctx = pipeline.scope.ctx;
        }
    }

    /// Starts as many pipelines as the limit allows. Returns whether something was recorded or started.
    fn begin_more(&mut self, env: &mut Env<'_>) -> bool {
        let mut moved = false;
        while env.may_begin && self.active.len() < self.width {
            let Some(begin) = self.waiting.pop_front() else {
                break;
            };
            let at = At::step_run(&self.command.run).iteration(begin.iteration);
            let mut pipeline =
                Pipeline::new(at.clone(), self.scope_of(begin.iteration, env), env.now);
            match (begin.continuation, begin.iteration) {
                (Some(continuation), _) => pipeline.restore(continuation, env),
                (None, None) if env.claim.is_some() => {}
                (None, iteration) => {
                    let body = match iteration {
                        None => Body::StepStarted(Nothing {}),
                        Some(_) => Body::IterationStarted(Nothing {}),
                    };
                    self.outbox.push(event(env, at, body));
                }
            }
            self.active.push(pipeline);
            moved = true;
        }
        moved
    }

    fn scope_of(&self, iteration: Option<u64>, env: &Env<'_>) -> Scope {
        let mut scope = self.scope.clone();
        let Some(index) = iteration else {
            return scope;
        };
        let element = index
            .checked_sub(self.first)
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
        scope.iter = Some(Iter {
            values: Data::new(Value::Object(values)),
            index: Some(index),
            length: self.first + self.elements.len() as u64,
            parent: scope.iter.take().and_then(|iter| iter.parent),
        });
        scope
    }

    fn refuse_to_prepare(&mut self, env: &Env<'_>) -> Acted {
        let error = TaskError::new(
            ErrorKind::Storage,
            "REFERENCE_NOT_AVAILABLE",
            "a world prepares no collections",
        );
        let failed = Failed {
            error,
            set_ctx: None,
        };
        let at = At::step_run(&self.command.run);
        self.outbox
            .push(event(env, at, Body::StepFailed(Box::new(failed))));
        Acted::Over(ReportEnd::Finished)
    }
}

/// The pipelines of a command, and how many may run at once.
fn waiting(command: &Command, state: &State) -> (VecDeque<Begin>, usize) {
    let run = state.run(&command.run);
    let loop_ = run.and_then(|run| run.loop_.as_ref());
    let begin = |index: u64| Begin {
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
        Work::Pipeline | Work::Prepare => {
            let continuation = run
                .filter(|run| run.started || !run.pipeline.visits.is_empty())
                .map(|run| run.pipeline.clone());
            let plain = Begin {
                iteration: None,
                continuation,
            };
            (VecDeque::from([plain]), 1)
        }
        Work::Iteration { index } => (VecDeque::from([begin(index)]), 1),
        Work::Range { from, to, width } => {
            // Iterations that left their slot to wait still count as in flight.
            let live = state.commands.get(&command.id.seq);
            let width = live.map_or(width, |live| live.width);
            let indices = (from..to).filter(|index| !is_elsewhere(index));
            (indices.map(begin).collect(), width as usize)
        }
    }
}

/// Data that every template of the execution can read.
fn scope(state: &State, command: &Command) -> Scope {
    let latest = state
        .steps
        .iter()
        .filter_map(|(name, step)| Some((name.clone(), step.latest.as_ref()?.envelope())));
    let parent = state.parent.as_ref();
    let parent_iter = parent.and_then(|parent| parent.iter.clone());
    Scope {
        workload: Data::lazy(state.workload.clone()),
        ctx: Data::new(Value::Object((**state.ctx_of(&command.run)).clone())),
        steps: Arc::new(latest.collect()),
        iter: parent_iter.map(|raw| Iter {
            parent: Some(Data::lazy(raw)),
            ..Iter::default()
        }),
        run: Arc::new(RunView {
            execution_id: Some(state.execution),
            path: Some(state.path.clone()),
            version: Some(state.version),
            parent_execution_id: parent.map(|parent| parent.execution_id),
        }),
        ..Scope::default()
    }
}
