//! Claiming rows for a cursor loop: a pipeline of one task, whose result is the next frame of the loop.
//!
//! Each claim is one more visit of that task, so a statement with `effect: transactional` claims a frame once, however
//! often it is tried: its rows are neither lost nor claimed twice when a worker dies between them and the log.

use model::command::{Continuation, ReportEnd};
use model::event::{Body, Failed};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{Claim, Loop, Step};

use crate::hand::{Hand, Trouble};
use crate::load;
use crate::playbooks::StepPlan;
use crate::prepare;
use crate::run::{Ended, Pipeline, located};

/// Claims a frame and reports where its rows are.
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

/// The rows that the claim came to.
async fn rows(
    hand: &Hand,
    found: (&Step, &Loop),
    claim: &Claim,
    pipeline: &mut Pipeline<'_>,
) -> Result<model::event::Event, Trouble> {
    // What fails from here on fails after the claim, which the log must know of.
    hand.lease.push(&mut pipeline.events);
    let scope = &mut pipeline.scope;
    let reference = prepare::fix(hand, scope, found, &claim.rows).await?;
    let is_empty = reference.extracted.get("total") == Some(&0.into());
    let affected = load::resolve(hand, scope, |scope| claim.affected.render(scope)).await;
    let affected = prepare::settled(affected, found.0)?.value;
    if is_empty && affected.as_u64().is_some_and(|rows| rows > 0) {
        let message = format!(
            "the claim of step `{}` changed {affected} rows and returned none of them: end it with `RETURNING *`",
            found.0.name
        );
        let error = TaskError::new(ErrorKind::Schema, "CLAIM_WITHOUT_ROWS", message);
        return Err(located(error, &claim.step, claim.step.tasks.first()).into());
    }
    Ok(prepare::told(hand, reference))
}
