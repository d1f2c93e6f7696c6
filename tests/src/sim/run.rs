//! One simulation: a phase with random faults, then one without, after which every execution must end.

use std::time::Duration;

use engine::{Input, Limits, Refusal};
use model::command::ReportEnd;
use model::event::StopRequested;
use model::id::{CommandId, ExecutionId, WorkerId};
use model::raw::Raw;

use crate::sim::answers::Drawn;
use crate::sim::bug::{Bug, Mutant};
use crate::sim::checks::{
    Checks, c01_repeated_reports_leave_nothing, c27_stale_reports_leave_nothing,
};
use crate::sim::playbooks::{CHILD, playbook};
use crate::sim::random::Random;
use crate::sim::watch::RUNS_MAX;
use crate::world::{Acted, Broken, Cut, Hand, Honest, Order, Posted, Server, Tamper};

/// How long a session lasts without a heartbeat.
const TTL: Duration = Duration::from_secs(15);
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
pub struct Report {
    /// The playbook that it ran.
    pub playbook: String,
    /// Number of events in all logs.
    pub events: usize,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The actions, in order.
    pub trace: Vec<String>,
}

struct Sim {
    server: Server,
    random: Random,
    answers: Drawn,
    checks: Checks,
    workers: Vec<Worker>,
    /// Commands of workers that the servers consider dead, but that continue.
    ghosts: Vec<Hand>,
    /// Reports that arrive again.
    repeats: Vec<(CommandId, engine::Report)>,
    root: ExecutionId,
    started: u32,
    trace: Vec<String>,
    traces: bool,
}

struct Worker {
    id: WorkerId,
    hands: Vec<Hand>,
}

type Done = Result<(), Violation>;

/// Runs the simulation of a seed, optionally with an injected bug.
pub fn simulate(seed: u64, bug: Option<Bug>, traces: bool) -> Report {
    let mut random = Random::new(seed);
    let text = playbook(&mut random);
    let tamper: Box<dyn Tamper> = match bug {
        Some(bug) => Box::new(Mutant::new(bug)),
        None => Box::new(Honest),
    };
    let limits = Limits {
        step_runs_max: match bug {
            Some(Bug::RunForever) => u32::MAX,
            _ => RUNS_MAX,
        },
        depth_max: 3,
        ..Limits::default()
    };
    let server = Server::new(SERVERS, limits, tamper);
    server
        .register("drawn", &text)
        .expect("a store in memory accepts a playbook");
    server
        .register("child", CHILD)
        .expect("a store in memory accepts a playbook");
    let mut sim = Sim {
        server,
        answers: Drawn { seed },
        random,
        checks: Checks::default(),
        workers: Vec::new(),
        ghosts: Vec::new(),
        repeats: Vec::new(),
        root: ExecutionId(0),
        started: 0,
        trace: Vec::new(),
        traces,
    };
    let violation = sim.all().err();
    Report {
        playbook: text,
        events: sim.checks.events(),
        violation,
        trace: sim.trace,
    }
}

impl Sim {
    fn all(&mut self) -> Done {
        for _ in 0..WORKERS {
            let worker = self.new_worker();
            self.workers.push(worker);
        }
        let submitted = self.server.submit("drawn", None);
        self.root = solid(submitted)?.expect("the playbook is in the catalog");
        self.look()?;
        let actions = 30 + self.random.below(120);
        for _ in 0..actions {
            self.one()?;
        }
        self.drain()
    }

    fn new_worker(&mut self) -> Worker {
        self.started += 1;
        Worker {
            id: WorkerId(format!("worker-{}", self.started).into()),
            hands: Vec::new(),
        }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.traces {
            let line = format!("{} {}", self.server.now(), what());
            self.trace.push(line);
        }
    }

    fn any_server(&mut self) -> usize {
        self.random.index(SERVERS)
    }

    /// Performs one random action.
    fn one(&mut self) -> Done {
        match self.random.below(100) {
            0..=11 => self.claim()?,
            12..=54 => self.work()?,
            55..=62 => self.deliver()?,
            63..=70 => self.fire()?,
            71..=78 => self.pass_time(),
            79..=81 => self.crash(),
            82..=85 => self.sweep()?,
            86..=87 => self.repeat()?,
            88..=90 => self.haunt()?,
            91 => {
                let server = self.any_server();
                self.note(|| format!("server {server} restarts"));
                self.server.restart(server);
            }
            92 => self.release()?,
            93..=94 => self.cut(),
            _ => self.control()?,
        }
        self.look()
    }

