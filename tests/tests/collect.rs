//! Garbage collection of bodies: for any combination of runs, scopes, lifetimes and reruns, bodies in use are retained, and
//! expired ones are deleted.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use model::event::{
    CtxPatched, EmptyPayload, EndStatus, Event, EventBody, EventLocation, EventSource as Emitted, ExecutionFinished,
    ExecutionRequested, NextEvaluated, ParentTask, RerunOrigin, TaskEnded,
};
use model::id::{ExecutionId, IdBlock, PlaybookHash, Seq, StepRunId};
use model::playbook::{Directive, RouteMode};
use model::raw::RawJson;
use model::result_ref::{BodyScope, RELEASED_KIND, ResultRef};
use model::time::Time;
use results::{BodySource, BodyStore, DirBodyStore};
use serde_json::{Value, json};
use server::{GcOptions, collect_garbage};
use store::{Commit, MemoryStore, Store};
use tests::sim::SeededRandom;

const DAY: i64 = 24 * 3600 * 1_000_000;
const NOW: Time = Time(1_000 * DAY);
const RETENTION_DAYS: i64 = 30;

/// A reference to the body with this number.
#[derive(Debug, Clone)]
struct LoggedReference {
    body: usize,
    scope: BodyScope,
    expires_at: Option<Time>,
    is_routed: bool,
    is_released: bool,
    /// A reference in data that a step wrote, instead of a task's result.
    in_ctx: bool,
}

#[derive(Debug, Clone)]
struct PlannedExecution {
    id: ExecutionId,
    ended_at: Option<Time>,
    parent: Option<usize>,
    pinned_executions: Vec<usize>,
    references: Vec<LoggedReference>,
}

const BODIES: usize = 14;

fn plan_executions(seed: u64, store: &dyn Store) -> Vec<PlannedExecution> {
    let mut random = SeededRandom::new(seed);
    let count = 2 + random.index(7);
    let mut runs: Vec<PlannedExecution> = Vec::new();
    for n in 0..count {
        let some = |random: &mut SeededRandom| random.index(n.max(1));
        let days = i64::try_from(random.below(70)).unwrap_or(0);
        let parent = (n > 0 && random.percent(30)).then(|| some(&mut random));
        let pins = if n > 0 && random.percent(30) {
            vec![some(&mut random)]
        } else {
            Vec::new()
        };
        let references = (0..random.below(4)).map(|_| draw_reference(&mut random)).collect();
        runs.push(PlannedExecution {
            id: ExecutionId(store.ids(1).0),
            ended_at: random.percent(75).then(|| Time(NOW.0 - days * DAY)),
            parent,
            pinned_executions: pins,
            references,
        });
    }
    runs
}

fn draw_reference(random: &mut SeededRandom) -> LoggedReference {
    let scopes = [
        BodyScope::Step,
        BodyScope::Execution,
        BodyScope::Execution,
        BodyScope::Workflow,
        BodyScope::Permanent,
    ];
    let scope = *random.pick(&scopes);
    let expires_at = match random.below(6) {
        0 => Some(Time(NOW.0 - DAY)),
        1 => Some(Time(NOW.0 + DAY)),
        _ => None,
    };
    LoggedReference {
        body: random.index(BODIES),
        scope,
        expires_at,
        is_routed: random.percent(50),
        is_released: random.percent(10),
        in_ctx: scope != BodyScope::Permanent && random.percent(30),
    }
}

/// Bodies that must be retained, computed directly from the documented rules.
fn needed_bodies(runs: &[PlannedExecution]) -> BTreeSet<usize> {
    let is_retained = |run: &PlannedExecution| run.ended_at.is_none_or(|end| NOW.0 < end.0 + RETENTION_DAYS * DAY);
    let root = |run: &PlannedExecution| {
        let mut run = run;
        while let Some(parent) = run.parent {
            run = &runs[parent];
        }
        is_retained(run)
    };
    let mut needed = BTreeSet::new();
    for (n, run) in runs.iter().enumerate() {
        let pinning: Vec<&PlannedExecution> = runs
            .iter()
            .filter(|other| other.pinned_executions.contains(&n))
            .collect();
        let lives = is_retained(run) || pinning.iter().any(|other| is_retained(other));
        let tree_lives = lives || root(run) || pinning.iter().any(|other| root(other));
        for reference in &run.references {
            let is_over = reference.expires_at.is_some_and(|time| time <= NOW) || reference.is_released;
            let in_scope = match reference.scope {
                BodyScope::Permanent => true,
                BodyScope::Execution => lives,
                BodyScope::Workflow => tree_lives,
                BodyScope::Step => lives && (reference.in_ctx || !reference.is_routed),
            };
            if in_scope && !is_over {
                needed.insert(reference.body);
            }
        }
    }
    needed
}

fn body_text(body: usize) -> Bytes {
    Bytes::from(format!("\"body {body}\""))
}

