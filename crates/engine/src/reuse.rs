//! Reuse: plans what a rerun reuses from the log of an execution that has ended.
//!
//! Input: that log, event by event. Output: a plan. The rerun starts from the state before the given step was first
//! scheduled. Steps that had ended by then are reused by reference; steps in progress start again from their tokens.

use std::collections::{BTreeMap, BTreeSet};

use model::event::{
    Event, EventBody, InitialToken, LoopStarted, RerunOrigin, ReusedIterationSet, ReusedIterations, ReusedPart,
    ReusedRecord, ReusedStep, TokenOrigin,
};
use model::events;
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::raw::RawJson;
use model::step_pointer::StepPointer;
use serde_json::{Map, Value};

use crate::decide::Refusal;
use crate::state::{ExecutionState, Token, fold};

/// An event of another execution's log.
pub(crate) type EventRef = (ExecutionId, Seq);

/// What a rerun reuses from the original execution.
#[derive(Debug, Clone)]
pub struct ReusePlan {
    /// The original execution, and the step to start from.
    pub origin: RerunOrigin,
    /// The inputs of the original execution.
    pub workload: RawJson,
    /// The reused state; `None` if everything runs again.
    pub reused_state: Option<Box<ReusedState>>,
}

/// The initial state of a rerun that starts at a later step.
#[derive(Debug, Clone)]
pub struct ReusedState {
    pub(crate) from_step: Name,
    pub(crate) steps: Vec<ReusedStepEnd>,
    pub(crate) ctx: Map<String, Value>,
    pub(crate) tokens: Vec<InitialToken>,
    pub(crate) iterations: Option<(EventRef, ReusedIterations)>,
}

/// The latest end of a step that is reused.
#[derive(Debug, Clone)]
pub(crate) struct ReusedStepEnd {
    pub(crate) name: Name,
    pub(crate) tasks: Vec<(Name, EventRef, bool)>,
    pub(crate) event: EventRef,
    pub(crate) end: ReusedStep,
}

impl ReusePlan {
    /// Maximum number of events that record the reuse.
    pub fn events_max(&self) -> usize {
        let Some(reused) = &self.reused_state else {
            return 0;
        };
        let steps = reused.steps.iter().map(|step| step.tasks.len() + 1);
        steps.sum::<usize>() + reused.ctx.len() + 1
    }
}

/// Reads a log up to the point where the rerun starts.
#[derive(Debug)]
pub struct ReusePlanner {
    from_step: Option<Name>,
    from_iteration: Option<u64>,
    /// The state of the execution at the cut.
    state: Option<ExecutionState>,
    pins: BTreeSet<ExecutionId>,
    /// What the original execution itself reused, by its own event.
    reused: BTreeMap<Seq, ReusedRecord>,
    /// The tokens that each step run in progress consumed.
    consumed_tokens: BTreeMap<StepRunId, Vec<Token>>,
    /// The first run of `from_step`, once it is found: the cut.
    first_run: Option<StepRunId>,
    loop_progress: RerunLoopProgress,
}

/// The progress of the loop that is partly rerun.
#[derive(Debug, Default)]
struct RerunLoopProgress {
    started: Option<(Seq, LoopStarted)>,
    done: BTreeSet<u64>,
    until: Seq,
    set_ctx: Vec<(u64, RawJson)>,
    patches: Vec<(u64, Map<String, Value>)>,
}

impl ReusePlanner {
    /// Cuts before the first run of a step, or before an iteration of its loop. Without a step, cuts at the start of
    /// the log.
    pub fn new(from_step: Option<Name>, from_iteration: Option<u64>) -> Self {
        Self {
            from_step,
            from_iteration,
            state: None,
            pins: BTreeSet::new(),
            reused: BTreeMap::new(),
            consumed_tokens: BTreeMap::new(),
            first_run: None,
            loop_progress: RerunLoopProgress::default(),
        }
    }

    /// Whether the remaining events make no difference.
    pub fn is_complete(&self) -> bool {
        let is_cut = self.from_step.is_none() || self.first_run.is_some();
        self.state.is_some() && is_cut && self.from_iteration.is_none()
    }

    /// Reads the next event of the log.
    pub fn read_event(&mut self, event: &Event) {
        if self.is_complete() {
            return;
        }
        if self.first_run.is_some() {
            self.read_loop(event);
            return;
        }
        if self.schedules_from_step(event) {
            self.first_run = event.location.step_run_id();
            return;
        }
        self.collect_origins(event);
        self.state = fold(self.state.take(), event);
        if let (EventBody::NextEvaluated(_), Some(run)) = (&event.body, event.location.step_run_id())
            && self.state.as_ref().is_none_or(|state| state.run(&run).is_none())
        {
            self.consumed_tokens.remove(&run);
        }
    }

