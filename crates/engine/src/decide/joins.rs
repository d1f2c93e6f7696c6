//! Joins: selects the next step, and the tokens that enter it together.
//!
//! A step with several predecessors waits while a token elsewhere can still reach it. Among the steps that need not
//! wait, one that no other such step leads to runs first; in a cycle, the one with the oldest token.

use model::event::{EventBody, StepScheduled};
use model::id::{Name, StepRunId, TokenId};
use model::outcome::{ErrorKind, TaskError};
use model::raw::RawJson;
use model::size::size_error;
use serde_json::{Map, Value};

use crate::decide::DecideError;
use crate::decide::decision_builder::{DecisionBuilder, run_location};
use crate::state::{SharedMap, StateIndex};

impl DecisionBuilder<'_> {
    /// Starts one step whose tokens need not wait and are admitted. Returns false if there is none.
    pub(super) fn start_step(&mut self) -> Result<bool, DecideError> {
        if self.state.final_ran {
            return Ok(false);
        }
        if let Some(step) = self.step_to_readmit() {
            return self.readmit_parked(&step);
        }
        let index = self.index();
        let Some(step) = self.first_startable(&index) else {
            return Ok(false);
        };
        let mut tokens: Vec<TokenId>;
        if self.is_joining(&step) {
            tokens = index.tokens_before(&step).collect();
            tokens.extend(self.parked_before(&step, &index));
            tokens.sort_unstable();
        } else {
            tokens = index.tokens_before(&step).take(1).collect();
        }
        drop(index);
        self.admit(&step, tokens)
    }

    /// Whether tokens that meet at this step enter it together.
    pub(super) fn is_joining(&self, step: &Name) -> bool {
        let step = self.net.playbook.step(step.as_str());
        step.is_none_or(|step| step.is_joining)
    }

    /// The tokens that admission parked at a step, oldest first.
    pub(super) fn parked_before(&self, step: &Name, index: &StateIndex) -> Vec<TokenId> {
        if !index.parked_steps.contains_key(step) {
            return Vec::new();
        }
        let parked = index.parked_tokens.keys().copied();
        let is_there = |id: &TokenId| {
            let token = self.state.tokens.get(id);
            token.is_some_and(|token| token.step == *step)
        };
        parked.filter(is_there).collect()
    }

    /// Whether no active token or step run can still reach this step.
    pub(super) fn can_start_now(&mut self, step: &Name) -> bool {
        let index = self.index();
        self.can_start(step, &index)
    }

    /// Among the steps that need not wait and that no other such step leads to, the one with the oldest token.
    fn first_startable(&self, index: &StateIndex) -> Option<Name> {
        let mut by_age = index.oldest_tokens.values();
        let first = by_age.find(|step| self.can_start(step, index) && !self.is_preceded(step, index));
        first.cloned()
    }

    /// Whether another step that need not wait leads to this one. Steps of one cycle lead to each other, so none of
    /// them precedes the others.
    fn is_preceded(&self, step: &Name, index: &StateIndex) -> bool {
        let graph = &self.net.graph;
        let waiting = &index.oldest_tokens;
        if waiting.len() == 1 {
            return false;
        }
        graph.any_before(step, waiting, |other| {
            index.tokens_before(other).next().is_some() && self.can_start(other, index)
        })
    }

    /// Whether no active, parked or held token can still reach this step.
    fn can_start(&self, step: &Name, index: &StateIndex) -> bool {
        let graph = &self.net.graph;
        if !self.is_joining(step) || !graph.is_join(step) {
            return true;
        }
        let can_reach = |steps: &SharedMap<Name, u32>| {
            let mut steps = steps.keys();
            steps.any(|step_name| graph.reaches(step_name, step))
        };
        let has_busy_steps = !index.busy_steps.is_empty();
        let is_awaited = can_reach(&index.busy_steps) || can_reach(&index.held_steps);
        !is_awaited && (!has_busy_steps || !can_reach(&index.parked_steps))
    }

    /// Consumes the tokens and schedules a run of the step.
    pub(super) fn schedule(&mut self, step: &Name, tokens: Vec<TokenId>, is_final: bool) {
        let run = self.state.run_count(step) + 1;
        let id = StepRunId {
            step: step.clone(),
            run,
        };
        if run > self.net.limits.step_runs_max {
            let message = format!(
                "step `{step}` would run more than {} times",
                self.net.limits.step_runs_max
            );
            return self.fail_admission(
                step,
                tokens,
                TaskError::permanent(ErrorKind::Unknown, "LIMIT_STEP_RUNS", message),
            );
        }
        let (args, args_from) = self.merge_args(&tokens);
        let scheduled = StepScheduled {
            tokens,
            args,
            args_from,
            is_final,
        };
        let body = EventBody::StepScheduled(Box::new(scheduled.clone()));
        let limit = self.net.limits.event_bytes_max;
        if let Some(error) = size_error("the combined `args` of a join", body.data_bytes(), limit) {
            return self.fail_admission(step, scheduled.tokens, error);
        }
        let seq = self.emit(run_location(&id), body);
        self.set_cause(seq);
        self.set_step_timer(&id);
    }

    /// The arguments of the tokens, merged in order of arrival. If several tokens met, also each token's arguments.
    fn merge_args(&self, tokens: &[TokenId]) -> (Option<RawJson>, Option<RawJson>) {
        let selected_arc = tokens.iter().filter_map(|id| self.state.tokens.get(id));
        let with_args = || {
            selected_arc
                .clone()
                .filter_map(|token| token.args.as_ref().map(|args| (token, args)))
        };
        match with_args().count() {
            0 => return (None, None),
            1 if tokens.len() == 1 => {
                return (with_args().next().map(|(_, args)| args.clone()), None);
            }
            _ => {}
        }
        let mut merged = Map::new();
        let mut each = Vec::new();
        for (token, args) in with_args() {
            let value = args.to_value();
            let from = token
                .boundary
                .as_ref()
                .map_or(Value::Null, |boundary| boundary.step.as_str().into());
            if let Value::Object(map) = &value {
                merged.extend(map.clone());
            }
            each.push(serde_json::json!({"step": from, "args": value}));
        }
        (
            Some(RawJson::from_serializable(&merged)),
            Some(RawJson::from_serializable(&each)),
        )
    }
}
