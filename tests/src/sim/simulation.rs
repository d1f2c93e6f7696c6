//! One simulation: a phase with random faults, then one without, after which every execution must end.
//!
//! The servers, their drivers and the workers are the real ones; the store, the connections and the clock are
//! simulated. A worker and a store also use threads for files, so two simulations of a seed may differ in the order of
//! simultaneous events; what is drawn from the seed is the same.

use std::sync::Arc;
use std::time::Duration;

use engine::{ControlRequest, ExecutionLimits, Refusal};
use model::event::StopRequest;
use model::id::ExecutionId;
use model::raw::RawJson;
use serde_json::json;
use server::{ControlError, Error, ExecutionOptions, Server};
use store::{MemoryStore, Store};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::sim::bug::Bug;
use crate::sim::cluster::{SimClock, SimCluster};
use crate::sim::log_checker::RUNS_MAX;
use crate::sim::observer::SimObserver;
use crate::sim::playbooks::{CHILD, draw_playbook};
use crate::sim::random::SeededRandom;
use crate::sim::sim_transport::WorkerState;

const SERVERS: usize = 2;
const WORKERS: usize = 3;
/// After the faults have stopped: maximum number of checks for the end of all executions, and the time between two.
const DRAIN_ROUNDS: u32 = 40;
const DRAIN_PAUSE: Duration = Duration::from_secs(20);
/// A request must have its response this long after faults have stopped.
const RESPONSE_WAIT: Duration = Duration::from_secs(90);

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the list of invariants.
    pub number: u32,
    /// What was observed.
    pub description: String,
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
    /// The actions and the events, in order.
    pub trace: Vec<String>,
}

/// Runs the simulation of a seed, optionally with an injected bug.
pub fn simulate(seed: u64, bug: Option<Bug>) -> SimReport {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    let report = runtime.block_on(run_simulation(seed, bug));
    runtime.shutdown_background();
    report
}

async fn run_simulation(seed: u64, bug: Option<Bug>) -> SimReport {
    let mut random = SeededRandom::new(seed);
    let playbook = draw_playbook(&mut random);
    let dir = tempfile::tempdir().expect("there is space for a directory");
    let clock = SimClock::start();
    let memory = MemoryStore::new(clock.for_store());
    let observer = Arc::new(SimObserver::new(memory.join_process()));
    let mut cluster = SimCluster {
        dir: dir.path(),
        seed,
        bug,
        clock,
        observer: observer.clone(),
        servers: Vec::new(),
        workers: Vec::new(),
        started_workers: 0,
    };
    let limits = ExecutionLimits {
        step_runs_max: match bug {
            Some(Bug::RunForever) => RUNS_MAX * 4,
            _ => RUNS_MAX,
        },
        depth_max: 3,
        ..ExecutionLimits::default()
    };
    for _ in 0..SERVERS {
        cluster.start_server(memory.join_process(), limits);
    }
    for index in 0..WORKERS {
        let worker = cluster.start_worker(index % SERVERS);
        cluster.workers.push(worker);
    }
    for (path, text) in [("drawn", playbook.as_str()), ("child", CHILD)] {
        let run = bug.map_or_else(|| text.to_owned(), |bug| bug.change_playbook(text));
        let entry = memory.put_playbook(path, &run).await;
        let entry = entry.expect("a store in memory accepts a playbook");
        observer.add_playbook(entry.hash, text);
    }
    let mut simulation = Simulation {
        cluster,
        random,
        requests: JoinSet::new(),
        signals: 0,
        roots: Vec::new(),
    };
    simulation.run().await;
    SimReport {
        playbook,
        events: observer.event_count(),
        violation: observer.violation(),
        trace: observer.take_trace(),
    }
}

struct Simulation<'a> {
    cluster: SimCluster<'a>,
    random: SeededRandom,
    /// Requests of clients.
    requests: JoinSet<()>,
    /// Number of signals sent; each has its number as payload.
    signals: u64,
    /// Executions that clients submitted.
    roots: Vec<ExecutionId>,
}

