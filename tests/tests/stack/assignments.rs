//! The drive under random faults: whatever is dropped, refused, cancelled or lost, no worker stays assigned to a command
//! that is not there.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::api::ClaimRequest;
use wire::api::HeartbeatRequest;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, PlaybookHash, Seq, WorkerId};
use model::raw::RawJson;
use model::result_ref::{ResolvedRef, ResultRef};
use model::step_pointer::LoopPointer;
use serde_json::json;
use server::{Control, ExecutionOptions, Server, SubmitError};
use store::{MemoryStore, Store};
use tempfile::TempDir;
use tests::sim::SeededRandom;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::{
    ByteStream, ClaimedCommand, CommandNotice, Error, PlaybookText, ReportRequest, ReportResponse,
    Transport,
};

use tests::stack::PausingStore;
use tests::stack::VirtualClock;

/// So many worlds are tried.
const SEEDS: u64 = 40;
/// So many things happen in each.
const ACTIONS: usize = 60;
/// Everything that faults left behind is over by then.
const SETTLE_WAIT: Duration = Duration::from_secs(90);
/// A claim that reached nobody is noticed only later.
const PROMPT_MAX: Duration = Duration::from_secs(5);

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: p}
workflow:
  - step: one
    tool: {kind: noop, result: 1}
    next: {spec: {mode: inclusive}, arcs: [{step: each}, {step: pause}]}
  - step: each
    loop: {in: [1, 2, 3], iterator: n}
    tool: {kind: noop, result: "{{ n }}"}
    next: fails
  - step: pause
    tool: {kind: wait, duration: 1s}
  - step: fails
    tool: {kind: noop, result: "{{ nothing.here.at.all }}"}
"#;

/// A worker's way to the server on which calls are given up at random.
struct FlakyTransport {
    server: Arc<dyn Transport>,
    random: Mutex<Option<SeededRandom>>,
}

impl FlakyTransport {
    /// How long this call is waited for, if it is given up.
    fn call_timeout(&self) -> Option<Duration> {
        let mut random = self.random.lock().expect("no holder panics");
        let random = random.as_mut()?;
        let gives_up = random.percent(25);
        gives_up.then(|| Duration::from_millis(random.below(30)))
    }
}

#[async_trait]
impl Transport for FlakyTransport {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedCommand>, Error> {
        let call = self.server.claim(request);
        match self.call_timeout() {
            Some(patience) => {
                let answer = tokio::time::timeout(patience, call).await;
                answer.unwrap_or(Ok(Vec::new()))
            }
            None => call.await,
        }
    }
    async fn report(&self, report: ReportRequest) -> Result<ReportResponse, Error> {
        let call = self.server.report(report);
        match self.call_timeout() {
            Some(patience) => {
                let answer = tokio::time::timeout(patience, call).await;
                answer.unwrap_or_else(|gone| Err(Error::Unavailable(Box::new(gone))))
            }
            None => call.await,
        }
    }
    async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<(), Error> {
        self.server.heartbeat(request).await
    }
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        self.server.leave(worker).await
    }
    async fn listen(&self, worker: &WorkerId) -> Result<Vec<CommandNotice>, Error> {
        self.server.listen(worker).await
    }
    async fn playbook(&self, hash: &PlaybookHash) -> Result<PlaybookText, Error> {
        self.server.playbook(hash).await
    }
    async fn events(&self, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        self.server.events(execution, seqs).await
    }
    async fn loop_results(
        &self,
        execution: ExecutionId,
        pointer: &LoopPointer,
    ) -> Result<RawJson, Error> {
        self.server.loop_results(execution, pointer).await
    }
    async fn manifest(&self, reference: &ResultRef) -> Result<ByteStream, Error> {
        self.server.manifest(reference).await
    }
    async fn secrets(
        &self,
        request: &wire::api::SecretsRequest,
    ) -> Result<Vec<wire::ResolvedSecret>, Error> {
        self.server.secrets(request).await
    }
    async fn resolve_ref(&self, uri: &str) -> Result<ResolvedRef, Error> {
        self.server.resolve_ref(uri).await
    }
}

