//! The server and the command line stream a manifest of 100,000 parts: memory does not grow with its size.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::io::Read as _;
use std::process::Stdio;
use std::sync::Arc;

use model::event::{
    At, Body, Event, LoopDone, LoopStarted, LoopStats, ResultStored, Source, StepScheduled,
    TaskEnded,
};
use model::id::{ExecutionId, IdBlock, Seq, StepRunId, TokenId};
use model::manifest::{Rule, Strategy};
use model::outcome::Outcome;
use model::playbook::{Directive, FailureMode, LoopMode};
use model::raw::Raw;
use serde_json::json;
use server::Server;
use server::api::{Access, ApiConfig, Listening};
use store::{Commit, Snapshot, Sqlite, Store};
use tests::binary::Desk;
use tokio_util::sync::CancellationToken;

const PARTS: u64 = 100_000;
/// Padding of each part; all parts together have more than 50 MB.
const BALLAST: usize = 500;
/// Memory limit for reading them.
const GROWTH_MAX_KIB: u64 = 24 * 1024;
/// Memory that the program itself needs.
const PROGRAM_KIB: u64 = 30 * 1024;

/// A log that the test builds.
struct Writer {
    store: Arc<Sqlite>,
    execution: ExecutionId,
    last: Seq,
    state: Option<engine::State>,
}

impl Writer {
    async fn begin(store: Arc<Sqlite>) -> Self {
        let commit = store::contract::request(&*store);
        let (execution, last) = (commit.execution, Seq(commit.events.len() as u64));
        let state = commit.events.iter().fold(None, engine::fold);
        store.commit(commit).await.unwrap();
        Self {
            store,
            execution,
            last,
            state,
        }
    }

    async fn write(&mut self, bodies: Vec<(At, Body)>) -> Seq {
        let count = u32::try_from(bodies.len()).unwrap();
        let mut ids = IdBlock::starting_at(self.store.ids(count));
        let now = self.store.now();
        let events = bodies.into_iter().zip(self.last.0 + 1..);
        let events: Vec<Event> = events
            .map(|((at, body), seq)| Event {
                event_id: ids.event(),
                execution_id: self.execution,
                seq: Seq(seq),
                cause_seq: Some(Seq(seq - 1)),
                timestamp: now,
                recorded_at: now,
                source: Source::Server,
                at,
                duration_ms: None,
                worker_id: None,
                trace_id: None,
                meta: None,
                body,
            })
            .collect();
        let expected = self.last;
        self.last = Seq(expected.0 + events.len() as u64);
        self.state = events.iter().fold(self.state.take(), engine::fold);
        let mut bytes = Vec::new();
        // Like a server, stores a snapshot from time to time, so that no reader replays a long log.
        if events.len() == 1 {
            ciborium::into_writer(&self.state, &mut bytes).unwrap();
        }
        let mut commit = Commit::new(self.execution, expected, events);
        let snapshot = Snapshot {
            seq: self.last,
            version: server::SNAPSHOT_VERSION,
            bytes,
        };
        commit.snapshot = Some(snapshot).filter(|snapshot| !snapshot.bytes.is_empty());
        self.store.commit(commit).await.unwrap();
        self.last
    }
}

fn run(step: &str) -> StepRunId {
    StepRunId {
        step: step.into(),
        run: 1,
    }
}

fn scheduled(step: &str) -> (At, Body) {
    let scheduled = StepScheduled {
        tokens: vec![TokenId {
            seq: Seq(1),
            arc: 0,
        }],
        args: None,
        args_from: None,
        is_final: false,
    };
    let at = At::step_run(&run(step));
    (at, Body::StepScheduled(Box::new(scheduled)))
}

fn part(at: At, n: u64) -> (At, Body) {
    let outcome = Outcome::ok(json!({"n": n, "text": "x".repeat(BALLAST)}));
    let ended = TaskEnded {
        outcome: Raw::of(&outcome),
        result_ref: None,
        matched_rule_index: None,
        directive: Directive::Continue,
        to: None,
        set_iter: None,
        set_ctx: None,
        set: None,
    };
    (at, Body::TaskDone(Box::new(ended)))
}

/// The pages of one task, latest first; readers must return them in page order.
async fn pages(writer: &mut Writer) -> String {
    let at = |page: u64| At {
        task: Some("fetch".into()),
        visit: u32::try_from(PARTS - page + 1).unwrap(),
        attempt: 1,
        page: Some(i64::try_from(page).unwrap()),
        ..At::step_run(&run("paged"))
    };
    let first = writer.write(vec![scheduled("paged")]).await.next();
    let all: Vec<u64> = (1..=PARTS).rev().collect();
    for some in all.chunks(500) {
        let bodies = some.iter().map(|page| part(at(*page), *page));
        writer.write(bodies.collect()).await;
    }
    let rule = Rule {
        strategy: Strategy::Append,
        merge_path: None,
        first,
        seq: writer.last.next(),
        parts: PARTS,
        pages: Vec::new(),
        is_loop: false,
        is_result: true,
        ends_pipeline: true,
    };
    let place = At {
        page: None,
        ..at(1)
    };
    let reference = rule.reference(writer.execution, &place, 0, None);
    let uri = reference.uri.clone();
    let result_ref = Box::new(reference);
    let body = Body::ManifestUpdated(ResultStored { result_ref });
    writer.write(vec![(place, body)]).await;
    uri
}

