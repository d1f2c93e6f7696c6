//! Garbage collection of bodies: for any combination of runs, scopes, lifetimes and reruns, bodies in use are kept, and
//! expired ones are deleted.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use model::event::{
    At, Body, CtxPatched, Ending, Event, Finished, NextEvaluated, Nothing, Parent, Requested,
    Rerun, Source as Emitted, TaskEnded,
};
use model::id::{ExecutionId, IdBlock, PlaybookHash, Seq, StepRunId};
use model::playbook::{Directive, RouteMode};
use model::raw::Raw;
use model::result_ref::{RELEASED, ResultRef, Scope};
use model::time::Time;
use results::{Bodies, Local, Source};
use serde_json::{Value, json};
use server::{Collection, collect};
use store::{Commit, Memory, Store};

const DAY: i64 = 24 * 3600 * 1_000_000;
const NOW: Time = Time(1_000 * DAY);
const RETENTION_DAYS: i64 = 30;

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A reference to the body with this number.
#[derive(Debug, Clone)]
struct Held {
    body: usize,
    scope: Scope,
    expires_at: Option<Time>,
    is_routed: bool,
    is_released: bool,
    /// A reference in data that a step wrote, instead of a task's result.
    in_ctx: bool,
}

#[derive(Debug, Clone)]
struct Run {
    id: ExecutionId,
    ended: Option<Time>,
    parent: Option<usize>,
    pins: Vec<usize>,
    holds: Vec<Held>,
}

const BODIES: usize = 14;

fn plan(seed: u64, store: &dyn Store) -> Vec<Run> {
    let mut random = Random(seed);
    let count = 2 + usize::try_from(random.below(7)).unwrap_or(0);
    let mut runs: Vec<Run> = Vec::new();
    for n in 0..count {
        let some =
            |random: &mut Random| usize::try_from(random.below(n.max(1) as u64)).unwrap_or(0);
        let days = i64::try_from(random.below(70)).unwrap_or(0);
        let parent = (n > 0 && random.chance(30)).then(|| some(&mut random));
        let pins = if n > 0 && random.chance(30) {
            vec![some(&mut random)]
        } else {
            Vec::new()
        };
        let holds = (0..random.below(4)).map(|_| hold(&mut random)).collect();
        runs.push(Run {
            id: ExecutionId(store.ids(1).0),
            ended: random.chance(75).then(|| Time(NOW.0 - days * DAY)),
            parent,
            pins,
            holds,
        });
    }
    runs
}

fn hold(random: &mut Random) -> Held {
    let scopes = [
        Scope::Step,
        Scope::Execution,
        Scope::Execution,
        Scope::Workflow,
        Scope::Permanent,
    ];
    let scope = scopes[usize::try_from(random.below(5)).unwrap_or(0)];
    let expires_at = match random.below(6) {
        0 => Some(Time(NOW.0 - DAY)),
        1 => Some(Time(NOW.0 + DAY)),
        _ => None,
    };
    Held {
        body: usize::try_from(random.below(BODIES as u64)).unwrap_or(0),
        scope,
        expires_at,
        is_routed: random.chance(50),
        is_released: random.chance(10),
        in_ctx: scope != Scope::Permanent && random.chance(30),
    }
}

/// Bodies that must be kept, computed directly from the documented rules.
fn needed(runs: &[Run]) -> BTreeSet<usize> {
    let is_kept = |run: &Run| {
        run.ended
            .is_none_or(|end| NOW.0 < end.0 + RETENTION_DAYS * DAY)
    };
    let root = |run: &Run| {
        let mut run = run;
        while let Some(parent) = run.parent {
            run = &runs[parent];
        }
        is_kept(run)
    };
    let mut needed = BTreeSet::new();
    for (n, run) in runs.iter().enumerate() {
        let pinning: Vec<&Run> = runs
            .iter()
            .filter(|other| other.pins.contains(&n))
            .collect();
        let lives = is_kept(run) || pinning.iter().any(|other| is_kept(other));
        let tree_lives = lives || root(run) || pinning.iter().any(|other| root(other));
        for held in &run.holds {
            let is_over = held.expires_at.is_some_and(|time| time <= NOW) || held.is_released;
            let in_scope = match held.scope {
                Scope::Permanent => true,
                Scope::Execution => lives,
                Scope::Workflow => tree_lives,
                Scope::Step => lives && (held.in_ctx || !held.is_routed),
            };
            if in_scope && !is_over {
                needed.insert(held.body);
            }
        }
    }
    needed
}

