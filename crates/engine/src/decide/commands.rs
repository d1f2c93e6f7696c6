//! Commands: offers ready work that no command covers to the workers.

use std::time::Duration;

use language::playbook::Step;
use model::command::{Command, CommandWork};
use model::event::{CommandIssued, EmptyPayload, EventBody, StepDone};
use model::id::{CommandId, Seq, StepRunId};
use model::playbook::LoopMode;

use crate::decide::DecideError;
use crate::decide::decision_builder::{DecisionBuilder, run_location};
use crate::decision::CommandOffer;
use crate::state::{LiveCommand, LoopRun, SharedMap, StateIndex, StepRun, is_waiting};

/// Maximum number of indices in a range.
const RANGE_MAX: u64 = 1_000;
/// Maximum expected work of a range.
const RANGE_DURATION_MAX: Duration = Duration::from_millis(250);
/// Number of ranges that a parallel loop is split into at once, so that several workers share it.
const RANGES_AT_ONCE: u32 = 4;
/// Lower bound for the expected duration of an iteration, which limits the length of a range.
const ITERATION_DURATION_MIN: Duration = Duration::from_micros(50);

/// Work of a step run that has no command yet.
enum NeededCommand {
    Pipeline,
    Prepare,
    Range { from: u64, to: u64, width: u32 },
    Iteration(u64),
}

impl DecisionBuilder<'_> {
    /// Starts and ends the run of a step that has no tasks. Returns false if there is none.
    pub(super) fn complete_routing_step(&mut self) -> Result<bool, DecideError> {
        let Some(id) = self.index().routing_runs.keys().next().cloned() else {
            return Ok(false);
        };
        if !self.state.runs[&id].started {
            self.emit(run_location(&id), EventBody::StepStarted(EmptyPayload {}));
        }
        self.complete_step(&id, EventBody::StepDone(StepDone::default()))?;
        Ok(true)
    }

    /// Offers ready work as commands, unless the execution is paused.
    pub(super) fn offer_commands(&mut self) {
        if self.state.paused {
            return;
        }
        let index = self.index();
        let ready = index.ready_runs.keys().chain(index.loop_runs.keys());
        let mut ids: Vec<StepRunId> = ready.cloned().collect();
        drop(index);
        ids.sort_unstable();
        for id in ids {
            let net = self.net;
            let Some(step) = net.playbook.step(id.step.as_str()) else {
                continue;
            };
            while let Some(needed) = self.needed_command(&id, step) {
                self.offer_command(&id, step, &needed);
            }
        }
    }

    fn needed_command(&mut self, id: &StepRunId, step: &Step) -> Option<NeededCommand> {
        let index = self.index();
        let run = &self.state.runs[id];
        match (&step.loop_, &run.loop_) {
            (None, _) => may_offer(&index, id, run).then_some(NeededCommand::Pipeline),
            (Some(_), None) => may_offer(&index, id, run).then_some(NeededCommand::Prepare),
            (Some(_), Some(progress)) if progress.may_claim_more() => {
                may_offer(&index, id, run).then_some(NeededCommand::Prepare)
            }
            (Some(_), Some(progress)) => needed_loop_command(&index, id, progress),
        }
    }

    fn offer_command(&mut self, id: &StepRunId, step: &Step, needed: &NeededCommand) {
        let work = match *needed {
            NeededCommand::Pipeline => CommandWork::Pipeline,
            NeededCommand::Prepare => CommandWork::Prepare,
            NeededCommand::Iteration(index) => CommandWork::Iteration { index },
            NeededCommand::Range { from, to, width } => {
                self.schedule_range(id, from, to, width);
                CommandWork::Range { from, to, width }
            }
        };
        let dispatch = self.state.runs[id].dispatches + 1;
        let issued = CommandIssued {
            work,
            dispatch,
            pool: self.net.playbook.pool(step).clone(),
        };
        let iteration = match work {
            CommandWork::Iteration { index } => Some(index),
            _ => None,
        };
        self.emit(
            run_location(id).with_iteration(iteration),
            EventBody::CommandIssued(issued),
        );
    }

    /// The commands that were live before this turn and are not any more.
    pub(super) fn closed_commands(&self, before: &SharedMap<Seq, LiveCommand>) -> Vec<Seq> {
        let mut closed = Vec::new();
        before.for_each_change(&self.state.commands, |change| {
            if change.after.is_none() {
                closed.push(*change.key);
            }
        });
        closed
    }

    /// The commands that this turn issued and that are still live.
    pub(super) fn issued_commands(&self) -> Vec<CommandOffer> {
        let mut offers = Vec::new();
        for event in &self.events {
            let EventBody::CommandIssued(issued) = &event.body else {
                continue;
            };
            let (Some(live), Some(run)) = (self.state.commands.get(&event.seq), event.location.step_run_id()) else {
                continue;
            };
            let step_run = self.state.runs.get(&live.run);
            let command = Command {
                id: CommandId {
                    execution: self.state.execution,
                    seq: event.seq,
                },
                playbook: self.state.hash.clone(),
                work: issued.work,
                dispatch: issued.dispatch,
                pool: issued.pool.clone(),
                args: step_run.and_then(|run| run.args.clone()),
                loop_started: step_run.and_then(|run| Some(run.loop_.as_ref()?.elements_event_of(issued.work))),
                run,
            };
            let step = self.net.playbook.step(command.run.step.as_str());
            let schedule_to_start = step
                .and_then(|step| step.schedule_to_start)
                .unwrap_or(self.net.limits.schedule_to_start);
            offers.push(CommandOffer {
                command,
                schedule_to_start,
            });
        }
        offers
    }
}