impl Simulation<'_> {
    async fn run(&mut self) {
        for server in &self.cluster.servers {
            let notices = server.server.subscribe_commits();
            tokio::spawn(check_notices(notices, self.cluster.observer.clone()));
        }
        self.cluster.set_faults(Some(&mut self.random));
        self.submit();
        let actions = 20 + self.random.below(40);
        for _ in 0..actions {
            self.run_action().await;
            if self.cluster.observer.violation().is_some() {
                return;
            }
        }
        self.stop_faults();
        self.drain().await;
        self.cluster.stop();
    }

    fn add_trace(&self, line: impl Into<String>) {
        self.cluster.observer.add_trace(line.into());
    }

    /// Performs one random action.
    async fn run_action(&mut self) {
        match self.random.below(100) {
            0..=7 => self.submit(),
            8..=47 => self.send_control(),
            48..=51 => {
                let ahead = Duration::from_millis(self.random.below(20_000));
                self.add_trace(format!("the clock jumps {ahead:?} ahead"));
                self.cluster.clock.jump(ahead);
            }
            52..=55 => {
                let index = self.random.index(WORKERS);
                self.add_trace(format!("worker {index} dies"));
                self.cluster.replace_worker(index, &mut self.random);
            }
            56..=62 => self.toggle_freeze(),
            _ => {}
        }
        let pause = match self.random.below(10) {
            0..=6 => self.random.below(400),
            _ => self.random.below(6_000),
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    /// Both servers get requests for the same execution at once, as clients repeat a request.
    fn submit(&mut self) {
        let id = self.cluster.servers[0].server.new_execution_id();
        self.add_trace(format!("submit {id} four times"));
        self.roots.push(id);
        for server in &self.cluster.servers {
            for _ in 0..2 {
                let (server, store) = (server.server.clone(), server.store.clone());
                let observer = self.cluster.observer.clone();
                self.requests.spawn(async move {
                    let options = ExecutionOptions::default();
                    let submitted = server.submit_from_catalog(id, "drawn", None, options).await;
                    if let Err(error) = submitted {
                        observer.fail(4, format!("the submission of {id} failed: {error}"));
                        return;
                    }
                    let row = store.inner.execution(id).await;
                    if row.expect("a store in memory can be read").is_none() {
                        let message = format!("the submission of {id} was accepted and is not stored");
                        observer.fail(4, message);
                    }
                });
            }
        }
    }

    /// Suspends or resumes a worker.
    fn toggle_freeze(&mut self) {
        let index = self.random.index(WORKERS);
        let state = &self.cluster.workers[index].transport.state;
        let next = match *state.borrow() {
            WorkerState::Running => WorkerState::Frozen,
            other => {
                debug_assert_eq!(other, WorkerState::Frozen, "a dead worker was replaced");
                WorkerState::Running
            }
        };
        state.send_replace(next);
        self.add_trace(format!("worker {index}: {next:?}"));
    }

    fn send_control(&mut self) {
        let executions = self.cluster.observer.executions();
        let execution = if executions.is_empty() || self.random.percent(75) {
            *self.random.pick(&self.roots)
        } else {
            *self.random.pick(&executions)
        };
        let mut signal = None;
        let control = match self.random.below(100) {
            0..=14 => ControlRequest::Pause { reason: None },
            15..=44 => ControlRequest::Resume,
            n @ 45..=52 => ControlRequest::Cancel(StopRequest {
                cascade: n < 50,
                ..StopRequest::default()
            }),
            53..=69 => ControlRequest::Retry { version: None },
            70..=91 => {
                self.signals += 1;
                signal = Some(self.signals);
                ControlRequest::Signal {
                    name: "go".into(),
                    payload: Some(RawJson::from_serializable(&self.signals)),
                }
            }
            _ => ControlRequest::Patch {
                patch: RawJson::from_serializable(&json!({"go": 1})),
            },
        };
        self.add_trace(format!("{control:?} of {execution}"));
        let server = self.random.pick(&self.cluster.servers).server.clone();
        let observer = self.cluster.observer.clone();
        self.requests
            .spawn(check_control(server, execution, control, signal, observer));
    }

    fn stop_faults(&mut self) {
        self.add_trace("faults stop");
        self.cluster.set_faults(None);
        for worker in &self.cluster.workers {
            worker.transport.state.send_replace(WorkerState::Running);
        }
    }

    /// Every execution must end, every request must get its response, and nothing may be left over.
    async fn drain(&mut self) {
        let observer = self.cluster.observer.clone();
        tokio::time::sleep(RESPONSE_WAIT).await;
        while self.requests.try_join_next().is_some() {}
        if !self.requests.is_empty() {
            return observer.fail(50, "a request has no response".to_owned());
        }
        for _ in 0..DRAIN_ROUNDS {
            if observer.violation().is_some() || observer.unfinished().is_empty() {
                break;
            }
            for execution in observer.paused() {
                // It may end at the same time, or be owned by the other server.
                let server = &self.cluster.servers[0].server;
                let _ = server.control(execution, ControlRequest::Resume).await;
            }
            tokio::time::sleep(DRAIN_PAUSE).await;
        }
        let unfinished = observer.unfinished();
        if !unfinished.is_empty() {
            observer.check_stuck();
            let claims = self.describe_claims().await;
            return observer.fail(50, format!("not everything has ended: {unfinished}; {claims}"));
        }
        for number in 1..=self.signals {
            let count = observer.signal_count(number);
            if count > 1 {
                observer.fail(1, format!("signal {number} is in the log {count} times"));
            }
        }
        self.check_assignments().await;
        observer.check_end();
    }

    /// The open commands, and the workers that claimed them according to the store and to the servers.
    async fn describe_claims(&self) -> String {
        let mut text = String::new();
        for execution in self.cluster.observer.executions() {
            let store = &self.cluster.servers[0].store.inner;
            let open = store.open_commands(execution).await;
            for open in open.expect("a store in memory can be read") {
                let (id, worker, epoch) = (open.command.id, open.worker, open.lease_epoch);
                text.push_str(&format!("{id} is claimed by {worker:?} {epoch:?}; "));
            }
        }
        for (number, server) in self.cluster.servers.iter().enumerate() {
            let assignments = server.server.assignments().await;
            text.push_str(&format!("server {number}: {assignments:?}; "));
        }
        text
    }

    /// No worker may have a claim on a command that is not open.
    async fn check_assignments(&self) {
        let observer = &self.cluster.observer;
        for server in &self.cluster.servers {
            let assignments = server.server.assignments().await;
            if let Some(command) = assignments.pending.first() {
                observer.fail(26, format!("a waiting worker stays assigned to {command}"));
            }
            for command in assignments.claimed {
                let open = server.store.inner.open_commands(command.execution).await;
                let open = open.expect("a store in memory can be read");
                if !open.iter().any(|open| open.command.id == command) {
                    observer.fail(26, format!("{command} has ended and is still claimed"));
                }
            }
        }
    }
}

/// Sends a control request. Its reply must agree with the log.
async fn check_control(
    server: Server,
    execution: ExecutionId,
    control: ControlRequest,
    signal: Option<u64>,
    observer: Arc<SimObserver>,
) {
    match server.control(execution, control).await {
        Ok(()) => {
            if let Some(number) = signal
                && observer.signal_count(number) != 1
            {
                let count = observer.signal_count(number);
                let message = format!("signal {number} was accepted and is in the log {count} times");
                observer.fail(if count == 0 { 4 } else { 1 }, message);
            }
        }
        Err(ControlError::Failed(Error::Stopping)) => {
            observer.fail(4, format!("a request to {execution} was dropped"));
        }
        Err(ControlError::Refused(Refusal::NotCovered)) => {
            observer.fail(8, format!("a request to {execution} was refused as foreign"));
        }
        Err(_) => {}
    }
}

/// Every event that subscribers receive must be in a log.
async fn check_notices(mut notices: broadcast::Receiver<Arc<server::CommitNotice>>, observer: Arc<SimObserver>) {
    loop {
        match notices.recv().await {
            Ok(notice) => {
                let unwritten = notice.events.iter().find(|event| !observer.is_written(event.event_id));
                if let Some(event) = unwritten {
                    let (execution, seq) = (event.execution_id, event.seq);
                    observer.fail(
                        49,
                        format!("event {seq} of {execution} was published and is not in its log"),
                    );
                }
            }
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}
