//! One simulation: a phase with random faults, then one without, after which every execution must end.

use std::time::Duration;

use engine::{ExecutionLimits, Input, Refusal};
use model::command::ReportEnd;
use model::event::StopRequest;
use model::id::{CommandId, ExecutionId, WorkerId};
use model::raw::RawJson;

use crate::sim::bug::{Bug, Mutant};
use crate::sim::checks::{
    ExecutionChecks, c01_repeated_reports_leave_nothing, c27_stale_reports_leave_nothing,
};
use crate::sim::log_checker::RUNS_MAX;
use crate::sim::playbooks::{CHILD, draw_playbook};
use crate::sim::random::SeededRandom;
use crate::sim::seeded_answers::SeededAnswers;
use crate::world::{
    ActionResult, InputResult, LostReply, NoTamper, Order, Tamper, WorldCommand, WorldError,
    WorldServer,
};

/// How long a session lasts without a heartbeat.
const SESSION_TTL: Duration = Duration::from_secs(15);
/// Maximum number of actions until everything has ended, once faults have stopped.
const DRAIN_MAX: usize = 6_000;
const SERVERS: usize = 2;
const WORKERS: usize = 3;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the list of invariants.
    pub number: u32,
    /// What was observed.
    pub what: String,
}

/// Outcome of a simulation.
#[derive(Debug, Clone)]
pub struct SimReport {
    /// The playbook that it ran.
    pub playbook: String,
    /// Number of events in all logs.
    pub events: usize,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The actions, in order.
    pub trace: Vec<String>,
}

struct Simulation {
    server: WorldServer,
    random: SeededRandom,
    answers: SeededAnswers,
    checks: ExecutionChecks,
    workers: Vec<SimWorker>,
    /// Commands of workers that the servers consider dead, but that continue.
    lost_commands: Vec<WorldCommand>,
    /// Reports that arrive again.
    repeats: Vec<(CommandId, engine::CommandReport)>,
    root: ExecutionId,
    started: u32,
    trace: Vec<String>,
    traces: bool,
}

struct SimWorker {
    id: WorkerId,
    commands: Vec<WorldCommand>,
}

type SimResult = Result<(), Violation>;

/// Runs the simulation of a seed, optionally with an injected bug.
pub fn simulate(seed: u64, bug: Option<Bug>, traces: bool) -> SimReport {
    let mut random = SeededRandom::new(seed);
    let text = draw_playbook(&mut random);
    let tamper: Box<dyn Tamper> = match bug {
        Some(bug) => Box::new(Mutant::new(bug)),
        None => Box::new(NoTamper),
    };
    let limits = ExecutionLimits {
        step_runs_max: match bug {
            Some(Bug::RunForever) => u32::MAX,
            _ => RUNS_MAX,
        },
        depth_max: 3,
        ..ExecutionLimits::default()
    };
    let server = WorldServer::new(SERVERS, limits, tamper);
    server
        .register("drawn", &text)
        .expect("a store in memory accepts a playbook");
    server
        .register("child", CHILD)
        .expect("a store in memory accepts a playbook");
    let mut sim = Simulation {
        server,
        answers: SeededAnswers { seed },
        random,
        checks: ExecutionChecks::default(),
        workers: Vec::new(),
        lost_commands: Vec::new(),
        repeats: Vec::new(),
        root: ExecutionId(0),
        started: 0,
        trace: Vec::new(),
        traces,
    };
    let violation = sim.run_all().err();
    SimReport {
        playbook: text,
        events: sim.checks.event_count(),
        violation,
        trace: sim.trace,
    }
}

impl Simulation {
    fn run_all(&mut self) -> SimResult {
        for _ in 0..WORKERS {
            let worker = self.new_worker();
            self.workers.push(worker);
        }
        let submitted = self.server.submit("drawn", None);
        self.root = into_violation(submitted)?.expect("the playbook is in the catalog");
        self.check_commits()?;
        let actions = 30 + self.random.below(120);
        for _ in 0..actions {
            self.run_action()?;
        }
        self.drain()
    }

