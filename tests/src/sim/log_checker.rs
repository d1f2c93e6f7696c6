//! Checks one log event by event, for invariants that hold for every playbook.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::ExecutionState;
use language::playbook::Step;
use language::template::Tree;
use model::event::{EndStatus, Event, EventBody, EventSource, NextEvaluated, StepScheduled};
use model::id::{ExecutionId, LeaseEpoch, Name, Seq, StepRunId};
use model::playbook::{Directive, LoopMode, RouteMode};
use model::time::Time;
use serde_json::{Map, Value};

use crate::sim::checks::{CheckResult, CheckedPlaybook, check_invariant};

/// Maximum number of runs of one step in a simulation.
pub(crate) const RUNS_MAX: u32 = 16;

/// The state of the checks after the events so far.
pub(crate) struct LogChecker {
    pub(crate) playbook: Arc<CheckedPlaybook>,
    pub(crate) ctx: Map<String, Value>,
    pub(crate) tokens: i64,
    pub(crate) events: usize,
    /// Number of ends.
    pub(crate) ends: u32,
    /// Number of reports about each child.
    pub(crate) child_ends: BTreeMap<ExecutionId, u32>,
    pub(crate) seq: Seq,
    generation: u32,
    is_ended: bool,
    is_stopping: bool,
    is_paused: bool,
    failures: BTreeSet<StepRunId>,
    timers: BTreeMap<Seq, (Time, bool)>,
    claimed: BTreeMap<Seq, LeaseEpoch>,
    runs: BTreeMap<StepRunId, StepRunChecker>,
}

#[derive(Default)]
struct StepRunChecker {
    is_final: bool,
    boundary: Option<(u32, bool)>,
    routed: Option<u32>,
    is_ended: bool,
    total: Option<u64>,
    iterations: BTreeMap<u64, Option<u32>>,
    done: BTreeSet<u64>,
    pipelines: BTreeMap<Option<u64>, PipelineChecker>,
}

#[derive(Default)]
struct PipelineChecker {
    /// Label of the next task; `None` before the first.
    expects: Option<ExpectedNext>,
    visits: BTreeMap<Name, u32>,
    /// The open visit, and its last attempt.
    open: Option<(Name, u32, u32)>,
    attempts_ended: u32,
    jumps: u32,
}

#[derive(Debug, Clone, PartialEq)]
enum ExpectedNext {
    Task(Name),
    End,
    Failure(Name),
}

impl LogChecker {
    pub(crate) fn new(playbook: Arc<CheckedPlaybook>) -> Self {
        Self {
            playbook,
            ctx: Map::new(),
            tokens: 0,
            events: 0,
            ends: 0,
            child_ends: BTreeMap::new(),
            seq: Seq(0),
            generation: 1,
            is_ended: false,
            is_stopping: false,
            is_paused: false,
            failures: BTreeSet::new(),
            timers: BTreeMap::new(),
            claimed: BTreeMap::new(),
            runs: BTreeMap::new(),
        }
    }

    /// Checks one event against the state before it.
    pub(crate) fn check_event(&mut self, event: &Event, before: Option<&ExecutionState>, now: Time) -> CheckResult {
        self.events += 1;
        self.c02_seqs_are_gapless(event)?;
        c07_causes_precede_events(event)?;
        self.c10_nothing_follows_the_end(event)?;
        self.c14_nothing_starts_while_stopping(event)?;
        self.c19_runs_end_once(event)?;
        self.c21_iterations_end_once(event)?;
        self.c26_epochs_increase(event)?;
        self.c34_timers_fire_once_and_not_early(event, now)?;
        self.c33_pipelines_follow_their_directives(event)?;
        match &event.body {
            EventBody::WorkflowStarted(_) => self.tokens += 1,
            EventBody::StepScheduled(scheduled) => {
                self.check_scheduled(event, scheduled, before)?;
            }
            EventBody::NextEvaluated(next) => self.check_routing(event, next)?,
            EventBody::AdmitEvaluated(admit) if admit.discarded => {
                self.tokens -= i64::try_from(admit.tokens.len()).expect("the number of tokens fits");
            }
            EventBody::CtxPatched(patched) => {
                let patch = patched.patch.parse_as().unwrap_or_default();
                model::ctx::apply_patch(&mut self.ctx, &patch);
            }
            _ => {}
        }
        Ok(())
    }

