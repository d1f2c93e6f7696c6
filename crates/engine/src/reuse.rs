//! Reuse: plans what a rerun reuses from the log of an execution that has ended.
//!
//! Input: that log, event by event. Output: a plan. The rerun starts from the state before the given step was first
//! scheduled. Steps that had ended by then are reused by reference; steps in progress start again from their tokens.

use std::collections::{BTreeMap, BTreeSet};

use model::event::{
    Body, CameFrom, Event, Kind, LoopStarted, PlacedToken, Rerun, Reused, ReusedItems,
    ReusedIterations, ReusedPart, ReusedStep,
};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::raw::Raw;
use model::template::Latest;
use serde_json::{Map, Value};

use crate::decide::Refusal;
use crate::state::{BoundaryKind, State, Token, fold};

/// An event of another execution's log.
pub(crate) type Source = (ExecutionId, Seq);

/// What a rerun reuses from the original execution.
#[derive(Debug, Clone)]
pub struct Reuse {
    /// The original execution, and the step to start from.
    pub rerun: Rerun,
    /// The inputs of the original execution.
    pub workload: Raw,
    /// The reused state; `None` if everything runs again.
    pub takeover: Option<Box<Takeover>>,
}

/// The initial state of a rerun that starts at a later step.
#[derive(Debug, Clone)]
pub struct Takeover {
    pub(crate) from_step: Name,
    pub(crate) steps: Vec<TakenStep>,
    pub(crate) ctx: Map<String, Value>,
    pub(crate) tokens: Vec<PlacedToken>,
    pub(crate) iterations: Option<(Source, ReusedIterations)>,
}

/// The latest end of a step that is reused.
#[derive(Debug, Clone)]
pub(crate) struct TakenStep {
    pub(crate) name: Name,
    pub(crate) tasks: Vec<(Name, Source, bool)>,
    pub(crate) source: Source,
    pub(crate) ended: ReusedStep,
}

impl Reuse {
    /// Maximum number of events that record the reuse.
    pub fn events_max(&self) -> usize {
        let Some(takeover) = &self.takeover else {
            return 0;
        };
        let steps = takeover.steps.iter().map(|step| step.tasks.len() + 1);
        steps.sum::<usize>() + takeover.ctx.len() + 1
    }
}

/// Reads a log up to the point where the rerun starts.
#[derive(Debug)]
pub struct Cut {
    from_step: Option<Name>,
    from_iteration: Option<u64>,
    /// The state of the execution at the cut.
    state: Option<State>,
    pins: BTreeSet<ExecutionId>,
    /// What the original execution itself reused, by its own event.
    reused: BTreeMap<Seq, Reused>,
    /// The tokens that each step run in progress consumed.
    taken: BTreeMap<StepRunId, Vec<Token>>,
    /// The first run of the given step, once it is found.
    run: Option<StepRunId>,
    loop_: LoopSoFar,
}

/// The progress of the loop that is partly rerun.
#[derive(Debug, Default)]
struct LoopSoFar {
    started: Option<(Seq, LoopStarted)>,
    done: BTreeSet<u64>,
    until: Seq,
    set_ctx: Vec<(u64, Raw)>,
    patches: Vec<(u64, Map<String, Value>)>,
}

impl Cut {
    /// Cuts before the first run of a step, or before an iteration of its loop. Without a step, cuts at the start of
    /// the log.
    pub fn before(from_step: Option<Name>, from_iteration: Option<u64>) -> Self {
        Self {
            from_step,
            from_iteration,
            state: None,
            pins: BTreeSet::new(),
            reused: BTreeMap::new(),
            taken: BTreeMap::new(),
            run: None,
            loop_: LoopSoFar::default(),
        }
    }

    /// Whether the remaining events make no difference.
    pub fn is_complete(&self) -> bool {
        let is_cut = self.from_step.is_none() || self.run.is_some();
        self.state.is_some() && is_cut && self.from_iteration.is_none()
    }

