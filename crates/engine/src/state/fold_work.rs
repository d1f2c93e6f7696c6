//! Folds the events of workers: commands, pipelines, iterations, and waits of pipelines.

use model::command::{CommandWork, Continuation, PipelineStage};
use model::event::{
    AwaitTarget, CommandClaimed, CommandExpired, CommandIssued, Event, PolicyEvaluated, SignalReceived, TaskStarted,
    TimerPurpose, TimerSet,
};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::outcome::{Outcome, TaskError};
use model::playbook::Directive;
use model::raw::RawJson;
use serde_json::{Map, Value};

use crate::state::fold::rewind;
use crate::state::step_run::{ChildExecution, LiveCommand, PendingWait};
use crate::state::{ExecutionState, LiveTimer, LoopRun, ReturnedRange};

/// Adds a command, and takes the work that it covers.
pub(super) fn issue_command(state: &mut ExecutionState, issued: &CommandIssued, event: &Event) {
    let Some(id) = event.location.step_run_id() else {
        return;
    };
    let Some(run) = state.runs.get_mut(&id) else {
        return;
    };
    let mut strikes = run.strikes;
    let mut open = 1;
    match (issued.work, &mut run.loop_) {
        (CommandWork::Range { from, to, .. }, Some(loop_)) => {
            strikes = take_returned(loop_, from, to);
            loop_.next = loop_.next.max(to);
            open = loop_
                .unfinished_ranges(from, to)
                .iter()
                .map(|(from, to)| to - from)
                .sum();
        }
        (CommandWork::Iteration { index }, Some(loop_)) => {
            loop_.awake.remove(&index);
            strikes = 0;
        }
        _ => run.dispatches = issued.dispatch,
    }
    let width = match issued.work {
        CommandWork::Range { width, .. } => width,
        _ => 1,
    };
    let command = LiveCommand {
        run: id,
        work: issued.work,
        strikes,
        width,
        open,
        claimed: None,
    };
    state.commands.insert(event.seq, command);
}

/// Records which worker claimed a command.
pub(super) fn claim_command(state: &mut ExecutionState, claimed: &CommandClaimed) {
    if let Some(command) = state.commands.get_mut(&claimed.command) {
        command.claimed = Some((claimed.worker.clone(), claimed.lease_epoch));
    }
}

/// Removes `from..to` from the returned ranges, and returns the number of workers that died while running it. The
/// number is only known for a single iteration that was returned alone; for a range, it is unknown which part failed.
fn take_returned(loop_: &mut LoopRun, from: u64, to: u64) -> u32 {
    let mut strikes = 0;
    let mut remaining = Vec::with_capacity(loop_.returned.len());
    for range in loop_.returned.drain(..) {
        if range.to <= from || to <= range.from {
            remaining.push(range);
            continue;
        }
        if range.from == from && range.to == to && to - from == 1 {
            strikes = range.strikes;
        }
        if range.from < from {
            remaining.push(ReturnedRange { to: from, ..range });
        }
        if to < range.to {
            remaining.push(ReturnedRange { from: to, ..range });
        }
    }
    loop_.returned = remaining;
    strikes
}

/// Returns the work of a command whose claim expired.
pub(super) fn expire_command(state: &mut ExecutionState, expired: &CommandExpired) {
    if let Some(command) = state.commands.remove(&expired.command) {
        return_work(state, expired.command, &command, expired.strikes);
    }
}

/// Returns the work of a command that a worker could not run.
pub(super) fn fail_command(state: &mut ExecutionState, failed: Seq) {
    if let Some(command) = state.commands.remove(&failed) {
        return_work(state, failed, &command, command.strikes);
    }
}

/// Withdraws these commands; their work waits for a new generation.
pub(super) fn return_all(state: &mut ExecutionState, which: impl Fn(&LiveCommand) -> bool) {
    let of_these = |(seq, command): (&Seq, &LiveCommand)| which(command).then_some(*seq);
    let ended: Vec<Seq> = state.commands.iter().filter_map(of_these).collect();
    for seq in ended {
        let Some(command) = state.commands.remove(&seq) else {
            continue;
        };
        return_work(state, seq, &command, command.strikes);
    }
}

