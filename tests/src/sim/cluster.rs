//! The servers and workers of a simulation: real ones, on a store in memory and in virtual time.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use model::id::WorkerId;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::Value;
use server::Server;
use store::{ClockFn, MemoryStore};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tools::{Call, LogSink, Registry, Tool, ToolResult};

use crate::conformance::{AttemptQuery, OutcomeSource};
use crate::sim::bug::{Bug, Mutant};
use crate::sim::observer::SimObserver;
use crate::sim::random::SeededRandom;
use crate::sim::seeded_outcomes::SeededOutcomes;
use crate::sim::sim_transport::{SimTransport, WorkerState};
use crate::stack::{CallLocation, PausingStore, VirtualClock, server_config};

/// The clock of the store: virtual time, and how far it has jumped ahead.
#[derive(Clone)]
pub(crate) struct SimClock {
    virtual_clock: VirtualClock,
    jumped_ms: Arc<AtomicU64>,
}

impl SimClock {
    pub(crate) fn start() -> Self {
        Self {
            virtual_clock: VirtualClock::start(),
            jumped_ms: Arc::default(),
        }
    }

    /// Lets the clock of the store jump ahead.
    pub(crate) fn jump(&self, ahead: Duration) {
        let ms = u64::try_from(ahead.as_millis()).expect("a jump is short");
        self.jumped_ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn for_store(&self) -> ClockFn {
        let clock = self.clone();
        Arc::new(move || {
            let jumped = Duration::from_millis(clock.jumped_ms.load(Ordering::Relaxed));
            clock.virtual_clock.time().after(jumped)
        })
    }
}

/// A server with its store, whose commits can fail.
pub(crate) struct SimServer {
    pub(crate) store: Arc<PausingStore<MemoryStore>>,
    pub(crate) server: Server,
    bodies: Arc<dyn results::BodyStore>,
}

/// A worker with its connection.
pub(crate) struct SimWorker {
    pub(crate) transport: Arc<SimTransport>,
    stop: CancellationToken,
}

/// All processes of a simulation.
pub(crate) struct SimCluster<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) seed: u64,
    pub(crate) bug: Option<Bug>,
    pub(crate) clock: SimClock,
    pub(crate) observer: Arc<SimObserver>,
    pub(crate) servers: Vec<SimServer>,
    pub(crate) workers: Vec<SimWorker>,
    pub(crate) started_workers: u32,
}

impl SimCluster<'_> {
    /// Starts a server on the shared store.
    pub(crate) fn start_server(&mut self, memory: MemoryStore, limits: engine::ExecutionLimits) {
        let mut store = PausingStore::new(memory);
        store.observer = Some(self.observer.clone());
        let store = Arc::new(store);
        let bodies = results::DirBodyStore::open(&self.dir.join("bodies"));
        let bodies: Arc<dyn results::BodyStore> = Arc::new(bodies.expect("bodies can be stored"));
        let config = server::Config {
            limits,
            may_adopt: true,
            ..server_config(store.clone(), bodies.clone())
        };
        let tamper = Arc::new(Mutant::new(self.bug, self.observer.clone()));
        let server = Server::start_with_tamper(config, tamper).expect("the server starts");
        self.servers.push(SimServer { store, server, bodies });
    }

    /// Starts a worker of a server.
    pub(crate) fn start_worker(&mut self, server: usize) -> SimWorker {
        self.started_workers += 1;
        let name = format!("worker-{}", self.started_workers);
        let other = (server + 1) % self.servers.len();
        let transport = Arc::new(SimTransport {
            worker: name.clone(),
            own_server: self.servers[server].server.transport(),
            other_server: self.servers[other].server.transport(),
            faults: Mutex::new(None),
            state: watch::Sender::new(WorkerState::Running),
            observer: self.observer.clone(),
            bug: self.bug,
        });
        let logs = worker::FileLogs::open(self.dir.join("logs")).expect("logs can be written");
        let mut tools = Registry::empty();
        let tool = SeededTool {
            outcomes: Mutex::new(SeededOutcomes { seed: self.seed }),
        };
        tools.insert("noop", Arc::new(tool));
        let config = worker::Config {
            worker: WorkerId(name.as_str().into()),
            pool: "default".into(),
            kinds: None,
            slots: 3,
            tools,
            bodies: self.servers[server].bodies.clone(),
            logs: Arc::new(logs),
            clock: Arc::new(self.clock.virtual_clock),
            env: serde_json::Map::new(),
            base_dir: self.dir.to_owned(),
            scratch_dir: self.dir.join(&name),
            heartbeat: Duration::from_secs(5),
            playbooks: language::playbook::SharedPlaybooks::default(),
            jumps_max: worker::JUMPS_MAX,
        };
        let stop = CancellationToken::new();
        let worker = worker::Worker::new(config, transport.clone());
        tokio::spawn(worker.run(stop.clone()));
        SimWorker { transport, stop }
    }

    /// Starts faults, drawn from this generator, or stops them.
    pub(crate) fn set_faults(&self, mut random: Option<&mut SeededRandom>) {
        let mut fork = || {
            let random = random.as_mut()?;
            Some(SeededRandom::new(random.next_number()))
        };
        for server in &self.servers {
            *server.store.faults.lock().expect("no holder panics") = fork();
        }
        for worker in &self.workers {
            *worker.transport.faults.lock().expect("no holder panics") = fork();
        }
    }

    /// Crashes a worker and starts another one.
    pub(crate) fn replace_worker(&mut self, index: usize, random: &mut SeededRandom) {
        let server = index % self.servers.len();
        let new = self.start_worker(server);
        *new.transport.faults.lock().expect("no holder panics") = Some(SeededRandom::new(random.next_number()));
        let old = std::mem::replace(&mut self.workers[index], new);
        old.transport.state.send_replace(WorkerState::Dead);
    }

    /// Stops all workers.
    pub(crate) fn stop(&self) {
        for worker in &self.workers {
            worker.stop.cancel();
        }
    }
}

/// A tool whose outcomes depend on the seed.
struct SeededTool {
    outcomes: Mutex<SeededOutcomes>,
}

#[async_trait]
impl Tool for SeededTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        let location = CallLocation::parse(&call.idempotency_key).expect("the key names the task");
        let query = AttemptQuery::new(&call, &location);
        let response = {
            let mut outcomes = self.outcomes.lock().expect("no holder panics");
            outcomes.next_outcome(&query)
        };
        let Some(response) = response else {
            return Ok(Outcome::ok(Value::Null));
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(TaskError::new(
                ErrorKind::Cancelled,
                "CANCELLED",
                "the call was cancelled",
            )),
            () = tokio::time::sleep(response.duration) => Ok(response.outcome),
        }
    }
}