fn reference_json(run: &PlannedExecution, n: usize, logged: &LoggedReference) -> Value {
    let uri = format!("noetl://execution/{}/step/s{n}/task/t/run/1.1/attempt/1", run.id);
    let short = json!({"store": "file", "key": uri, "size": 8, "checksum": results::sha256(&body_text(logged.body))});
    let mut reference =
        ResultRef::from_map(short.as_object().expect("the value is a map")).expect("the value refers to a body");
    reference.scope = logged.scope;
    reference.expires_at = logged.expires_at;
    serde_json::to_value(reference).expect("the value can be serialized")
}

fn execution_log(run: &PlannedExecution, runs: &[PlannedExecution]) -> Vec<(EventLocation, EventBody)> {
    let requested = ExecutionRequested {
        path: "p".into(),
        version: 1,
        hash: PlaybookHash::from_text("text"),
        workload: RawJson::from_serializable(&json!({})),
        parent: run.parent.map(|parent| ParentTask {
            execution_id: runs[parent].id,
            seq: Seq(3),
            wait: true,
            return_step: None,
            iter: None,
        }),
        depth: 0,
        trace_id: None,
        labels: model::labels::Labels::default(),
        rerun: (!run.pinned_executions.is_empty()).then(|| {
            Box::new(RerunOrigin {
                execution_id: runs[run.pinned_executions[0]].id,
                from_step: Some("s0".into()),
                from_iteration: None,
                pins: run.pinned_executions.iter().map(|pin| runs[*pin].id).collect(),
            })
        }),
    };
    let mut bodies = vec![
        (
            EventLocation::default(),
            EventBody::ExecutionRequested(Box::new(requested)),
        ),
        (EventLocation::default(), EventBody::PlaybookStarted(EmptyPayload {})),
    ];
    for (n, reference) in run.references.iter().enumerate() {
        let at = EventLocation::of_step_run(&StepRunId {
            step: format!("s{n}").into(),
            run: 1,
        });
        let value = reference_json(run, n, reference);
        if reference.in_ctx {
            let patch = RawJson::from_serializable(&json!({"kept": [value.clone()]}));
            bodies.push((
                EventLocation { run: 0, ..at.clone() },
                EventBody::CtxPatched(CtxPatched { patch }),
            ));
        } else {
            bodies.push((task_location(&at), EventBody::TaskDone(Box::new(task_ended(&value)))));
        }
        if reference.is_released {
            let released = json!({"kind": RELEASED_KIND, "uri": value["ref"]});
            let outcome = json!({"status": "ok", "result": released});
            let ended = TaskEnded {
                outcome: RawJson::from_serializable(&outcome),
                result_ref: None,
                ..task_ended(&value)
            };
            bodies.push((task_location(&at), EventBody::TaskDone(Box::new(ended))));
        }
        if reference.is_routed {
            bodies.push((at, EventBody::NextEvaluated(Box::new(next_evaluated()))));
        }
    }
    if run.ended_at.is_some() {
        let finished = ExecutionFinished {
            generation: 1,
            result: None,
            error: None,
            ended: EndStatus::Success,
        };
        bodies.push((
            EventLocation::default(),
            EventBody::PlaybookFinished(Box::new(finished)),
        ));
    }
    bodies
}

fn task_location(at: &EventLocation) -> EventLocation {
    EventLocation {
        task: Some("t".into()),
        visit: 1,
        attempt: 1,
        ..at.clone()
    }
}

fn task_ended(reference: &Value) -> TaskEnded {
    TaskEnded {
        outcome: RawJson::from_serializable(&json!({"status": "ok", "result": null, "reference": reference})),
        result_ref: serde_json::from_value(reference.clone()).ok(),
        matched_rule_index: None,
        directive: Directive::Continue,
        to: None,
        set_iter: None,
        set_ctx: None,
        set: None,
    }
}

fn next_evaluated() -> NextEvaluated {
    NextEvaluated {
        mode: RouteMode::Exclusive,
        matched: Vec::new(),
        selected: Vec::new(),
        guards: Vec::new(),
        held: false,
        error: None,
    }
}

async fn write_log(store: &dyn Store, run: &PlannedExecution, runs: &[PlannedExecution]) {
    let bodies = execution_log(run, runs);
    let count = u32::try_from(bodies.len()).expect("the logs of this test are short");
    let mut ids = IdBlock::starting_at(store.ids(count));
    let recorded_at = run.ended_at.unwrap_or(NOW);
    let events = (1..).zip(bodies).map(|(seq, (at, body))| Event {
        event_id: ids.next_event_id(),
        execution_id: run.id,
        seq: Seq(seq),
        cause_seq: (seq > 1).then(|| Seq(seq - 1)),
        timestamp: recorded_at,
        recorded_at,
        source: Emitted::Server,
        location: at,
        duration_ms: None,
        worker_id: None,
        trace_id: None,
        meta: None,
        body,
    });
    let commit = Commit::new(run.id, Seq(0), events.collect());
    store.commit(commit).await.expect("a new run can be written");
}

