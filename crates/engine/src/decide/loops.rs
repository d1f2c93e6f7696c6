//! Loops: the collection is fixed once, and the loop ends when every index has ended.

use language::playbook::{Collection, Loop, Step};
use language::template::{LazyValue, Need, RenderError, Scope, Tree};
use model::event::{EventBody, EventLocation, FrameClaimed, IterationScheduled, LoopDone, LoopStarted};
use model::id::StepRunId;
use model::manifest::{self, is_pipeline_outcome, outcome_from_event};
use model::number_range::{NumberRange, RANGE_ITEMS_MAX};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{FailureMode, LoopMode};
use model::raw::RawJson;
use model::result_ref::{INLINE_BYTES_MAX, ResultRef};
use serde_json::{Map, Value};

use crate::decide::DecideError;
use crate::decide::bodies::sha256;
use crate::decide::decision_builder::{DecisionBuilder, run_location};
use crate::decide::scope::EvalError;
use crate::state::{LoopRun, StateIndex, StepRun};

impl DecisionBuilder<'_> {
    /// Starts one loop, ends one, or records its next frame. Returns false if no loop is ready.
    pub(super) fn advance_loops(&mut self) -> Result<bool, DecideError> {
        let net = self.net;
        let index = self.index();
        let ready_loops = index.loop_runs.keys().filter_map(|id| {
            let run = self.state.run(id)?;
            let step = net.playbook.step(id.step.as_str())?;
            let loop_ = step.loop_.as_ref()?;
            let is_covered = |id| index.commands_of(id).any(|command| command.covers(None));
            let is_ready = match &run.loop_ {
                None => run.prepared.is_some() || !is_covered(id),
                Some(progress) => has_claimed_rows(run) || may_end(&index, id, progress),
            };
            is_ready.then_some((id.clone(), step, loop_, run.loop_.is_some()))
        });
        let ready_loops: Vec<_> = ready_loops.collect();
        drop(index);
        for (id, step, loop_, has_started) in ready_loops {
            if has_started && has_claimed_rows(&self.state.runs[&id]) {
                self.record_frame(&id);
                return Ok(true);
            }
            if has_started && self.has_new_manifests(&id) {
                self.defers_remaining = true;
                return Ok(true);
            }
            if has_started {
                self.end_loop(&id, step)?;
                return Ok(true);
            }
            if self.start_loop(&id, step, loop_)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fixes the collection. Returns false if a worker has to prepare it first.
    fn start_loop(&mut self, id: &StepRunId, step: &Step, loop_: &Loop) -> Result<bool, DecideError> {
        let run = &self.state.runs[id];
        if let Some(reference) = run.prepared.clone() {
            self.start_prepared_loop(id, step, loop_, *reference)?;
            return Ok(true);
        }
        if let Some((seq, reused)) = self.state.reusing.get(&step.name).cloned() {
            self.start_reused_loop(id, step, seq, reused)?;
            return Ok(true);
        }
        let mut scope = self.scope();
        scope.args = self.state.runs[id]
            .args
            .clone()
            .map_or_else(LazyValue::default, LazyValue::from_raw);
        let Collection::In(tree) = &loop_.collection else {
            return Ok(false);
        };
        let rendered = self.render(&mut scope, &step.name, |scope| render_items(tree, scope));
        let rendered = match rendered {
            Ok(LoopItems::Range(range)) => {
                self.start_range_loop(id, step, loop_, range)?;
                return Ok(true);
            }
            Ok(LoopItems::Value(value)) => value,
            Err(EvalError::TooLarge(_)) => return Ok(false),
            Err(EvalError::Undecided(undecided)) => return Err(undecided),
            Err(EvalError::Failed(error)) => {
                self.fail_run(id, *error);
                return Ok(true);
            }
        };
        let items = match rendered {
            // A worker resolves the URI of a stored result.
            Value::String(text) if text.starts_with(model::result_ref::SCHEME) => return Ok(false),
            Value::Array(items) => items,
            Value::Object(map) => map
                .into_iter()
                .map(|(key, value)| serde_json::json!({"key": key, "value": value}))
                .collect(),
            other => {
                let kind = model::raw::json_type_name(&other);
                let message = format!("`loop.in` of step `{}` is {kind}, not a list", step.name);
                let error = TaskError::permanent(ErrorKind::Schema, "LOOP_NOT_A_LIST", message)
                    .with_detail("line", loop_.span.line);
                self.fail_run(id, error);
                return Ok(true);
            }
        };
        let total = items.len() as u64;
        let text = RawJson::from_serializable(&items);
        let sha256 = sha256(text.text().as_bytes());
        let mut started = self.build_loop_started(step, loop_, total, sha256)?;
        if text.text().len() <= self.net.limits.event_bytes_max / 2 {
            started.collection = Some(text);
        } else {
            let path = format!("step/{}/run/{}/collection", id.step, id.run);
            let reference = self.store_body(&path, text);
            started.collection_ref = Some(Box::new(reference));
        }
        self.emit(run_location(id), EventBody::LoopStarted(Box::new(started)));
        Ok(true)
    }

    /// Starts a loop over a number range: the log records the range, and items are computed on demand.
    fn start_range_loop(
        &mut self,
        id: &StepRunId,
        step: &Step,
        loop_: &Loop,
        range: NumberRange,
    ) -> Result<(), DecideError> {
        let sha256 = sha256(RawJson::from_serializable(&range).text().as_bytes());
        let mut started = self.build_loop_started(step, loop_, range.len(), sha256)?;
        started.range = Some(range);
        self.emit(run_location(id), EventBody::LoopStarted(Box::new(started)));
        Ok(())
    }

    /// Starts a loop over the items that a worker prepared.
    fn start_prepared_loop(
        &mut self,
        id: &StepRunId,
        step: &Step,
        loop_: &Loop,
        reference: ResultRef,
    ) -> Result<(), DecideError> {
        if let Some(range) = prepared_range(&reference) {
            return self.start_range_loop(id, step, loop_, range);
        }
        let total = prepared_total(&reference);
        let mut started = self.build_loop_started(step, loop_, total, reference.meta.sha256.clone())?;
        started.collection_ref = Some(Box::new(reference));
        started.more = total > 0 && step.cursor_claim().is_some();
        self.emit(run_location(id), EventBody::LoopStarted(Box::new(started)));
        Ok(())
    }

    /// Records the rows that a cursor loop claimed next.
    fn record_frame(&mut self, id: &StepRunId) {
        let run = &self.state.runs[id];
        let (Some(progress), Some(reference)) = (&run.loop_, &run.prepared) else {
            return;
        };
        let frame = FrameClaimed {
            from: progress.total,
            rows: prepared_total(reference),
            collection_ref: reference.clone(),
        };
        self.emit(run_location(id), EventBody::FrameClaimed(frame));
    }

    /// Builds the payload of `loop.started`, without the items.
    pub(super) fn build_loop_started(
        &mut self,
        step: &Step,
        loop_: &Loop,
        total: u64,
        sha256: String,
    ) -> Result<LoopStarted, DecideError> {
        let max_in_flight = match (&loop_.max_in_flight, loop_.mode) {
            (_, LoopMode::Sequential) => 1,
            (None, LoopMode::Parallel) => self.net.limits.max_in_flight,
            (Some(tree), LoopMode::Parallel) => {
                let mut scope = self.scope();
                match self.render(&mut scope, &step.name, |scope| tree.render(scope)) {
                    Ok(rendered) => to_whole_number(&rendered.value).unwrap_or(self.net.limits.max_in_flight),
                    Err(EvalError::Undecided(undecided)) => return Err(undecided),
                    Err(EvalError::Failed(_) | EvalError::TooLarge(_)) => self.net.limits.max_in_flight,
                }
            }
        };
        Ok(LoopStarted {
            total,
            mode: loop_.mode,
            max_in_flight: max_in_flight.max(1),
            failure: step.failure,
            local: loop_.is_local,
            collection: None,
            collection_ref: None,
            range: None,
            sha256,
            reused: None,
            more: false,
        })
    }

    fn end_loop(&mut self, id: &StepRunId, step: &Step) -> Result<(), DecideError> {
        let progress = self.state.runs[id]
            .loop_
            .clone()
            .expect("`advance_loops` selects runs that have a loop");
        if progress.failure == FailureMode::FailFast
            && let Some((index, error)) = &progress.first_error
        {
            let (failed, total) = (progress.failed.len(), progress.total);
            let message = format!("{failed} of {total} iterations failed; #{index}: {}", error.message);
            let mut error = error.clone().with_detail("iteration", *index);
            error.message = message;
            self.fail_run(id, error);
            return Ok(());
        }
        let results = self.inline_results(&progress)?;
        let checkpoint = self.checkpoint_for_set(id);
        if let Err(error) = self.apply_iteration_patches(&progress, step) {
            self.fail_run(id, *error);
            return Ok(());
        }
        if results.is_none() {
            self.record_loop_manifest(id, &progress);
        }
        let done = LoopDone {
            stats: progress.stats(),
            results,
            manifests: vec![manifest::manifest_uri(self.state.execution, &run_location(id))],
        };
        let seq = self.emit(run_location(id), EventBody::LoopDone(done));
        self.set_cause(seq);
        self.complete_results(id, &progress);
        self.write_set(id, checkpoint)
    }

    /// Adds this turn's outcomes to loop results that were loaded from the log, which does not contain them yet.
    fn complete_results(&mut self, id: &StepRunId, progress: &LoopRun) {
        let Some(done) = self.events.last().map(|event| event.seq) else {
            return;
        };
        let Some(data) = self.loaded.loops.get(&done) else {
            return;
        };
        let mut value = data.json().clone();
        for event in &self.events {
            let index = event
                .location
                .iteration
                .filter(|_| event.location.step_run_id().as_ref() == Some(id));
            let index = index.and_then(|index| usize::try_from(index).ok());
            let outcome = outcome_from_event(event).filter(|_| is_pipeline_outcome(event));
            if let (Some(index), Some(outcome)) = (index, outcome) {
                value["results"][index] = outcome.to_listed_value();
            }
        }
        value["stats"] = serde_json::to_value(progress.stats()).unwrap_or_default();
        let loops = &mut std::sync::Arc::make_mut(&mut self.loaded).loops;
        loops.insert(done, LazyValue::new(value));
    }

    /// Combines the patches of all iterations into one; the order of their arrival does not matter.
    fn apply_iteration_patches(&mut self, progress: &LoopRun, step: &Step) -> Result<(), Box<TaskError>> {
        let mut patches = progress.patches.clone();
        for (index, patch) in &progress.broken_patches {
            patches.add(*index, patch);
        }
        if patches.is_empty() {
            return Ok(());
        }
        let conflict_error = |error: model::ctx::PatchConflict| {
            Box::new(TaskError::permanent(
                ErrorKind::Schema,
                "CTX_CONFLICT",
                error.to_string(),
            ))
        };
        let patches = patches.resolve().map_err(conflict_error)?;
        let mut ctx = (*self.state.ctx).clone();
        for patch in &patches {
            self.check_value_inline(patch)?;
            model::ctx::apply_patch(&mut ctx, patch);
        }
        let keys = patches.iter().flat_map(Map::keys);
        let combined: Map<String, Value> = keys.map(|key| (key.clone(), ctx[key].clone())).collect();
        self.patch_ctx(EventLocation::of_step(&step.name), &combined)
    }

    /// The results in index order, or `None` if they do not fit inline.
    fn inline_results(&mut self, progress: &LoopRun) -> Result<Option<RawJson>, DecideError> {
        if !progress.may_inline() {
            return Ok(None);
        }
        let missing: Vec<Need> = {
            let needs: Vec<Need> = progress.outcomes.values().map(|seq| Need::Outcome(*seq)).collect();
            let is_loaded = |need: &Need| matches!(need, Need::Outcome(seq) if self.loaded.outcomes.contains_key(seq));
            needs.into_iter().filter(|need| !is_loaded(need)).collect()
        };
        let missing: Vec<Need> = missing.into_iter().filter(|need| !self.load_own_event(need)).collect();
        if !missing.is_empty() {
            return Err(DecideError::Needs(missing));
        }
        let listed_value = |index: u64| {
            let seq = progress.outcomes.get(&index)?;
            Some(self.loaded.outcomes.get(seq)?.to_listed_value())
        };
        let results: Vec<Value> = (0..progress.total)
            .map(|index| listed_value(index).unwrap_or_default())
            .collect();
        let text = RawJson::from_serializable(&results);
        Ok((text.text().len() <= INLINE_BYTES_MAX).then_some(text))
    }

    /// Records that a range of iterations is scheduled.
    pub(super) fn schedule_range(&mut self, id: &StepRunId, from: u64, to: u64, width: u32) {
        self.emit(
            run_location(id),
            EventBody::IterationScheduled(IterationScheduled { from, to, width }),
        );
    }
}

/// Whether every index has ended, or a failure stops further iterations and none is active.
fn may_end(index: &StateIndex, id: &StepRunId, progress: &LoopRun) -> bool {
    let has_waiting = !progress.suspended.is_empty() || !progress.awake.is_empty();
    let is_running = || index.commands_of(id).next().is_some();
    let has_ended = progress.ended_count() == progress.total && !progress.more;
    has_ended || (progress.is_stopped() && !has_waiting && !is_running())
}

/// Whether the worker has claimed more rows of a cursor loop.
fn has_claimed_rows(run: &StepRun) -> bool {
    run.prepared.is_some() && run.loop_.as_ref().is_some_and(|progress| progress.more)
}

/// The number of elements that a worker prepared.
fn prepared_total(reference: &ResultRef) -> u64 {
    let total = reference.extracted.get("total");
    total.and_then(Value::as_u64).unwrap_or(0)
}

/// The number range that a worker prepared, if the elements are one.
fn prepared_range(reference: &ResultRef) -> Option<NumberRange> {
    let range = reference.extracted.get(NumberRange::EXTRACTED_KEY)?;
    let range: NumberRange = serde_json::from_value(range.clone()).ok()?;
    (range.len() <= RANGE_ITEMS_MAX).then_some(range)
}

/// The rendered value of `loop.in`.
enum LoopItems {
    /// A number range, not expanded.
    Range(NumberRange),
    /// Another value: a list, a map or the URI of a stored result; anything else is an error.
    Value(Value),
}

fn render_items(tree: &Tree, scope: &Scope) -> Result<LoopItems, RenderError> {
    if let Some(range) = tree.number_range(scope)? {
        return Ok(LoopItems::Range(range));
    }
    tree.render(scope).map(|rendered| LoopItems::Value(rendered.value))
}

fn to_whole_number(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}
