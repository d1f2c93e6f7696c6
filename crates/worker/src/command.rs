//! Runs a command and sends its final report.

use std::sync::Arc;

use language::playbook::Collection;
use model::command::CommandWork;
use model::command::ReportEnd;
use model::event::{EmptyPayload, EventBody, FailurePayload, StepDone};
use model::outcome::{ErrorKind, TaskError};
use wire::{ClaimedCommand, ResumePoint};

use crate::backoff::RetryBackoff;
use crate::command_context::{CommandContext, WorkError};
use crate::cursor_claim;
use crate::iteration_runner::{IterationRunner, PendingIterations};
use crate::lease::{CommandLease, LeaseState};
use crate::pipeline_run::{PipelineEnd, PipelineRun, with_location};
use crate::playbooks::PreparedPlaybook;
use crate::prepare;
use crate::worker::WorkerShared;

/// Runs a command to its end and returns the commands that the server assigned in reply to the final report.
pub(crate) async fn run_command(shared: &Arc<WorkerShared>, claimed: ClaimedCommand) -> Vec<ClaimedCommand> {
    let lease = Arc::new(CommandLease::new(shared.clone(), &claimed));
    shared.register_lease(&lease);
    let next = run_leased(shared, &lease, claimed).await;
    shared.unregister_lease(&lease);
    next
}

async fn run_leased(
    shared: &Arc<WorkerShared>,
    lease: &Arc<CommandLease>,
    claimed: ClaimedCommand,
) -> Vec<ClaimedCommand> {
    let prepared = match load_playbook(shared, lease, &claimed).await {
        Ok(prepared) => prepared,
        Err(WorkError::Interrupted) => return lease.finish(ReportEnd::Released).await,
        Err(WorkError::Failed(error)) => {
            let body = EventBody::StepFailed(Box::new(FailurePayload {
                error: *error,
                set_ctx: None,
            }));
            let location = model::event::EventLocation::of_step_run(&claimed.command.run);
            let execution = claimed.command.id.execution;
            let event = crate::command_context::worker_event(shared, execution, location, body);
            lease.push(&mut vec![event]);
            return lease.finish(ReportEnd::Finished).await;
        }
    };
    let ClaimedCommand {
        command,
        context,
        resume,
        finished: over,
        ..
    } = claimed;
    let work = command.work;
    let command_context = CommandContext::new(shared.clone(), lease.clone(), prepared, command, context);
    let ended = match work {
        CommandWork::Pipeline => run_step_pipeline(&command_context, resume).await,
        CommandWork::Range { from, to, width } => match IterationRunner::open(&command_context).await {
            Ok(range) => {
                let indices = PendingIterations::new(from, to, &over, resume);
                Ok(range.run(indices, width).await)
            }
            Err(work_error) => Err(work_error),
        },
        CommandWork::Iteration { index } => match IterationRunner::open(&command_context).await {
            Ok(range) => {
                let mut resumes = resume.into_iter();
                let resume = resumes.find(|resume| resume.iteration == Some(index));
                Ok(range.resume_iteration(index, resume).await)
            }
            Err(work_error) => Err(work_error),
        },
        CommandWork::Prepare => prepare_loop(&command_context, resume).await,
    };
    let end = match ended {
        Ok(end) => end,
        Err(WorkError::Interrupted) => ReportEnd::Released,
        Err(WorkError::Failed(error)) => {
            fail_step(&command_context, *error);
            ReportEnd::Finished
        }
    };
    lease.finish(end).await
}

fn fail_step(context: &CommandContext, error: TaskError) {
    let error = match context.step() {
        Some((step, _)) => with_location(error, step, None),
        None => error,
    };
    let failed = FailurePayload { error, set_ctx: None };
    let event = context.event(context.location(), EventBody::StepFailed(Box::new(failed)));
    context.lease.push(&mut vec![event]);
}

