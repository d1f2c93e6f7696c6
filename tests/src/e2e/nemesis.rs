//! The nemesis: injects faults drawn from a seed and heals each after a while; at the end it heals everything.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::e2e::cluster::TestCluster;
use crate::sim::random::SeededRandom;

/// Interval between two checks of what is due.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A process that exited by itself is restarted after this time, as an init system would do.
const RESTART_DELAY: Duration = Duration::from_millis(500);

/// A fault and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InjectedFault {
    KillWorker(usize),
    StopWorker(usize),
    KillServer(usize),
    StopServer(usize),
    CrashPostgres,
    /// NATS restarts and keeps its streams.
    KillNats,
    /// NATS restarts and loses its streams.
    WipeNats,
    /// Connections to the database are closed.
    CutStore(usize),
    /// Commits happen, but their responses are lost.
    SwallowStore(usize),
    SlowStore(usize),
    RefuseStore(usize),
    CutServer(usize),
    /// Reports are accepted, but their responses are lost.
    SwallowServer(usize),
    SlowServer(usize),
    RefuseServer(usize),
}

/// What the nemesis did.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultLog {
    /// Number of injected faults of each kind.
    pub(crate) faults: BTreeMap<String, u32>,
    /// Processes that exited by themselves, with their exit status.
    pub(crate) ended_processes: Vec<String>,
    /// Events with their time in seconds since the start.
    pub(crate) entries: Vec<String>,
}

/// Injects and heals faults.
pub(crate) struct Nemesis {
    random: SeededRandom,
    cluster: TestCluster,
    started_at: Instant,
    pending_heals: Vec<(Instant, InjectedFault)>,
    pending_restarts: Vec<(Instant, String)>,
    fault_log: FaultLog,
}

impl Nemesis {
    pub(crate) fn new(cluster: TestCluster, seed: u64) -> Self {
        Self {
            random: SeededRandom::new(seed),
            cluster,
            started_at: now(),
            pending_heals: Vec::new(),
            pending_restarts: Vec::new(),
            fault_log: FaultLog::default(),
        }
    }

    /// Injects faults for this time, then heals everything; blocks the thread.
    pub(crate) fn inject_faults(mut self, duration: Duration) -> (TestCluster, FaultLog) {
        let end = now() + duration;
        let mut next = now();
        while now() < end {
            if now() >= next {
                let fault = self.draw_fault();
                self.inject(fault);
                next = now() + Duration::from_millis(500 + self.random.below(2_000));
            }
            self.heal_due_faults();
            self.restart_ended();
            sleep(POLL_INTERVAL);
        }
        for (_, fault) in std::mem::take(&mut self.pending_heals) {
            self.heal(fault);
        }
        for process in self.cluster.processes() {
            // From now on every process stays up, including those that exited by themselves.
            let _ = process.try_wait();
            process.restart();
        }
        self.log_entry("all faults are healed");
        (self.cluster, self.fault_log)
    }

    fn draw_fault(&mut self) -> InjectedFault {
        let server = self.random.index(self.cluster.nodes.len());
        let worker = self.random.index(self.cluster.workers.len());
        match self.random.below(23) {
            0..=2 => InjectedFault::KillWorker(worker),
            3..=4 => InjectedFault::StopWorker(worker),
            5..=7 => InjectedFault::KillServer(server),
            8 => InjectedFault::StopServer(server),
            9..=10 => InjectedFault::CrashPostgres,
            11 => InjectedFault::CutStore(server),
            12..=13 => InjectedFault::SwallowStore(server),
            14 => InjectedFault::SlowStore(server),
            15 => InjectedFault::RefuseStore(server),
            16 => InjectedFault::CutServer(server),
            17 => InjectedFault::SwallowServer(server),
            18 => InjectedFault::SlowServer(server),
            19..=20 => InjectedFault::KillNats,
            21 => InjectedFault::WipeNats,
            _ => InjectedFault::RefuseServer(server),
        }
    }

