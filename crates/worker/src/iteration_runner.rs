//! Runs the iterations of a loop, sequentially or several at once.
//!
//! Input: the indices that a command covers. Output: the events of each iteration; reports are delayed briefly, so
//! that one covers many iterations. A suspended iteration still counts toward the concurrency limit.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use language::playbook::Step;
use language::template::{IterationView, LazyValue, Scope};
use model::command::ReportEnd;
use model::event::{EmptyPayload, EventBody, EventLocation, FailurePayload, IterationDone};
use model::id::Name;
use model::outcome::{ErrorKind, TaskError};
use model::playbook::FailureMode;
use serde_json::{Map, Value};
use wire::ResumePoint;

use crate::command_context::{CommandContext, WorkError, is_parallel};
use crate::elements::{ElementWindow, LoopElements};
use crate::pipeline_run::{PipelineEnd, PipelineRun};
use crate::playbooks::StepPlan;
use crate::report_batcher::ReportBatcher;

/// After this many iterations, other tasks on the same thread get a turn.
const YIELD_AFTER: u32 = 32;

/// Iterations of one loop.
pub(crate) struct IterationRunner<'h> {
    context: &'h CommandContext,
    step: (&'h Step, &'h StepPlan),
    location: EventLocation,
    iterator: Name,
    elements: Arc<LoopElements>,
    window: tokio::sync::Mutex<ElementWindow>,
    scope: Scope,
    parent_iteration: Option<LazyValue>,
}

/// Indices to run, and the resume points of iterations that have started before.
pub(crate) struct PendingIterations {
    remaining: VecDeque<u64>,
    resume_points: HashMap<u64, ResumePoint>,
}

/// End of one iteration.
struct IterationEnd {
    pipeline_end: PipelineEnd,
    /// Whether a side effect of the iteration is not durable yet.
    has_unreported_effect: bool,
    /// `ctx` at the end of the iteration.
    ctx: LazyValue,
}

impl PendingIterations {
    /// Creates the list of indices in `from..to` without the finished ones.
    pub(crate) fn new(from: u64, to: u64, finished: &[u64], resume_points: Vec<ResumePoint>) -> Self {
        let finished: HashSet<u64> = finished.iter().copied().collect();
        let resume_points = resume_points.into_iter();
        Self {
            remaining: (from..to).filter(|index| !finished.contains(index)).collect(),
            resume_points: resume_points
                .filter_map(|point| Some((point.iteration?, point)))
                .collect(),
        }
    }

    fn next(&mut self) -> Option<(u64, Option<ResumePoint>)> {
        let index = self.remaining.pop_front()?;
        Some((index, self.resume_points.remove(&index)))
    }

    /// Whether the command is finished or must be released because indices are left.
    fn report_end(&self) -> ReportEnd {
        if self.remaining.is_empty() {
            ReportEnd::Finished
        } else {
            ReportEnd::Released
        }
    }
}

impl<'h> IterationRunner<'h> {
    /// Loads the elements of the command's loop.
    pub(crate) async fn open(command: &'h CommandContext) -> Result<Self, WorkError> {
        let missing = |missing_part: &str| -> WorkError {
            let message = format!("step `{}` {missing_part}", command.command.run.step);
            TaskError::new(ErrorKind::Unknown, "COMMAND_INVALID", message).into()
        };
        let step_and_plan = command.step().ok_or_else(|| missing("is not in the playbook"))?;
        let loop_ = step_and_plan.0.loop_.as_ref();
        let loop_ = loop_.ok_or_else(|| missing("has no loop"))?;
        let started = command.command.loop_started;
        let started = started.ok_or_else(|| missing("has not started its loop"))?;
        Ok(Self {
            context: command,
            step: step_and_plan,
            location: command.location(),
            iterator: loop_.iterator.clone(),
            elements: command.shared.element_cache.get(command, started).await?,
            window: tokio::sync::Mutex::default(),
            scope: command.scope(),
            parent_iteration: command.parent_iter(),
        })
    }

    /// Runs the iterations, up to `width` at once if they have side effects and the loop is parallel.
    pub(crate) async fn run(self, indices: PendingIterations, width: u32) -> ReportEnd {
        if is_parallel(self.step.0) && width > 1 && !self.step.1.is_pure {
            self.run_concurrently(indices, width as usize).await
        } else {
            self.run_sequentially(indices, width).await
        }
    }

    /// Runs one iteration after another. Concurrency does not make pure iterations faster.
    async fn run_sequentially(mut self, mut indices: PendingIterations, width: u32) -> ReportEnd {
        let is_parallel = is_parallel(self.step.0);
        let mut batcher = ReportBatcher::new(self.context.lease.clone());
        let mut permits = width.max(1);
        let mut turns = 0;
        while let Some((index, resume)) = indices.next() {
            if !self.context.lease.may_start() {
                return ReportEnd::Released;
            }
            let iterated = self.run_iteration(index, resume).await;
            match iterated.pipeline_end {
                PipelineEnd::Interrupted => return ReportEnd::Released,
                PipelineEnd::Suspended => permits -= 1,
                PipelineEnd::Failed(_) if self.is_fail_fast() => return indices.report_end(),
                PipelineEnd::Done | PipelineEnd::Failed(_) => {}
            }
            if permits == 0 || indices.remaining.is_empty() {
                return indices.report_end();
            }
            if !is_parallel {
                self.scope.ctx = iterated.ctx;
            }
            if is_parallel || !iterated.has_unreported_effect {
                batcher.count_and_flush().await;
            } else if self.context.lease.flush().await.is_err() {
                return ReportEnd::Released;
            }
            turns += 1;
            if turns % YIELD_AFTER == 0 {
                tokio::task::yield_now().await;
            }
        }
        ReportEnd::Finished
    }