/// Makes the unfinished work of a command available again, except for what a newer command covers.
fn return_work(state: &mut ExecutionState, seq: Seq, command: &LiveCommand, strikes: u32) {
    let newer = state.commands.range_from(&seq).map(|(_, command)| command);
    let same_run = newer.filter(|newer| newer.run == command.run);
    let newer_ranges: Vec<(u64, u64)> = same_run.filter_map(|newer| covered_range(newer.work)).collect();
    let Some(run) = state.runs.get_mut(&command.run) else {
        return;
    };
    let (Some(loop_), Some((from, to))) = (&mut run.loop_, covered_range(command.work)) else {
        run.strikes = strikes;
        return;
    };
    let parts = subtract_ranges(loop_.unfinished_ranges(from, to), &newer_ranges);
    let is_alone = parts.iter().map(|(from, to)| to - from).sum::<u64>() == 1;
    for (from, to) in parts {
        // If several parts remain, a single iteration is no more suspicious than the others, and cannot be split
        // further.
        let strikes = if to - from > 1 || is_alone { strikes } else { 0 };
        loop_.returned.push(ReturnedRange { from, to, strikes });
    }
}

/// The iterations a command covers.
fn covered_range(work: CommandWork) -> Option<(u64, u64)> {
    match work {
        CommandWork::Range { from, to, .. } => Some((from, to)),
        CommandWork::Iteration { index } => Some((index, index + 1)),
        CommandWork::Pipeline | CommandWork::Prepare => None,
    }
}

/// The ranges without the parts that `removed` covers.
fn subtract_ranges(ranges: Vec<(u64, u64)>, removed: &[(u64, u64)]) -> Vec<(u64, u64)> {
    removed.iter().fold(ranges, |ranges, (from, to)| {
        let remainders = |range: (u64, u64)| [(range.0, range.1.min(*from)), (range.0.max(*to), range.1)];
        let parts = ranges.into_iter().flat_map(remainders);
        parts.filter(|(from, to)| from < to).collect()
    })
}

/// Reduces the open count of the command that covers this event's pipeline, and closes the command at zero.
pub(super) fn close_covering(state: &mut ExecutionState, event: &Event) {
    let Some(id) = event.location.step_run_id() else {
        return;
    };
    let Some(seq) = state.command_covering(&id, event.location.iteration) else {
        return;
    };
    if let Some(command) = state.commands.get_mut(&seq) {
        command.open = command.open.saturating_sub(1);
        if command.open == 0 {
            state.commands.remove(&seq);
        }
    }
}

/// The loop and the index of the iteration that an event is about.
fn loop_iteration<'a>(state: &'a mut ExecutionState, event: &Event) -> Option<(&'a mut LoopRun, u64)> {
    let run = state.run_mut(event)?;
    Some((run.loop_.as_mut()?, event.location.iteration?))
}

/// Adds an iteration to those in progress.
pub(super) fn start_iteration(state: &mut ExecutionState, event: &Event) {
    if let Some((loop_, index)) = loop_iteration(state, event)
        && !loop_.has_ended(index)
    {
        loop_.live.entry(index).or_default();
    }
}

/// Ends an iteration, with an error if it failed.
pub(super) fn end_iteration(
    state: &mut ExecutionState,
    event: &Event,
    patch: Option<&RawJson>,
    error: Option<&TaskError>,
) {
    let Some((loop_, index)) = loop_iteration(state, event) else {
        return;
    };
    let was_away = loop_.suspended.contains(&index) || loop_.awake.contains(&index);
    if !loop_.record_end(index, error.is_none()) {
        return;
    }
    loop_.update_mean_duration(event.duration_ms);
    if let Some(patch) = patch.and_then(|raw| raw.parse_as::<Map<String, Value>>().ok()) {
        if error.is_none() {
            loop_.patches.add(index, &patch);
        } else {
            loop_.broken_patches.insert(index, patch);
        }
    }
    if let Some(error) = error
        && loop_.first_error.as_ref().is_none_or(|(first, _)| index < *first)
    {
        loop_.first_error = Some((index, error.clone()));
    }
    if !was_away {
        close_covering(state, event);
    }
    if let Some(run) = state.run_mut(event) {
        run.waits.remove(&Some(index));
        run.children
            .retain(|(iteration, _), child| *iteration != Some(index) || child.failed);
    }
}

/// Applies an event to the position of its pipeline. Returns the step run, if the pipeline exists.
pub(super) fn move_pipeline(state: &mut ExecutionState, event: &Event) -> Option<StepRunId> {
    let id = event.location.step_run_id()?;
    let run = state.runs.get_mut(&id)?;
    pipeline::fold(run.continuation_mut(event.location.iteration)?, event);
    Some(id)
}

/// Ends a visit of a task. Deaths of workers are counted per task, so the count starts again.
pub(super) fn end_task(state: &mut ExecutionState, event: &Event) {
    let Some(id) = move_pipeline(state, event) else {
        return;
    };
    if event.location.iteration.is_none()
        && let Some(run) = state.runs.get_mut(&id)
    {
        run.strikes = 0;
    }
    if let Some(seq) = state.command_covering(&id, event.location.iteration)
        && let Some(command) = state.commands.get_mut(&seq)
    {
        command.strikes = 0;
    }
}