    fn new_worker(&mut self) -> SimWorker {
        self.started += 1;
        SimWorker {
            id: WorkerId(format!("worker-{}", self.started).into()),
            commands: Vec::new(),
        }
    }

    fn add_trace(&mut self, what: impl FnOnce() -> String) {
        if self.traces {
            let line = format!("{} {}", self.server.now(), what());
            self.trace.push(line);
        }
    }

    fn any_server(&mut self) -> usize {
        self.random.index(SERVERS)
    }

    /// Performs one random action.
    fn run_action(&mut self) -> SimResult {
        match self.random.below(100) {
            0..=11 => self.claim_commands()?,
            12..=54 => self.run_worker()?,
            55..=62 => self.deliver_message()?,
            63..=70 => self.fire_timer()?,
            71..=78 => self.advance_time(),
            79..=81 => self.crash_worker(),
            82..=85 => self.sweep_claims()?,
            86..=87 => self.send_repeated()?,
            88..=90 => self.run_lost_command()?,
            91 => {
                let server = self.any_server();
                self.add_trace(|| format!("server {server} restarts"));
                self.server.restart(server);
            }
            92 => self.release_command()?,
            93..=94 => self.lose_next_reply(),
            _ => self.send_control()?,
        }
        self.check_commits()
    }

    fn claim_commands(&mut self) -> SimResult {
        let (server, index) = (self.any_server(), self.random.index(WORKERS));
        let max = 1 + u32::try_from(self.random.below(2)).expect("a small number");
        let id = self.workers[index].id.clone();
        into_violation(self.server.renew_session(&id, SESSION_TTL))?;
        let hands = into_violation(self.server.claim(server, &id, max))?;
        for hand in &hands {
            self.checks.check_claim(hand.command.id, hand.epoch)?;
        }
        self.add_trace(|| format!("{id} claims {} commands", hands.len()));
        self.workers[index].commands.extend(hands);
        Ok(())
    }

    /// Lets a worker act on one of its commands and, in most cases, report.
    fn run_worker(&mut self) -> SimResult {
        self.apply_notices();
        let is_busy = |index: &usize| !self.workers[*index].commands.is_empty();
        let busy: Vec<usize> = (0..WORKERS).filter(is_busy).collect();
        if busy.is_empty() {
            return self.claim_commands();
        }
        let index = *self.random.pick(&busy);
        let which = self.random.index(self.workers[index].commands.len());
        let mut hand = self.workers[index].commands.swap_remove(which);
        let acted = self.advance_command(&mut hand);
        let holds_back = matches!(acted, ActionResult::Progressed)
            && hand.report_end().is_none()
            && self.random.percent(25);
        if holds_back
            || matches!(acted, ActionResult::WaitsUntil(_))
            || self.send_report(&mut hand, false)?
        {
            self.workers[index].commands.push(hand);
        }
        Ok(())
    }

    fn advance_command(&mut self, world_command: &mut WorldCommand) -> ActionResult {
        let pick = self.random.index(8);
        let now = self.server.now();
        world_command.advance(&self.server.store, &mut self.answers, now, pick)
    }