/// Stores every body with a time two days ago.
async fn store_bodies(dir: &Path) -> DirBodyStore {
    let bodies = DirBodyStore::open(dir).expect("the body can be written");
    for body in 0..BODIES {
        let stored = bodies
            .put(BodySource::Bytes(body_text(body)))
            .await
            .expect("the body can be written");
        set_age(dir, &stored.sha256, NOW.0 - 2 * DAY);
    }
    bodies
}

fn set_age(dir: &Path, sha256: &str, micros: i64) {
    let file = dir.join("bodies").join(&sha256[..2]).join(&sha256[2..]);
    let file = std::fs::File::options()
        .append(true)
        .open(file)
        .expect("the body exists");
    let time = SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    file.set_modified(time).expect("file times can be set");
}

async fn remaining_bodies(bodies: &DirBodyStore) -> BTreeSet<usize> {
    let all = bodies
        .stored_before(&results::OldBodyQuery {
            before: Time(i64::MAX / 4),
            after: None,
            limit: 1_000,
        })
        .await
        .expect("bodies can be listed");
    let hashes: BTreeSet<String> = all.into_iter().map(|old| old.sha256).collect();
    (0..BODIES)
        .filter(|body| hashes.contains(&results::sha256(&body_text(*body))))
        .collect()
}

/// Generates runs, writes them after `alter` changed them, and collects; returns the expected and the remaining bodies.
async fn collect_planned(seed: u64, alter: impl Fn(&mut Vec<PlannedExecution>)) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let store = MemoryStore::new(Arc::new(|| NOW));
    let runs = plan_executions(seed, &store);
    let mut written = runs.clone();
    alter(&mut written);
    for run in &written {
        write_log(&store, run, &written).await;
    }
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let bodies = store_bodies(dir.path()).await;
    let retention = Duration::from_secs(30 * 24 * 3600);
    let dry = GcOptions {
        retention,
        is_dry_run: true,
    };
    let dry = collect_garbage(&store, &bodies, dry)
        .await
        .expect("all logs can be read");
    assert_eq!(
        remaining_bodies(&bodies).await.len(),
        BODIES,
        "a dry run deletes nothing"
    );
    let how = GcOptions {
        retention,
        is_dry_run: false,
    };
    let collected = collect_garbage(&store, &bodies, how)
        .await
        .expect("all logs can be read");
    assert_eq!(collected, dry, "a dry run counts what a real run deletes");
    (needed_bodies(&runs), remaining_bodies(&bodies).await)
}

#[tokio::test]
async fn only_bodies_of_live_references_are_retained() {
    for seed in 0..80 {
        let (needed, left) = collect_planned(seed, |_| {}).await;
        assert_eq!(left, needed, "seed {seed}");
    }
}

/// Whether some seed loses a body when the collector gets incomplete data.
async fn is_loss_detected(alter: impl Fn(&mut Vec<PlannedExecution>) + Copy) -> bool {
    for seed in 0..80 {
        let (needed, left) = collect_planned(seed, alter).await;
        if !needed.is_subset(&left) {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_collector_that_misses_a_reference_is_detected() {
    let without_pins = |runs: &mut Vec<PlannedExecution>| {
        for run in runs.iter_mut() {
            run.pinned_executions.clear();
        }
    };
    assert!(is_loss_detected(without_pins).await, "the seeds do not test reruns");
    let without_parents = |runs: &mut Vec<PlannedExecution>| runs.iter_mut().for_each(|run| run.parent = None);
    assert!(
        is_loss_detected(without_parents).await,
        "the seeds do not test workflows"
    );
    let without_ctx = |runs: &mut Vec<PlannedExecution>| {
        for run in runs {
            run.references.retain(|reference| !reference.in_ctx);
        }
    };
    assert!(
        is_loss_detected(without_ctx).await,
        "the seeds do not test references in ctx"
    );
    let all_ended = |runs: &mut Vec<PlannedExecution>| {
        for run in runs.iter_mut() {
            run.ended_at = Some(Time(0));
        }
    };
    assert!(
        is_loss_detected(all_ended).await,
        "the seeds do not test unfinished runs"
    );
}

#[tokio::test]
async fn a_young_body_is_retained_although_no_log_refers_to_it_yet() {
    let store = MemoryStore::new(Arc::new(|| NOW));
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let bodies = DirBodyStore::open(dir.path()).expect("the store can be opened");
    let stored = bodies
        .put(BodySource::Bytes(body_text(1)))
        .await
        .expect("the body can be written");
    set_age(dir.path(), &stored.sha256, NOW.0 - DAY / 2);
    let how = GcOptions {
        retention: Duration::ZERO,
        is_dry_run: false,
    };
    collect_garbage(&store, &bodies, how)
        .await
        .expect("all logs can be read");
    assert_eq!(remaining_bodies(&bodies).await.len(), 1);
}
