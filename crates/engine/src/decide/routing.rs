//! Routing: evaluates the arcs of a step that ended.
//!
//! Input: a run with its boundary. Output: the patches of the matched arcs, then one `next.evaluated` with the value
//! of each condition and the new tokens. After a failure, only arcs whose condition handles failure are candidates.

use language::playbook::{NetArc, SetEntry, Step};
use language::template::Scope;
use model::event::{CtxPatched, EventBody, EventLocation, MatchedArc, NextEvaluated, SelectedArc};
use model::id::{Name, StepRunId};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{FailureMode, RouteMode};
use model::raw::RawJson;
use model::size::size_error;
use serde_json::Map;

use crate::decide::DecideError;
use crate::decide::decision_builder::{DecisionBuilder, run_location};
use crate::decide::scope::EvalError;
use crate::state::BoundaryKind;

/// The result of evaluating the arcs.
#[derive(Default)]
struct RoutingResult {
    matched: Vec<MatchedArc>,
    selected: Vec<SelectedArc>,
    guards: Vec<Option<bool>>,
}

impl DecisionBuilder<'_> {
    /// Evaluates the arcs of one run that has ended. Returns false if there is none.
    pub(super) fn route_ended_run(&mut self) -> Result<bool, DecideError> {
        let Some(id) = self.index().ended_runs.keys().next().cloned() else {
            return Ok(false);
        };
        let run = &self.state.runs[&id];
        let boundary = run.boundary.clone().expect("runs in `ended_runs` have a boundary");
        let is_final = run.is_final;
        self.set_cause(boundary.seq);
        let net = self.net;
        let step = net.playbook.step(id.step.as_str());
        let has_template = |arc: &NetArc| arc.when.is_some() || arc.args.is_some() || !arc.set.is_empty();
        let mut scope = if step.is_some_and(|step| step.next.arcs.iter().any(has_template)) {
            self.scope_at_boundary(&id)
                .expect("runs in `ended_runs` have a boundary")
        } else {
            Scope::default()
        };
        let has_failed = boundary.end == BoundaryKind::Failed;
        // Only arcs that write need a checkpoint to roll back to.
        let has_writes = step.is_some_and(|step| step.next.arcs.iter().any(|arc| !arc.set.is_empty()));
        let checkpoint = has_writes.then(|| self.checkpoint());
        let route = match step {
            Some(step) if !is_final => self.evaluate_arcs(step, &mut scope, has_failed),
            _ => Ok(RoutingResult::default()),
        };
        match route {
            Ok(route) => self.record_route(&id, route, boundary.error.filter(|_| has_failed)),
            Err(EvalError::Undecided(undecided)) => return Err(undecided),
            Err(EvalError::Failed(error) | EvalError::TooLarge(error)) => {
                // A retry evaluates the arcs again, so the writes so far are rolled back.
                if let Some(checkpoint) = checkpoint {
                    self.roll_back_to(checkpoint);
                }
                self.record_failed_route(&id, *error);
            }
        }
        Ok(true)
    }

    fn evaluate_arcs(&mut self, step: &Step, scope: &mut Scope, has_failed: bool) -> Result<RoutingResult, EvalError> {
        let mut route = RoutingResult::default();
        let mut matched = Vec::new();
        for arc in &step.next.arcs {
            let is_decided = step.next.mode == RouteMode::Exclusive && !matched.is_empty();
            if is_decided || (has_failed && !is_failure_guard(arc, &step.name)) {
                route.guards.push(None);
                continue;
            }
            let is_true = match &arc.when {
                None => true,
                Some(when) => self.render(scope, &step.name, |scope| when.is_true(scope))?,
            };
            route.guards.push(Some(is_true));
            if is_true {
                matched.push(arc);
            }
        }
        // All conditions are evaluated before any arc writes, so that no arc affects another's condition.
        for arc in matched {
            self.follow_arc(step, arc, scope, &mut route)?;
        }
        self.check_args_size(step, &route)?;
        Ok(route)
    }

    /// Applies the writes of a matched arc and creates its token.
    fn follow_arc(
        &mut self,
        step: &Step,
        arc: &NetArc,
        scope: &mut Scope,
        route: &mut RoutingResult,
    ) -> Result<(), EvalError> {
        let when = arc.when.as_ref().map(|when| when.source().to_owned());
        route.matched.push(MatchedArc {
            step: arc.step.clone(),
            when,
        });
        self.write_ctx(step, &arc.set, scope)?;
        if self.net.playbook.step(arc.step.as_str()).is_some() {
            let args = self.render_args(step, arc, scope)?;
            route.selected.push(SelectedArc {
                step: arc.step.clone(),
                args,
            });
        }
        Ok(())
    }

    /// Checks that the arguments of all tokens fit into one event.
    fn check_args_size(&self, step: &Step, route: &RoutingResult) -> Result<(), EvalError> {
        let args = route.selected.iter().filter_map(|arc| arc.args.as_ref());
        let bytes = args.map(|args| args.text().len()).sum();
        let Some(error) = size_error("the `args` of the matched arcs", bytes, self.net.limits.event_bytes_max) else {
            return Ok(());
        };
        let is_selected = |arc: &&NetArc| route.selected.iter().any(|selected| selected.step == arc.step);
        let line = step.next.arcs.iter().find(is_selected).map(|arc| arc.span.line);
        let error = error.with_detail("step", step.name.as_str()).with_detail("line", line);
        Err(EvalError::Failed(Box::new(error)))
    }

    fn render_args(&mut self, step: &Step, arc: &NetArc, scope: &mut Scope) -> Result<Option<RawJson>, EvalError> {
        let Some(args) = &arc.args else {
            return Ok(None);
        };
        let rendered = self.render(scope, &step.name, |scope| args.render(scope))?;
        Ok(Some(RawJson::from_serializable(&rendered.value)))
    }

    /// Writes to `ctx` when a step ends; later templates see the values.
    pub(super) fn write_ctx(&mut self, step: &Step, writes: &[SetEntry], scope: &mut Scope) -> Result<(), EvalError> {
        if writes.is_empty() {
            return Ok(());
        }
        let mut patch = Map::new();
        for write in writes {
            let rendered = self.render(scope, &step.name, |scope| write.value.render(scope))?;
            patch.insert(write.key.to_string(), rendered.value);
        }
        let location = EventLocation::of_step(&step.name);
        self.store_large_values(&mut patch);
        self.patch_ctx(location, &patch).map_err(|error| {
            let error = error.with_detail("line", writes[0].span.line);
            EvalError::Failed(Box::new(error))
        })?;
        scope.ctx = self.scope().ctx;
        Ok(())
    }

    /// Checks that no reducer targets a value that is stored as a body, because it cannot be combined with one.
    pub(super) fn check_value_inline(&self, patch: &Map<String, serde_json::Value>) -> Result<(), Box<TaskError>> {
        let Some(key) = model::ctx::find_reduced_body(&self.state.ctx, patch) else {
            return Ok(());
        };
        let message = format!("cannot apply a reducer to `ctx.{key}`: its value is over 4 KiB and stored separately");
        Err(Box::new(TaskError::permanent(ErrorKind::Schema, "CTX_BODY", message)))
    }

    /// Patches `ctx` if it stays within `ctx_bytes_max`.
    pub(super) fn patch_ctx(
        &mut self,
        location: EventLocation,
        patch: &Map<String, serde_json::Value>,
    ) -> Result<(), Box<TaskError>> {
        self.check_value_inline(patch)?;
        let patch_text = RawJson::from_serializable(patch);
        let event_max = self.net.limits.event_bytes_max;
        let patch_bytes = patch_text.text().len();
        if let Some(error) = size_error("a patch of `ctx`", patch_bytes, event_max) {
            return Err(Box::new(error));
        }
        let limit = self.net.limits.ctx_bytes_max;
        if self.state.ctx_bytes_after(patch) > limit {
            let message = format!("`ctx` exceeds its limit of {limit} bytes");
            return Err(Box::new(TaskError::permanent(ErrorKind::Unknown, "LIMIT_CTX", message)));
        }
        self.emit(location, EventBody::CtxPatched(CtxPatched { patch: patch_text }));
        Ok(())
    }

    fn record_route(&mut self, id: &StepRunId, route: RoutingResult, failure: Option<TaskError>) {
        let playbook = &self.net.playbook;
        let step = playbook.step(id.step.as_str());
        let has_no_match = failure.is_none() && route.matched.is_empty() && !route.guards.is_empty();
        let step_setting = step.and_then(|step| step.next.no_match_is_error);
        let is_error = step_setting.unwrap_or(playbook.executor.no_next_is_error);
        let no_next_error = (has_no_match && is_error).then(|| {
            TaskError::permanent(
                ErrorKind::Unknown,
                "NO_NEXT",
                format!("no arc of step `{}` matched", id.step),
            )
            .with_detail("step", id.step.as_str())
        });
        let unhandled = failure
            .filter(|_| route.matched.is_empty())
            .or_else(|| no_next_error.clone());
        let fails_fast = playbook.executor.failure == FailureMode::FailFast;
        let next = NextEvaluated {
            mode: step.map_or(RouteMode::Exclusive, |step| step.next.mode),
            matched: route.matched,
            selected: route.selected,
            guards: route.guards,
            held: unhandled.is_some(),
            error: no_next_error.or_else(|| unhandled.filter(|_| fails_fast)),
        };
        let seq = self.emit(run_location(id), EventBody::NextEvaluated(Box::new(next)));
        self.set_cause(seq);
    }

    fn record_failed_route(&mut self, id: &StepRunId, error: TaskError) {
        let next = NextEvaluated {
            mode: RouteMode::Exclusive,
            matched: Vec::new(),
            selected: Vec::new(),
            guards: Vec::new(),
            held: true,
            error: Some(error),
        };
        let seq = self.emit(run_location(id), EventBody::NextEvaluated(Box::new(next)));
        self.set_cause(seq);
    }
}

/// Whether the condition of an arc reads how the step ended, and not only its result.
fn is_failure_guard(arc: &NetArc, step: &Name) -> bool {
    const OUTCOME_FIELDS: [&str; 5] = ["status", "error", "http", "pg", "py"];
    let Some(when) = &arc.when else { return false };
    when.paths().iter().any(|path| {
        let path = path.strip_prefix("steps.").unwrap_or(path);
        let mut parts = path.split('.');
        let root = parts.next().unwrap_or_default();
        let is_outcome = root == "outcome" || root == "output" || *step == *root;
        root == "event" || (is_outcome && parts.next().is_some_and(|part| OUTCOME_FIELDS.contains(&part)))
    })
}