    /// Sends the report of a command. Returns whether the worker continues with the command.
    fn send_report(
        &mut self,
        world_command: &mut WorldCommand,
        is_lost: bool,
    ) -> Result<bool, Violation> {
        let end = world_command.report_end();
        if world_command.outbox.is_empty() && end.is_none() {
            return Ok(true);
        }
        let report = engine::CommandReport {
            command: world_command.command.id.seq,
            worker: world_command.worker.clone(),
            lease_epoch: world_command.epoch,
            events: std::mem::take(&mut world_command.outbox),
            end: end.unwrap_or(ReportEnd::Open),
        };
        let command = world_command.command.id;
        let server = self.any_server();
        let is_current = self.is_current(command, &report)?;
        self.add_trace(|| {
            let kinds: Vec<_> = report
                .events
                .iter()
                .map(|event| event.kind().name())
                .collect();
            format!(
                "{} reports on {command} {kinds:?} {:?}",
                report.worker, report.end
            )
        });
        let posted = into_violation(self.server.apply_input(
            server,
            command.execution,
            Input::Report(report.clone()),
            None,
        ))?;
        c27_stale_reports_leave_nothing(is_current, &posted)?;
        if let InputResult::Refused(Refusal::NotCovered) = posted {
            return Err(Violation {
                number: 8,
                what: format!("a valid report on {command} was rejected as foreign"),
            });
        }
        if self.random.percent(30) {
            self.repeats.push((command, report.clone()));
        }
        // The acknowledgement is lost, so the worker sends the same report again.
        if self.random.percent(10) && !is_lost {
            self.repeat_report(command, report)?;
        }
        if end.is_some() || matches!(posted, InputResult::Refused(_)) {
            return Ok(false);
        }
        let order = into_violation(self.server.claim_verdict(server, command))?;
        world_command.restrict(order);
        Ok(true)
    }

    /// Sends a report that is already in the log again; it must not record anything.
    fn repeat_report(&mut self, command: CommandId, report: engine::CommandReport) -> SimResult {
        self.check_commits()?;
        let server = self.any_server();
        self.add_trace(|| format!("a report on {command} arrives again"));
        let is_current = self.is_current(command, &report)?;
        let posted = into_violation(self.server.apply_input(
            server,
            command.execution,
            Input::Report(report),
            None,
        ))?;
        c27_stale_reports_leave_nothing(is_current, &posted)?;
        c01_repeated_reports_leave_nothing(&posted)
    }

    fn send_repeated(&mut self) -> SimResult {
        if self.repeats.is_empty() {
            return Ok(());
        }
        let index = self.random.index(self.repeats.len());
        let (command, report) = self.repeats.swap_remove(index);
        if report.end == ReportEnd::Open {
            return self.repeat_report(command, report);
        }
        Ok(())
    }

    fn is_current(
        &self,
        command: CommandId,
        report: &engine::CommandReport,
    ) -> Result<bool, Violation> {
        let open = into_violation(self.server.open_commands())?;
        Ok(open.iter().any(|open| {
            open.command.id == command
                && open.worker.as_ref() == Some(&report.worker)
                && open.lease_epoch == report.lease_epoch
        }))
    }

    fn apply_notices(&mut self) {
        for (command, order) in std::mem::take(&mut self.server.notices) {
            let hands = self
                .workers
                .iter_mut()
                .flat_map(|worker| &mut worker.commands);
            hands
                .filter(|hand| hand.command.id == command)
                .for_each(|hand| hand.restrict(order));
        }
    }

    fn deliver_message(&mut self) -> SimResult {
        let inbox = into_violation(self.server.inbox())?;
        if inbox.is_empty() {
            return Ok(());
        }
        let message = self.random.pick(&inbox).clone();
        // Messages from one sender to one receiver stay in order.
        let first = inbox
            .iter()
            .find(|other| other.to == message.to && other.key.from == message.key.from);
        let message = first.cloned().unwrap_or(message);
        let server = self.any_server();
        self.add_trace(|| format!("a message to {}: {}", message.to, message.body.text()));
        into_violation(self.server.deliver(server, &message))?;
        Ok(())
    }

    fn fire_timer(&mut self) -> SimResult {
        let due = into_violation(self.server.due_timers())?;
        if due.is_empty() {
            return Ok(());
        }
        let (execution, timer) = *self.random.pick(&due);
        let server = self.any_server();
        self.add_trace(|| format!("timer {timer} of {execution}"));
        into_violation(
            self.server
                .apply_input(server, execution, Input::TimerDue(timer), None),
        )?;
        Ok(())
    }

    fn advance_time(&mut self) {
        let span = Duration::from_millis(self.random.below(6_000));
        self.server.advance_time(self.server.now().after(span));
        for index in 0..WORKERS {
            if self.random.percent(85) {
                let _ = self
                    .server
                    .renew_session(&self.workers[index].id, SESSION_TTL);
            }
        }
    }

