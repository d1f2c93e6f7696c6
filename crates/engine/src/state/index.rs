//! An index over the state, so that no decision has to scan the whole execution.
//!
//! The index is derived from the runs, tokens and commands of the state, and from the kinds of the playbook's steps.
//! `refresh` updates it with the difference between the maps it was computed from and the current maps.

use std::collections::BTreeSet;

use model::command::PipelineStage;
use model::id::{Name, PlaybookHash, Seq, StepRunId, TokenId};

use crate::state::shared_map::SharedMap;
use crate::state::{ExecutionState, LiveCommand, StepRun, Token};

type SharedSet<K> = SharedMap<K, ()>;

/// The kind of a step, as far as the index depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// It has tasks.
    Plain,
    /// It has tasks and a loop.
    Loop,
    /// It has no tasks.
    Routing,
}

/// The status of a step run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunStage {
    /// It failed, and no arc handles the failure.
    Held,
    /// It ended, and its arcs are not evaluated yet.
    Ended,
    /// It is live and belongs to a step with a loop.
    Looping,
    /// It is live and belongs to a step without tasks.
    Routing,
    /// It is live; no command covers its pipeline, and it does not wait.
    Ready,
    /// It is live, and a command covers its pipeline or the pipeline waits.
    UnderWay,
}

/// The index of one execution's state.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateIndex {
    playbook: Option<PlaybookHash>,
    seq: Option<Seq>,
    runs: SharedMap<StepRunId, StepRun>,
    tokens: SharedMap<TokenId, Token>,
    commands: SharedMap<Seq, LiveCommand>,
    stages: SharedMap<StepRunId, RunStage>,
    commands_by_run: SharedSet<(StepRunId, Seq)>,
    pub(crate) ended_runs: SharedSet<StepRunId>,
    pub(crate) loop_runs: SharedSet<StepRunId>,
    pub(crate) routing_runs: SharedSet<StepRunId>,
    pub(crate) ready_runs: SharedSet<StepRunId>,
    /// Number of runs of each step that are not held.
    pub(crate) busy_steps: SharedMap<Name, u32>,
    /// Number of held runs of each step.
    pub(crate) held_steps: SharedMap<Name, u32>,
    /// Number of tokens parked at each step.
    pub(crate) parked_steps: SharedMap<Name, u32>,
    pub(crate) parked_tokens: SharedSet<TokenId>,
    waiting_tokens: SharedSet<(Name, TokenId)>,
    /// The oldest waiting token of each step, with the step.
    pub(crate) oldest_tokens: SharedMap<TokenId, Name>,
}

impl StateIndex {
    /// Whether the index matches this state.
    pub(crate) fn is_current(&self, state: &ExecutionState) -> bool {
        self.seq == Some(state.seq)
            && self.playbook.as_ref() == Some(&state.hash)
            && self.tokens.len() == state.tokens.len()
    }

    /// Applies the changes of the state.
    pub(crate) fn refresh(&mut self, state: &ExecutionState, kind_of: impl Fn(&Name) -> StepKind) {
        if self.playbook.as_ref() != Some(&state.hash) {
            *self = Self {
                playbook: Some(state.hash.clone()),
                ..Self::default()
            };
        }
        let mut touched = BTreeSet::new();
        let commands = std::mem::replace(&mut self.commands, state.commands.clone());
        commands.for_each_change(&state.commands, |change| {
            let seq = *change.key;
            if let Some(command) = change.before {
                self.commands_by_run.remove(&(command.run.clone(), seq));
                touched.insert(command.run.clone());
            }
            if let Some(command) = change.after {
                self.commands_by_run.insert((command.run.clone(), seq), ());
                touched.insert(command.run.clone());
            }
        });
        let runs = std::mem::replace(&mut self.runs, state.runs.clone());
        runs.for_each_change(&state.runs, |change| {
            touched.insert(change.key.clone());
        });
        for id in touched {
            let pipeline_stage = state.runs.get(&id).map(|run| self.stage_of(&id, run, &kind_of));
            self.set_stage(id, pipeline_stage);
        }
        let tokens = std::mem::replace(&mut self.tokens, state.tokens.clone());
        tokens.for_each_change(&state.tokens, |change| {
            if let Some(token) = change.before {
                self.remove_token(*change.key, token);
            }
            if let Some(token) = change.after {
                self.add_token(*change.key, token);
            }
        });
        self.seq = Some(state.seq);
    }

    /// The commands of a run, oldest first.
    pub(crate) fn commands_of<'a>(&'a self, run: &'a StepRunId) -> impl Iterator<Item = &'a LiveCommand> {
        let first = (run.clone(), Seq(0));
        let of_run = range_of(&self.commands_by_run, &first, move |(id, _)| id == run);
        of_run.filter_map(|(_, seq)| self.commands.get(seq))
    }