fn text(body: usize) -> Bytes {
    Bytes::from(format!("\"body {body}\""))
}

fn reference(run: &Run, n: usize, held: &Held) -> Value {
    let uri = format!(
        "noetl://execution/{}/step/s{n}/task/t/run/1.1/attempt/1",
        run.id
    );
    let short = json!({"store": "file", "key": uri, "size": 8, "checksum": results::sha256(&text(held.body))});
    let mut found = ResultRef::of(short.as_object().expect("the value is a map"))
        .expect("the value refers to a body");
    found.scope = held.scope;
    found.expires_at = held.expires_at;
    serde_json::to_value(found).expect("the value can be serialized")
}

fn log(run: &Run, runs: &[Run]) -> Vec<(At, Body)> {
    let requested = Requested {
        path: "p".into(),
        version: 1,
        hash: PlaybookHash::of("text"),
        workload: Raw::of(&json!({})),
        parent: run.parent.map(|parent| Parent {
            execution_id: runs[parent].id,
            seq: Seq(3),
            wait: true,
            return_step: None,
            iter: None,
        }),
        depth: 0,
        trace_id: None,
        rerun: (!run.pins.is_empty()).then(|| {
            Box::new(Rerun {
                execution_id: runs[run.pins[0]].id,
                from_step: Some("s0".into()),
                from_iteration: None,
                pins: run.pins.iter().map(|pin| runs[*pin].id).collect(),
            })
        }),
    };
    let mut bodies = vec![
        (At::default(), Body::ExecutionRequested(Box::new(requested))),
        (At::default(), Body::PlaybookStarted(Nothing {})),
    ];
    for (n, held) in run.holds.iter().enumerate() {
        let at = At::step_run(&StepRunId {
            step: format!("s{n}").into(),
            run: 1,
        });
        let value = reference(run, n, held);
        if held.in_ctx {
            let patch = Raw::of(&json!({"kept": [value.clone()]}));
            bodies.push((
                At {
                    run: 0,
                    ..at.clone()
                },
                Body::CtxPatched(CtxPatched { patch }),
            ));
        } else {
            bodies.push((task(&at), Body::TaskDone(Box::new(ended(&value)))));
        }
        if held.is_released {
            let released = json!({"kind": RELEASED, "uri": value["ref"]});
            let outcome = json!({"status": "ok", "result": released});
            let ended = TaskEnded {
                outcome: Raw::of(&outcome),
                result_ref: None,
                ..ended(&value)
            };
            bodies.push((task(&at), Body::TaskDone(Box::new(ended))));
        }
        if held.is_routed {
            bodies.push((at, Body::NextEvaluated(Box::new(routed()))));
        }
    }
    if run.ended.is_some() {
        let finished = Finished {
            generation: 1,
            result: None,
            error: None,
            ended: Ending::Success,
        };
        bodies.push((At::default(), Body::PlaybookFinished(Box::new(finished))));
    }
    bodies
}

fn task(at: &At) -> At {
    At {
        task: Some("t".into()),
        visit: 1,
        attempt: 1,
        ..at.clone()
    }
}

fn ended(reference: &Value) -> TaskEnded {
    TaskEnded {
        outcome: Raw::of(&json!({"status": "ok", "result": null, "reference": reference})),
        result_ref: serde_json::from_value(reference.clone()).ok(),
        matched_rule_index: None,
        directive: Directive::Continue,
        to: None,
        set_iter: None,
        set_ctx: None,
        set: None,
    }
}

fn routed() -> NextEvaluated {
    NextEvaluated {
        mode: RouteMode::Exclusive,
        matched: Vec::new(),
        selected: Vec::new(),
        guards: Vec::new(),
        held: false,
        error: None,
    }
}

async fn write(store: &dyn Store, run: &Run, runs: &[Run]) {
    let bodies = log(run, runs);
    let count = u32::try_from(bodies.len()).expect("the logs of this test are short");
    let mut ids = IdBlock::starting_at(store.ids(count));
    let recorded_at = run.ended.unwrap_or(NOW);
    let events = (1..).zip(bodies).map(|(seq, (at, body))| Event {
        event_id: ids.event(),
        execution_id: run.id,
        seq: Seq(seq),
        cause_seq: (seq > 1).then(|| Seq(seq - 1)),
        timestamp: recorded_at,
        recorded_at,
        source: Emitted::Server,
        at,
        duration_ms: None,
        worker_id: None,
        trace_id: None,
        meta: None,
        body,
    });
    let commit = Commit::new(run.id, Seq(0), events.collect());
    store
        .commit(commit)
        .await
        .expect("a new run can be written");
}