    fn inject(&mut self, fault: InjectedFault) {
        if self.pending_heals.iter().any(|(_, open)| *open == fault) {
            return;
        }
        let duration = Duration::from_millis(match fault {
            // Longer than a worker's claims last.
            InjectedFault::StopWorker(_) if self.random.percent(50) => 18_000,
            InjectedFault::StopWorker(_) | InjectedFault::StopServer(_) => 1_000 + self.random.below(7_000),
            InjectedFault::SwallowStore(_) | InjectedFault::SwallowServer(_) => 50 + self.random.below(1_000),
            _ => 300 + self.random.below(4_000),
        });
        let name = format!("{fault:?}");
        let kind = name.split('(').next().unwrap_or_default().to_owned();
        *self.fault_log.faults.entry(kind).or_default() += 1;
        self.log_entry(&format!("{fault:?} for {duration:?}"));
        let cluster = &mut self.cluster;
        match fault {
            InjectedFault::KillWorker(number) => cluster.workers[number].kill(),
            InjectedFault::StopWorker(number) => cluster.workers[number].suspend(),
            InjectedFault::KillServer(number) => cluster.nodes[number].process.kill(),
            InjectedFault::StopServer(number) => cluster.nodes[number].process.suspend(),
            InjectedFault::CrashPostgres => cluster.postgres.restart_immediate(),
            InjectedFault::KillNats => cluster.nats.kill(),
            InjectedFault::WipeNats => cluster.nats.wipe(),
            InjectedFault::CutStore(number) => cluster.nodes[number].store_proxy.cut_connections(),
            InjectedFault::SwallowStore(number) => {
                cluster.nodes[number].store_proxy.set_dropping_responses(true);
            }
            InjectedFault::SlowStore(number) => {
                let delay = Duration::from_millis(5 + self.random.below(60));
                cluster.nodes[number].store_proxy.set_delay(delay);
            }
            InjectedFault::RefuseStore(number) => {
                set_refusing(&cluster.nodes[number].store_proxy, true);
            }
            InjectedFault::CutServer(number) => {
                cluster.nodes[number].server_proxy.cut_connections();
            }
            InjectedFault::SwallowServer(number) => {
                cluster.nodes[number].server_proxy.set_dropping_responses(true);
            }
            InjectedFault::SlowServer(number) => {
                let delay = Duration::from_millis(20 + self.random.below(300));
                cluster.nodes[number].server_proxy.set_delay(delay);
            }
            InjectedFault::RefuseServer(number) => {
                set_refusing(&cluster.nodes[number].server_proxy, true);
            }
        }
        self.pending_heals.push((now() + duration, fault));
    }

    fn heal_due_faults(&mut self) {
        let due = |(when, _): &(Instant, InjectedFault)| *when <= now();
        let (over, open): (Vec<_>, Vec<_>) = self.pending_heals.drain(..).partition(due);
        self.pending_heals = open;
        for (_, fault) in over {
            self.heal(fault);
        }
    }

    fn heal(&mut self, fault: InjectedFault) {
        self.log_entry(&format!("{fault:?} healed"));
        let cluster = &mut self.cluster;
        match fault {
            InjectedFault::KillWorker(number) => cluster.workers[number].restart(),
            InjectedFault::StopWorker(number) => cluster.workers[number].resume(),
            InjectedFault::KillServer(number) => cluster.nodes[number].process.restart(),
            InjectedFault::StopServer(number) => cluster.nodes[number].process.resume(),
            InjectedFault::CrashPostgres
            | InjectedFault::WipeNats
            | InjectedFault::CutStore(_)
            | InjectedFault::CutServer(_) => {}
            InjectedFault::KillNats => cluster.nats.start(),
            InjectedFault::SwallowStore(number) => {
                cluster.nodes[number].store_proxy.stop_dropping_responses();
            }
            InjectedFault::SlowStore(number) => {
                cluster.nodes[number].store_proxy.set_delay(Duration::ZERO);
            }
            InjectedFault::RefuseStore(number) => {
                set_refusing(&cluster.nodes[number].store_proxy, false);
            }
            InjectedFault::SwallowServer(number) => {
                cluster.nodes[number].server_proxy.stop_dropping_responses();
            }
            InjectedFault::SlowServer(number) => {
                cluster.nodes[number].server_proxy.set_delay(Duration::ZERO);
            }
            InjectedFault::RefuseServer(number) => {
                set_refusing(&cluster.nodes[number].server_proxy, false);
            }
        }
    }

    /// Restarts processes that exited by themselves.
    fn restart_ended(&mut self) {
        let mut ended = Vec::new();
        for process in self.cluster.processes() {
            if let Some(status) = process.try_wait() {
                ended.push((process.name().to_owned(), status));
            }
        }
        for (name, status) in ended {
            let message = format!("{name} exited by itself: {status}");
            self.log_entry(&message);
            self.fault_log.ended_processes.push(message);
            self.pending_restarts.push((now() + RESTART_DELAY, name));
        }
        let due = |(when, _): &(Instant, String)| *when <= now();
        let (over, open): (Vec<_>, Vec<_>) = self.pending_restarts.drain(..).partition(due);
        self.pending_restarts = open;
        for (_, name) in over {
            let process = self.cluster.processes().find(|one| one.name() == name);
            process.into_iter().for_each(crate::e2e::process::TestProcess::restart);
        }
    }

    fn log_entry(&mut self, message: &str) {
        let at = now().duration_since(self.started_at).as_secs_f64();
        self.fault_log.entries.push(format!("{at:7.2} {message}"));
    }
}

/// Switches a network off, which closes its connections and accepts no new ones, or on again.
fn set_refusing(network: &crate::peers::FaultProxy, refuses: bool) {
    network.set_refusing(refuses);
    if refuses {
        network.cut_connections();
    }
}

#[expect(clippy::disallowed_methods, reason = "faults of real processes need real time")]
fn now() -> Instant {
    Instant::now()
}