    /// The tokens that wait to enter a step, oldest first.
    pub(crate) fn tokens_before<'a>(&'a self, step: &'a Name) -> impl Iterator<Item = TokenId> + 'a {
        range_of(&self.waiting_tokens, &lowest_key(step), move |(name, _)| name == step).map(|(_, id)| *id)
    }

    fn stage_of(&self, id: &StepRunId, run: &StepRun, kind_of: impl Fn(&Name) -> StepKind) -> RunStage {
        if run.held {
            return RunStage::Held;
        }
        if run.boundary.is_some() {
            return RunStage::Ended;
        }
        match kind_of(&id.step) {
            StepKind::Loop => RunStage::Looping,
            StepKind::Routing => RunStage::Routing,
            StepKind::Plain if is_waiting(run) || self.commands_of(id).next().is_some() => RunStage::UnderWay,
            StepKind::Plain => RunStage::Ready,
        }
    }

    fn set_stage(&mut self, id: StepRunId, stage: Option<RunStage>) {
        let before = self.stages.get(&id).copied();
        if before == stage {
            return;
        }
        if let Some(before) = before {
            if let Some(set) = self.set_of(before) {
                set.remove(&id);
            }
            adjust_count(self.counts_of(before), &id.step, false);
            self.stages.remove(&id);
        }
        if let Some(stage) = stage {
            if let Some(set) = self.set_of(stage) {
                set.insert(id.clone(), ());
            }
            adjust_count(self.counts_of(stage), &id.step, true);
            self.stages.insert(id, stage);
        }
    }

    fn set_of(&mut self, stage: RunStage) -> Option<&mut SharedSet<StepRunId>> {
        match stage {
            RunStage::Ended => Some(&mut self.ended_runs),
            RunStage::Looping => Some(&mut self.loop_runs),
            RunStage::Routing => Some(&mut self.routing_runs),
            RunStage::Ready => Some(&mut self.ready_runs),
            RunStage::Held | RunStage::UnderWay => None,
        }
    }

    fn counts_of(&mut self, stage: RunStage) -> &mut SharedMap<Name, u32> {
        match stage {
            RunStage::Held => &mut self.held_steps,
            _ => &mut self.busy_steps,
        }
    }

    fn add_token(&mut self, id: TokenId, token: &Token) {
        if token.parked {
            self.parked_tokens.insert(id, ());
            adjust_count(&mut self.parked_steps, &token.step, true);
            return;
        }
        let oldest = self.tokens_before(&token.step).next();
        self.waiting_tokens.insert((token.step.clone(), id), ());
        if oldest.is_none_or(|oldest| id < oldest) {
            if let Some(oldest) = oldest {
                self.oldest_tokens.remove(&oldest);
            }
            self.oldest_tokens.insert(id, token.step.clone());
        }
    }

    fn remove_token(&mut self, id: TokenId, token: &Token) {
        if token.parked {
            self.parked_tokens.remove(&id);
            adjust_count(&mut self.parked_steps, &token.step, false);
            return;
        }
        self.waiting_tokens.remove(&(token.step.clone(), id));
        if self.oldest_tokens.remove(&id).is_some() {
            let oldest = self.tokens_before(&token.step).next();
            if let Some(oldest) = oldest {
                self.oldest_tokens.insert(oldest, token.step.clone());
            }
        }
    }
}

/// Indexes do not affect the equality of states.
impl PartialEq for StateIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Whether the run's own pipeline waits for a time, a child or a signal.
pub(crate) fn is_waiting(run: &StepRun) -> bool {
    match run.pipeline.stage {
        PipelineStage::Awaiting { .. } | PipelineStage::Retrying { suspended: true, .. } => true,
        PipelineStage::Ready
        | PipelineStage::Started
        | PipelineStage::Retrying { .. }
        | PipelineStage::WaitEnded { .. }
        | PipelineStage::Done
        | PipelineStage::Failed => false,
    }
}

fn lowest_key(step: &Name) -> (Name, TokenId) {
    let first = TokenId { seq: Seq(0), arc: 0 };
    (step.clone(), first)
}

/// The keys from `first` on, while `belongs` is true.
fn range_of<'a, K: Ord + Clone, F: Fn(&K) -> bool + 'a>(
    set: &'a SharedSet<K>,
    first: &K,
    belongs: F,
) -> impl Iterator<Item = &'a K> + use<'a, K, F> {
    let keys = set.range_from(first).map(|(key, ())| key);
    keys.take_while(move |key| belongs(key))
}

fn adjust_count(counts: &mut SharedMap<Name, u32>, step: &Name, is_one_more: bool) {
    let count = counts.get(step).copied().unwrap_or(0);
    match (count, is_one_more) {
        (count, true) => {
            counts.insert(step.clone(), count + 1);
        }
        (0 | 1, false) => {
            counts.remove(step);
        }
        (count, false) => {
            counts.insert(step.clone(), count - 1);
        }
    }
}