    fn claim(&mut self) -> Done {
        let (server, index) = (self.any_server(), self.random.index(WORKERS));
        let max = 1 + u32::try_from(self.random.below(2)).expect("a small number");
        let id = self.workers[index].id.clone();
        solid(self.server.renew(&id, TTL))?;
        let hands = solid(self.server.claim(server, &id, max))?;
        for hand in &hands {
            self.checks.claimed(hand.command.id, hand.epoch)?;
        }
        self.note(|| format!("{id} claims {} commands", hands.len()));
        self.workers[index].hands.extend(hands);
        Ok(())
    }

    /// Lets a worker act on one of its commands and, in most cases, report.
    fn work(&mut self) -> Done {
        self.hear();
        let is_busy = |index: &usize| !self.workers[*index].hands.is_empty();
        let busy: Vec<usize> = (0..WORKERS).filter(is_busy).collect();
        if busy.is_empty() {
            return self.claim();
        }
        let index = *self.random.pick(&busy);
        let which = self.random.index(self.workers[index].hands.len());
        let mut hand = self.workers[index].hands.swap_remove(which);
        let acted = self.act(&mut hand);
        let holds_back =
            matches!(acted, Acted::Went) && hand.end().is_none() && self.random.percent(25);
        if holds_back || matches!(acted, Acted::Waits(_)) || self.report(&mut hand, false)? {
            self.workers[index].hands.push(hand);
        }
        Ok(())
    }

    fn act(&mut self, hand: &mut Hand) -> Acted {
        let pick = self.random.index(8);
        let now = self.server.now();
        hand.act(&self.server.store, &mut self.answers, now, pick)
    }

