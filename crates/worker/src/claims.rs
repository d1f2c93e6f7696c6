//! Claims rows for a cursor loop with a pipeline of one task. The result of the task is the next frame of the loop.
//!
//! Each claim is another visit of that task. A statement with `effect: transactional` therefore claims a frame once,
//! even if it is retried: if a worker crashes before the log has the rows, they are neither lost nor claimed twice.

use model::command::{Continuation, ReportEnd};
use model::event::{Body, Failed};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{Claim, Loop, Step};

use crate::hand::{Hand, Trouble};
use crate::load;
use crate::playbooks::StepPlan;
use crate::prepare;
use crate::run::{Ended, Pipeline, located};

/// Claims a frame and reports the location of its rows.
pub(crate) async fn frame(
    hand: &Hand,
    found: (&Step, &Loop),
    (claim, plan): (&Claim, &StepPlan),
    begun: Option<Continuation>,
) -> Result<ReportEnd, Trouble> {
    let mut pipeline = Pipeline::new(hand, (&claim.step, plan), hand.at(), hand.scope());
    if let Some(continuation) = begun {
        pipeline.restore(continuation).await?;
    }
    let end = match pipeline.run().await {
        Ended::Done => {
            let event = rows(hand, found, claim, &mut pipeline).await?;
            pipeline.events.push(event);
            ReportEnd::Finished
        }
        Ended::Failed(error) => {
            let failed = Failed {
                error: located(*error, &claim.step, claim.step.tasks.first()),
                set_ctx: None,
            };
            let body = Body::StepFailed(Box::new(failed));
            pipeline.events.push(hand.event(hand.at(), body));
            ReportEnd::Finished
        }
        Ended::Suspended => ReportEnd::Finished,
        Ended::Interrupted => ReportEnd::Released,
    };
    hand.lease.push(&mut pipeline.events);
    Ok(end)
}

/// Builds the event that records the claimed rows.
async fn rows(
    hand: &Hand,
    found: (&Step, &Loop),
    claim: &Claim,
    pipeline: &mut Pipeline<'_>,
) -> Result<model::event::Event, Trouble> {
    // Reports the claim first: an error below happens after the rows were claimed.
    hand.lease.push(&mut pipeline.events);
    let scope = &mut pipeline.scope;
    let reference = prepare::fix(hand, scope, found, &claim.rows).await?;
    let is_empty = reference.extracted.get("total") == Some(&0.into());
    let affected = load::resolve(hand, scope, |scope| claim.affected.render(scope)).await;
    let affected = prepare::settled(affected, found.0)?.value;
    if is_empty && affected.as_u64().is_some_and(|rows| rows > 0) {
        let message = format!(
            "the claim of step `{}` updated {affected} rows but returned none; add `RETURNING *` to the statement",
            found.0.name
        );
        let error = TaskError::new(ErrorKind::Schema, "CLAIM_WITHOUT_ROWS", message);
        return Err(located(error, &claim.step, claim.step.tasks.first()).into());
    }
    Ok(prepare::told(hand, reference))
}
