//! Checks one log event by event, for invariants that hold for every playbook.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::State;
use model::event::{Body, Ending, Event, NextEvaluated, Source, StepScheduled};
use model::id::{ExecutionId, LeaseEpoch, Name, Seq, StepRunId};
use model::playbook::{Directive, LoopMode, RouteMode, Step};
use model::template::Tree;
use model::time::Time;
use serde_json::{Map, Value};

use crate::sim::checks::{Done, Plan, must};

/// Maximum number of runs of one step in a simulation.
pub(crate) const RUNS_MAX: u32 = 16;

/// What one log has recorded so far.
pub(crate) struct Watch {
    pub(crate) plan: Arc<Plan>,
    pub(crate) ctx: Map<String, Value>,
    pub(crate) tokens: i64,
    pub(crate) events: usize,
    /// Number of ends.
    pub(crate) ends: u32,
    /// Number of reports about each child.
    pub(crate) heard: BTreeMap<ExecutionId, u32>,
    pub(crate) seq: Seq,
    generation: u32,
    ended: bool,
    stopping: bool,
    paused: bool,
    failures: BTreeSet<StepRunId>,
    timers: BTreeMap<Seq, (Time, bool)>,
    claimed: BTreeMap<Seq, LeaseEpoch>,
    runs: BTreeMap<StepRunId, RunWatch>,
}

#[derive(Default)]
struct RunWatch {
    is_final: bool,
    boundary: Option<(u32, bool)>,
    routed: Option<u32>,
    is_over: bool,
    total: Option<u64>,
    iterations: BTreeMap<u64, Option<u32>>,
    done: BTreeSet<u64>,
    pipelines: BTreeMap<Option<u64>, PipeWatch>,
}

#[derive(Default)]
struct PipeWatch {
    /// Label of the next task; `None` before the first.
    expects: Option<Expect>,
    visits: BTreeMap<Name, u32>,
    /// The open visit, and its last attempt.
    open: Option<(Name, u32, u32)>,
    answered: u32,
    jumps: u32,
}

#[derive(Debug, Clone, PartialEq)]
enum Expect {
    Task(Name),
    End,
    Failure(Name),
}

