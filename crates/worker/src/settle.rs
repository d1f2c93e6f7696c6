//! Finishes an attempt: stores its result, applies the policy, applies its writes and records its events.

use std::sync::Arc;

use model::ctx;
use model::event::{Body, LoopStats};
use model::outcome::Outcome;
use model::template::{Data, Loaded, Need, RenderError, Scope, Unavailable};
use pipeline::{Entry, Place, Settled, TaskRun};
use serde_json::Value;
use tools::Afterwards;

use crate::hand::{Trouble, is_parallel, millis};
use crate::keep;
use crate::load::{self, Unresolved};
use crate::run::Pipeline;

impl Pipeline<'_> {
    /// Applies the task's policy to an outcome and records the result.
    pub(crate) async fn settle(
        &mut self,
        run: &TaskRun<'_>,
        mut outcome: Outcome,
    ) -> Result<(), Trouble> {
        self.mask_outcome(&mut outcome);
        let at = self.task_at(run);
        let begun = self.scope.now.unwrap_or(self.begun);
        let begun = if run.entry == Entry::Again {
            self.begun
        } else {
            begun
        };
        let took = millis(self.hand.now(), begun);
        let meta = outcome.meta_mut();
        meta.entry("duration_ms").or_insert_with(|| took.into());
        meta.entry("attempt").or_insert_with(|| run.attempt.into());
        let outcome = keep::outcome(self.hand, run.task, &at, outcome).await?;
        self.scope.loaded = self.hand.loaded();
        let (mut settled, mut outcome) = self.judge(run, outcome).await?;
        match keep::writes(self.hand, &at, &mut settled).await {
            Ok(()) => {}
            Err(Trouble::Failed(error)) => {
                (settled, outcome) = self.judge(run, Outcome::error(*error)).await?;
            }
            Err(Trouble::Interrupted) => return Err(Trouble::Interrupted),
        }
        if let Some(error) = settled.too_large() {
            let place = self.place();
            outcome = Outcome::error(error);
            settled = pipeline::fail(run, &outcome, &place);
        }
        if outcome.failure().is_some() {
            // The log does not contain the result of the call, so its deferred action must not run.
            self.afterwards = Afterwards::default();
        }
        self.note(run, settled, outcome, took);
        Ok(())
    }

    fn place(&self) -> Place {
        Place {
            at: self.at.clone(),
            jumps: self.continuation.jumps,
            jumps_max: self.hand.shared.config.jumps_max,
        }
    }

    /// Applies the policy. If a rule needs a body that cannot be loaded, the load error becomes the outcome.
    async fn judge(
        &mut self,
        run: &TaskRun<'_>,
        outcome: Outcome,
    ) -> Result<(Settled, Outcome), Trouble> {
        let mut outcome = outcome;
        let mut has_replaced = false;
        loop {
            let place = self.place();
            let step = self.step;
            let judge = |scope: &Scope| pipeline::settle(step, run, &outcome, scope, &place);
            match load::resolve(self.hand, &mut self.scope, judge).await {
                Ok(settled) => return Ok((settled, outcome)),
                Err(Unresolved::Interrupted) => return Err(Trouble::Interrupted),
                Err(Unresolved::Missing(error)) if !has_replaced => {
                    has_replaced = true;
                    outcome = Outcome::error(*error);
                }
                // If rules need missing data even to handle its absence, they see empty values.
                Err(Unresolved::Missing(_) | Unresolved::Template(_)) => {
                    let missing = pipeline::settle(step, run, &outcome, &self.scope, &place);
                    match missing {
                        Ok(settled) => return Ok((settled, outcome)),
                        Err(RenderError::Needs(needs)) => self.pretend(&needs),
                        Err(RenderError::Failed { .. }) => return Err(Trouble::Interrupted),
                    }
                }
            }
        }
    }

    /// Adds empty values for data that cannot be loaded.
    fn pretend(&mut self, needs: &[Need]) {
        let mut more = Loaded::default();
        for need in needs {
            match need {
                Need::Outcome(seq) => {
                    more.outcomes
                        .insert(*seq, Arc::new(Outcome::ok(Value::Null)));
                }
                Need::Body(reference) => {
                    let unavailable = Unavailable {
                        code: "REFERENCE_NOT_AVAILABLE",
                        message: results::why_missing(reference),
                    };
                    more.unavailable.insert(reference.uri.clone(), unavailable);
                }
                Need::File(need) => {
                    more.files.insert(need.key.clone(), String::new());
                }
                Need::Loop(pointer) => {
                    more.loops.insert(pointer.done, Data::default());
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
    fn note(&mut self, run: &TaskRun<'_>, settled: Settled, outcome: Outcome, took: u64) {
        for draft in settled.events {
            let mut event = self.hand.event(draft.at, draft.body);
            match &event.body {
                Body::TaskDone(_) | Body::TaskFailed(_) => {
                    event.duration_ms = Some(millis(event.timestamp, self.begun));
                }
                Body::AttemptDone(_) | Body::AttemptFailed(_) => event.duration_ms = Some(took),
                _ => {}
            }
            self.record(event);
        }
        pipeline::apply_writes(&mut self.scope, &settled.writes);
        if is_parallel(self.step) {
            ctx::join(&mut self.patch, &settled.writes.ctx);
        }
        self.failure = settled.failure;
        pipeline::see(&mut self.scope, run, settled.part, outcome);
    }
}