    fn c02_seqs_are_gapless(&mut self, event: &Event) -> CheckResult {
        let expected = self.seq.next();
        self.seq = event.seq;
        check_invariant(2, event.seq == expected, || {
            format!("sequence number {}, expected {expected}", event.seq)
        })
    }

    fn c10_nothing_follows_the_end(&mut self, event: &Event) -> CheckResult {
        match &event.body {
            EventBody::ExecutionRetried(retried) => {
                check_invariant(10, self.is_ended && retried.generation == self.generation + 1, || {
                    "retried before the execution ended".to_owned()
                })?;
                self.generation += 1;
                self.is_ended = false;
                self.is_stopping = false;
                self.is_paused = false;
                self.failures.clear();
                self.reset_failed();
                Ok(())
            }
            EventBody::PlaybookProcessed(_) => Ok(()),
            _ if self.is_ended => check_invariant(10, false, || format!("{} after the end", event.kind())),
            EventBody::PlaybookFinished(finished) => {
                self.is_ended = true;
                self.ends += 1;
                self.timers.clear();
                let is_clean = self.failures.is_empty();
                check_invariant(12, finished.ended != EndStatus::Success || is_clean, || {
                    "the execution succeeded despite an unhandled failure".to_owned()
                })
            }
            _ => Ok(()),
        }
    }

    /// Restarts what failed or was interrupted.
    fn reset_failed(&mut self) {
        for run in self.runs.values_mut() {
            run.is_ended |= run.is_final;
            for pipeline in run.pipelines.values_mut() {
                if let Some((label, ..)) = &pipeline.open {
                    pipeline.expects = Some(ExpectedNext::Task(label.clone()));
                } else if let Some(ExpectedNext::Failure(label)) = &pipeline.expects {
                    pipeline.expects = Some(ExpectedNext::Task(label.clone()));
                }
            }
        }
    }

