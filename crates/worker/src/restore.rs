//! Restores the state of a pipeline that another worker started.

use model::command::Continuation;
use model::ctx;
use model::event::Event;
use model::id::Seq;
use model::outcome::{ErrorKind, TaskError};
use model::raw::Raw;
use pipeline::Writes;
use serde_json::{Map, Value};

use crate::hand::{Hand, Trouble, is_parallel};
use crate::load;
use crate::run::Pipeline;

impl Pipeline<'_> {
    /// Continues from the point that another worker reached.
    pub(crate) async fn restore(&mut self, continuation: Continuation) -> Result<(), Trouble> {
        pipeline::recall(&mut self.scope, self.step, &continuation);
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
            let mut events = load::events(self.hand, &seqs).await?;
            events.sort_by_key(|event| event.seq);
            for writes in events.iter().map(|event| writes(event, is_parallel)) {
                pipeline::apply_writes(&mut self.scope, &writes);
                ctx::join(&mut self.patch, &writes.ctx);
            }
        }
        self.continuation = continuation;
        Ok(())
    }
}

fn writes(event: &Event, is_parallel: bool) -> Writes {
    let written = event.body.written();
    Writes {
        iter: map(written.iter),
        ctx: map(written.ctx.filter(|_| is_parallel)),
        local: map(written.local),
    }
}

fn map(raw: Option<&Raw>) -> Map<String, Value> {
    raw.and_then(|raw| raw.read().ok()).unwrap_or_default()
}

/// Returns the error of the task that ended last.
pub(crate) async fn last_error(
    hand: &Hand,
    continuation: &Continuation,
) -> Result<TaskError, Trouble> {
    let last = continuation.last.as_ref();
    let pointer = last.and_then(|label| continuation.outcomes.get(label));
    if let Some(pointer) = pointer {
        let events = load::events(hand, &[pointer.seq]).await?;
        let outcome = events.first().and_then(load::outcome);
        if let Some(error) = outcome.and_then(|outcome| outcome.failure().cloned()) {
            return Ok(error);
        }
    }
    let message = "a policy rule failed the step";
    Ok(TaskError {
        retryable: false,
        ..TaskError::new(ErrorKind::Unknown, "POLICY_FAIL", message)
    })
}
