//! The fold: applies one event to the state. It never reads a playbook, a clock or a result.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::command::{Continuation, PipelineCursor, PipelineStage};
use model::event::{
    AdmitEvaluated, CtxPatched, EndStatus, Event, EventBody, ExecutionRequested, FrameClaimed, LoopStarted,
    NextEvaluated, ResultPointer, ResultStored, StepScheduled, StopRequest,
};
use model::events;
use model::id::{StepRunId, TokenId};
use model::outcome::TaskError;
use model::playbook::LoopMode;
use model::step_pointer::{LoopPointer, StepPointer};
use model::time::Time;

use crate::state::step_run::{StepRun, StepRunEnd};
use crate::state::{
    Boundary, BoundaryKind, ExecutionState, LoopRun, Phase, SharedMap, StopInProgress, StopReason, Token, fold_work,
    reuse, switch,
};

/// Folds one event. The first event of a log creates the state. Any other event with `None` means a corrupt log.
pub fn fold(state: Option<ExecutionState>, event: &Event) -> Option<ExecutionState> {
    let Some(mut state) = state else {
        let EventBody::ExecutionRequested(requested) = &event.body else {
            return None;
        };
        return Some(initial_state(requested, event));
    };
    state.apply(event);
    Some(state)
}

fn initial_state(requested: &ExecutionRequested, event: &Event) -> ExecutionState {
    ExecutionState {
        execution: event.execution_id,
        seq: event.seq,
        generation: 1,
        phase: Phase::Live,
        paused: false,
        stop: None,
        path: requested.path.clone(),
        version: requested.version,
        hash: requested.hash.clone(),
        workload: requested.workload.clone(),
        parent: requested.parent.clone(),
        depth: requested.depth,
        trace_id: requested.trace_id.clone(),
        ctx: Arc::default(),
        ctx_bytes: 2,
        ctx_seq: event.seq,
        tokens: SharedMap::default(),
        runs: SharedMap::default(),
        steps: SharedMap::default(),
        commands: SharedMap::default(),
        timers: SharedMap::default(),
        signals: BTreeMap::new(),
        last_boundary: None,
        end_boundary: None,
        error: None,
        final_ran: false,
        reusing: BTreeMap::new(),
        index: Arc::default(),
    }
}

impl ExecutionState {
    /// Applies one event of the execution's own log.
    pub fn apply(&mut self, event: &Event) {
        self.seq = event.seq;
        match &event.body {
            EventBody::WorkflowStarted(started) => reuse::add_initial_tokens(self, started, event.seq),
            EventBody::PlaybookFinished(finished) => self.finish(finished.ended),
            EventBody::PlaybookPaused(_) => self.paused = true,
            EventBody::PlaybookResumed(_) => self.paused = false,
            EventBody::CancelRequested(request) => self.apply_stop_request(request, event),
            EventBody::ExecutionRetried(retried) => self.start_generation(retried.generation),
            EventBody::PlaybookSwitched(switched) => switch::fold_switch(self, switched),
            EventBody::StepReused(reused) => reuse::fold_reused(self, reused, event),
            EventBody::AdmitEvaluated(admit) => self.admit(admit, event),
            EventBody::StepScheduled(scheduled) => self.schedule(scheduled, event),
            EventBody::NextEvaluated(next) => self.route(next, event),
            EventBody::CtxPatched(patched) => self.apply_ctx_patch(patched, event),
            EventBody::StepStarted(_) => self.start_run(event),
            EventBody::StepDone(_) => self.end_run(event, BoundaryKind::Done, None),
            EventBody::StepFailed(failed) => {
                self.end_run(event, BoundaryKind::Failed, Some(&failed.error));
            }
            EventBody::LoopStarted(started) => self.start_loop(started, event),
            EventBody::FrameClaimed(frame) => self.add_frame(frame, event),
            EventBody::LoopDone(_) => self.end_run(event, BoundaryKind::LoopDone, None),
            EventBody::ResultStored(stored) => self.store_prepared(stored, event),
            EventBody::CommandIssued(issued) => fold_work::issue_command(self, issued, event),
            EventBody::CommandClaimed(claimed) => fold_work::claim_command(self, claimed),
            EventBody::CommandExpired(expired) => fold_work::expire_command(self, expired),
            EventBody::CommandFailed(failed) => fold_work::fail_command(self, failed.command),
            EventBody::TimerSet(set) => fold_work::set_timer(self, set, event),
            EventBody::TimerFired(fired) => fold_work::fire_timer(self, fired.timer, event.seq),
            EventBody::SignalReceived(signal) => {
                fold_work::receive_signal(self, signal, event.seq);
            }
            EventBody::IterationStarted(_) => fold_work::start_iteration(self, event),
            EventBody::IterationDone(done) => {
                fold_work::end_iteration(self, event, done.set_ctx.as_ref(), None);
            }
            EventBody::IterationFailed(failed) => {
                let error = Some(&failed.error);
                fold_work::end_iteration(self, event, failed.set_ctx.as_ref(), error);
            }
            EventBody::TaskStarted(started) => fold_work::start_task(self, started, event),
            EventBody::PolicyEvaluated(policy) => fold_work::apply_policy(self, policy, event),
            EventBody::TaskDone(_) | EventBody::TaskFailed(_) => fold_work::end_task(self, event),
            EventBody::AttemptStarted(_) | EventBody::AttemptFailed(_) | EventBody::ManifestUpdated(_) => {
                fold_work::move_pipeline(self, event);
            }
            events!(
                ExecutionRequested RequestEvaluated PlaybookStarted PlaybookProcessed WorkflowFinished AttemptDone
                IterationScheduled BatchAccepted BatchProcessing BatchCompleted BatchFailed
            ) => {}
        }
    }

