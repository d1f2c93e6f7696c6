//! Finishes an attempt: stores its result, applies the policy, applies its writes and records its events.

use std::sync::Arc;

use language::template::{LazyValue, LoadedValues, Need, RenderError, Scope, UnavailableBody};
use model::ctx;
use model::event::{EventBody, LoopStats};
use model::outcome::Outcome;
use pipeline::{AttemptKind, OutcomeRecord, PipelinePosition, TaskAttempt};
use serde_json::Value;
use tools::DeferredAction;

use crate::command_context::{WorkError, elapsed_millis, is_parallel};
use crate::load::{self, ResolveError};
use crate::pipeline_run::PipelineRun;
use crate::store_results;

impl PipelineRun<'_> {
    /// Applies the task's policy to an outcome and records the result.
    pub(crate) async fn finish_attempt(
        &mut self,
        attempt: &TaskAttempt<'_>,
        mut outcome: Outcome,
    ) -> Result<(), WorkError> {
        self.mask_outcome(&mut outcome);
        let location = self.task_location(attempt);
        let start = self.scope.now.unwrap_or(self.started_at);
        let start = if attempt.kind == AttemptKind::Resumed {
            self.started_at
        } else {
            start
        };
        let took = elapsed_millis(self.context.now(), start);
        let meta = outcome.meta_mut();
        meta.entry("duration_ms").or_insert_with(|| took.into());
        meta.entry("attempt").or_insert_with(|| attempt.number.into());
        let outcome = store_results::store_large_result(self.context, attempt.task, &location, outcome).await?;
        self.scope.loaded = self.context.loaded_values();
        let (mut record, mut outcome) = self.apply_policy(attempt, outcome).await?;
        match store_results::store_large_writes(self.context, &location, &mut record).await {
            Ok(()) => {}
            Err(WorkError::Failed(error)) => {
                (record, outcome) = self.apply_policy(attempt, Outcome::error(*error)).await?;
            }
            Err(WorkError::Interrupted) => return Err(WorkError::Interrupted),
        }
        if let Some(error) = record.size_error() {
            let position = self.position();
            outcome = Outcome::error(error);
            record = pipeline::fail_without_policy(attempt, &outcome, &position);
        }
        if outcome.failure().is_some() {
            // The log does not contain the result of the call, so its deferred action must not run.
            self.deferred = DeferredAction::default();
        }
        self.record_outcome(attempt, record, outcome, took);
        Ok(())
    }

    fn position(&self) -> PipelinePosition {
        PipelinePosition {
            location: self.location.clone(),
            jumps: self.continuation.jumps,
            jumps_max: self.context.shared.config.jumps_max,
        }
    }

    /// Applies the policy. If a rule needs a body that cannot be loaded, the load error becomes the outcome.
    async fn apply_policy(
        &mut self,
        attempt: &TaskAttempt<'_>,
        outcome: Outcome,
    ) -> Result<(OutcomeRecord, Outcome), WorkError> {
        let mut outcome = outcome;
        let mut has_replaced = false;
        loop {
            let position = self.position();
            let step = self.step;
            let judge = |scope: &Scope| pipeline::apply_policy(step, attempt, &outcome, scope, &position);
            match load::render_with_loading(self.context, &mut self.scope, judge).await {
                Ok(record) => return Ok((record, outcome)),
                Err(ResolveError::Interrupted) => return Err(WorkError::Interrupted),
                Err(ResolveError::Missing(error)) if !has_replaced => {
                    has_replaced = true;
                    outcome = Outcome::error(*error);
                }
                // If rules need missing data even to handle its absence, they see empty values.
                Err(ResolveError::Missing(_) | ResolveError::Template(_)) => {
                    let missing = pipeline::apply_policy(step, attempt, &outcome, &self.scope, &position);
                    match missing {
                        Ok(record) => return Ok((record, outcome)),
                        Err(RenderError::Needs(needs)) => self.mark_missing(&needs),
                        Err(RenderError::Failed { .. }) => return Err(WorkError::Interrupted),
                    }
                }
            }
        }
    }

    /// Adds empty values for data that cannot be loaded.
    fn mark_missing(&mut self, needs: &[Need]) {
        let mut more = LoadedValues::default();
        for need in needs {
            match need {
                Need::Outcome(seq) => {
                    more.outcomes.insert(*seq, Arc::new(Outcome::ok(Value::Null)));
                }
                Need::Body(reference) => {
                    let unavailable = UnavailableBody {
                        code: "REFERENCE_NOT_AVAILABLE",
                        message: results::missing_reason(reference),
                    };
                    more.unavailable.insert(reference.uri.clone(), unavailable);
                }
                Need::File(need) => {
                    more.files.insert(need.key.clone(), String::new());
                }
                Need::Loop(pointer) => {
                    more.loops.insert(pointer.done, LazyValue::default());
                }
                Need::LoopStats(pointer) => {
                    more.loop_stats.insert(pointer.done, LoopStats::default());
                }
            }
        }
        let loaded = Arc::make_mut(&mut self.scope.loaded);
        loaded.outcomes.extend(more.outcomes);
        loaded.unavailable.extend(more.unavailable);
        loaded.files.extend(more.files);
        loaded.loops.extend(more.loops);
        loaded.loop_stats.extend(more.loop_stats);
    }

    /// Records the events of an outcome and updates the scope of the pipeline.
    fn record_outcome(&mut self, attempt: &TaskAttempt<'_>, record: OutcomeRecord, outcome: Outcome, took: u64) {
        for draft in record.events {
            let mut event = self.context.event(draft.location, draft.body);
            match &event.body {
                EventBody::TaskDone(_) | EventBody::TaskFailed(_) => {
                    event.duration_ms = Some(elapsed_millis(event.timestamp, self.started_at));
                }
                EventBody::AttemptDone(_) | EventBody::AttemptFailed(_) => {
                    event.duration_ms = Some(took);
                }
                _ => {}
            }
            self.record_event(event);
        }
        pipeline::apply_writes(&mut self.scope, &record.writes);
        if is_parallel(self.step) {
            ctx::append_patch(&mut self.ctx_patch, &record.writes.ctx);
        }
        self.failure = record.failure;
        pipeline::expose_outcome(&mut self.scope, attempt, record.page, outcome);
    }
}