    fn c14_nothing_starts_while_stopping(&mut self, event: &Event) -> CheckResult {
        match &event.body {
            EventBody::CancelRequested(_) => self.is_stopping = true,
            EventBody::PlaybookPaused(_) => self.is_paused = true,
            EventBody::PlaybookResumed(_) => self.is_paused = false,
            EventBody::CommandIssued(_) => {
                check_invariant(14, !self.is_stopping, || {
                    "a command was issued after the cancel request".to_owned()
                })?;
                check_invariant(14, !self.is_paused, || "a command was issued while paused".to_owned())?;
            }
            EventBody::StepScheduled(_) | EventBody::NextEvaluated(_) => {
                check_invariant(14, !self.is_stopping, || {
                    format!("{} after the cancel request", event.kind())
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn c19_runs_end_once(&mut self, event: &Event) -> CheckResult {
        let Some(id) = event.location.step_run_id() else {
            return Ok(());
        };
        let generation = self.generation;
        let is_scheduled = self.runs.contains_key(&id);
        if let EventBody::StepScheduled(scheduled) = &event.body {
            check_invariant(19, !is_scheduled, || format!("{id} was scheduled twice"))?;
            check_invariant(35, id.run <= RUNS_MAX, || format!("{id} runs too often"))?;
            let run = self.runs.entry(id).or_default();
            run.is_final = scheduled.is_final;
            return Ok(());
        }
        check_invariant(19, is_scheduled, || {
            format!("{} of {id}, which was not scheduled", event.kind())
        })?;
        let is_loop = self.step(&id).is_some_and(|step| step.loop_.is_some());
        let run = self.runs.get_mut(&id).expect("the run is known");
        check_invariant(19, !run.is_ended, || {
            format!("{} of {id}, which has ended", event.kind())
        })?;
        if event.kind().is_boundary() {
            let failed = matches!(event.body, EventBody::StepFailed(_));
            let is_first = run
                .boundary
                .is_none_or(|(when, was_failed)| when < generation && was_failed);
            check_invariant(19, is_first, || format!("{id} ended twice"))?;
            check_invariant(20, !(is_loop && matches!(event.body, EventBody::StepDone(_))), || {
                format!("{id} is a loop, but ended with step.done")
            })?;
            run.boundary = Some((generation, failed));
            if let (EventBody::LoopDone(done), Some(total)) = (&event.body, run.total) {
                let ended = run.iterations.values().filter(|end| end.is_some()).count() as u64;
                check_invariant(21, ended == total && done.stats.total == total, || {
                    format!("{id} is done after {ended} of {total} iterations")
                })?;
                check_invariant(21, done.stats.succeeded == run.done.len() as u64, || {
                    format!("{id} has wrong counts")
                })?;
            }
        }
        if let EventBody::LoopStarted(started) = &event.body {
            check_invariant(20, run.total.is_none(), || format!("{id} started its loop twice"))?;
            run.total = Some(started.total);
        }
        if let EventBody::FrameClaimed(frame) = &event.body {
            check_invariant(20, run.total == Some(frame.from), || {
                format!("{id} claimed a frame that does not follow the rows before it")
            })?;
            run.total = Some(frame.from + frame.rows);
        }
        Ok(())
    }

    fn c21_iterations_end_once(&mut self, event: &Event) -> CheckResult {
        let (Some(id), Some(index)) = (event.location.step_run_id(), event.location.iteration) else {
            return Ok(());
        };
        let generation = self.generation;
        let loop_ = self.step(&id).and_then(|step| step.loop_.clone());
        let is_sequential = loop_.is_some_and(|loop_| loop_.mode == LoopMode::Sequential);
        let run = self.runs.get_mut(&id).expect("the run is known");
        let total = run.total.unwrap_or(0);
        match &event.body {
            EventBody::IterationStarted(_) => {
                check_invariant(21, index < total, || format!("{id} has no iteration {index}"))?;
                check_invariant(21, !run.iterations.contains_key(&index), || {
                    format!("iteration {index} of {id} started twice")
                })?;
                let lower = (0..index).all(|lower| run.iterations.get(&lower).is_some_and(Option::is_some));
                check_invariant(22, !is_sequential || lower, || {
                    format!("iteration {index} of {id} started before an earlier one")
                })?;
                run.iterations.insert(index, None);
            }
            EventBody::IterationDone(_) | EventBody::IterationFailed(_) => {
                let end = run.iterations.entry(index).or_insert(None);
                let is_first = end.is_none_or(|when| when < generation) && !run.done.contains(&index);
                check_invariant(21, is_first, || format!("iteration {index} of {id} ended twice"))?;
                *end = Some(generation);
                if matches!(event.body, EventBody::IterationDone(_)) {
                    run.done.insert(index);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn c26_epochs_increase(&mut self, event: &Event) -> CheckResult {
        let EventBody::CommandClaimed(claimed) = &event.body else {
            return Ok(());
        };
        let before = self.claimed.insert(claimed.command, claimed.lease_epoch);
        let increases = before.is_none_or(|before| before < claimed.lease_epoch);
        check_invariant(26, increases, || {
            format!("command {} was claimed twice with one epoch", claimed.command)
        })
    }

    fn c34_timers_fire_once_and_not_early(&mut self, event: &Event, now: Time) -> CheckResult {
        match &event.body {
            EventBody::TimerSet(set) => {
                self.timers.insert(event.seq, (set.due, false));
                Ok(())
            }
            EventBody::TimerFired(fired) => {
                let timer = self.timers.get_mut(&fired.timer);
                let is_fulfilled = timer.is_some_and(|(due, has_fired)| {
                    let is_first = !std::mem::replace(has_fired, true);
                    is_first && *due <= now
                });
                check_invariant(34, is_fulfilled, || {
                    format!("timer {} fired early, fired twice, or was not set", fired.timer)
                })
            }
            _ => Ok(()),
        }
    }

    fn c33_pipelines_follow_their_directives(&mut self, event: &Event) -> CheckResult {
        let Some(id) = event.location.step_run_id() else {
            return Ok(());
        };
        let (plan, generation) = (self.playbook.clone(), self.generation);
        let Some(step) = plan.playbook.step(id.step.as_str()) else {
            return Ok(());
        };
        // The pipeline that claims the rows of a loop starts again for each frame.
        let claim = step.cursor_claim().filter(|_| event.location.iteration.is_none());
        let step = claim.map_or(step, |claim| &claim.step);
        let run = self.runs.get_mut(&id).expect("the run is known");
        let pipeline = run.pipelines.entry(event.location.iteration).or_default();
        if claim.is_some() && matches!(event.body, EventBody::LoopStarted(_) | EventBody::FrameClaimed(_)) {
            let expected = pipeline.expects.take();
            check_invariant(33, expected == Some(ExpectedNext::End), || {
                format!("{id} has rows while its claim expects {expected:?}")
            })?;
        }
        let is_end = matches!(event.body, EventBody::StepDone(_) | EventBody::IterationDone(_));
        if is_end && !step.tasks.is_empty() {
            check_invariant(33, pipeline.expects == Some(ExpectedNext::End), || {
                format!("{id} succeeded while it expects {:?}", pipeline.expects)
            })?;
        }
        if matches!(event.body, EventBody::IterationFailed(_)) && event.source == EventSource::Worker {
            let failed = matches!(pipeline.expects, Some(ExpectedNext::Failure(_)));
            check_invariant(33, failed, || {
                format!("{id} failed while it expects {:?}", pipeline.expects)
            })?;
        }
        match &event.location.task {
            Some(label) => pipeline.check_event(step, label, event, generation),
            None => Ok(()),
        }
    }

    fn check_scheduled(
        &mut self,
        event: &Event,
        scheduled: &StepScheduled,
        before: Option<&ExecutionState>,
    ) -> CheckResult {
        self.tokens -= i64::try_from(scheduled.tokens.len()).expect("the number of tokens fits");
        let (Some(id), Some(before)) = (event.location.step_run_id(), before) else {
            return Ok(());
        };
        match self.step(&id) {
            Some(step) if step.is_joining && !scheduled.is_final => self.c17_joins_wait(&id, scheduled, before),
            _ => Ok(()),
        }
    }

    /// A join runs when no live token can still reach it, with all tokens that wait there.
    fn c17_joins_wait(&self, id: &StepRunId, scheduled: &StepScheduled, before: &ExecutionState) -> CheckResult {
        let graph = &self.playbook.graph;
        let here = before
            .tokens
            .iter()
            .filter(|(_, token)| token.step == id.step && !token.parked);
        let left = here.filter(|(token, _)| !scheduled.tokens.contains(token)).count();
        check_invariant(17, left == 0, || format!("{id} left {left} tokens behind"))?;
        if !graph.is_join(&id.step) {
            return Ok(());
        }
        let coming = before.runs.keys().find(|run| graph.reaches(&run.step, &id.step));
        check_invariant(17, coming.is_none(), || format!("{id} did not wait for {coming:?}"))?;
        let is_cycle = |step: &Name| graph.reaches(&id.step, step);
        let on_the_way = before
            .tokens
            .values()
            .find(|token| !token.parked && graph.reaches(&token.step, &id.step) && !is_cycle(&token.step));
        check_invariant(17, on_the_way.is_none(), || {
            format!("{id} did not wait for a token at {on_the_way:?}")
        })
    }

    fn check_routing(&mut self, event: &Event, next: &NextEvaluated) -> CheckResult {
        let Some(id) = event.location.step_run_id() else {
            return Ok(());
        };
        self.tokens += i64::try_from(next.selected.len()).expect("the number of tokens fits");
        let generation = self.generation;
        let plan = self.playbook.clone();
        let step = plan.playbook.step(id.step.as_str());
        let run = self.runs.get_mut(&id).expect("the run is known");
        let (_, failed) = run.boundary.unwrap_or((0, false));
        check_invariant(19, run.boundary.is_some(), || {
            format!("the arcs of {id} were evaluated before its end")
        })?;
        check_invariant(19, run.routed != Some(generation), || {
            format!("the arcs of {id} were evaluated twice")
        })?;
        run.routed = Some(generation);
        run.is_ended = !next.held;
        check_invariant(12, !failed || !next.matched.is_empty() || next.held, || {
            format!("the failure of {id} was dropped")
        })?;
        if next.held || next.error.is_some() {
            self.failures.insert(id.clone());
        }
        match step {
            Some(step) if !run.is_final => c18_arcs_match_the_mode(step, next),
            _ => Ok(()),
        }
    }

    fn step(&self, id: &StepRunId) -> Option<&Step> {
        self.playbook.playbook.step(id.step.as_str())
    }
}

fn c07_causes_precede_events(event: &Event) -> CheckResult {
    let is_root = matches!(event.body, EventBody::ExecutionRequested(_));
    let is_fulfilled = match event.cause_seq {
        None => is_root && event.seq == Seq(1),
        Some(cause) => !is_root && cause < event.seq && cause > Seq(0),
    };
    check_invariant(7, is_fulfilled, || {
        format!("the cause of event {} is {:?}", event.seq, event.cause_seq)
    })
}

fn c18_arcs_match_the_mode(step: &Step, next: &NextEvaluated) -> CheckResult {
    let matching = next.guards.iter().filter(|guard| **guard == Some(true)).count();
    let fired = next.selected.len();
    match step.next.mode {
        RouteMode::Exclusive => {
            let after = next.guards.iter().skip_while(|guard| **guard != Some(true)).skip(1);
            let later_matches = after.filter(|guard| guard.is_some()).count();
            check_invariant(18, fired <= 1 && later_matches == 0, || {
                format!("`{}` is exclusive, but took {fired} arcs", step.name)
            })
        }
        RouteMode::Inclusive => check_invariant(18, fired == matching, || {
            format!("`{}` took {fired} of {matching} arcs", step.name)
        }),
    }
}

impl PipelineChecker {
    fn check_event(&mut self, step: &Step, label: &Name, event: &Event, generation: u32) -> CheckResult {
        let (visit, attempt) = (event.location.visit, event.location.attempt);
        let describe = || format!("`{}` task `{label}` visit {visit} attempt {attempt}", step.name);
        match &event.body {
            EventBody::TaskStarted(_) if attempt > 1 => {
                let is_fulfilled =
                    self.open == Some((label.clone(), visit, attempt - 1)) && self.attempts_ended == attempt - 1;
                check_invariant(32, is_fulfilled, || format!("{} follows {:?}", describe(), self.open))?;
                self.open = Some((label.clone(), visit, attempt));
            }
            EventBody::TaskStarted(_) => {
                let first = step.tasks.first().map(|task| task.label.clone());
                let expected = self.expects.clone().or(first.map(ExpectedNext::Task));
                check_invariant(33, expected == Some(ExpectedNext::Task(label.clone())), || {
                    format!("{}, expected {expected:?}", describe())
                })?;
                let visits = self.visits.entry(label.clone()).or_insert(0);
                *visits += 1;
                check_invariant(33, *visits == visit, || format!("{} is entry {visits}", describe()))?;
                self.open = Some((label.clone(), visit, 1));
                self.attempts_ended = 0;
            }
            EventBody::AttemptStarted(_) => {
                let tried = self.open.clone().map_or(0, |(.., attempt)| attempt);
                check_invariant(32, attempt == self.attempts_ended + 1 && attempt >= tried, || {
                    format!("{} started after {} results", describe(), self.attempts_ended)
                })?;
                // A retry of the execution allows one more attempt of a visit whose effect is unknown.
                let bound = attempts_max(step, label) + generation - 1;
                check_invariant(32, attempt <= bound, || {
                    format!("{} is one attempt too many", describe())
                })?;
                self.open = Some((label.clone(), visit, attempt));
            }
            EventBody::AttemptDone(_) | EventBody::AttemptFailed(_) => {
                check_invariant(32, attempt == self.attempts_ended + 1, || {
                    format!("{} has a result after {}", describe(), self.attempts_ended)
                })?;
                self.attempts_ended = attempt;
            }
            EventBody::TaskDone(ended) | EventBody::TaskFailed(ended) => {
                let is_open = self
                    .open
                    .as_ref()
                    .is_some_and(|(open, at, _)| open == label && *at == visit);
                check_invariant(32, is_open, || {
                    format!("{} ended while {:?} is open", describe(), self.open)
                })?;
                self.open = None;
                self.attempts_ended = attempt;
                let next = || {
                    let (index, _) = step.task(label.as_str())?;
                    step.tasks.get(index + 1).map(|task| task.label.clone())
                };
                self.expects = Some(match (ended.directive, &ended.to) {
                    (Directive::Fail, _) => ExpectedNext::Failure(label.clone()),
                    (Directive::Jump, Some(to)) => ExpectedNext::Task(to.clone()),
                    (Directive::Break, _) => ExpectedNext::End,
                    _ => next().map_or(ExpectedNext::End, ExpectedNext::Task),
                });
                self.jumps += u32::from(ended.directive == Directive::Jump);
                check_invariant(35, self.jumps <= pipeline::JUMPS_MAX, || {
                    format!("{} jumps too often", describe())
                })?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The largest number of attempts that a rule of the task allows.
fn attempts_max(step: &Step, label: &Name) -> u32 {
    let rules = step.task(label.as_str()).map(|(_, task)| &task.policy.rules);
    let tries = rules
        .into_iter()
        .flatten()
        .map(|rule| match &rule.action.retry.attempts {
            Some(Tree::Literal(value)) => value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            _ => pipeline::ATTEMPTS_DEFAULT,
        });
    tries.max().unwrap_or(1)
}