/// Returns the playbook of a command, from the cache or from the server.
async fn load_playbook(
    shared: &WorkerShared,
    lease: &CommandLease,
    claimed: &ClaimedCommand,
) -> Result<Arc<PreparedPlaybook>, WorkError> {
    let hash = &claimed.command.playbook;
    if let Some(prepared) = shared.playbook_cache.find(hash) {
        return Ok(prepared);
    }
    let mut backoff = RetryBackoff::default();
    let text = loop {
        match shared.transport.playbook(hash).await {
            Ok(text) => break text,
            Err(wire::Error::Unavailable(_)) => tokio::select! {
                () = backoff.wait() => {}
                () = lease.yield_token().cancelled() => return Err(WorkError::Interrupted),
            },
            Err(wire::Error::Fenced(_)) => {
                lease.restrict(LeaseState::Lost);
                return Err(WorkError::Interrupted);
            }
            Err(error) => {
                let message = format!("cannot load the playbook: {error}");
                let error = TaskError::new(ErrorKind::NotFound, "PLAYBOOK_NOT_FOUND", message);
                return Err(error.into());
            }
        }
    };
    let config = &shared.config;
    let prepared = PreparedPlaybook::parse(&text, &config.playbooks, &config.tools, &config.base_dir)?;
    let prepared = Arc::new(prepared);
    shared.playbook_cache.insert(hash, prepared.clone());
    Ok(prepared)
}

/// Runs the pipeline of a step without a loop.
async fn run_step_pipeline(context: &CommandContext, resume: Vec<ResumePoint>) -> Result<ReportEnd, WorkError> {
    let step_and_plan = context.step().ok_or_else(|| no_step(context))?;
    let start = context.now();
    let mut pipeline = PipelineRun::new(
        context,
        step_and_plan.0,
        step_and_plan.1,
        context.location(),
        context.scope(),
    );
    let mut has_started = false;
    if let Some(resume) = resume.into_iter().next() {
        has_started = resume.started;
        pipeline.restore(resume.continuation).await?;
    }
    if !has_started {
        let started = EventBody::StepStarted(EmptyPayload {});
        pipeline.events.push(context.event(context.location(), started));
    }
    let (body, end) = match pipeline.run().await {
        PipelineEnd::Done => (Some(EventBody::StepDone(StepDone::default())), ReportEnd::Finished),
        PipelineEnd::Failed(error) => {
            let failed = FailurePayload {
                error: with_location(*error, step_and_plan.0, None),
                set_ctx: None,
            };
            let body = EventBody::StepFailed(Box::new(failed));
            (Some(body), ReportEnd::Finished)
        }
        PipelineEnd::Suspended => (None, ReportEnd::Finished),
        PipelineEnd::Interrupted => (None, ReportEnd::Released),
    };
    if let Some(body) = body {
        pipeline
            .events
            .push(context.event_with_duration(context.location(), body, start));
    }
    context.lease.push(&mut pipeline.events);
    Ok(end)
}

fn no_step(context: &CommandContext) -> TaskError {
    let message = format!("the playbook has no step `{}`", context.command.run.step);
    TaskError::new(ErrorKind::NotFound, "STEP_NOT_FOUND", message)
}

/// Determines the elements of a loop.
async fn prepare_loop(context: &CommandContext, resume: Vec<ResumePoint>) -> Result<ReportEnd, WorkError> {
    let (step, plan) = context.step().ok_or_else(|| no_step(context))?;
    let loop_ = step.loop_.as_ref().ok_or_else(|| no_step(context))?;
    let loop_step = prepare::LoopStep { step, loop_ };
    match (&loop_.collection, &plan.cursor_claim_plan) {
        (Collection::In(tree), _) => prepare::prepare_elements(context, loop_step, tree).await,
        (Collection::Cursor(claim), Some(plan)) => {
            let resume = resume.into_iter().next();
            let continuation = resume.map(|resume| resume.continuation);
            cursor_claim::claim_frame(context, loop_step, claim, plan, continuation).await
        }
        (Collection::Cursor(_), None) => Err(no_step(context).into()),
    }
}