/// A server with a worker.
struct AssignmentFixture {
    store: Arc<PausingStore<MemoryStore>>,
    server: Server,
    transport: Arc<FlakyTransport>,
    stop: CancellationToken,
}

impl AssignmentFixture {
    fn start(memory: MemoryStore, dir: &TempDir, clock: VirtualClock, name: &str) -> Self {
        let store = Arc::new(PausingStore::new(memory));
        let open = |part: &str| dir.path().join(name).join(part);
        let bodies =
            results::DirBodyStore::open(&open("bodies")).expect("there is room for bodies");
        let bodies = Arc::new(bodies);
        let server = Server::start(server::Config {
            store: store.clone(),
            bodies: bodies.clone(),
            limits: engine::ExecutionLimits::default(),
            playbook_dir: None,
            bus: None,
            may_adopt: true,
            keychain: server::KeychainConfig::default(),
            retention: None,
            cluster_secret: None,
        });
        let server = server.expect("the server starts");
        let transport = Arc::new(FlakyTransport {
            server: server.transport(),
            random: Mutex::new(None),
        });
        let logs = worker::FileLogs::open(open("logs")).expect("there is room for logs");
        let config = worker::Config {
            worker: WorkerId(name.into()),
            pool: "default".into(),
            kinds: None,
            slots: 3,
            tools: tools::Registry::builtin(tools::Config::default()),
            bodies,
            logs: Arc::new(logs),
            clock: Arc::new(clock),
            env: serde_json::Map::new(),
            base_dir: dir.path().to_owned(),
            scratch_dir: open("scratch"),
            heartbeat: Duration::from_secs(5),
            jumps_max: worker::JUMPS_MAX,
        };
        let stop = CancellationToken::new();
        let worker = worker::Worker::new(config, transport.clone());
        tokio::spawn(worker.run(stop.clone()));
        Self {
            store,
            server,
            transport,
            stop,
        }
    }

    fn set_faults(&self, random: Option<&mut SeededRandom>) {
        let (one, two) = random.map_or((None, None), |random| {
            let mut fork = || Some(SeededRandom::new(random.next_number()));
            (fork(), fork())
        });
        *self.store.faults.lock().expect("no holder panics") = one;
        *self.transport.random.lock().expect("no holder panics") = two;
    }

    /// The first assignment that has no open command behind it.
    async fn stray_assignment(&self) -> Option<String> {
        let assignments = self.server.assignments().await;
        if let Some(command) = assignments.pending.first() {
            return Some(format!("a waiting worker stays assigned to {command}"));
        }
        for command in assignments.claimed {
            let open = self.store.open_commands(command.execution).await;
            let open = open.expect("a store in memory answers");
            let is_open = open.iter().any(|open| open.command.id == command);
            if !is_open {
                return Some(format!(
                    "a worker counts as holding {command}, which is over"
                ));
            }
        }
        None
    }

    /// Runs a fresh playbook, which no leftover may hold up.
    async fn runs_promptly(&self) -> bool {
        let id = self.server.new_execution_id();
        let submitted = self
            .server
            .submit_from_catalog(id, "p", None, ExecutionOptions::default())
            .await;
        submitted.expect("it starts");
        let settled = tokio::time::timeout(PROMPT_MAX, self.server.wait_until_settled(id)).await;
        settled.is_ok()
    }
}

/// What was asked of the servers.
#[derive(Default)]
struct SubmittedWork {
    runs: Vec<ExecutionId>,
    submissions: JoinSet<Result<(), SubmitError>>,
}