/// Whether the run's own pipeline is neither waiting nor covered by a command.
fn may_offer(index: &StateIndex, id: &StepRunId, run: &StepRun) -> bool {
    !is_waiting(run) && !index.commands_of(id).any(|command| command.covers(None))
}

fn needed_loop_command(index: &StateIndex, id: &StepRunId, progress: &LoopRun) -> Option<NeededCommand> {
    if let Some(iteration) = progress.awake.first() {
        return Some(NeededCommand::Iteration(*iteration));
    }
    let live = index.commands_of(id);
    let (widths, count) = live.fold((0u32, 0u32), |(sum, count), command| (sum + command.width, count + 1));
    let waiting = u32::try_from(progress.suspended.len()).unwrap_or(u32::MAX);
    let free = progress.max_in_flight.saturating_sub(widths).saturating_sub(waiting);
    if free == 0 {
        return None;
    }
    let share = if progress.local {
        progress.max_in_flight
    } else {
        progress.max_in_flight.div_ceil(RANGES_AT_ONCE)
    };
    let width = free.min(share.max(1));
    if progress.is_stopped() {
        return None;
    }
    if let Some((from, to)) = returned_range(progress) {
        return Some(NeededCommand::Range {
            from,
            to,
            width: limit_width(width, to - from),
        });
    }
    if progress.next >= progress.total || (progress.local && count > 0) {
        return None;
    }
    let length = range_length(progress, width);
    let to = (progress.next + length).min(progress.frame_end(progress.next));
    Some(NeededCommand::Range {
        from: progress.next,
        to,
        width: limit_width(width, to - progress.next),
    })
}

/// Returns the lowest returned range, so that a sequential loop keeps its order. If the worker died, the range is
/// split in half, which isolates an item that crashes workers.
fn returned_range(progress: &LoopRun) -> Option<(u64, u64)> {
    let unfinished = progress.returned.iter().filter_map(|range| {
        let unfinished = progress.unfinished_ranges(range.from, range.to);
        let first = unfinished
            .first()
            .map(|(from, to)| (*from, (*to).min(progress.frame_end(*from))));
        first.map(|first| (first, range.strikes))
    });
    let ((from, to), strikes) = unfinished.min()?;
    let half = from + (to - from).div_ceil(2);
    Some(if strikes > 0 && to - from > 1 {
        (from, half)
    } else {
        (from, to.min(from + RANGE_MAX))
    })
}

/// Limits the width of a range to its length.
fn limit_width(width: u32, length: u64) -> u32 {
    width.min(u32::try_from(length).unwrap_or(u32::MAX)).max(1)
}

/// Length of a new range. The first ranges of a parallel loop are as long as they are wide; later ones contain the
/// work that fits into `RANGE_DURATION_MAX`, but leave a share for other workers.
fn range_length(progress: &LoopRun, width: u32) -> u64 {
    let width = u64::from(width);
    let remaining = progress.total - progress.next;
    if progress.local {
        return remaining.min(RANGE_MAX);
    }
    if progress.ended_count() == 0 && progress.mode == LoopMode::Parallel {
        return width;
    }
    let mean = Duration::from_micros(progress.mean_us).max(ITERATION_DURATION_MIN);
    let per_worker = RANGE_DURATION_MAX.as_micros() / mean.as_micros().max(1);
    let by_duration = u64::try_from(per_worker).unwrap_or(RANGE_MAX).saturating_mul(width);
    let fair_share = match progress.mode {
        LoopMode::Parallel => remaining.div_ceil(u64::from(RANGES_AT_ONCE)),
        LoopMode::Sequential => remaining,
    };
    by_duration.min(fair_share.max(width)).clamp(1, RANGE_MAX)
}
