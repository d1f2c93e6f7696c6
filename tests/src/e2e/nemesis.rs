//! The nemesis: injects faults drawn from a seed and heals each after a while; at the end it heals everything.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::e2e::cluster::Cluster;
use crate::sim::random::Random;

/// Interval between two checks of what is due.
const LOOK: Duration = Duration::from_millis(20);
/// A process that exited by itself is restarted after this time, as an init system would do.
const REVIVED_AFTER: Duration = Duration::from_millis(500);

/// A fault and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
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
pub(crate) struct Deeds {
    /// Number of injected faults of each kind.
    pub(crate) faults: BTreeMap<String, u32>,
    /// Processes that exited by themselves, with their exit status.
    pub(crate) ended: Vec<String>,
    /// Events with their time in seconds since the start.
    pub(crate) diary: Vec<String>,
}

/// Injects and heals faults.
pub(crate) struct Nemesis {
    random: Random,
    cluster: Cluster,
    began: Instant,
    heals: Vec<(Instant, Fault)>,
    revivals: Vec<(Instant, String)>,
    deeds: Deeds,
}

impl Nemesis {
    pub(crate) fn new(cluster: Cluster, seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            cluster,
            began: now(),
            heals: Vec::new(),
            revivals: Vec::new(),
            deeds: Deeds::default(),
        }
    }

    /// Injects faults for this time, then heals everything; blocks the thread.
    pub(crate) fn rage(mut self, time: Duration) -> (Cluster, Deeds) {
        let end = now() + time;
        let mut next = now();
        while now() < end {
            if now() >= next {
                let fault = self.draw();
                self.inject(fault);
                next = now() + Duration::from_millis(500 + self.random.below(2_000));
            }
            self.heal_due();
            self.revive();
            sleep(LOOK);
        }
        for (_, fault) in std::mem::take(&mut self.heals) {
            self.heal(fault);
        }
        for process in self.cluster.processes() {
            // From now on every process stays up, including those that exited by themselves.
            let _ = process.ended();
            process.restart();
        }
        self.note("calm");
        (self.cluster, self.deeds)
    }

    fn draw(&mut self) -> Fault {
        let server = self.random.index(self.cluster.nodes.len());
        let worker = self.random.index(self.cluster.workers.len());
        match self.random.below(23) {
            0..=2 => Fault::KillWorker(worker),
            3..=4 => Fault::StopWorker(worker),
            5..=7 => Fault::KillServer(server),
            8 => Fault::StopServer(server),
            9..=10 => Fault::CrashPostgres,
            11 => Fault::CutStore(server),
            12..=13 => Fault::SwallowStore(server),
            14 => Fault::SlowStore(server),
            15 => Fault::RefuseStore(server),
            16 => Fault::CutServer(server),
            17 => Fault::SwallowServer(server),
            18 => Fault::SlowServer(server),
            19..=20 => Fault::KillNats,
            21 => Fault::WipeNats,
            _ => Fault::RefuseServer(server),
        }
    }

    fn inject(&mut self, fault: Fault) {
        if self.heals.iter().any(|(_, open)| *open == fault) {
            return;
        }
        let held = Duration::from_millis(match fault {
            // Longer than a worker's claims last.
            Fault::StopWorker(_) if self.random.percent(50) => 18_000,
            Fault::StopWorker(_) | Fault::StopServer(_) => 1_000 + self.random.below(7_000),
            Fault::SwallowStore(_) | Fault::SwallowServer(_) => 50 + self.random.below(1_000),
            _ => 300 + self.random.below(4_000),
        });
        let name = format!("{fault:?}");
        let kind = name.split('(').next().unwrap_or_default().to_owned();
        *self.deeds.faults.entry(kind).or_default() += 1;
        self.note(&format!("{fault:?} for {held:?}"));
        let cluster = &mut self.cluster;
        match fault {
            Fault::KillWorker(number) => cluster.workers[number].kill(),
            Fault::StopWorker(number) => cluster.workers[number].stop(),
            Fault::KillServer(number) => cluster.nodes[number].process.kill(),
            Fault::StopServer(number) => cluster.nodes[number].process.stop(),
            Fault::CrashPostgres => cluster.postgres.restart_immediate(),
            Fault::KillNats => cluster.nats.kill(),
            Fault::WipeNats => cluster.nats.wipe(),
            Fault::CutStore(number) => cluster.nodes[number].to_store.cut(),
            Fault::SwallowStore(number) => cluster.nodes[number].to_store.swallow_answers(true),
            Fault::SlowStore(number) => {
                let delay = Duration::from_millis(5 + self.random.below(60));
                cluster.nodes[number].to_store.delay(delay);
            }
            Fault::RefuseStore(number) => refuse(&cluster.nodes[number].to_store, true),
            Fault::CutServer(number) => cluster.nodes[number].to_server.cut(),
            Fault::SwallowServer(number) => cluster.nodes[number].to_server.swallow_answers(true),
            Fault::SlowServer(number) => {
                let delay = Duration::from_millis(20 + self.random.below(300));
                cluster.nodes[number].to_server.delay(delay);
            }
            Fault::RefuseServer(number) => refuse(&cluster.nodes[number].to_server, true),
        }
        self.heals.push((now() + held, fault));
    }

    fn heal_due(&mut self) {
        let due = |(when, _): &(Instant, Fault)| *when <= now();
        let (over, open): (Vec<_>, Vec<_>) = self.heals.drain(..).partition(due);
        self.heals = open;
        for (_, fault) in over {
            self.heal(fault);
        }
    }

    fn heal(&mut self, fault: Fault) {
        self.note(&format!("{fault:?} healed"));
        let cluster = &mut self.cluster;
        match fault {
            Fault::KillWorker(number) => cluster.workers[number].restart(),
            Fault::StopWorker(number) => cluster.workers[number].go_on(),
            Fault::KillServer(number) => cluster.nodes[number].process.restart(),
            Fault::StopServer(number) => cluster.nodes[number].process.go_on(),
            Fault::CrashPostgres | Fault::WipeNats | Fault::CutStore(_) | Fault::CutServer(_) => {}
            Fault::KillNats => cluster.nats.start(),
            Fault::SwallowStore(number) => {
                let network = &cluster.nodes[number].to_store;
                network.cut();
                network.swallow_answers(false);
            }
            Fault::SlowStore(number) => cluster.nodes[number].to_store.delay(Duration::ZERO),
            Fault::RefuseStore(number) => refuse(&cluster.nodes[number].to_store, false),
            Fault::SwallowServer(number) => {
                let network = &cluster.nodes[number].to_server;
                network.cut();
                network.swallow_answers(false);
            }
            Fault::SlowServer(number) => cluster.nodes[number].to_server.delay(Duration::ZERO),
            Fault::RefuseServer(number) => refuse(&cluster.nodes[number].to_server, false),
        }
    }

    /// Restarts processes that exited by themselves.
    fn revive(&mut self) {
        let mut ended = Vec::new();
        for process in self.cluster.processes() {
            if let Some(status) = process.ended() {
                ended.push((process.name().to_owned(), status));
            }
        }
        for (name, status) in ended {
            let what = format!("{name} exited by itself: {status}");
            self.note(&what);
            self.deeds.ended.push(what);
            self.revivals.push((now() + REVIVED_AFTER, name));
        }
        let due = |(when, _): &(Instant, String)| *when <= now();
        let (over, open): (Vec<_>, Vec<_>) = self.revivals.drain(..).partition(due);
        self.revivals = open;
        for (_, name) in over {
            let process = self.cluster.processes().find(|one| one.name() == name);
            process
                .into_iter()
                .for_each(crate::e2e::process::Process::restart);
        }
    }

    fn note(&mut self, what: &str) {
        let at = now().duration_since(self.began).as_secs_f64();
        self.deeds.diary.push(format!("{at:7.2} {what}"));
    }
}

/// Switches a network off, which closes its connections and accepts no new ones, or on again.
fn refuse(network: &crate::peers::Proxy, refuses: bool) {
    network.refuse(refuses);
    if refuses {
        network.cut();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "faults of real processes need real time"
)]
fn now() -> Instant {
    Instant::now()
}