/// One thing that happens.
async fn run_action(
    fixtures: &[AssignmentFixture; 2],
    submitted: &mut SubmittedWork,
    random: &mut SeededRandom,
) {
    let server = fixtures[random.index(2)].server.clone();
    if submitted.runs.is_empty() || random.percent(25) {
        // Both servers are asked for the same run at once, as by requests with one `dedup` word.
        let id = server.new_execution_id();
        submitted.runs.push(id);
        for house in fixtures {
            for n in 0..2 {
                let server = house.server.clone();
                let request = ExecutionOptions {
                    payload: Some(RawJson::from_serializable(&json!({"n": n}))),
                    trace_id: None,
                };
                submitted
                    .submissions
                    .spawn(async move { server.submit_from_catalog(id, "p", None, request).await });
            }
        }
        return;
    }
    let id = *random.pick(&submitted.runs);
    let control = match random.below(5) {
        0 => Control::Cancel {
            reason: None,
            cascade: true,
        },
        1 => Control::Pause { reason: None },
        2 => Control::Resume,
        3 => Control::Retry { version: None },
        _ => return tokio::time::sleep(Duration::from_millis(random.below(400))).await,
    };
    // Whether it fits is not what is looked at.
    tokio::spawn(async move { drop(server.control(id, control).await) });
    tokio::time::sleep(Duration::from_millis(random.below(20))).await;
}

async fn run_world(seed: u64) -> Result<(), String> {
    let clock = VirtualClock::start();
    let dir = tempfile::tempdir().expect("there is room for a folder");
    let memory = MemoryStore::new(clock.for_store());
    let other = memory.join_process();
    let houses = [
        AssignmentFixture::start(memory, &dir, clock, "first"),
        AssignmentFixture::start(other, &dir, clock, "second"),
    ];
    let registered = houses[0].store.put_playbook("p", PLAYBOOK).await;
    registered.expect("a store in memory takes it");
    let mut random = SeededRandom::new(seed);
    for house in &houses {
        house.set_faults(Some(&mut random));
    }
    let mut asked = SubmittedWork::default();
    for _ in 0..ACTIONS {
        run_action(&houses, &mut asked, &mut random).await;
    }
    for house in &houses {
        house.set_faults(None);
    }
    tokio::time::sleep(SETTLE_WAIT).await;
    while let Some(submitted) = asked.submissions.try_join_next() {
        let submitted = submitted.expect("a submission does not panic");
        submitted.map_err(|error| format!("a request did not get its run: {error}"))?;
    }
    if !asked.submissions.is_empty() {
        return Err("a request is not answered".to_owned());
    }
    for house in &houses {
        if let Some(stray) = house.stray_assignment().await {
            return Err(stray);
        }
        if !house.runs_promptly().await {
            return Err("a fresh run is held up".to_owned());
        }
        house.stop.cancel();
    }
    Ok(())
}

fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    let value = runtime.block_on(work);
    runtime.shutdown_background();
    value
}

#[test]
fn no_worker_stays_assigned_to_what_is_not_there() {
    for seed in 0..SEEDS {
        if let Err(stray) = in_virtual_time(run_world(seed)) {
            panic!("seed {seed}: {stray}");
        }
    }
}

/// The negative control: a commit that never ends leaves its worker assigned, and the check sees it.
#[test]
fn a_worker_that_stays_assigned_is_noticed() {
    let stray = in_virtual_time(async {
        let clock = VirtualClock::start();
        let dir = tempfile::tempdir().expect("there is room for a folder");
        let house =
            AssignmentFixture::start(MemoryStore::new(clock.for_store()), &dir, clock, "only");
        let registered = house.store.put_playbook("p", PLAYBOOK).await;
        registered.expect("a store in memory takes it");
        assert!(house.runs_promptly().await);
        assert_eq!(house.stray_assignment().await, None);
        house.store.never_replies.store(true, Ordering::Relaxed);
        let server = house.server.clone();
        let id = server.new_execution_id();
        tokio::spawn(async move {
            drop(
                server
                    .submit_from_catalog(id, "p", None, ExecutionOptions::default())
                    .await,
            );
        });
        tokio::time::sleep(SETTLE_WAIT).await;
        house.stray_assignment().await
    });
    assert!(stray.is_some(), "an assignment without an end was not seen");
}