    /// Reads the next event of the log.
    pub fn read(&mut self, event: &Event) {
        if self.is_complete() {
            return;
        }
        if self.run.is_some() {
            self.read_loop(event);
            return;
        }
        match &event.body {
            Body::ExecutionRequested(requested) => {
                let pins = requested.rerun.iter().flat_map(|rerun| &rerun.pins);
                self.pins.extend(pins);
            }
            Body::StepScheduled(_)
                if event.at.step.is_some() && event.at.step == self.from_step =>
            {
                self.run = event.at.step_run_id();
                return;
            }
            Body::StepScheduled(scheduled) => {
                let tokens = self.state.iter().flat_map(|state| {
                    let known = scheduled.tokens.iter();
                    known.filter_map(|id| state.tokens.get(id).cloned())
                });
                let tokens = tokens.collect();
                self.taken
                    .extend(event.at.step_run_id().map(|run| (run, tokens)));
            }
            Body::StepReused(reused) => {
                self.reused.insert(event.seq, (**reused).clone());
            }
            _ => {}
        }
        self.state = fold(self.state.take(), event);
        if let (Body::NextEvaluated(_), Some(run)) = (&event.body, event.at.step_run_id())
            && self
                .state
                .as_ref()
                .is_none_or(|state| state.run(&run).is_none())
        {
            self.taken.remove(&run);
        }
    }

    fn read_loop(&mut self, event: &Event) {
        if event.at.step_run_id() != self.run {
            return;
        }
        let before = self.from_iteration.unwrap_or(0);
        let index = event.at.iteration.filter(|index| *index < before);
        match (&event.body, index) {
            (Body::LoopStarted(started), _) => {
                self.loop_.started = Some((event.seq, (**started).clone()));
            }
            (Body::IterationDone(done), Some(index)) if self.loop_.done.insert(index) => {
                self.loop_.until = event.seq;
                let patch = done.set_ctx.clone().map(|patch| (index, patch));
                self.loop_.set_ctx.extend(patch);
            }
            (Body::CtxPatched(patched), Some(index)) => {
                let patch = patched.patch.read().ok().map(|patch| (index, patch));
                self.loop_.patches.extend(patch);
            }
            _ => {}
        }
    }

    /// Returns what the rerun reuses.
    pub fn plan(mut self) -> Result<Reuse, Refusal> {
        let state = self.state.take().ok_or(Refusal::StillRuns)?;
        let rerun = Rerun {
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
            return Ok(Reuse {
                rerun,
                workload,
                takeover: None,
            });
        };
        if self.run.is_none() {
            return Err(Refusal::StepNeverRan(from_step));
        }
        let mut ctx = (*state.ctx).clone();
        let iterations = match self.from_iteration {
            Some(before) => Some(self.iterations(&state, &from_step, before, &mut ctx)?),
            None => None,
        };
        let steps = self.steps(&state);
        self.pins.insert(state.execution);
        let pins = self.pins.iter().copied().collect();
        let takeover = Takeover {
            steps,
            ctx,
            tokens: self.tokens(&state),
            iterations,
            from_step,
        };
        Ok(Reuse {
            rerun: Rerun { pins, ..rerun },
            workload,
            takeover: Some(Box::new(takeover)),
        })
    }

