//! Joins: which step goes next, and which of the tokens before it go together.
//!
//! A step that several steps lead to waits while a token elsewhere could still come to it. Among the steps that are
//! free to go, one that no other such step leads to goes first; in a cycle the one with the oldest token.

use std::collections::{BTreeMap, BTreeSet};

use model::event::{Body, StepScheduled};
use model::id::{Name, StepRunId, TokenId};
use model::outcome::ErrorKind;
use model::raw::Raw;
use model::size::too_large;
use serde_json::{Map, Value};

use crate::decide::Undecided;
use crate::decide::turn::{Turn, at_run, fatal};

/// What stands where, for the question of who waits for whom.
struct Standing {
    /// Steps with a run under way.
    busy: BTreeSet<Name>,
    /// Steps with a parked token.
    parked: BTreeSet<Name>,
    /// Steps with a failure nothing handled.
    held: BTreeSet<Name>,
    /// Steps with tokens that wait to enter, and their tokens, oldest first.
    waiting: BTreeMap<Name, Vec<TokenId>>,
}

impl Turn<'_> {
    /// Starts one step whose tokens are free to go and are admitted. False if there is none.
    pub(super) fn start_step(&mut self) -> Result<bool, Undecided> {
        if self.state.final_ran {
            return Ok(false);
        }
        if let Some(step) = self.parked_to_look_at() {
            return self.look_again(&step);
        }
        let standing = self.standing();
        let Some(step) = self.first_free(&standing) else {
            return Ok(false);
        };
        let mut tokens = standing.waiting.get(&step).cloned().unwrap_or_default();
        let joins = self
            .net
            .playbook
            .step(step.as_str())
            .is_none_or(|step| step.joins);
        if joins {
            let parked = self
                .state
                .tokens
                .iter()
                .filter(|(_, token)| token.parked && token.step == step);
            tokens.extend(parked.map(|(id, _)| *id));
            tokens.sort_unstable();
        } else {
            tokens.truncate(1);
        }
        self.admit(&step, tokens)
    }

    /// Whether nothing that is under way could still come to this step.
    pub(super) fn is_free_now(&self, step: &Name) -> bool {
        self.is_free(step, &self.standing())
    }

    fn standing(&self) -> Standing {
        let mut standing = Standing {
            busy: BTreeSet::new(),
            parked: BTreeSet::new(),
            held: BTreeSet::new(),
            waiting: BTreeMap::new(),
        };
        for (id, run) in &self.state.runs {
            let place = if run.held {
                &mut standing.held
            } else {
                &mut standing.busy
            };
            place.insert(id.step.clone());
        }
        for (id, token) in &self.state.tokens {
            if token.parked {
                standing.parked.insert(token.step.clone());
            } else {
                standing
                    .waiting
                    .entry(token.step.clone())
                    .or_default()
                    .push(*id);
            }
        }
        standing
    }

    fn first_free(&self, standing: &Standing) -> Option<Name> {
        let free: Vec<&Name> = standing
            .waiting
            .keys()
            .filter(|step| self.is_free(step, standing))
            .collect();
        let graph = &self.net.graph;
        // Steps of one cycle lead to each other; none of them comes before the others.
        let leads_to =
            |other: &Name, step: &Name| graph.reaches(other, step) && !graph.reaches(step, other);
        let unreached = |step: &&&Name| !free.iter().any(|other| leads_to(other, step));
        let oldest = |step: &&&Name| standing.waiting[**step].first().copied();
        let first = free.iter().filter(unreached).min_by_key(oldest);
        first.map(|step| (*step).clone())
    }

    /// Whether nothing that is under way, parked or held could still come to this step.
    fn is_free(&self, step: &Name, standing: &Standing) -> bool {
        let graph = &self.net.graph;
        let joins = self
            .net
            .playbook
            .step(step.as_str())
            .is_none_or(|step| step.joins);
        if !joins || !graph.is_meeting_place(step) {
            return true;
        }
        let comes = |places: &BTreeSet<Name>| places.iter().any(|place| graph.reaches(place, step));
        let parked_count = !standing.busy.is_empty();
        let is_awaited = comes(&standing.busy) || comes(&standing.held);
        !is_awaited && (!parked_count || !comes(&standing.parked))
    }

    /// Takes the tokens: the step will run.
    pub(super) fn schedule(&mut self, step: &Name, tokens: Vec<TokenId>, is_final: bool) {
        let run = self.state.runs_of(step) + 1;
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
                fatal(ErrorKind::Unknown, "LIMIT_STEP_RUNS", message),
            );
        }
        let (args, args_from) = self.merge_args(&tokens);
        let scheduled = StepScheduled {
            tokens,
            args,
            args_from,
            is_final,
        };
        let body = Body::StepScheduled(Box::new(scheduled.clone()));
        let limit = self.net.limits.event_bytes_max;
        if let Some(error) = too_large("the `args` of tokens that met", body.data_bytes(), limit) {
            return self.fail_admission(step, scheduled.tokens, error);
        }
        let seq = self.emit(at_run(&id), body);
        self.because_of(seq);
        self.time_step(&id);
    }

    /// The tokens' payloads, merged in order of arrival, and each on its own where several met.
    fn merge_args(&self, tokens: &[TokenId]) -> (Option<Raw>, Option<Raw>) {
        let given = tokens.iter().filter_map(|id| self.state.tokens.get(id));
        let with_args = || {
            given
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
            let value = args.value();
            let from = token
                .boundary
                .as_ref()
                .map_or(Value::Null, |boundary| boundary.step.as_str().into());
            if let Value::Object(map) = &value {
                merged.extend(map.clone());
            }
            each.push(serde_json::json!({"step": from, "args": value}));
        }
        (Some(Raw::of(&merged)), Some(Raw::of(&each)))
    }
}
