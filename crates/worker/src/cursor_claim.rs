//! Claims rows for a cursor loop with a pipeline of one task. The result of the task is the next frame of the loop.
//!
//! Each claim is another visit of that task. A statement with `effect: transactional` therefore claims a frame once,
//! even if it is retried: if a worker crashes before the log has the rows, they are neither lost nor claimed twice.

use language::playbook::CursorClaim;
use model::command::{Continuation, ReportEnd};
use model::event::{EventBody, FailurePayload};
use model::outcome::{ErrorKind, TaskError};

use crate::command_context::{CommandContext, WorkError};
use crate::load;
use crate::pipeline_run::{PipelineEnd, PipelineRun, with_location};
use crate::playbooks::StepPlan;
use crate::prepare::{self, LoopStep};

/// Claims a frame and reports the location of its rows.
pub(crate) async fn claim_frame(
    context: &CommandContext,
    loop_step: LoopStep<'_>,
    claim: &CursorClaim,
    plan: &StepPlan,
    continuation: Option<Continuation>,
) -> Result<ReportEnd, WorkError> {
    let mut pipeline = PipelineRun::new(context, &claim.step, plan, context.location(), context.scope());
    if let Some(continuation) = continuation {
        pipeline.restore(continuation).await?;
    }
    let end = match pipeline.run().await {
        PipelineEnd::Done => {
            let event = claimed_rows_event(context, loop_step, claim, &mut pipeline).await?;
            pipeline.events.push(event);
            ReportEnd::Finished
        }
        PipelineEnd::Failed(error) => {
            let failed = FailurePayload {
                error: with_location(*error, &claim.step, claim.step.tasks.first()),
                set_ctx: None,
            };
            let body = EventBody::StepFailed(Box::new(failed));
            pipeline.events.push(context.event(context.location(), body));
            ReportEnd::Finished
        }
        PipelineEnd::Suspended => ReportEnd::Finished,
        PipelineEnd::Interrupted => ReportEnd::Released,
    };
    context.lease.push(&mut pipeline.events);
    Ok(end)
}

/// Builds the event that records the claimed rows.
async fn claimed_rows_event(
    context: &CommandContext,
    loop_step: LoopStep<'_>,
    claim: &CursorClaim,
    pipeline: &mut PipelineRun<'_>,
) -> Result<model::event::ReportedEvent, WorkError> {
    // Reports the claim first: an error below happens after the rows were claimed.
    context.lease.push(&mut pipeline.events);
    let scope = &mut pipeline.scope;
    let reference = prepare::locate_elements(context, scope, loop_step, &claim.rows).await?;
    let is_empty = reference.extracted.get("total") == Some(&0.into());
    let affected = load::render_with_loading(context, scope, |scope| claim.affected.render(scope)).await;
    let affected = prepare::step_result(affected, loop_step.step)?.value;
    if is_empty && affected.as_u64().is_some_and(|rows| rows > 0) {
        let message = format!(
            "the claim of step `{}` updated {affected} rows but returned none; add `RETURNING *` to the statement",
            loop_step.step.name
        );
        let error = TaskError::new(ErrorKind::Schema, "CLAIM_WITHOUT_ROWS", message);
        return Err(with_location(error, &claim.step, claim.step.tasks.first()).into());
    }
    Ok(prepare::elements_event(context, reference))
}