    /// Lets a worker die, or only lets the servers consider it dead.
    fn crash_worker(&mut self) {
        let index = self.random.index(WORKERS);
        let mut new = self.new_worker();
        std::mem::swap(&mut self.workers[index], &mut new);
        self.add_trace(|| format!("{} dies", new.id));
        if self.random.percent(50) {
            self.lost_commands.extend(new.commands);
        }
        let _ = self.server.renew_session(&new.id, Duration::ZERO);
    }

    /// Lets a worker that is considered dead act.
    fn run_lost_command(&mut self) -> SimResult {
        if self.lost_commands.is_empty() {
            return Ok(());
        }
        let index = self.random.index(self.lost_commands.len());
        let mut hand = self.lost_commands.swap_remove(index);
        self.advance_command(&mut hand);
        if self.send_report(&mut hand, true)? {
            self.lost_commands.push(hand);
        }
        Ok(())
    }

    /// Reports the lost claims of dead workers, so that their commands are offered again.
    fn sweep_claims(&mut self) -> SimResult {
        let server = self.any_server();
        for claim in into_violation(self.server.lost_claims())? {
            self.add_trace(|| format!("{} lost {}", claim.worker, claim.command));
            let input = Input::ClaimLost {
                command: claim.command.seq,
                worker: claim.worker,
                lease_epoch: claim.lease_epoch,
                is_strike: true,
            };
            into_violation(
                self.server
                    .apply_input(server, claim.command.execution, input, None),
            )?;
            self.check_commits()?;
        }
        into_violation(self.server.sweep_overdue(server))
    }

    /// Lets a worker release a command before it starts.
    fn release_command(&mut self) -> SimResult {
        let index = self.random.index(WORKERS);
        let Some(hand) = self.workers[index].commands.pop() else {
            return Ok(());
        };
        self.add_trace(|| format!("{} releases {}", hand.worker, hand.command.id));
        into_violation(self.server.release_claim(hand.command.id, hand.epoch))
    }

    /// The response to the next commit is lost, whether the commit happened or not.
    fn lose_next_reply(&mut self) {
        let cut = if self.random.percent(50) {
            LostReply::BeforeCommit
        } else {
            LostReply::AfterCommit
        };
        self.add_trace(|| format!("the response to the next commit is lost: {cut:?}"));
        self.server.lost_reply = Some(cut);
    }

    fn send_control(&mut self) -> SimResult {
        let executions: Vec<ExecutionId> = self.checks.executions();
        let execution = if self.random.percent(75) {
            self.root
        } else {
            *self.random.pick(&executions)
        };
        let input = match self.random.below(100) {
            0..=19 => Input::Pause { reason: None },
            20..=44 => Input::Resume,
            one @ 45..=54 => Input::Cancel(StopRequest {
                cascade: one < 52,
                ..StopRequest::default()
            }),
            55..=74 => Input::Retry { switch: None },
            75..=94 => Input::Signal {
                name: "go".into(),
                payload: Some(RawJson::from_serializable(&1)),
            },
            _ => Input::Patch(RawJson::from_serializable(&serde_json::json!({"go": 1}))),
        };
        self.add_trace(|| format!("{input:?} on {execution}"));
        let paused = matches!(input, Input::Pause { .. });
        let server = self.any_server();
        into_violation(self.server.apply_input(server, execution, input, None))?;
        if paused {
            let hands = self
                .workers
                .iter_mut()
                .flat_map(|worker| &mut worker.commands);
            let own = hands.filter(|hand| hand.command.id.execution == execution);
            own.for_each(|hand| hand.restrict(Order::Yield));
        }
        Ok(())
    }

