//! Folds the events of workers: commands, pipelines, iterations, and waits of pipelines.

use model::command::{Continuation, Stage, Work};
use model::event::{
    Awaits, Body, CommandExpired, CommandIssued, Event, Signal, TaskStarted, TimerPurpose,
};
use model::id::{ExecutionId, Seq, StepRunId};
use model::outcome::Outcome;
use model::playbook::Directive;
use serde_json::{Map, Value};

use crate::state::fold::rewind;
use crate::state::runs::{Child, LiveCommand, Waiting};
use crate::state::{LiveTimer, LoopRun, Returned, State};

/// Folds an event of a command, timer, signal, iteration or pipeline.
pub(super) fn fold(state: &mut State, event: &Event) {
    match &event.body {
        Body::CommandIssued(issued) => issue(state, event, issued),
        Body::CommandClaimed(claimed) => {
            if let Some(command) = state.commands.get_mut(&claimed.command) {
                command.claimed = Some((claimed.worker.clone(), claimed.lease_epoch));
            }
        }
        Body::CommandExpired(expired) => expire(state, expired),
        Body::CommandFailed(failed) => {
            if let Some(command) = state.commands.remove(&failed.command) {
                return_work(state, failed.command, &command, command.strikes);
            }
        }
        Body::TimerSet(set) => {
            let timer = LiveTimer {
                purpose: set.purpose,
                due: set.due,
                run: event.at.step_run_id(),
                iteration: event.at.iteration,
            };
            state.timers.insert(event.seq, timer);
        }
        Body::TimerFired(fired) => fire(state, fired.timer, event.seq),
        Body::SignalReceived(signal) => receive(state, signal, event.seq),
        Body::IterationStarted(_) | Body::IterationDone(_) | Body::IterationFailed(_) => {
            iteration(state, event);
        }
        Body::TaskStarted(_)
        | Body::AttemptStarted(_)
        | Body::AttemptFailed(_)
        | Body::PolicyEvaluated(_)
        | Body::TaskDone(_)
        | Body::TaskFailed(_)
        | Body::ManifestUpdated(_) => pipeline_event(state, event),
        _ => {}
    }
}

