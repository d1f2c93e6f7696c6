//! Restores the state of a pipeline that another worker started.

use model::command::Continuation;
use model::ctx;
use model::event::Event;
use model::id::Seq;
use model::outcome::{ErrorKind, TaskError};
use model::raw::RawJson;
use pipeline::RenderedWrites;
use serde_json::{Map, Value};

use crate::command_context::{CommandContext, WorkError, is_parallel};
use crate::load;
use crate::pipeline_run::PipelineRun;

impl PipelineRun<'_> {
    /// Continues from the point that another worker reached.
    pub(crate) async fn restore(&mut self, continuation: Continuation) -> Result<(), WorkError> {
        pipeline::expose_recorded_outcomes(&mut self.scope, self.step, &continuation);
        let is_parallel = is_parallel(self.step);
        let mut seqs: Vec<Seq> = continuation.iter_writes.clone();
        seqs.extend(&continuation.local_writes);
        // In other steps these writes are already in the execution's `ctx`.
        if is_parallel {
            seqs.extend(&continuation.ctx_writes);
        }
        seqs.sort_unstable();
        seqs.dedup();
        if !seqs.is_empty() {
            let mut events = load::load_events(self.context, &seqs).await?;
            events.sort_by_key(|event| event.seq);
            for writes in events.iter().map(|event| recorded_writes(event, is_parallel)) {
                pipeline::apply_writes(&mut self.scope, &writes);
                ctx::append_patch(&mut self.ctx_patch, &writes.ctx);
            }
        }
        self.continuation = continuation;
        Ok(())
    }
}

fn recorded_writes(event: &Event, is_parallel: bool) -> RenderedWrites {
    let written = event.body.writes();
    RenderedWrites {
        iter: parse_map(written.iter),
        ctx: parse_map(written.ctx.filter(|_| is_parallel)),
        local: parse_map(written.local),
    }
}

fn parse_map(raw: Option<&RawJson>) -> Map<String, Value> {
    raw.and_then(|raw| raw.parse_as().ok()).unwrap_or_default()
}

/// Returns the error of the task that ended last.
pub(crate) async fn load_last_error(
    context: &CommandContext,
    continuation: &Continuation,
) -> Result<TaskError, WorkError> {
    let last = continuation.last.as_ref();
    let pointer = last.and_then(|label| continuation.outcomes.get(label));
    if let Some(pointer) = pointer {
        let events = load::load_events(context, &[pointer.seq]).await?;
        let outcome = events.first().and_then(load::recorded_outcome);
        if let Some(error) = outcome.and_then(|outcome| outcome.failure().cloned()) {
            return Ok(error);
        }
    }
    let message = "a policy rule failed the step";
    Ok(TaskError::permanent(ErrorKind::Unknown, "POLICY_FAIL", message))
}