    /// Whether the event schedules the step from which the rerun starts.
    fn schedules_from_step(&self, event: &Event) -> bool {
        matches!(event.body, EventBody::StepScheduled(_))
            && event.location.step.is_some()
            && event.location.step == self.from_step
    }

    /// Collects what the log itself reuses, and the tokens that each step run consumed.
    fn collect_origins(&mut self, event: &Event) {
        match &event.body {
            EventBody::ExecutionRequested(requested) => {
                let pins = requested.rerun.iter().flat_map(|rerun| &rerun.pins);
                self.pins.extend(pins);
            }
            EventBody::StepScheduled(scheduled) => {
                let tokens = self.state.iter().flat_map(|state| {
                    let consumed = scheduled.tokens.iter();
                    consumed.filter_map(|id| state.tokens.get(id).cloned())
                });
                let tokens = tokens.collect();
                self.consumed_tokens
                    .extend(event.location.step_run_id().map(|run| (run, tokens)));
            }
            EventBody::StepReused(reused) => {
                self.reused.insert(event.seq, (**reused).clone());
            }
            events!(
                RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched PlaybookFinished
                PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested ExecutionRetried SignalReceived
                TimerSet TimerFired AdmitEvaluated NextEvaluated CtxPatched CommandIssued CommandClaimed CommandExpired
                CommandFailed StepStarted StepDone StepFailed TaskStarted AttemptStarted AttemptDone AttemptFailed
                TaskDone TaskFailed PolicyEvaluated LoopStarted FrameClaimed IterationScheduled IterationStarted
                IterationDone IterationFailed LoopDone ResultStored ManifestUpdated BatchAccepted BatchProcessing
                BatchCompleted BatchFailed
            ) => {}
        }
    }

    fn read_loop(&mut self, event: &Event) {
        if event.location.step_run_id() != self.first_run {
            return;
        }
        let from_iteration = self.from_iteration.unwrap_or(0);
        let index = event.location.iteration.filter(|index| *index < from_iteration);
        match &event.body {
            EventBody::LoopStarted(started) => {
                self.loop_progress.started = Some((event.seq, (**started).clone()));
            }
            EventBody::IterationDone(done) => {
                if let Some(index) = index
                    && self.loop_progress.done.insert(index)
                {
                    self.loop_progress.until = event.seq;
                    let patch = done.set_ctx.clone().map(|patch| (index, patch));
                    self.loop_progress.set_ctx.extend(patch);
                }
            }
            EventBody::CtxPatched(patched) => {
                let patch = patched.patch.parse_as().ok();
                let patch = index.and_then(|index| Some((index, patch?)));
                self.loop_progress.patches.extend(patch);
            }
            events!(
                ExecutionRequested RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched
                PlaybookFinished PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested ExecutionRetried
                StepReused SignalReceived TimerSet TimerFired AdmitEvaluated StepScheduled NextEvaluated CommandIssued
                CommandClaimed CommandExpired CommandFailed StepStarted StepDone StepFailed TaskStarted AttemptStarted
                AttemptDone AttemptFailed TaskDone TaskFailed PolicyEvaluated FrameClaimed IterationScheduled
                IterationStarted IterationFailed LoopDone ResultStored ManifestUpdated BatchAccepted BatchProcessing
                BatchCompleted BatchFailed
            ) => {}
        }
    }

    /// Returns what the rerun reuses.
    pub fn into_plan(mut self) -> Result<ReusePlan, Refusal> {
        let state = self.state.take().ok_or(Refusal::StillRunning)?;
        let origin = RerunOrigin {
            execution_id: state.execution,
            from_step: self.from_step.clone(),
            from_iteration: self.from_iteration,
            pins: Vec::new(),
        };
        let workload = state.workload.clone();
        let Some(from_step) = self.from_step.clone() else {
            if self.from_iteration.is_some() {
                return Err(Refusal::NotALoop);
            }
            return Ok(ReusePlan {
                origin,
                workload,
                reused_state: None,
            });
        };
        if self.first_run.is_none() {
            return Err(Refusal::StepNeverRan(from_step));
        }
        let mut ctx = (*state.ctx).clone();
        let iterations = match self.from_iteration {
            Some(from_iteration) => Some(self.reused_iterations(&state, &from_step, from_iteration, &mut ctx)?),
            None => None,
        };
        let steps = self.reused_steps(&state);
        self.pins.insert(state.execution);
        let pins = self.pins.iter().copied().collect();
        let reused = ReusedState {
            steps,
            ctx,
            tokens: self.initial_tokens(&state),
            iterations,
            from_step,
        };
        Ok(ReusePlan {
            origin: RerunOrigin { pins, ..origin },
            workload,
            reused_state: Some(Box::new(reused)),
        })
    }