    fn finish(&mut self, ended: EndStatus) {
        self.phase = Phase::Ended(ended);
        self.stop = None;
        self.timers.clear();
        fold_work::return_all(self, |_| true);
    }

    fn apply_ctx_patch(&mut self, patched: &CtxPatched, event: &Event) {
        if let Ok(patch) = patched.patch.parse_as() {
            self.patch_ctx(&patch);
        }
        self.ctx_seq = event.seq;
    }

    fn start_run(&mut self, event: &Event) {
        if let Some(run) = self.run_mut(event) {
            run.started = true;
        }
    }

    fn start_loop(&mut self, started: &LoopStarted, event: &Event) {
        let is_parallel = started.mode == LoopMode::Parallel;
        let ctx = is_parallel.then(|| self.ctx.clone());
        let reused = reuse::take_reused(self, started, event);
        if let Some(run) = self.run_mut(event) {
            let mut loop_ = LoopRun::from_started(started, event.seq);
            if let Some(reused) = reused {
                loop_.apply_reuse(&reused);
            }
            run.loop_ = Some(LoopRun { ctx, ..loop_ });
            run.prepare_next_claim();
        }
    }

    fn add_frame(&mut self, frame: &FrameClaimed, event: &Event) {
        if let Some(run) = self.run_mut(event) {
            if let Some(loop_) = &mut run.loop_ {
                loop_.add_frame(frame.rows, event.seq);
            }
            run.prepare_next_claim();
        }
    }

    /// Records the prepared loop items. A result that names a task changes nothing: its task's end points to it.
    fn store_prepared(&mut self, stored: &ResultStored, event: &Event) {
        if event.location.task.is_some() {
            return;
        }
        if let Some(run) = self.run_mut(event) {
            run.prepared = Some(stored.result_ref.clone());
        }
        fold_work::close_covering(self, event);
    }

    pub(super) fn run_mut(&mut self, event: &Event) -> Option<&mut StepRun> {
        self.runs.get_mut(&event.location.step_run_id()?)
    }

    fn apply_stop_request(&mut self, request: &StopRequest, event: &Event) {
        let reason = match request.ending {
            None | Some(EndStatus::Cancelled) => StopReason::Cancelled,
            Some(ending) => StopReason::Finalized(ending),
        };
        self.stop.get_or_insert(StopInProgress {
            reason,
            since: event.seq,
            spares_children: !request.cascade,
            note: request.reason.clone(),
        });
    }

    fn start_stop(&mut self, reason: StopReason, event: &Event) {
        self.stop.get_or_insert(StopInProgress {
            reason,
            since: event.seq,
            spares_children: false,
            note: None,
        });
    }

    fn admit(&mut self, admit: &AdmitEvaluated, event: &Event) {
        for id in &admit.tokens {
            if admit.discarded {
                self.tokens.remove(id);
            } else if let Some(token) = self.tokens.get_mut(id) {
                token.parked = !admit.allow;
            }
        }
        if let Some(error) = &admit.error {
            self.error.get_or_insert_with(|| error.clone());
            self.start_stop(StopReason::Failed, event);
        }
    }

    fn schedule(&mut self, scheduled: &StepScheduled, event: &Event) {
        let Some(id) = event.location.step_run_id() else {
            return;
        };
        for token in &scheduled.tokens {
            self.tokens.remove(token);
        }
        if scheduled.is_final {
            self.hold_unfinished();
        }
        let summary = self.steps.get_or_default(&id.step);
        summary.runs = id.run;
        let run = StepRun {
            scheduled: event.seq,
            tokens: scheduled.tokens.clone(),
            args: scheduled.args.clone(),
            is_final: scheduled.is_final,
            started: false,
            pipeline: Continuation::default(),
            loop_: None,
            prepared: None,
            boundary: None,
            held: false,
            strikes: 0,
            dispatches: 0,
            waits: BTreeMap::new(),
            children: BTreeMap::new(),
        };
        self.runs.insert(id, run);
    }

    /// The final step runs alone: work that a failure left unfinished is held for a retry.
    fn hold_unfinished(&mut self) {
        self.final_ran = true;
        self.stop = None;
        self.timers.clear();
        for run in self.runs.values_mut() {
            run.held = true;
            run.waits.clear();
        }
    }