/// Suspends the pipeline, if it waits for a retry without a command.
pub(super) fn apply_policy(state: &mut ExecutionState, policy: &PolicyEvaluated, event: &Event) {
    let is_suspended = policy.action.directive == Directive::Retry && policy.action.suspend;
    if move_pipeline(state, event).is_some() && is_suspended {
        suspend_pipeline(state, event);
    }
}

/// Starts a task. If it awaits an external event, its pipeline is suspended until then.
pub(super) fn start_task(state: &mut ExecutionState, started: &TaskStarted, event: &Event) {
    let Some(id) = move_pipeline(state, event) else {
        return;
    };
    let Some(awaits) = &started.awaits else {
        return;
    };
    let Some(run) = state.runs.get_mut(&id) else {
        return;
    };
    let waiting = PendingWait {
        since: event.seq,
        awaits: (**awaits).clone(),
    };
    run.waits.insert(event.location.iteration, waiting);
    if let (AwaitTarget::Child(_), Some(label)) = (&**awaits, &event.location.task) {
        let key = (event.location.iteration, label.clone());
        let failed_child = run.children.get(&key).filter(|child| child.failed);
        let execution = failed_child.map_or_else(|| child_id(event), |child| child.execution);
        run.children.insert(
            key,
            ChildExecution {
                execution,
                failed: false,
            },
        );
    }
    suspend_pipeline(state, event);
    if let AwaitTarget::Wait(wait) = &**awaits
        && let Some(name) = &wait.signal
    {
        take_signal(state, &id, event, name);
    }
}

/// The ID of the execution that a task starts: the ID of its `task.started` event, so no mapping is needed.
pub(crate) fn child_id(started: &Event) -> ExecutionId {
    ExecutionId(started.event_id.0)
}

/// Suspends the pipeline: it waits without a command.
fn suspend_pipeline(state: &mut ExecutionState, event: &Event) {
    let index = event.location.iteration;
    let run = event.location.step_run_id();
    let covering = run.and_then(|run| state.command_covering(&run, index));
    if let Some(command) = covering.and_then(|seq| state.commands.get_mut(&seq)) {
        command.width = command.width.saturating_sub(1);
    }
    close_covering(state, event);
    if let (Some(index), Some(run)) = (index, state.run_mut(event))
        && let Some(loop_) = &mut run.loop_
    {
        loop_.suspended.insert(index);
    }
    // A range without free width must stop: its unstarted iterations wait until width is available again.
    let is_full = |command: &LiveCommand| command.width == 0;
    if let Some(seq) = covering.filter(|seq| state.commands.get(seq).is_some_and(is_full))
        && let Some(command) = state.commands.remove(&seq)
    {
        return_work(state, seq, &command, command.strikes);
    }
}

/// Delivers the oldest signal that arrived before the wait.
fn take_signal(state: &mut ExecutionState, id: &StepRunId, event: &Event, name: &Name) {
    let signal = state
        .signals
        .get_mut(name)
        .and_then(std::collections::VecDeque::pop_front);
    if state
        .signals
        .get(name)
        .is_some_and(std::collections::VecDeque::is_empty)
    {
        state.signals.remove(name);
    }
    if let Some(by) = signal {
        end_wait(state, id, event.location.iteration, by);
    }
}

/// Delivers a signal to the pipeline that waits for it, or stores it for a later wait.
pub(super) fn receive_signal(state: &mut ExecutionState, signal: &SignalReceived, seq: Seq) {
    if let Some(end) = &signal.child {
        if let Some((id, iteration)) = find_parent(state, end.execution_id) {
            let outcome = signal.payload.as_ref().and_then(|raw| raw.parse_as::<Outcome>().ok());
            let failed = outcome.is_some_and(|outcome| !outcome.is_ok());
            if let Some(run) = state.runs.get_mut(&id) {
                let children = run.children.iter_mut();
                for (_, child) in children.filter(|(key, _)| key.0 == iteration) {
                    child.failed |= failed && child.execution == end.execution_id;
                }
            }
            end_wait(state, &id, iteration, seq);
        }
        return;
    }
    let waits = |waiting: &PendingWait| matches!(&waiting.awaits, AwaitTarget::Wait(wait) if wait.signal.as_ref() == Some(&signal.name));
    match find_waiter(state, waits) {
        Some((id, iteration)) => end_wait(state, &id, iteration, seq),
        None => state.signals.entry(signal.name.clone()).or_default().push_back(seq),
    }
}