/// The iterations of a loop, every second one first.
async fn iterations(writer: &mut Writer) {
    let at = || At::step_run(&run("looped"));
    let started = LoopStarted {
        total: PARTS,
        mode: LoopMode::Parallel,
        max_in_flight: 16,
        failure: FailureMode::FailFast,
        local: false,
        collection: None,
        collection_ref: None,
        range: None,
        sha256: String::new(),
        reused: None,
        more: false,
    };
    let begin = vec![
        scheduled("looped"),
        (at(), Body::LoopStarted(Box::new(started))),
    ];
    writer.write(begin).await;
    let all: Vec<u64> = (0..PARTS).step_by(2).chain((1..PARTS).step_by(2)).collect();
    for some in all.chunks(500) {
        let place = |index: u64| At {
            task: Some("part".into()),
            visit: 1,
            attempt: 1,
            ..at().iteration(Some(index))
        };
        let bodies = some.iter().map(|index| part(place(*index), *index));
        writer.write(bodies.collect()).await;
    }
    let stats = LoopStats {
        total: PARTS,
        succeeded: PARTS,
        failed: 0,
    };
    let results = None;
    let done = Body::LoopDone(LoopDone {
        stats,
        results,
        manifests: Vec::new(),
    });
    writer.write(vec![(at(), done)]).await;
}

/// Peak resident memory of a process in KiB.
fn held_most(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Checks that numbers arrive in order, without buffering them.
#[derive(Default)]
struct Order {
    held: Vec<u8>,
    bytes: u64,
    seen: u64,
}

impl Order {
    fn take(&mut self, piece: &[u8], first: u64) {
        self.bytes += piece.len() as u64;
        self.held.extend_from_slice(piece);
        let mark = b"{\"n\":";
        let mut from = 0;
        while let Some(place) = find(&self.held[from..], mark) {
            let number = &self.held[from + place + mark.len()..];
            let Some(end) = number.iter().position(|byte| !byte.is_ascii_digit()) else {
                break;
            };
            let number: u64 = std::str::from_utf8(&number[..end])
                .unwrap()
                .parse()
                .unwrap();
            assert_eq!(number, first + self.seen);
            self.seen += 1;
            from += place + mark.len() + end;
        }
        let keep = self.held.len().saturating_sub(mark.len() + 20).max(from);
        self.held.drain(..keep);
    }
}

fn find(text: &[u8], mark: &[u8]) -> Option<usize> {
    text.windows(mark.len()).position(|window| window == mark)
}

async fn serve(dir: &std::path::Path, store: Arc<Sqlite>) -> (String, CancellationToken) {
    let server = Server::start(server::Config {
        store,
        bodies: Arc::new(results::Local::open(&dir.join("bodies")).unwrap()),
        limits: engine::Limits::default(),
        files: None,
        bus: None,
        takes_over: false,
        cluster_secret: None,
        keychain: server::KeychainConfig::default(),
        retention: None,
    })
    .unwrap();
    let listening = Listening::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listening.address());
    let config = ApiConfig {
        access: Access::Open,
        is_loopback: true,
        hosts: Vec::new(),
        cluster_secret: None,
        logs: Arc::new(results::FileLogs::open(dir.join("logs")).unwrap()),
    };
    let stop = CancellationToken::new();
    tokio::spawn(listening.serve(server, config, None, stop.clone()));
    (url, stop)
}

async fn read(url: &str, first: u64) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut answer = reqwest::get(url).await.unwrap();
    assert!(answer.status().is_success(), "{url}: {answer:?}");
    let mut order = Order::default();
    while let Some(piece) = answer.chunk().await.unwrap() {
        order.take(&piece, first);
    }
    assert_eq!(order.seen, PARTS, "{url}");
    assert!(order.bytes > PARTS * BALLAST as u64);
}

/// Reads the output of a command, and returns its peak memory.
fn print(desk: &Desk, args: &[&str], first: u64) -> u64 {
    let mut command = desk.command(args);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let process = child.id().to_string();
    let mut out = child.stdout.take().unwrap();
    let (mut order, mut most) = (Order::default(), 0);
    let mut piece = vec![0; 256 * 1024];
    loop {
        let read = out.read(&mut piece).unwrap();
        most = most.max(held_most(&process));
        if read == 0 {
            break;
        }
        order.take(&piece[..read], first);
    }
    assert!(child.wait().unwrap().success(), "{args:?}");
    assert_eq!(order.seen, PARTS, "{args:?}");
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_parts_are_read_in_constant_memory() {
    let desk = Desk::new();
    let dir = desk.path("noetl-store");
    fs::create_dir_all(&dir).unwrap();
    let store = Arc::new(Sqlite::open(&dir).unwrap());
    let mut writer = Writer::begin(store.clone()).await;
    let uri = pages(&mut writer).await;
    iterations(&mut writer).await;
    let id = writer.execution;
    let (url, stop) = serve(&dir, store).await;
    let small = format!("{url}/api/result/{id}/paged?page=7");
    assert!(reqwest_ok(&small).await);
    let before = held_most("self");
    read(&format!("{url}/api/result/resolve?ref={uri}"), 1).await;
    read(&format!("{url}/api/result/{id}/looped"), 0).await;
    let growth = held_most("self") - before;
    assert!(growth < GROWTH_MAX_KIB, "the server used {growth} KiB");
    let place = dir.display().to_string();
    for form in [&["--raw"][..], &["-o", "ndjson"], &["-o", "json"]] {
        let looped = format!("{id}/looped");
        let args = [&["result", &looped, "--store", &place][..], form].concat();
        let most = print(&desk, &args, 0);
        assert!(
            most < PROGRAM_KIB + GROWTH_MAX_KIB,
            "{form:?} took {most} KiB"
        );
    }
    stop.cancel();
}

async fn reqwest_ok(url: &str) -> bool {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::get(url).await.unwrap().status().is_success()
}