impl Watch {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self {
            plan,
            ctx: Map::new(),
            tokens: 0,
            events: 0,
            ends: 0,
            heard: BTreeMap::new(),
            seq: Seq(0),
            generation: 1,
            ended: false,
            stopping: false,
            paused: false,
            failures: BTreeSet::new(),
            timers: BTreeMap::new(),
            claimed: BTreeMap::new(),
            runs: BTreeMap::new(),
        }
    }

    /// Checks one event against the state before it.
    pub(crate) fn see(&mut self, event: &Event, before: Option<&State>, now: Time) -> Done {
        self.events += 1;
        self.c02_seqs_are_gapless(event)?;
        c07_causes_lie_before(event)?;
        self.c10_nothing_follows_the_end(event)?;
        self.c14_nothing_begins_while_stopping(event)?;
        self.c19_runs_go_one_way(event)?;
        self.c21_iterations_end_once(event)?;
        self.c26_epochs_increase(event)?;
        self.c34_timers_fire_once_and_not_early(event, now)?;
        self.c33_pipelines_follow_their_directives(event)?;
        match &event.body {
            Body::WorkflowStarted(_) => self.tokens += 1,
            Body::StepScheduled(scheduled) => self.scheduled(event, scheduled, before)?,
            Body::NextEvaluated(next) => self.routed(event, next)?,
            Body::AdmitEvaluated(admit) if admit.discarded => {
                self.tokens -=
                    i64::try_from(admit.tokens.len()).expect("the number of tokens fits");
            }
            Body::CtxPatched(patched) => {
                let patch = patched.patch.read().unwrap_or_default();
                model::ctx::apply(&mut self.ctx, &patch);
            }
            _ => {}
        }
        Ok(())
    }

    fn c02_seqs_are_gapless(&mut self, event: &Event) -> Done {
        let expected = self.seq.next();
        self.seq = event.seq;
        must(2, event.seq == expected, || {
            format!("sequence number {}, expected {expected}", event.seq)
        })
    }

    fn c10_nothing_follows_the_end(&mut self, event: &Event) -> Done {
        match &event.body {
            Body::ExecutionRetried(retried) => {
                must(
                    10,
                    self.ended && retried.generation == self.generation + 1,
                    || "retried before the execution ended".to_owned(),
                )?;
                self.generation += 1;
                self.ended = false;
                self.stopping = false;
                self.paused = false;
                self.failures.clear();
                self.rewind();
                Ok(())
            }
            Body::PlaybookProcessed(_) => Ok(()),
            _ if self.ended => must(10, false, || format!("{} after the end", event.kind())),
            Body::PlaybookFinished(finished) => {
                self.ended = true;
                self.ends += 1;
                self.timers.clear();
                let is_clean = self.failures.is_empty();
                must(12, finished.ended != Ending::Success || is_clean, || {
                    "the execution succeeded despite an unhandled failure".to_owned()
                })
            }
            _ => Ok(()),
        }
    }

    /// Restarts what failed or was interrupted.
    fn rewind(&mut self) {
        for run in self.runs.values_mut() {
            run.is_over |= run.is_final;
            for pipeline in run.pipelines.values_mut() {
                if let Some((label, ..)) = &pipeline.open {
                    pipeline.expects = Some(Expect::Task(label.clone()));
                } else if let Some(Expect::Failure(label)) = &pipeline.expects {
                    pipeline.expects = Some(Expect::Task(label.clone()));
                }
            }
        }
    }

    fn c14_nothing_begins_while_stopping(&mut self, event: &Event) -> Done {
        match &event.body {
            Body::CancelRequested(_) => self.stopping = true,
            Body::PlaybookPaused(_) => self.paused = true,
            Body::PlaybookResumed(_) => self.paused = false,
            Body::CommandIssued(_) => {
                must(14, !self.stopping, || {
                    "a command was issued after the cancel request".to_owned()
                })?;
                must(14, !self.paused, || {
                    "a command was issued while paused".to_owned()
                })?;
            }
            Body::StepScheduled(_) | Body::NextEvaluated(_) => {
                must(14, !self.stopping, || {
                    format!("{} after the cancel request", event.kind())
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn c19_runs_go_one_way(&mut self, event: &Event) -> Done {
        let Some(id) = event.at.step_run_id() else {
            return Ok(());
        };
        let generation = self.generation;
        let known = self.runs.contains_key(&id);
        if let Body::StepScheduled(scheduled) = &event.body {
            must(19, !known, || format!("{id} was scheduled twice"))?;
            must(35, id.run <= RUNS_MAX, || format!("{id} runs too often"))?;
            let run = self.runs.entry(id).or_default();
            run.is_final = scheduled.is_final;
            return Ok(());
        }
        must(19, known, || {
            format!("{} of {id}, which was not scheduled", event.kind())
        })?;
        let is_loop = self.step(&id).is_some_and(|step| step.loop_.is_some());
        let run = self.runs.get_mut(&id).expect("the run is known");
        must(19, !run.is_over, || {
            format!("{} of {id}, which has ended", event.kind())
        })?;
        if event.kind().is_boundary() {
            let failed = matches!(event.body, Body::StepFailed(_));
            let is_first = run
                .boundary
                .is_none_or(|(when, was_failed)| when < generation && was_failed);
            must(19, is_first, || format!("{id} ended twice"))?;
            must(
                20,
                !(is_loop && matches!(event.body, Body::StepDone(_))),
                || format!("{id} is a loop, but ended with step.done"),
            )?;
            run.boundary = Some((generation, failed));
            if let (Body::LoopDone(done), Some(total)) = (&event.body, run.total) {
                let ended = run.iterations.values().filter(|end| end.is_some()).count() as u64;
                must(21, ended == total && done.stats.total == total, || {
                    format!("{id} is done after {ended} of {total} iterations")
                })?;
                must(21, done.stats.succeeded == run.done.len() as u64, || {
                    format!("{id} has wrong counts")
                })?;
            }
        }
        if let Body::LoopStarted(started) = &event.body {
            must(20, run.total.is_none(), || {
                format!("{id} started its loop twice")
            })?;
            run.total = Some(started.total);
        }
        if let Body::FrameClaimed(frame) = &event.body {
            must(20, run.total == Some(frame.from), || {
                format!("{id} claimed a frame that does not follow the rows before it")
            })?;
            run.total = Some(frame.from + frame.rows);
        }
        Ok(())
    }

    fn c21_iterations_end_once(&mut self, event: &Event) -> Done {
        let (Some(id), Some(index)) = (event.at.step_run_id(), event.at.iteration) else {
            return Ok(());
        };
        let generation = self.generation;
        let loop_ = self.step(&id).and_then(|step| step.loop_.clone());
        let is_sequential = loop_.is_some_and(|loop_| loop_.mode == LoopMode::Sequential);
        let run = self.runs.get_mut(&id).expect("the run is known");
        let total = run.total.unwrap_or(0);
        match &event.body {
            Body::IterationStarted(_) => {
                must(21, index < total, || {
                    format!("{id} has no iteration {index}")
                })?;
                must(21, !run.iterations.contains_key(&index), || {
                    format!("iteration {index} of {id} started twice")
                })?;
                let lower =
                    (0..index).all(|lower| run.iterations.get(&lower).is_some_and(Option::is_some));
                must(22, !is_sequential || lower, || {
                    format!("iteration {index} of {id} started before an earlier one")
                })?;
                run.iterations.insert(index, None);
            }
            Body::IterationDone(_) | Body::IterationFailed(_) => {
                let end = run.iterations.entry(index).or_insert(None);
                let is_first =
                    end.is_none_or(|when| when < generation) && !run.done.contains(&index);
                must(21, is_first, || {
                    format!("iteration {index} of {id} ended twice")
                })?;
                *end = Some(generation);
                if matches!(event.body, Body::IterationDone(_)) {
                    run.done.insert(index);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn c26_epochs_increase(&mut self, event: &Event) -> Done {
        let Body::CommandClaimed(claimed) = &event.body else {
            return Ok(());
        };
        let before = self.claimed.insert(claimed.command, claimed.lease_epoch);
        let increases = before.is_none_or(|before| before < claimed.lease_epoch);
        must(26, increases, || {
            format!(
                "command {} was claimed twice with one epoch",
                claimed.command
            )
        })
    }

    fn c34_timers_fire_once_and_not_early(&mut self, event: &Event, now: Time) -> Done {
        match &event.body {
            Body::TimerSet(set) => {
                self.timers.insert(event.seq, (set.due, false));
                Ok(())
            }
            Body::TimerFired(fired) => {
                let timer = self.timers.get_mut(&fired.timer);
                let holds = timer.is_some_and(|(due, has_fired)| {
                    let is_first = !std::mem::replace(has_fired, true);
                    is_first && *due <= now
                });
                must(34, holds, || {
                    format!(
                        "timer {} fired early, fired twice, or was not set",
                        fired.timer
                    )
                })
            }
            _ => Ok(()),
        }
    }

    fn c33_pipelines_follow_their_directives(&mut self, event: &Event) -> Done {
        let Some(id) = event.at.step_run_id() else {
            return Ok(());
        };
        let (plan, generation) = (self.plan.clone(), self.generation);
        let Some(step) = plan.playbook.step(id.step.as_str()) else {
            return Ok(());
        };
        // The pipeline that claims the rows of a loop starts again for each frame.
        let claim = step.claim().filter(|_| event.at.iteration.is_none());
        let step = claim.map_or(step, |claim| &claim.step);
        let run = self.runs.get_mut(&id).expect("the run is known");
        let pipeline = run.pipelines.entry(event.at.iteration).or_default();
        if claim.is_some() && matches!(event.body, Body::LoopStarted(_) | Body::FrameClaimed(_)) {
            let expected = pipeline.expects.take();
            must(33, expected == Some(Expect::End), || {
                format!("{id} has rows while its claim expects {expected:?}")
            })?;
        }
        let is_end = matches!(event.body, Body::StepDone(_) | Body::IterationDone(_));
        if is_end && !step.tasks.is_empty() {
            must(33, pipeline.expects == Some(Expect::End), || {
                format!("{id} succeeded while it expects {:?}", pipeline.expects)
            })?;
        }
        if matches!(event.body, Body::IterationFailed(_)) && event.source == Source::Worker {
            let failed = matches!(pipeline.expects, Some(Expect::Failure(_)));
            must(33, failed, || {
                format!("{id} failed while it expects {:?}", pipeline.expects)
            })?;
        }
        match &event.at.task {
            Some(label) => pipeline.see(step, label, event, generation),
            None => Ok(()),
        }
    }

    fn scheduled(
        &mut self,
        event: &Event,
        scheduled: &StepScheduled,
        before: Option<&State>,
    ) -> Done {
        self.tokens -= i64::try_from(scheduled.tokens.len()).expect("the number of tokens fits");
        let (Some(id), Some(before)) = (event.at.step_run_id(), before) else {
            return Ok(());
        };
        match self.step(&id) {
            Some(step) if step.joins && !scheduled.is_final => {
                self.c17_joins_wait(&id, scheduled, before)
            }
            _ => Ok(()),
        }
    }

    /// A join runs when no live token can still reach it, with all tokens that wait there.
    fn c17_joins_wait(&self, id: &StepRunId, scheduled: &StepScheduled, before: &State) -> Done {
        let graph = &self.plan.graph;
        let here = before
            .tokens
            .iter()
            .filter(|(_, token)| token.step == id.step && !token.parked);
        let left = here
            .filter(|(token, _)| !scheduled.tokens.contains(token))
            .count();
        must(17, left == 0, || format!("{id} left {left} tokens behind"))?;
        if !graph.is_meeting_place(&id.step) {
            return Ok(());
        }
        let coming = before
            .runs
            .keys()
            .find(|run| graph.reaches(&run.step, &id.step));
        must(17, coming.is_none(), || {
            format!("{id} did not wait for {coming:?}")
        })?;
        let is_cycle = |step: &Name| graph.reaches(&id.step, step);
        let on_the_way = before.tokens.values().find(|token| {
            !token.parked && graph.reaches(&token.step, &id.step) && !is_cycle(&token.step)
        });
        must(17, on_the_way.is_none(), || {
            format!("{id} did not wait for a token at {on_the_way:?}")
        })
    }

    fn routed(&mut self, event: &Event, next: &NextEvaluated) -> Done {
        let Some(id) = event.at.step_run_id() else {
            return Ok(());
        };
        self.tokens += i64::try_from(next.selected.len()).expect("the number of tokens fits");
        let generation = self.generation;
        let plan = self.plan.clone();
        let step = plan.playbook.step(id.step.as_str());
        let run = self.runs.get_mut(&id).expect("the run is known");
        let (_, failed) = run.boundary.unwrap_or((0, false));
        must(19, run.boundary.is_some(), || {
            format!("the arcs of {id} were evaluated before its end")
        })?;
        must(19, run.routed != Some(generation), || {
            format!("the arcs of {id} were evaluated twice")
        })?;
        run.routed = Some(generation);
        run.is_over = !next.held;
        must(12, !failed || !next.matched.is_empty() || next.held, || {
            format!("the failure of {id} was dropped")
        })?;
        if next.held || next.error.is_some() {
            self.failures.insert(id.clone());
        }
        match step {
            Some(step) if !run.is_final => c18_arcs_fire_as_the_mode_says(step, next),
            _ => Ok(()),
        }
    }

    fn step(&self, id: &StepRunId) -> Option<&Step> {
        self.plan.playbook.step(id.step.as_str())
    }
}

fn c07_causes_lie_before(event: &Event) -> Done {
    let is_root = matches!(event.body, Body::ExecutionRequested(_));
    let holds = match event.cause_seq {
        None => is_root && event.seq == Seq(1),
        Some(cause) => !is_root && cause < event.seq && cause > Seq(0),
    };
    must(7, holds, || {
        format!("the cause of event {} is {:?}", event.seq, event.cause_seq)
    })
}

fn c18_arcs_fire_as_the_mode_says(step: &Step, next: &NextEvaluated) -> Done {
    let held = next
        .guards
        .iter()
        .filter(|guard| **guard == Some(true))
        .count();
    let fired = next.selected.len();
    match step.next.mode {
        RouteMode::Exclusive => {
            let after = next
                .guards
                .iter()
                .skip_while(|guard| **guard != Some(true))
                .skip(1);
            let rest = after.filter(|guard| guard.is_some()).count();
            must(18, fired <= 1 && rest == 0, || {
                format!("`{}` is exclusive, but took {fired} arcs", step.name)
            })
        }
        RouteMode::Inclusive => must(18, fired == held, || {
            format!("`{}` took {fired} of {held} arcs", step.name)
        }),
    }
}

impl PipeWatch {
    fn see(&mut self, step: &Step, label: &Name, event: &Event, generation: u32) -> Done {
        let (visit, attempt) = (event.at.visit, event.at.attempt);
        let place = || {
            format!(
                "`{}` task `{label}` visit {visit} attempt {attempt}",
                step.name
            )
        };
        match &event.body {
            Body::TaskStarted(_) if attempt > 1 => {
                let holds = self.open == Some((label.clone(), visit, attempt - 1))
                    && self.answered == attempt - 1;
                must(32, holds, || format!("{} follows {:?}", place(), self.open))?;
                self.open = Some((label.clone(), visit, attempt));
            }
            Body::TaskStarted(_) => {
                let first = step.tasks.first().map(|task| task.label.clone());
                let expected = self.expects.clone().or(first.map(Expect::Task));
                must(33, expected == Some(Expect::Task(label.clone())), || {
                    format!("{}, expected {expected:?}", place())
                })?;
                let visits = self.visits.entry(label.clone()).or_insert(0);
                *visits += 1;
                must(33, *visits == visit, || {
                    format!("{} is entry {visits}", place())
                })?;
                self.open = Some((label.clone(), visit, 1));
                self.answered = 0;
            }
            Body::AttemptStarted(_) => {
                let tried = self.open.clone().map_or(0, |(.., attempt)| attempt);
                must(32, attempt == self.answered + 1 && attempt >= tried, || {
                    format!("{} started after {} results", place(), self.answered)
                })?;
                // A retry of the execution allows one more attempt of a visit whose effect is unknown.
                let bound = attempts_max(step, label) + generation - 1;
                must(32, attempt <= bound, || {
                    format!("{} is one attempt too many", place())
                })?;
                self.open = Some((label.clone(), visit, attempt));
            }
            Body::AttemptDone(_) | Body::AttemptFailed(_) => {
                must(32, attempt == self.answered + 1, || {
                    format!("{} has a result after {}", place(), self.answered)
                })?;
                self.answered = attempt;
            }
            Body::TaskDone(ended) | Body::TaskFailed(ended) => {
                let is_open = self
                    .open
                    .as_ref()
                    .is_some_and(|(open, at, _)| open == label && *at == visit);
                must(32, is_open, || {
                    format!("{} ended while {:?} is open", place(), self.open)
                })?;
                self.open = None;
                self.answered = attempt;
                let next = || {
                    let (index, _) = step.task(label.as_str())?;
                    step.tasks.get(index + 1).map(|task| task.label.clone())
                };
                self.expects = Some(match (ended.directive, &ended.to) {
                    (Directive::Fail, _) => Expect::Failure(label.clone()),
                    (Directive::Jump, Some(to)) => Expect::Task(to.clone()),
                    (Directive::Break, _) => Expect::End,
                    _ => next().map_or(Expect::End, Expect::Task),
                });
                self.jumps += u32::from(ended.directive == Directive::Jump);
                must(35, self.jumps <= pipeline::JUMPS_MAX, || {
                    format!("{} jumps too often", place())
                })?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The largest number of attempts that a rule of the task allows.
fn attempts_max(step: &Step, label: &Name) -> u32 {
    let rules = step
        .task(label.as_str())
        .map(|(_, task)| &task.policy.rules);
    let tries = rules
        .into_iter()
        .flatten()
        .map(|rule| match &rule.then.retry.attempts {
            Some(Tree::Literal(value)) => value
                .as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(1),
            _ => pipeline::ATTEMPTS_DEFAULT,
        });
    tries.max().unwrap_or(1)
}