    fn end_run(&mut self, event: &Event, end: BoundaryKind, error: Option<&TaskError>) {
        let Some(id) = event.location.step_run_id() else {
            return;
        };
        // Work in progress is recorded, so that a retry can continue it.
        fold_work::return_all(self, |command| command.run == id);
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        let error = error.cloned();
        run.boundary = Some(StepRunEnd {
            seq: event.seq,
            end,
            timestamp: event.timestamp,
            error: error.clone(),
        });
        run.waits.clear();
        let started = run.loop_.as_ref().map(|loop_| loop_.started);
        let tasks = run.pipeline.outcomes.iter();
        let latest = StepPointer {
            boundary: event.seq,
            ok: end != BoundaryKind::Failed,
            last: run.pipeline.last.clone(),
            tasks: tasks
                .map(|(label, pointer)| (label.clone(), pointer.seq, pointer.ok))
                .collect(),
            loop_: started.map(|started| LoopPointer {
                started,
                done: event.seq,
            }),
            error,
        };
        if end == BoundaryKind::LoopDone {
            run.loop_ = None;
        }
        self.timers.retain(|_, timer| timer.run.as_ref() != Some(&id));
        self.steps.get_or_default(&id.step).latest = Some(latest);
        let pointer = ResultPointer {
            step: id.step.clone(),
            seq: event.seq,
        };
        if id.step == "end" {
            self.end_boundary = Some(pointer.clone());
        }
        self.last_boundary = Some(pointer);
    }

    fn route(&mut self, next: &NextEvaluated, event: &Event) {
        let Some(id) = event.location.step_run_id() else {
            return;
        };
        let Some(mut run) = self.runs.remove(&id) else {
            return;
        };
        let boundary = run.boundary.take();
        let came_from = boundary.as_ref().map(|ended| Boundary {
            seq: ended.seq,
            step: id.step.clone(),
            end: ended.end,
            timestamp: ended.timestamp,
        });
        for (arc, selected) in (0u32..).zip(&next.selected) {
            let token = Token {
                step: selected.step.clone(),
                args: selected.args.clone(),
                boundary: came_from.clone(),
                parked: false,
            };
            self.tokens.insert(TokenId { seq: event.seq, arc }, token);
        }
        if let Some(error) = &next.error {
            self.error.get_or_insert_with(|| error.clone());
            self.start_stop(StopReason::Failed, event);
        }
        if next.held {
            let error = boundary.as_ref().and_then(|ended| ended.error.clone());
            self.error = self.error.take().or(error);
            run.boundary = boundary;
            run.held = true;
            self.runs.insert(id, run);
        }
    }

    /// Makes a failed or cancelled execution active again: finished work stays finished, the remaining work continues.
    fn start_generation(&mut self, generation: u32) {
        self.generation = generation;
        self.phase = Phase::Live;
        self.stop = None;
        self.paused = false;
        self.error = None;
        self.final_ran = false;
        self.runs.retain(|_, run| !run.is_final);
        for token in self.tokens.values_mut() {
            token.parked = false;
        }
        for run in self.runs.values_mut() {
            run.held = false;
            // A step that succeeded stays finished; only its arcs are evaluated again.
            run.boundary = run.boundary.take().filter(|ended| ended.end != BoundaryKind::Failed);
            run.strikes = 0;
            run.waits.clear();
            rewind(&mut run.pipeline);
            if let Some(loop_) = &mut run.loop_ {
                loop_.retry_failed_iterations();
            }
        }
    }

    /// The run with this ID, if it is live or held.
    pub fn run(&self, id: &StepRunId) -> Option<&StepRun> {
        self.runs.get(id)
    }
}

/// Resets a pipeline to the start of its current task. If the task's effect is unknown, the same visit continues with
/// the same idempotency key: as the same attempt if there is no outcome, as the next attempt if the last outcome left
/// the effect unknown.
pub(super) fn rewind(continuation: &mut Continuation) {
    let unknown = continuation.unknown.take();
    match (continuation.stage, unknown) {
        (PipelineStage::Failed | PipelineStage::Retrying { .. }, Some(attempt)) => {
            continuation.attempt = attempt;
            continuation.stage = PipelineStage::Retrying {
                due: Time(0),
                suspended: false,
            };
        }
        (stage, _) => rewind_to_task_start(continuation, stage),
    }
}

fn rewind_to_task_start(continuation: &mut Continuation, stage: PipelineStage) {
    match stage {
        PipelineStage::Started | PipelineStage::Ready | PipelineStage::Done | PipelineStage::WaitEnded { .. } => {}
        PipelineStage::Failed | PipelineStage::Retrying { .. } | PipelineStage::Awaiting { .. } => {
            continuation.stage = PipelineStage::Ready;
            continuation.attempt = 0;
            if let PipelineCursor::After(label) = &continuation.cursor {
                continuation.cursor = PipelineCursor::At(label.clone());
            }
        }
    }
}