    /// Checks everything that was committed since the last check.
    fn check_commits(&mut self) -> SimResult {
        let fresh = self.server.take_new_events();
        for (execution, events) in fresh {
            for event in &events {
                self.add_trace(|| {
                    format!(
                        "  {execution} {} {} {:?}",
                        event.seq,
                        event.kind(),
                        event.location.step_run_id().map(|run| run.to_string())
                    )
                });
            }
            self.checks
                .check_commit(&mut self.server, execution, &events)?;
        }
        self.checks.check_all(&self.server)
    }

    /// Stops the faults: every execution must end.
    fn drain(&mut self) -> SimResult {
        self.add_trace(|| "faults stop".to_owned());
        self.lost_commands.clear();
        self.server.lost_reply = None;
        for _ in 0..DRAIN_MAX {
            if self.checks.all_ended() && into_violation(self.server.inbox())?.is_empty() {
                return self.checks.check_end(&mut self.server);
            }
            self.apply_notices();
            for index in 0..WORKERS {
                let id = self.workers[index].id.clone();
                into_violation(self.server.renew_session(&id, SESSION_TTL))?;
            }
            let moved = self.resume()? | self.drain_messages()? | self.drain_work()?;
            self.check_commits()?;
            if !moved && !self.drain_time()? {
                break;
            }
        }
        Err(Violation {
            number: 50,
            what: format!("not everything has ended: {}", self.checks.unfinished()),
        })
    }

    fn resume(&mut self) -> Result<bool, Violation> {
        let paused = self.checks.paused();
        for execution in &paused {
            into_violation(self.server.apply_input(0, *execution, Input::Resume, None))?;
        }
        Ok(!paused.is_empty())
    }

    fn drain_messages(&mut self) -> Result<bool, Violation> {
        let first = into_violation(self.server.inbox())?.into_iter().next();
        if let Some(message) = &first {
            into_violation(self.server.deliver(0, message))?;
        }
        let due = into_violation(self.server.due_timers())?;
        for (execution, timer) in &due {
            into_violation(
                self.server
                    .apply_input(0, *execution, Input::TimerDue(*timer), None),
            )?;
        }
        let lost = into_violation(self.server.lost_claims())?;
        if !lost.is_empty() {
            self.sweep_claims()?;
        }
        Ok(first.is_some() || !due.is_empty() || !lost.is_empty())
    }

    fn drain_work(&mut self) -> Result<bool, Violation> {
        let id = self.workers[0].id.clone();
        let hands = into_violation(self.server.claim(0, &id, 8))?;
        for hand in &hands {
            self.checks.check_claim(hand.command.id, hand.epoch)?;
        }
        let mut moved = !hands.is_empty();
        self.workers[0].commands.extend(hands);
        for index in 0..WORKERS {
            for mut hand in std::mem::take(&mut self.workers[index].commands) {
                let acted = self.advance_command(&mut hand);
                moved |= !matches!(acted, ActionResult::WaitsUntil(_));
                if self.send_report(&mut hand, false)? {
                    self.workers[index].commands.push(hand);
                }
                self.check_commits()?;
            }
        }
        Ok(moved)
    }

    /// Advances the time. Returns false if there is nothing left to wait for.
    fn drain_time(&mut self) -> Result<bool, Violation> {
        let is_busy = self
            .workers
            .iter()
            .any(|worker| !worker.commands.is_empty());
        let has_timer = into_violation(self.server.next_timer())?.is_some();
        let has_command = !into_violation(self.server.open_commands())?.is_empty();
        self.server
            .advance_time(self.server.now().after(Duration::from_secs(3)));
        into_violation(self.server.sweep_overdue(0))?;
        Ok(is_busy || has_timer || has_command)
    }
}

/// Errors of the world are violations too.
pub(crate) fn into_violation<T>(result: Result<T, WorldError>) -> Result<T, Violation> {
    result.map_err(|broken| Violation {
        number: match broken {
            // The store checks the invariants about causes and sequence numbers itself.
            WorldError::Store(store::Error::Malformed(why)) if why.contains("cause") => 7,
            WorldError::Store(_) => 2,
            WorldError::Undecidable => 35,
            WorldError::Log(_) => 44,
        },
        what: broken.to_string(),
    })
}