fn issue(state: &mut State, event: &Event, issued: &CommandIssued) {
    let Some(id) = event.at.step_run_id() else {
        return;
    };
    let Some(run) = state.runs.get_mut(&id) else {
        return;
    };
    let mut strikes = run.strikes;
    let mut open = 1;
    match (issued.work, &mut run.loop_) {
        (Work::Range { from, to, .. }, Some(loop_)) => {
            strikes = take_returned(loop_, from, to);
            loop_.next = loop_.next.max(to);
            open = loop_
                .unfinished(from, to)
                .iter()
                .map(|(from, to)| to - from)
                .sum();
        }
        (Work::Iteration { index }, Some(loop_)) => {
            loop_.awake.remove(&index);
            strikes = 0;
        }
        _ => run.dispatches = issued.dispatch,
    }
    let width = match issued.work {
        Work::Range { width, .. } => width,
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

/// Removes `from..to` from the returned ranges, and returns the number of workers that died while running it. The
/// number is only known for a single iteration that was returned alone; for a range, it is unknown which part failed.
fn take_returned(loop_: &mut LoopRun, from: u64, to: u64) -> u32 {
    let mut strikes = 0;
    let mut rest = Vec::with_capacity(loop_.returned.len());
    for range in loop_.returned.drain(..) {
        if range.to <= from || to <= range.from {
            rest.push(range);
            continue;
        }
        if range.from == from && range.to == to && to - from == 1 {
            strikes = range.strikes;
        }
        if range.from < from {
            rest.push(Returned { to: from, ..range });
        }
        if to < range.to {
            rest.push(Returned { from: to, ..range });
        }
    }
    loop_.returned = rest;
    strikes
}

fn expire(state: &mut State, expired: &CommandExpired) {
    if let Some(command) = state.commands.remove(&expired.command) {
        return_work(state, expired.command, &command, expired.strikes);
    }
}

/// Withdraws these commands; their work waits for a new generation.
pub(super) fn return_all(state: &mut State, which: impl Fn(&LiveCommand) -> bool) {
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
fn return_work(state: &mut State, seq: Seq, command: &LiveCommand, strikes: u32) {
    let newer = state.commands.range_from(&seq).map(|(_, command)| command);
    let same_run = newer.filter(|newer| newer.run == command.run);
    let elsewhere: Vec<(u64, u64)> = same_run.filter_map(|newer| indices(newer.work)).collect();
    let Some(run) = state.runs.get_mut(&command.run) else {
        return;
    };
    let (Some(loop_), Some((from, to))) = (&mut run.loop_, indices(command.work)) else {
        run.strikes = strikes;
        return;
    };
    let parts = without(loop_.unfinished(from, to), &elsewhere);
    let is_alone = parts.iter().map(|(from, to)| to - from).sum::<u64>() == 1;
    for (from, to) in parts {
        // If several parts remain, a single iteration is no more suspicious than the others, and cannot be split
        // further.
        let strikes = if to - from > 1 || is_alone {
            strikes
        } else {
            0
        };
        loop_.returned.push(Returned { from, to, strikes });
    }
}

/// The iterations a command covers.
fn indices(work: Work) -> Option<(u64, u64)> {
    match work {
        Work::Range { from, to, .. } => Some((from, to)),
        Work::Iteration { index } => Some((index, index + 1)),
        Work::Pipeline | Work::Prepare => None,
    }
}

/// The ranges without the parts that `others` cover.
fn without(ranges: Vec<(u64, u64)>, others: &[(u64, u64)]) -> Vec<(u64, u64)> {
    others.iter().fold(ranges, |ranges, (from, to)| {
        let cut = |range: (u64, u64)| [(range.0, range.1.min(*from)), (range.0.max(*to), range.1)];
        let parts = ranges.into_iter().flat_map(cut);
        parts.filter(|(from, to)| from < to).collect()
    })
}

/// Reduces the open count of the command that covers this event's pipeline, and closes the command at zero.
pub(super) fn close_covering(state: &mut State, event: &Event) {
    let Some(id) = event.at.step_run_id() else {
        return;
    };
    let Some(seq) = state.carrier(&id, event.at.iteration) else {
        return;
    };
    if let Some(command) = state.commands.get_mut(&seq) {
        command.open = command.open.saturating_sub(1);
        if command.open == 0 {
            state.commands.remove(&seq);
        }
    }
}

fn iteration(state: &mut State, event: &Event) {
    let (Some(id), Some(index)) = (event.at.step_run_id(), event.at.iteration) else {
        return;
    };
    let Some(loop_) = state.runs.get_mut(&id).and_then(|run| run.loop_.as_mut()) else {
        return;
    };
    let (ok, patch) = match &event.body {
        Body::IterationDone(done) => (true, &done.set_ctx),
        Body::IterationFailed(failed) => (false, &failed.set_ctx),
        _ => {
            if !loop_.has_ended(index) {
                loop_.live.entry(index).or_default();
            }
            return;
        }
    };
    let was_away = loop_.suspended.contains(&index) || loop_.awake.contains(&index);
    if !loop_.end(index, ok) {
        return;
    }
    loop_.learn(event.duration_ms);
    if let Some(patch) = patch
        .as_ref()
        .and_then(|raw| raw.read::<Map<String, Value>>().ok())
    {
        if ok {
            loop_.patches.add(index, &patch);
        } else {
            loop_.broken_patches.insert(index, patch);
        }
    }
    if let Body::IterationFailed(failed) = &event.body
        && loop_
            .first_error
            .as_ref()
            .is_none_or(|(first, _)| index < *first)
    {
        loop_.first_error = Some((index, failed.error.clone()));
    }
    if !was_away {
        close_covering(state, event);
    }
    if let Some(run) = state.runs.get_mut(&id) {
        run.waits.remove(&Some(index));
        run.children
            .retain(|(iteration, _), child| *iteration != Some(index) || child.failed);
    }
}

fn pipeline_event(state: &mut State, event: &Event) {
    let Some(id) = event.at.step_run_id() else {
        return;
    };
    let Some(run) = state.runs.get_mut(&id) else {
        return;
    };
    let Some(continuation) = run.continuation_mut(event.at.iteration) else {
        return;
    };
    pipeline::fold(continuation, event);
    if matches!(event.body, Body::TaskDone(_) | Body::TaskFailed(_)) {
        // Deaths are counted per task, and this task has ended.
        if event.at.iteration.is_none() {
            run.strikes = 0;
        }
        if let Some(seq) = state.carrier(&id, event.at.iteration)
            && let Some(command) = state.commands.get_mut(&seq)
        {
            command.strikes = 0;
        }
    }
    let Some(run) = state.runs.get_mut(&id) else {
        return;
    };
    match &event.body {
        Body::TaskStarted(TaskStarted {
            awaits: Some(awaits),
            ..
        }) => {
            let waiting = Waiting {
                since: event.seq,
                awaits: (**awaits).clone(),
            };
            run.waits.insert(event.at.iteration, waiting);
            if let (Awaits::Child(_), Some(label)) = (&**awaits, &event.at.task) {
                let child = Child {
                    execution: child_id(event),
                    failed: false,
                };
                let key = (event.at.iteration, label.clone());
                let known = run
                    .children
                    .get(&key)
                    .filter(|child| child.failed)
                    .map(|child| child.execution);
                let execution = known.unwrap_or(child.execution);
                run.children.insert(
                    key,
                    Child {
                        execution,
                        failed: false,
                    },
                );
            }
            suspend(state, event);
            take_signal(state, &id, event);
        }
        Body::PolicyEvaluated(policy)
            if policy.action.directive == Directive::Retry && policy.action.suspend =>
        {
            suspend(state, event);
        }
        _ => {}
    }
}

/// The ID of the execution that a task starts: the ID of its `task.started` event, so no mapping is needed.
pub(crate) fn child_id(started: &Event) -> ExecutionId {
    ExecutionId(started.event_id.0)
}

/// Suspends the pipeline: it waits without a command.
fn suspend(state: &mut State, event: &Event) {
    let index = event.at.iteration;
    let run = event.at.step_run_id();
    let carrier = run.and_then(|run| state.carrier(&run, index));
    if let Some(command) = carrier.and_then(|seq| state.commands.get_mut(&seq)) {
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
    if let Some(seq) = carrier.filter(|seq| state.commands.get(seq).is_some_and(is_full))
        && let Some(command) = state.commands.remove(&seq)
    {
        return_work(state, seq, &command, command.strikes);
    }
}

/// Delivers the oldest signal that arrived before the wait.
fn take_signal(state: &mut State, id: &StepRunId, event: &Event) {
    let Body::TaskStarted(TaskStarted {
        awaits: Some(awaits),
        ..
    }) = &event.body
    else {
        return;
    };
    let Awaits::Wait(wait) = &**awaits else {
        return;
    };
    let Some(name) = &wait.signal else { return };
    let taken = state
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
    if let Some(by) = taken {
        answer(state, id, event.at.iteration, by);
    }
}

fn receive(state: &mut State, signal: &Signal, seq: Seq) {
    if let Some(end) = &signal.child {
        if let Some((id, iteration)) = find_parent(state, end.execution_id) {
            let outcome = signal
                .payload
                .as_ref()
                .and_then(|raw| raw.read::<Outcome>().ok());
            let failed = outcome.is_some_and(|outcome| !outcome.is_ok());
            if let Some(run) = state.runs.get_mut(&id) {
                let children = run.children.iter_mut();
                for (_, child) in children.filter(|(key, _)| key.0 == iteration) {
                    child.failed |= failed && child.execution == end.execution_id;
                }
            }
            answer(state, &id, iteration, seq);
        }
        return;
    }
    let waits = |waiting: &Waiting| matches!(&waiting.awaits, Awaits::Wait(wait) if wait.signal.as_ref() == Some(&signal.name));
    match find_waiter(state, waits) {
        Some((id, iteration)) => answer(state, &id, iteration, seq),
        None => state
            .signals
            .entry(signal.name.clone())
            .or_default()
            .push_back(seq),
    }
}

impl State {
    /// Whether a pipeline waits for this child.
    pub(crate) fn awaits_child(&self, child: ExecutionId) -> bool {
        find_parent(self, child).is_some()
    }
}

/// The pipeline that waits for this child.
fn find_parent(state: &State, child: ExecutionId) -> Option<(StepRunId, Option<u64>)> {
    state.runs.iter().find_map(|(id, run)| {
        let waits = |iteration: &Option<u64>| {
            let waiting = run.waits.get(iteration);
            waiting.is_some_and(|waiting| matches!(waiting.awaits, Awaits::Child(_)))
        };
        let mut children = run.children.iter();
        let found =
            children.find(|((iteration, _), known)| known.execution == child && waits(iteration));
        found.map(|((iteration, _), _)| (id.clone(), *iteration))
    })
}

/// The pipeline that has waited longest among those that match.
fn find_waiter(
    state: &State,
    matches: impl Fn(&Waiting) -> bool,
) -> Option<(StepRunId, Option<u64>)> {
    let waits = state.runs.iter().flat_map(|(id, run)| {
        run.waits
            .iter()
            .map(move |(at, waiting)| (id, *at, waiting))
    });
    let oldest = waits
        .filter(|(.., waiting)| matches(waiting))
        .min_by_key(|(.., waiting)| waiting.since);
    oldest.map(|(id, iteration, _)| (id.clone(), iteration))
}

/// Records that the awaited event arrived, and makes the pipeline ready to be offered again.
fn answer(state: &mut State, id: &StepRunId, iteration: Option<u64>, by: Seq) {
    let Some(run) = state.runs.get_mut(id) else {
        return;
    };
    let waiting = run.waits.remove(&iteration);
    if let Some(continuation) = run.continuation_mut(iteration) {
        let since = waiting.map_or(by, |waiting| waiting.since);
        continuation.stage = Stage::Answered { by, since };
    }
    wake(run.loop_.as_mut(), iteration);
    let of_pipeline =
        |timer: &LiveTimer| timer.run.as_ref() == Some(id) && timer.iteration == iteration;
    state
        .timers
        .retain(|_, timer| timer.purpose == TimerPurpose::StepTimeout || !of_pipeline(timer));
}

fn wake(loop_: Option<&mut LoopRun>, iteration: Option<u64>) {
    if let (Some(loop_), Some(index)) = (loop_, iteration)
        && loop_.suspended.remove(&index)
    {
        loop_.awake.insert(index);
    }
}

fn fire(state: &mut State, timer: Seq, seq: Seq) {
    let Some(timer) = state.timers.remove(&timer) else {
        return;
    };
    let Some(id) = timer.run else { return };
    match timer.purpose {
        TimerPurpose::Wait => answer(state, &id, timer.iteration, seq),
        TimerPurpose::Retry => {
            let Some(run) = state.runs.get_mut(&id) else {
                return;
            };
            let continuation = run.continuation_mut(timer.iteration);
            if let Some(Stage::Retrying { suspended, .. }) =
                continuation.map(|continuation| &mut continuation.stage)
            {
                *suspended = false;
            }
            wake(run.loop_.as_mut(), timer.iteration);
        }
        TimerPurpose::StepTimeout | TimerPurpose::StopGrace => {}
    }
}

impl LoopRun {
    /// Returns failed iterations, which continue from the task that failed.
    pub(super) fn revive(&mut self) {
        for index in &self.failed {
            self.returned.push(Returned {
                from: index,
                to: index + 1,
                strikes: 0,
            });
        }
        self.failed.clear();
        self.first_error = None;
        self.live.append(&mut self.broken);
        self.broken_patches.clear();
        let away: Vec<u64> = self.suspended.iter().chain(&self.awake).copied().collect();
        self.suspended.clear();
        self.awake.clear();
        for index in away {
            self.returned.push(Returned {
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