    /// Runs several iterations at once.
    async fn run_concurrently(self, mut indices: PendingIterations, width: usize) -> ReportEnd {
        let lease = &self.context.lease;
        let mut batcher = ReportBatcher::new(lease.clone());
        let mut running = FuturesUnordered::new();
        let mut permits = width;
        let mut has_failed = false;
        let mut was_interrupted = false;
        loop {
            let may_start = |running: usize| running < permits && !has_failed && lease.may_start();
            while may_start(running.len()) && !batcher.is_full() {
                let Some((index, resume)) = indices.next() else {
                    break;
                };
                running.push(self.run_iteration(index, resume));
            }
            let has_more = !indices.remaining.is_empty() && permits > 0 && !has_failed;
            if running.is_empty() && !(has_more && lease.may_start()) {
                // The final report of the command contains the last events.
                break;
            }
            tokio::select! {
                Some(iterated) = running.next() => {
                    match iterated.pipeline_end {
                        PipelineEnd::Interrupted => was_interrupted = true,
                        PipelineEnd::Suspended => permits -= 1,
                        PipelineEnd::Failed(_) => has_failed |= self.is_fail_fast(),
                        PipelineEnd::Done => {}
                    }
                    batcher.count();
                }
                () = batcher.flush_due() => batcher.start_flush(),
            }
        }
        if was_interrupted {
            ReportEnd::Released
        } else {
            indices.report_end()
        }
    }

    /// Runs one iteration that resumes.
    pub(crate) async fn resume_iteration(self, index: u64, resume: Option<ResumePoint>) -> ReportEnd {
        match self.run_iteration(index, resume).await.pipeline_end {
            PipelineEnd::Interrupted => ReportEnd::Released,
            PipelineEnd::Done | PipelineEnd::Failed(_) | PipelineEnd::Suspended => ReportEnd::Finished,
        }
    }

    async fn run_iteration(&self, index: u64, resume: Option<ResumePoint>) -> IterationEnd {
        let start = self.context.now();
        let location = self.location.clone().with_iteration(Some(index));
        let (scope, mut restored) = match self.load_iteration_scope(index).await {
            Ok(scope) => (scope, Ok(())),
            Err(work_error) => (self.scope.clone(), Err(work_error)),
        };
        let mut pipeline = PipelineRun::new(self.context, self.step.0, self.step.1, location.clone(), scope);
        let mut has_started = false;
        if let Some(resume) = resume {
            has_started = resume.started;
            if restored.is_ok() {
                restored = pipeline.restore(resume.continuation).await;
            }
        }
        if !has_started {
            let started = EventBody::IterationStarted(EmptyPayload {});
            pipeline.events.push(self.context.event(location.clone(), started));
        }
        let ended = match restored {
            Ok(()) => pipeline.run().await,
            Err(WorkError::Interrupted) => PipelineEnd::Interrupted,
            Err(WorkError::Failed(error)) => PipelineEnd::Failed(error),
        };
        let (set_ctx, ended) = match (pipeline.iteration_patch(), ended) {
            (Ok(set_ctx), ended) => (set_ctx, ended),
            (Err(error), PipelineEnd::Done) => (None, PipelineEnd::Failed(error)),
            (Err(_), ended) => (None, ended),
        };
        let body = match &ended {
            PipelineEnd::Done => Some(EventBody::IterationDone(IterationDone { set_ctx })),
            PipelineEnd::Failed(error) => Some(EventBody::IterationFailed(Box::new(FailurePayload {
                error: (**error).clone(),
                set_ctx,
            }))),
            PipelineEnd::Suspended | PipelineEnd::Interrupted => None,
        };
        if let Some(body) = body {
            pipeline
                .events
                .push(self.context.event_with_duration(location, body, start));
        }
        self.context.lease.push(&mut pipeline.events);
        IterationEnd {
            pipeline_end: ended,
            has_unreported_effect: pipeline.has_unreported_effect,
            ctx: pipeline.scope.ctx,
        }
    }

    /// Returns the template scope of one iteration.
    async fn load_iteration_scope(&self, index: u64) -> Result<Scope, WorkError> {
        let element = self.elements.element(self.context, &self.window, index).await?;
        let values = Map::from_iter([(self.iterator.to_string(), element)]);
        let mut scope = self.scope.clone();
        scope.loaded = self.context.loaded_values();
        scope.iter = Some(IterationView {
            values: LazyValue::new(Value::Object(values)),
            index: Some(index),
            length: self.elements.len(),
            parent: self.parent_iteration.clone(),
        });
        Ok(scope)
    }

    fn is_fail_fast(&self) -> bool {
        self.step.0.failure == FailureMode::FailFast
    }
}
