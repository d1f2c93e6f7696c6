//! Runs a command and sends its final report.

use std::sync::Arc;

use model::command::ReportEnd;
use model::command::Work;
use model::event::{Body, Failed, Nothing, StepDone};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::Collection;
use wire::{Claimed, Resume};

use crate::claims;
use crate::hand::{Hand, Trouble};
use crate::lease::{Lease, Order};
use crate::patience::Backoff;
use crate::playbooks::Prepared;
use crate::prepare;
use crate::range::{Indices, Range};
use crate::run::{Ended, Pipeline, located};
use crate::worker::Shared;

/// Runs a command to its end and returns the commands that the server assigned in reply to the final report.
pub(crate) async fn run(shared: &Arc<Shared>, claimed: Claimed) -> Vec<Claimed> {
    let lease = Arc::new(Lease::new(shared.clone(), &claimed));
    shared.hold(&lease);
    let next = run_under(shared, &lease, claimed).await;
    shared.let_go(&lease);
    next
}

async fn run_under(shared: &Arc<Shared>, lease: &Arc<Lease>, claimed: Claimed) -> Vec<Claimed> {
    let prepared = match prepare(shared, lease, &claimed).await {
        Ok(prepared) => prepared,
        Err(Trouble::Interrupted) => return lease.finish(ReportEnd::Released).await,
        Err(Trouble::Failed(error)) => {
            let body = Body::StepFailed(Box::new(Failed {
                error: *error,
                set_ctx: None,
            }));
            let at = model::event::At::step_run(&claimed.command.run);
            let execution = claimed.command.id.execution;
            let event = crate::hand::stamped(shared, execution, at, body);
            lease.push(&mut vec![event]);
            return lease.finish(ReportEnd::Finished).await;
        }
    };
    let Claimed {
        command,
        context,
        resume,
        over,
        ..
    } = claimed;
    let work = command.work;
    let hand = Hand::new(shared.clone(), lease.clone(), prepared, command, context);
    let ended = match work {
        Work::Pipeline => pipeline(&hand, resume).await,
        Work::Range { from, to, width } => match Range::open(&hand).await {
            Ok(range) => {
                let indices = Indices::new(from, to, &over, resume);
                Ok(range.run(indices, width).await)
            }
            Err(trouble) => Err(trouble),
        },
        Work::Iteration { index } => match Range::open(&hand).await {
            Ok(range) => {
                let mut resumes = resume.into_iter();
                let resume = resumes.find(|resume| resume.iteration == Some(index));
                Ok(range.run_one(index, resume).await)
            }
            Err(trouble) => Err(trouble),
        },
        Work::Prepare => prepare_loop(&hand, resume).await,
    };
    let end = match ended {
        Ok(end) => end,
        Err(Trouble::Interrupted) => ReportEnd::Released,
        Err(Trouble::Failed(error)) => {
            fail_step(&hand, *error);
            ReportEnd::Finished
        }
    };
    lease.finish(end).await
}

fn fail_step(hand: &Hand, error: TaskError) {
    let error = match hand.step() {
        Some((step, _)) => located(error, step, None),
        None => error,
    };
    let failed = Failed {
        error,
        set_ctx: None,
    };
    let event = hand.event(hand.at(), Body::StepFailed(Box::new(failed)));
    hand.lease.push(&mut vec![event]);
}

/// Returns the playbook of a command, from the cache or from the server.
async fn prepare(
    shared: &Shared,
    lease: &Lease,
    claimed: &Claimed,
) -> Result<Arc<Prepared>, Trouble> {
    let hash = &claimed.command.playbook;
    if let Some(prepared) = shared.playbooks.find(hash) {
        return Ok(prepared);
    }
    let mut backoff = Backoff::default();
    let text = loop {
        match shared.transport.playbook(hash).await {
            Ok(text) => break text,
            Err(wire::Error::Unavailable(_)) => tokio::select! {
                () = backoff.wait() => {}
                () = lease.paused().cancelled() => return Err(Trouble::Interrupted),
            },
            Err(wire::Error::Fenced(_)) => {
                lease.tell(Order::Gone);
                return Err(Trouble::Interrupted);
            }
            Err(error) => {
                let message = format!("cannot load the playbook: {error}");
                let error = TaskError::new(ErrorKind::NotFound, "PLAYBOOK_NOT_FOUND", message);
                return Err(error.into());
            }
        }
    };
    let config = &shared.config;
    let prepared = Prepared::read(&text, &config.tools, &config.base_dir)?;
    let prepared = Arc::new(prepared);
    shared.playbooks.keep(hash, prepared.clone());
    Ok(prepared)
}

/// Runs the pipeline of a step without a loop.
async fn pipeline(hand: &Hand, resume: Vec<Resume>) -> Result<ReportEnd, Trouble> {
    let found = hand.step().ok_or_else(|| no_step(hand))?;
    let begun = hand.now();
    let mut pipeline = Pipeline::new(hand, found, hand.at(), hand.scope());
    let mut has_begun = false;
    if let Some(resume) = resume.into_iter().next() {
        has_begun = resume.started;
        pipeline.restore(resume.continuation).await?;
    }
    if !has_begun {
        let started = Body::StepStarted(Nothing {});
        pipeline.events.push(hand.event(hand.at(), started));
    }
    let (body, end) = match pipeline.run().await {
        Ended::Done => (
            Some(Body::StepDone(StepDone::default())),
            ReportEnd::Finished,
        ),
        Ended::Failed(error) => {
            let failed = Failed {
                error: located(*error, found.0, None),
                set_ctx: None,
            };
            let body = Body::StepFailed(Box::new(failed));
            (Some(body), ReportEnd::Finished)
        }
        Ended::Suspended => (None, ReportEnd::Finished),
        Ended::Interrupted => (None, ReportEnd::Released),
    };
    if let Some(body) = body {
        pipeline.events.push(hand.ending(hand.at(), body, begun));
    }
    hand.lease.push(&mut pipeline.events);
    Ok(end)
}

fn no_step(hand: &Hand) -> TaskError {
    let message = format!("the playbook has no step `{}`", hand.command.run.step);
    TaskError::new(ErrorKind::NotFound, "STEP_NOT_FOUND", message)
}

/// Determines the elements of a loop.
async fn prepare_loop(hand: &Hand, resume: Vec<Resume>) -> Result<ReportEnd, Trouble> {
    let (step, plan) = hand.step().ok_or_else(|| no_step(hand))?;
    let loop_ = step.loop_.as_ref().ok_or_else(|| no_step(hand))?;
    match (&loop_.over, &plan.claim) {
        (Collection::In(tree), _) => prepare::elements(hand, (step, loop_), tree).await,
        (Collection::Cursor(claim), Some(plan)) => {
            let begun = resume.into_iter().next();
            let begun = begun.map(|resume| resume.continuation);
            claims::frame(hand, (step, loop_), (claim, plan), begun).await
        }
        (Collection::Cursor(_), None) => Err(no_step(hand).into()),
    }
}