/// Stores every body with a time two days ago.
async fn fill(dir: &Path) -> Local {
    let bodies = Local::open(dir).expect("the body can be written");
    for body in 0..BODIES {
        let stored = bodies
            .put(Source::Bytes(text(body)))
            .await
            .expect("the body can be written");
        age(dir, &stored.sha256, NOW.0 - 2 * DAY);
    }
    bodies
}

fn age(dir: &Path, sha256: &str, micros: i64) {
    let file = dir.join("bodies").join(&sha256[..2]).join(&sha256[2..]);
    let file = std::fs::File::options()
        .append(true)
        .open(file)
        .expect("the body exists");
    let time = SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    file.set_modified(time).expect("file times can be set");
}

async fn left(bodies: &Local) -> BTreeSet<usize> {
    let all = bodies
        .stored_before(Time(i64::MAX / 4), None, 1_000)
        .await
        .expect("bodies can be listed");
    let hashes: BTreeSet<String> = all.into_iter().map(|old| old.sha256).collect();
    (0..BODIES)
        .filter(|body| hashes.contains(&results::sha256(&text(*body))))
        .collect()
}

/// Generates runs, writes them as `told` changes them, and collects; returns the expected and the remaining bodies.
async fn after(seed: u64, told: impl Fn(&mut Vec<Run>)) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let store = Memory::new(Arc::new(|| NOW));
    let runs = plan(seed, &store);
    let mut written = runs.clone();
    told(&mut written);
    for run in &written {
        write(&store, run, &written).await;
    }
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let bodies = fill(dir.path()).await;
    let retention = Duration::from_secs(30 * 24 * 3600);
    let dry = Collection {
        retention,
        is_dry: true,
    };
    let dry = collect(&store, &bodies, dry)
        .await
        .expect("all logs can be read");
    assert_eq!(
        left(&bodies).await.len(),
        BODIES,
        "a dry run deletes nothing"
    );
    let how = Collection {
        retention,
        is_dry: false,
    };
    let collected = collect(&store, &bodies, how)
        .await
        .expect("all logs can be read");
    assert_eq!(collected, dry, "a dry run counts what a real run deletes");
    (needed(&runs), left(&bodies).await)
}

#[tokio::test]
async fn exactly_what_lives_keeps_its_bodies() {
    for seed in 0..80 {
        let (needed, left) = after(seed, |_| {}).await;
        assert_eq!(left, needed, "seed {seed}");
    }
}

/// Whether some seed loses a body when the collector gets incomplete data.
async fn is_noticed(told: impl Fn(&mut Vec<Run>) + Copy) -> bool {
    for seed in 0..80 {
        let (needed, left) = after(seed, told).await;
        if !needed.is_subset(&left) {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_collector_that_overlooks_something_is_caught() {
    let without_pins = |runs: &mut Vec<Run>| runs.iter_mut().for_each(|run| run.pins.clear());
    assert!(
        is_noticed(without_pins).await,
        "the seeds do not test reruns"
    );
    let without_parents = |runs: &mut Vec<Run>| runs.iter_mut().for_each(|run| run.parent = None);
    assert!(
        is_noticed(without_parents).await,
        "the seeds do not test workflows"
    );
    let without_ctx = |runs: &mut Vec<Run>| {
        for run in runs {
            run.holds.retain(|held| !held.in_ctx);
        }
    };
    assert!(
        is_noticed(without_ctx).await,
        "the seeds do not test references in ctx"
    );
    let all_over = |runs: &mut Vec<Run>| runs.iter_mut().for_each(|run| run.ended = Some(Time(0)));
    assert!(
        is_noticed(all_over).await,
        "the seeds do not test unfinished runs"
    );
}

#[tokio::test]
async fn a_young_body_stays_although_no_log_names_it_yet() {
    let store = Memory::new(Arc::new(|| NOW));
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let bodies = Local::open(dir.path()).expect("the store can be opened");
    let stored = bodies
        .put(Source::Bytes(text(1)))
        .await
        .expect("the body can be written");
    age(dir.path(), &stored.sha256, NOW.0 - DAY / 2);
    let how = Collection {
        retention: Duration::ZERO,
        is_dry: false,
    };
    collect(&store, &bodies, how)
        .await
        .expect("all logs can be read");
    assert_eq!(left(&bodies).await.len(), 1);
}
