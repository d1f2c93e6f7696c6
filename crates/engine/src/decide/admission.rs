//! Admission: decides whether tokens may enter a step. Denied tokens are parked, and the rules are evaluated again
//! when values that they read change.

use std::collections::BTreeSet;

use language::playbook::{Admission, AdmitMode};
use language::template::{LazyValue, Scope};
use model::event::{AdmitEvaluated, EventBody, EventLocation};
use model::id::{Name, TokenId};
use model::outcome::TaskError;

use crate::decide::DecideError;
use crate::decide::decision_builder::DecisionBuilder;
use crate::decide::scope::{EvalError, event_view};

/// The decision of the rules, and the index of the rule that matched.
struct AdmissionResult {
    allow: bool,
    rule: Option<u32>,
}

impl DecisionBuilder<'_> {
    /// Evaluates the rules, then schedules or parks the tokens. Returns whether it emitted an event.
    pub(super) fn admit(&mut self, step: &Name, tokens: Vec<TokenId>) -> Result<bool, DecideError> {
        let net = self.net;
        let admission = net.playbook.step(step.as_str()).map(|step| &step.admission);
        let Some(admission) = admission.filter(|admission| !admission.rules.is_empty()) else {
            self.schedule(step, tokens, false);
            return Ok(true);
        };
        self.parked_checked_at.insert(step.clone(), self.events.len());
        let result = match self.evaluate_rules(step, admission, &tokens) {
            Ok(result) => result,
            Err(EvalError::Undecided(undecided)) => return Err(undecided),
            Err(EvalError::Failed(error) | EvalError::TooLarge(error)) => {
                self.fail_admission(step, tokens, *error);
                return Ok(true);
            }
        };
        let all_parked = tokens
            .iter()
            .all(|id| self.state.tokens.get(id).is_some_and(|token| token.parked));
        if result.allow {
            self.record_admission(step, &tokens, &result);
            // More tokens may be on their way since these were parked, so the join rule applies again.
            if self.can_start_now(step) {
                self.schedule(step, tokens, false);
            }
            return Ok(true);
        }
        if !all_parked {
            self.record_admission(step, &tokens, &result);
        }
        Ok(!all_parked)
    }

    fn evaluate_rules(
        &mut self,
        step: &Name,
        admission: &Admission,
        tokens: &[TokenId],
    ) -> Result<AdmissionResult, EvalError> {
        let mut scope = self.admission_scope(tokens);
        let mut result = AdmissionResult {
            allow: true,
            rule: None,
        };
        for (index, rule) in (0u32..).zip(&admission.rules) {
            let matches = match &rule.when {
                None => true,
                Some(when) => self.render(&mut scope, step, |scope| when.is_true(scope))?,
            };
            if !matches {
                continue;
            }
            result = AdmissionResult {
                allow: rule.allow,
                rule: Some(index),
            };
            if admission.mode == AdmitMode::Exclusive || !rule.allow {
                break;
            }
        }
        Ok(result)
    }

    /// Admission rules see the execution, the tokens' arguments and the event that produced the tokens; they never see
    /// pipeline locals.
    fn admission_scope(&mut self, tokens: &[TokenId]) -> Scope {
        let mut scope = self.scope();
        let newest = tokens.iter().rev().find_map(|id| self.state.tokens.get(id));
        if let Some(token) = newest {
            scope.args = token.args.clone().map_or_else(LazyValue::default, LazyValue::from_raw);
            scope.event = token.boundary.as_ref().map(|boundary| event_view(boundary, None));
        }
        scope
    }

    fn record_admission(&mut self, step: &Name, tokens: &[TokenId], result: &AdmissionResult) {
        let evaluated = AdmitEvaluated {
            allow: result.allow,
            matched_rule_index: result.rule,
            tokens: tokens.to_vec(),
            discarded: false,
            error: None,
        };
        self.emit(
            EventLocation::of_step(step),
            EventBody::AdmitEvaluated(Box::new(evaluated)),
        );
    }

    /// Records that the rules cannot be evaluated; the execution then fails with this error.
    pub(super) fn fail_admission(&mut self, step: &Name, tokens: Vec<TokenId>, error: TaskError) {
        let evaluated = AdmitEvaluated {
            allow: false,
            matched_rule_index: None,
            tokens,
            discarded: false,
            error: Some(error),
        };
        self.emit(
            EventLocation::of_step(step),
            EventBody::AdmitEvaluated(Box::new(evaluated)),
        );
    }

    /// Returns a step whose parked tokens need another evaluation, because this turn changed something its rules read.
    pub(super) fn step_to_readmit(&mut self) -> Option<Name> {
        let index = self.index();
        if index.parked_tokens.is_empty() || (!self.rechecks_parked && self.readable_changes(0).next().is_none()) {
            return None;
        }
        let mut unchanged = BTreeSet::new();
        for id in index.parked_tokens.keys() {
            let step = &self.state.tokens.get(id)?.step;
            if unchanged.contains(step) {
                continue;
            }
            if self.needs_readmission(step) {
                return Some(step.clone());
            }
            unchanged.insert(step);
        }
        None
    }

    fn needs_readmission(&self, step: &Name) -> bool {
        if self.rechecks_parked && !self.parked_checked_at.contains_key(step) {
            return true;
        }
        let checked_at = self.parked_checked_at.get(step).copied().unwrap_or(0);
        if self.readable_changes(checked_at).next().is_none() {
            return false;
        }
        let Some(step) = self.net.playbook.step(step.as_str()) else {
            return false;
        };
        let rules = step.admission.rules.iter().filter_map(|rule| rule.when.as_ref());
        let paths: Vec<&str> = rules
            .flat_map(language::template::Template::paths)
            .map(String::as_str)
            .collect();
        let names_step = |name: &Name| {
            let name = name.as_str();
            paths.iter().any(|path| {
                let path = path.strip_prefix("steps.").unwrap_or(path);
                path.strip_prefix(name)
                    .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
            })
        };
        self.readable_changes(checked_at).any(|event| match &event.body {
            EventBody::CtxPatched(_) => !paths.is_empty(),
            body if body.kind().is_boundary() => event.location.step.as_ref().is_some_and(names_step),
            _ => false,
        })
    }

    /// Evaluates the rules again for the tokens parked at this step.
    pub(super) fn readmit_parked(&mut self, step: &Name) -> Result<bool, DecideError> {
        let index = self.index();
        let mut tokens = self.parked_before(step, &index);
        drop(index);
        if self.is_joining(step) {
            self.admit(step, tokens)?;
        } else {
            for token in std::mem::take(&mut tokens) {
                self.admit(step, vec![token])?;
            }
        }
        // Report progress even if the decision is the same: the next round must not evaluate for the same change.
        Ok(true)
    }

    /// Discards the parked tokens, one event each, when no future change can admit them.
    pub(super) fn discard_parked(&mut self) -> bool {
        let parked = self.state.tokens.iter().filter(|(_, token)| token.parked);
        let parked: Vec<(TokenId, Name)> = parked.map(|(id, token)| (*id, token.step.clone())).collect();
        for (id, step) in &parked {
            let evaluated = AdmitEvaluated {
                allow: false,
                matched_rule_index: None,
                tokens: vec![*id],
                discarded: true,
                error: None,
            };
            self.emit(
                EventLocation::of_step(step),
                EventBody::AdmitEvaluated(Box::new(evaluated)),
            );
        }
        !parked.is_empty()
    }
}