    /// All ended steps, in the order of their latest ends.
    fn steps(&self, state: &State) -> Vec<TakenStep> {
        let ended = state.steps.iter();
        let ended = ended.filter_map(|(name, step)| Some((name, step.latest.as_ref()?)));
        let mut ended: Vec<(&Name, &Latest)> = ended.collect();
        ended.sort_by_key(|(_, latest)| latest.boundary);
        let taken = ended.into_iter().map(|(name, latest)| {
            let source = |seq: Seq| self.source(state.execution, seq);
            let tasks = latest.tasks.iter();
            let tasks = tasks.map(|(label, seq, ok)| (label.clone(), source(*seq), *ok));
            let known = self.reused.get(&latest.boundary).map(|reused| &reused.part);
            let ended = match known {
                Some(ReusedPart::Step(ended)) => ended.clone(),
                _ => ReusedStep {
                    ok: latest.ok,
                    last: latest.last.clone(),
                    loop_: latest.loop_.clone(),
                    error: latest.error.clone(),
                },
            };
            TakenStep {
                name: name.clone(),
                tasks: tasks.collect(),
                source: source(latest.boundary),
                ended,
            }
        });
        taken.collect()
    }

    /// The event that originally produced the result of an event in this log.
    fn source(&self, execution: ExecutionId, seq: Seq) -> Source {
        let reused = self.reused.get(&seq);
        reused.map_or((execution, seq), |reused| (reused.execution_id, reused.seq))
    }

    /// The waiting tokens, and the tokens that step runs in progress consumed.
    fn tokens(&self, state: &State) -> Vec<PlacedToken> {
        let under_way = state.runs.iter().filter(|(_, run)| !run.is_final);
        let under_way = under_way.flat_map(|(id, run)| {
            let taken = self.taken.get(id).into_iter().flatten();
            run.tokens.iter().copied().zip(taken)
        });
        let standing = state.tokens.iter().map(|(id, token)| (*id, token));
        let mut all: Vec<_> = standing.chain(under_way).collect();
        all.sort_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, token)| placed(token)).collect()
    }

    fn iterations(
        &self,
        state: &State,
        step: &Name,
        before: u64,
        ctx: &mut Map<String, Value>,
    ) -> Result<(Source, ReusedIterations), Refusal> {
        let Some((seq, started)) = &self.loop_.started else {
            return Err(Refusal::NotALoop);
        };
        if started.more {
            return Err(Refusal::Claims);
        }
        let total = started.total;
        if before >= total {
            let index = before;
            return Err(Refusal::NoIteration { index, total });
        }
        let inherited = state.reusing.get(step).filter(|_| started.reused.is_some());
        let inherited = inherited.map(|(_, inherited)| inherited);
        // The `ctx` writes of inherited iterations cannot be separated any more.
        let is_inherited = |end: u64| end > before;
        let mut ranges = inherited.iter().flat_map(|inherited| inherited.ranges());
        if ranges.any(|(_, to)| is_inherited(to)) {
            return Err(Refusal::TakenOver);
        }
        for (index, patch) in &self.loop_.patches {
            if self.loop_.done.contains(index) {
                model::ctx::apply(ctx, patch);
            }
        }
        let mut items: Vec<ReusedItems> = inherited.map_or_else(Vec::new, |it| it.items.clone());
        items.push(ReusedItems {
            execution_id: state.execution,
            started: *seq,
            until: self.loop_.until,
            ranges: runs_of(&self.loop_.done),
        });
        let mut set_ctx = inherited.map_or_else(Vec::new, |it| it.set_ctx.clone());
        set_ctx.extend(self.loop_.set_ctx.iter().cloned());
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
fn runs_of(indices: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for index in indices {
        match ranges.last_mut() {
            Some(last) if last.1 == *index => last.1 += 1,
            _ => ranges.push((*index, *index + 1)),
        }
    }
    ranges
}

fn placed(token: &Token) -> PlacedToken {
    let from = token.boundary.as_ref().map(|boundary| CameFrom {
        step: boundary.step.clone(),
        seq: boundary.seq,
        event: match boundary.end {
            BoundaryKind::Done => Kind::StepDone,
            BoundaryKind::Failed => Kind::StepFailed,
            BoundaryKind::LoopDone => Kind::LoopDone,
        },
        timestamp: boundary.timestamp,
    });
    PlacedToken {
        step: token.step.clone(),
        args: token.args.clone(),
        from,
    }
}