    /// All ended steps, in the order of their latest ends.
    fn reused_steps(&self, state: &ExecutionState) -> Vec<ReusedStepEnd> {
        let steps = state.steps.iter();
        let ended_steps = steps.filter_map(|(name, step)| Some((name, step.latest.as_ref()?)));
        let mut ended_steps: Vec<(&Name, &StepPointer)> = ended_steps.collect();
        ended_steps.sort_by_key(|(_, latest)| latest.boundary);
        let reused_steps = ended_steps.into_iter().map(|(name, latest)| {
            let origin_of = |seq: Seq| self.event_ref(state.execution, seq);
            let tasks = latest.tasks.iter();
            let tasks = tasks.map(|(label, seq, ok)| (label.clone(), origin_of(*seq), *ok));
            let reused_part = self.reused.get(&latest.boundary).map(|reused| &reused.part);
            let end = match reused_part {
                Some(ReusedPart::Step(end)) => end.clone(),
                _ => ReusedStep {
                    ok: latest.ok,
                    last: latest.last.clone(),
                    loop_: latest.loop_.clone(),
                    error: latest.error.clone(),
                },
            };
            ReusedStepEnd {
                name: name.clone(),
                tasks: tasks.collect(),
                event: origin_of(latest.boundary),
                end,
            }
        });
        reused_steps.collect()
    }

    /// The event that originally produced the result of an event in this log.
    fn event_ref(&self, execution: ExecutionId, seq: Seq) -> EventRef {
        let reused = self.reused.get(&seq);
        reused.map_or((execution, seq), |reused| (reused.execution_id, reused.seq))
    }

    /// The waiting tokens, and the tokens that step runs in progress consumed.
    fn initial_tokens(&self, state: &ExecutionState) -> Vec<InitialToken> {
        let running = state.runs.iter().filter(|(_, run)| !run.is_final);
        let running = running.flat_map(|(id, run)| {
            let consumed = self.consumed_tokens.get(id).into_iter().flatten();
            run.tokens.iter().copied().zip(consumed)
        });
        let waiting = state.tokens.iter().map(|(id, token)| (*id, token));
        let mut tokens: Vec<_> = waiting.chain(running).collect();
        tokens.sort_by_key(|(id, _)| *id);
        tokens.into_iter().map(|(_, token)| to_initial_token(token)).collect()
    }

    fn reused_iterations(
        &self,
        state: &ExecutionState,
        step: &Name,
        from_iteration: u64,
        ctx: &mut Map<String, Value>,
    ) -> Result<(EventRef, ReusedIterations), Refusal> {
        let Some((seq, started)) = &self.loop_progress.started else {
            return Err(Refusal::NotALoop);
        };
        if started.more {
            return Err(Refusal::CursorLoop);
        }
        let total = started.total;
        if from_iteration >= total {
            let index = from_iteration;
            return Err(Refusal::IterationOutOfRange { index, total });
        }
        let inherited = state.reusing.get(step).filter(|_| started.reused.is_some());
        let inherited = inherited.map(|(_, inherited)| inherited);
        // The `ctx` writes of inherited iterations cannot be separated any more.
        let mut ranges = inherited.iter().flat_map(|inherited| inherited.ranges());
        if ranges.any(|(_, to)| to > from_iteration) {
            return Err(Refusal::IterationsReused);
        }
        for (index, patch) in &self.loop_progress.patches {
            if self.loop_progress.done.contains(index) {
                model::ctx::apply_patch(ctx, patch);
            }
        }
        let mut items: Vec<ReusedIterationSet> = inherited.map_or_else(Vec::new, |inherited| inherited.items.clone());
        items.push(ReusedIterationSet {
            execution_id: state.execution,
            started: *seq,
            until: self.loop_progress.until,
            ranges: to_ranges(&self.loop_progress.done),
        });
        let mut set_ctx = inherited.map_or_else(Vec::new, |inherited| inherited.set_ctx.clone());
        set_ctx.extend(self.loop_progress.set_ctx.iter().cloned());
        let reused = ReusedIterations {
            total,
            collection: started.collection.clone(),
            collection_ref: started.collection_ref.clone(),
            range: started.range,
            sha256: started.sha256.clone(),
            items,
            set_ctx,
        };
        Ok(((state.execution, *seq), reused))
    }
}

/// Converts indices to ranges of consecutive indices.
fn to_ranges(indices: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for index in indices {
        match ranges.last_mut() {
            Some(last) if last.1 == *index => last.1 += 1,
            _ => ranges.push((*index, *index + 1)),
        }
    }
    ranges
}

fn to_initial_token(token: &Token) -> InitialToken {
    let from = token.boundary.as_ref().map(|boundary| TokenOrigin {
        step: boundary.step.clone(),
        seq: boundary.seq,
        event: boundary.end.event_kind(),
        timestamp: boundary.timestamp,
    });
    InitialToken {
        step: token.step.clone(),
        args: token.args.clone(),
        from,
    }
}