    /// Sends the report of a command. Returns whether the worker continues with the command.
    fn report(&mut self, hand: &mut Hand, is_ghost: bool) -> Result<bool, Violation> {
        let end = hand.end();
        if hand.outbox.is_empty() && end.is_none() {
            return Ok(true);
        }
        let report = engine::Report {
            command: hand.command.id.seq,
            worker: hand.worker.clone(),
            lease_epoch: hand.epoch,
            events: std::mem::take(&mut hand.outbox),
            end: end.unwrap_or(ReportEnd::Open),
        };
        let command = hand.command.id;
        let server = self.any_server();
        let is_current = self.is_current(command, &report)?;
        self.note(|| {
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
        let posted = solid(self.server.post(
            server,
            command.execution,
            Input::Report(report.clone()),
            None,
        ))?;
        c27_stale_reports_leave_nothing(is_current, &posted)?;
        if let Posted::Refused(Refusal::Foreign) = posted {
            return Err(Violation {
                number: 8,
                what: format!("a valid report on {command} was rejected as foreign"),
            });
        }
        if self.random.percent(30) {
            self.repeats.push((command, report.clone()));
        }
        // The acknowledgement is lost, so the worker sends the same report again.
        if self.random.percent(10) && !is_ghost {
            self.again(command, report)?;
        }
        if end.is_some() || matches!(posted, Posted::Refused(_)) {
            return Ok(false);
        }
        let order = solid(self.server.verdict(server, command))?;
        hand.tell(order);
        Ok(true)
    }

    /// Sends a report that is already in the log again; it must not record anything.
    fn again(&mut self, command: CommandId, report: engine::Report) -> Done {
        self.look()?;
        let server = self.any_server();
        self.note(|| format!("a report on {command} arrives again"));
        let is_current = self.is_current(command, &report)?;
        let posted =
            solid(
                self.server
                    .post(server, command.execution, Input::Report(report), None),
            )?;
        c27_stale_reports_leave_nothing(is_current, &posted)?;
        c01_repeated_reports_leave_nothing(&posted)
    }

    fn repeat(&mut self) -> Done {
        if self.repeats.is_empty() {
            return Ok(());
        }
        let index = self.random.index(self.repeats.len());
        let (command, report) = self.repeats.swap_remove(index);
        if report.end == ReportEnd::Open {
            return self.again(command, report);
        }
        Ok(())
    }

    fn is_current(&self, command: CommandId, report: &engine::Report) -> Result<bool, Violation> {
        let open = solid(self.server.open_commands())?;
        Ok(open.iter().any(|open| {
            open.command.id == command
                && open.worker.as_ref() == Some(&report.worker)
                && open.lease_epoch == report.lease_epoch
        }))
    }

    fn hear(&mut self) {
        for (command, order) in std::mem::take(&mut self.server.told) {
            let hands = self.workers.iter_mut().flat_map(|worker| &mut worker.hands);
            hands
                .filter(|hand| hand.command.id == command)
                .for_each(|hand| hand.tell(order));
        }
    }

    fn deliver(&mut self) -> Done {
        let inbox = solid(self.server.inbox())?;
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
        self.note(|| format!("a message to {}: {}", message.to, message.body.text()));
        solid(self.server.deliver(server, &message))?;
        Ok(())
    }

    fn fire(&mut self) -> Done {
        let due = solid(self.server.due_timers())?;
        if due.is_empty() {
            return Ok(());
        }
        let (execution, timer) = *self.random.pick(&due);
        let server = self.any_server();
        self.note(|| format!("timer {timer} of {execution}"));
        solid(
            self.server
                .post(server, execution, Input::Timer(timer), None),
        )?;
        Ok(())
    }

    fn pass_time(&mut self) {
        let span = Duration::from_millis(self.random.below(6_000));
        self.server.move_on_to(self.server.now().after(span));
        for index in 0..WORKERS {
            if self.random.percent(85) {
                let _ = self.server.renew(&self.workers[index].id, TTL);
            }
        }
    }

    /// Lets a worker die, or only lets the servers consider it dead.
    fn crash(&mut self) {
        let index = self.random.index(WORKERS);
        let mut new = self.new_worker();
        std::mem::swap(&mut self.workers[index], &mut new);
        self.note(|| format!("{} dies", new.id));
        if self.random.percent(50) {
            self.ghosts.extend(new.hands);
        }
        let _ = self.server.renew(&new.id, Duration::ZERO);
    }

    /// Lets a worker that is considered dead act.
    fn haunt(&mut self) -> Done {
        if self.ghosts.is_empty() {
            return Ok(());
        }
        let index = self.random.index(self.ghosts.len());
        let mut hand = self.ghosts.swap_remove(index);
        self.act(&mut hand);
        if self.report(&mut hand, true)? {
            self.ghosts.push(hand);
        }
        Ok(())
    }

    /// Reports the lost claims of dead workers, so that their commands are offered again.
    fn sweep(&mut self) -> Done {
        let server = self.any_server();
        for claim in solid(self.server.lost_claims())? {
            self.note(|| format!("{} lost {}", claim.worker, claim.command));
            let input = Input::Lost {
                command: claim.command.seq,
                worker: claim.worker,
                lease_epoch: claim.lease_epoch,
                is_strike: true,
            };
            solid(
                self.server
                    .post(server, claim.command.execution, input, None),
            )?;
            self.look()?;
        }
        solid(self.server.sweep_overdue(server))
    }

    /// Lets a worker release a command before it starts.
    fn release(&mut self) -> Done {
        let index = self.random.index(WORKERS);
        let Some(hand) = self.workers[index].hands.pop() else {
            return Ok(());
        };
        self.note(|| format!("{} releases {}", hand.worker, hand.command.id));
        solid(self.server.release(hand.command.id, hand.epoch))
    }

    /// The response to the next commit is lost, whether the commit happened or not.
    fn cut(&mut self) {
        let cut = if self.random.percent(50) {
            Cut::Before
        } else {
            Cut::After
        };
        self.note(|| format!("the response to the next commit is lost: {cut:?}"));
        self.server.cut = Some(cut);
    }

    fn control(&mut self) -> Done {
        let executions: Vec<ExecutionId> = self.checks.executions();
        let execution = if self.random.percent(75) {
            self.root
        } else {
            *self.random.pick(&executions)
        };
        let input = match self.random.below(100) {
            0..=19 => Input::Pause { reason: None },
            20..=44 => Input::Resume,
            one @ 45..=54 => Input::Cancel(StopRequested {
                cascade: one < 52,
                ..StopRequested::default()
            }),
            55..=74 => Input::Retry { switch: None },
            75..=94 => Input::Signal {
                name: "go".into(),
                payload: Some(Raw::of(&1)),
            },
            _ => Input::Patch(Raw::of(&serde_json::json!({"go": 1}))),
        };
        self.note(|| format!("{input:?} on {execution}"));
        let paused = matches!(input, Input::Pause { .. });
        let server = self.any_server();
        solid(self.server.post(server, execution, input, None))?;
        if paused {
            let hands = self.workers.iter_mut().flat_map(|worker| &mut worker.hands);
            let own = hands.filter(|hand| hand.command.id.execution == execution);
            own.for_each(|hand| hand.tell(Order::Yield));
        }
        Ok(())
    }

    /// Checks everything that was committed since the last check.
    fn look(&mut self) -> Done {
        let fresh = self.server.take_fresh();
        for (execution, events) in fresh {
            for event in &events {
                self.note(|| {
                    format!(
                        "  {execution} {} {} {:?}",
                        event.seq,
                        event.kind(),
                        event.at.step_run_id().map(|run| run.to_string())
                    )
                });
            }
            self.checks
                .committed(&mut self.server, execution, &events)?;
        }
        self.checks.everything(&self.server)
    }

    /// Stops the faults: every execution must end.
    fn drain(&mut self) -> Done {
        self.note(|| "faults stop".to_owned());
        self.ghosts.clear();
        self.server.cut = None;
        for _ in 0..DRAIN_MAX {
            if self.checks.all_ended() && solid(self.server.inbox())?.is_empty() {
                return self.checks.at_the_end(&mut self.server);
            }
            self.hear();
            for index in 0..WORKERS {
                let id = self.workers[index].id.clone();
                solid(self.server.renew(&id, TTL))?;
            }
            let moved = self.resume()? | self.drain_messages()? | self.drain_work()?;
            self.look()?;
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
            solid(self.server.post(0, *execution, Input::Resume, None))?;
        }
        Ok(!paused.is_empty())
    }

    fn drain_messages(&mut self) -> Result<bool, Violation> {
        let first = solid(self.server.inbox())?.into_iter().next();
        if let Some(message) = &first {
            solid(self.server.deliver(0, message))?;
        }
        let due = solid(self.server.due_timers())?;
        for (execution, timer) in &due {
            solid(self.server.post(0, *execution, Input::Timer(*timer), None))?;
        }
        let lost = solid(self.server.lost_claims())?;
        if !lost.is_empty() {
            self.sweep()?;
        }
        Ok(first.is_some() || !due.is_empty() || !lost.is_empty())
    }

    fn drain_work(&mut self) -> Result<bool, Violation> {
        let id = self.workers[0].id.clone();
        let hands = solid(self.server.claim(0, &id, 8))?;
        for hand in &hands {
            self.checks.claimed(hand.command.id, hand.epoch)?;
        }
        let mut moved = !hands.is_empty();
        self.workers[0].hands.extend(hands);
        for index in 0..WORKERS {
            for mut hand in std::mem::take(&mut self.workers[index].hands) {
                let acted = self.act(&mut hand);
                moved |= !matches!(acted, Acted::Waits(_));
                if self.report(&mut hand, false)? {
                    self.workers[index].hands.push(hand);
                }
                self.look()?;
            }
        }
        Ok(moved)
    }

    /// Advances the time. Returns false if there is nothing left to wait for.
    fn drain_time(&mut self) -> Result<bool, Violation> {
        let is_busy = self.workers.iter().any(|worker| !worker.hands.is_empty());
        let has_timer = solid(self.server.next_timer())?.is_some();
        let has_command = !solid(self.server.open_commands())?.is_empty();
        self.server
            .move_on_to(self.server.now().after(Duration::from_secs(3)));
        solid(self.server.sweep_overdue(0))?;
        Ok(is_busy || has_timer || has_command)
    }
}

/// Errors of the world are violations too.
pub(crate) fn solid<T>(result: Result<T, Broken>) -> Result<T, Violation> {
    result.map_err(|broken| Violation {
        number: match broken {
            // The store checks the invariants about causes and sequence numbers itself.
            Broken::Store(store::Error::Malformed(why)) if why.contains("cause") => 7,
            Broken::Store(_) => 2,
            Broken::Undecidable => 35,
            Broken::Log(_) => 44,
        },
        what: broken.to_string(),
    })
}