impl ExecutionState {
    /// Whether a pipeline waits for this child.
    pub(crate) fn awaits_child(&self, child: ExecutionId) -> bool {
        find_parent(self, child).is_some()
    }
}

/// The pipeline that waits for this child.
fn find_parent(state: &ExecutionState, child: ExecutionId) -> Option<(StepRunId, Option<u64>)> {
    state.runs.iter().find_map(|(id, run)| {
        let waits = |iteration: &Option<u64>| {
            let waiting = run.waits.get(iteration);
            waiting.is_some_and(|waiting| matches!(waiting.awaits, AwaitTarget::Child(_)))
        };
        let mut children = run.children.iter();
        let child_entry = children.find(|((iteration, _), recorded)| recorded.execution == child && waits(iteration));
        child_entry.map(|((iteration, _), _)| (id.clone(), *iteration))
    })
}

/// The pipeline that has waited longest among those that match.
fn find_waiter(state: &ExecutionState, matches: impl Fn(&PendingWait) -> bool) -> Option<(StepRunId, Option<u64>)> {
    let waits = state.runs.iter().flat_map(|(id, run)| {
        run.waits
            .iter()
            .map(move |(iteration, waiting)| (id, *iteration, waiting))
    });
    let oldest = waits
        .filter(|(.., waiting)| matches(waiting))
        .min_by_key(|(.., waiting)| waiting.since);
    oldest.map(|(id, iteration, _)| (id.clone(), iteration))
}

/// Records that the awaited event arrived, and makes the pipeline ready to be offered again.
fn end_wait(state: &mut ExecutionState, id: &StepRunId, iteration: Option<u64>, by: Seq) {
    let Some(run) = state.runs.get_mut(id) else {
        return;
    };
    let waiting = run.waits.remove(&iteration);
    if let Some(continuation) = run.continuation_mut(iteration) {
        let since = waiting.map_or(by, |waiting| waiting.since);
        continuation.stage = PipelineStage::WaitEnded { by, since };
    }
    wake_iteration(run.loop_.as_mut(), iteration);
    let of_pipeline = |timer: &LiveTimer| timer.run.as_ref() == Some(id) && timer.iteration == iteration;
    state
        .timers
        .retain(|_, timer| timer.purpose == TimerPurpose::StepTimeout || !of_pipeline(timer));
}

fn wake_iteration(loop_: Option<&mut LoopRun>, iteration: Option<u64>) {
    if let (Some(loop_), Some(index)) = (loop_, iteration)
        && loop_.suspended.remove(&index)
    {
        loop_.awake.insert(index);
    }
}

/// Adds a timer.
pub(super) fn set_timer(state: &mut ExecutionState, set: &TimerSet, event: &Event) {
    let timer = LiveTimer {
        purpose: set.purpose,
        due: set.due,
        run: event.location.step_run_id(),
        iteration: event.location.iteration,
    };
    state.timers.insert(event.seq, timer);
}

/// Ends what a timer delayed.
pub(super) fn fire_timer(state: &mut ExecutionState, timer: Seq, seq: Seq) {
    let Some(timer) = state.timers.remove(&timer) else {
        return;
    };
    let Some(id) = timer.run else { return };
    match timer.purpose {
        TimerPurpose::Wait => end_wait(state, &id, timer.iteration, seq),
        TimerPurpose::Retry => {
            let Some(run) = state.runs.get_mut(&id) else {
                return;
            };
            let continuation = run.continuation_mut(timer.iteration);
            if let Some(PipelineStage::Retrying { suspended, .. }) =
                continuation.map(|continuation| &mut continuation.stage)
            {
                *suspended = false;
            }
            wake_iteration(run.loop_.as_mut(), timer.iteration);
        }
        TimerPurpose::StepTimeout | TimerPurpose::StopGrace => {}
    }
}

impl LoopRun {
    /// Returns failed iterations, which continue from the task that failed.
    pub(super) fn retry_failed_iterations(&mut self) {
        for index in &self.failed {
            self.returned.push(ReturnedRange {
                from: index,
                to: index + 1,
                strikes: 0,
            });
        }
        self.failed.clear();
        self.first_error = None;
        self.live.append(&mut self.broken);
        self.broken_patches.clear();
        let waiting: Vec<u64> = self.suspended.iter().chain(&self.awake).copied().collect();
        self.suspended.clear();
        self.awake.clear();
        for index in waiting {
            self.returned.push(ReturnedRange {
                from: index,
                to: index + 1,
                strikes: 0,
            });
        }
        for range in &mut self.returned {
            range.strikes = 0;
        }
        self.live
            .values_mut()
            .for_each(|continuation: &mut Continuation| rewind(continuation));
    }
}
