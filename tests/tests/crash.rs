//! Killed at any moment, a run goes on where its log ends: it finishes with the right result, nothing that was recorded
//! as done runs again, and the log is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use engine::State;
use model::event::{Body, Event, Kind};
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use serde_json::Value;
use store::Store as _;
use tests::binary::{Desk, Going};

const RUNS: u64 = 10;
const KILLS: u64 = 5;

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: crash, path: tests/crash}
workload: {numbers: [1, 2, 3, 4, 5, 6]}
workflow:
  - step: one_by_one
    loop: {spec: {mode: sequential}, in: "{{ workload.numbers }}", iterator: n}
    tool:
      - double:
          kind: python
          input: {n: "{{ iter.n }}", key: "{{ idempotency_key }}"}
          code: |
            with open("witness", "a") as witness:
                witness.write(key + "\n")
            result = n * 2
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else: {then: {do: continue, set_ctx: {doubled: {$add: "{{ outcome.result }}"}}}}
      - check:
          kind: python
          input: {n: "{{ iter.n }}", doubled: "{{ double.data }}", key: "{{ idempotency_key }}"}
          code: |
            with open("witness", "a") as witness:
                witness.write(key + "\n")
            assert doubled == 2 * n
            result = doubled
    next: {arcs: [{step: all_at_once, when: "{{ event.name == 'loop.done' }}"}]}
  - step: all_at_once
    loop: {spec: {mode: parallel, max_in_flight: 3}, in: "{{ workload.numbers }}", iterator: n}
    tool:
      - square:
          kind: python
          input: {n: "{{ iter.n }}", attempt: "{{ _attempt }}", key: "{{ idempotency_key }}"}
          code: |
            with open("witness", "a") as witness:
                witness.write(key + "\n")
            if n % 3 == 0 and attempt < 3:
                raise ConnectionError("not yet")
            result = n * n
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: retry, attempts: 5, delay: 0.01}
                - else: {then: {do: continue, set_ctx: {squares: {$add: "{{ outcome.result }}"}}}}
    next: {arcs: [{step: end, when: "{{ event.name == 'loop.done' }}"}]}
  - step: end
    tool:
      - sum:
          kind: python
          input:
            doubled: "{{ one_by_one.data }}"
            squares: "{{ all_at_once.data }}"
            key: "{{ idempotency_key }}"
          code: |
            with open("witness", "a") as witness:
                witness.write(key + "\n")
            result = [sum(doubled), sum(squares)]
      - report:
          kind: noop
          result: {sums: "{{ sum.data }}", doubled: "{{ ctx.doubled }}", squares: "{{ ctx.squares }}"}
"#;

/// Numbers that look random and are the same in every run of the tests.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Reads events up to a seq and kills in that moment. False: the run ended before.
fn kill_after(mut going: Going, seq: u64) -> bool {
    let reached = going.line(|line| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["seq"].as_u64().is_some_and(|now| now >= seq)
    });
    going.kill();
    reached.is_some()
}

/// The log as it is in the store.
fn log(desk: &Desk) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(async {
        let store = store::Sqlite::open(&desk.path(".noetl")).expect("the store opens");
        let filter = store::Filter {
            limit: 2,
            ..store::Filter::default()
        };
        let rows = store.executions(&filter).await.expect("runs can be listed");
        assert!(rows.len() <= 1, "there is one run");
        let id = rows.first().map_or(ExecutionId(0), |row| row.id);
        let events = store.events(id, Seq(0), usize::MAX >> 1).await;
        events.expect("the log can be read")
    })
}

fn witness(desk: &Desk) -> Vec<String> {
    desk.read("witness").lines().map(str::to_owned).collect()
}

/// The keys of the tasks that the log records as done.
fn done(log: &[Event]) -> BTreeSet<String> {
    let done = log.iter().filter(|event| event.kind() == Kind::TaskDone);
    done.map(|event| pipeline::idempotency_key(event.execution_id, &event.at))
        .collect()
}

/// Runs the playbook, kills it again and again, and lets it finish; answers how often it was killed on its way.
fn survive(seed: u64) -> u64 {
    let desk = Desk::new();
    desk.write("crash.yaml", PLAYBOOK);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (seed << 32));
    let (mut last, mut kills) = (0, 0);
    for kill in 0..KILLS {
        let going = match last {
            0 => desk.start(&["run", "crash.yaml", "-o", "ndjson"]),
            _ => desk.start(&["resume", "last", "-o", "ndjson"]),
        };
        let was_going_on = kill_after(going, last + 1 + dice.roll(24));
        let (log, seen) = (log(&desk), witness(&desk));
        last = log.last().map_or(0, |event| event.seq.0);
        let (finished, at) = (done(&log), seen.len());
        if !was_going_on
            || log
                .iter()
                .any(|event| event.kind() == Kind::PlaybookFinished)
        {
            break;
        }
        kills += 1;
        rests_in_peace(&desk, seed, kill, &finished, at);
    }
    let ended = desk.run(&["show", "last", "-o", "json"]).json()["status"] == "COMPLETED";
    if !ended {
        let before = (done(&log(&desk)), witness(&desk).len());
        let said = desk.run(&["resume", "last", "-o", "json"]);
        assert_eq!(said.code, Some(0), "seed {seed}: {said:?}");
        runs_nothing_again(&before.0, &witness(&desk)[before.1..], seed);
    }
    let shown = desk.run(&["show", "last", "-o", "json"]).json();
    assert_eq!(shown["status"], "COMPLETED", "seed {seed}");
    let expected = serde_json::json!({"sums": [42, 91], "doubled": 42, "squares": 91});
    assert_eq!(shown["result"], expected, "seed {seed}");
    whole(&log(&desk), seed);
    nobody_is_left(&desk, seed);
    kills
}

/// Waits until the killed run's tools are gone too, and sees that they did nothing that was done.
fn rests_in_peace(desk: &Desk, seed: u64, kill: u64, finished: &BTreeSet<String>, at: usize) {
    nobody_is_left(desk, seed);
    let later = witness(desk);
    assert!(
        later.len() >= at,
        "seed {seed}, kill {kill}: the witness only grows"
    );
    runs_nothing_again(finished, &later[at..], seed);
}

fn runs_nothing_again(done: &BTreeSet<String>, later: &[String], seed: u64) {
    for key in later {
        assert!(
            !done.contains(key),
            "seed {seed}: {key} was done and ran again"
        );
    }
}

/// The oracle: what must hold of every log that has ended.
fn whole(log: &[Event], seed: u64) {
    let mut boundaries: BTreeMap<_, u32> = BTreeMap::new();
    let mut routed: BTreeMap<_, u32> = BTreeMap::new();
    let mut ends: BTreeMap<_, u32> = BTreeMap::new();
    let (mut scheduled, mut total, mut terminals) = (Vec::new(), 0, 0);
    for (index, event) in log.iter().enumerate() {
        assert_eq!(event.seq.0, index as u64 + 1, "seed {seed}: a gap");
        let cause = event.cause_seq.unwrap_or_default();
        assert!(
            cause < event.seq,
            "seed {seed}: {} causes itself",
            event.seq.0
        );
        let run = event.at.step_run_id().map(|run| run.to_string());
        match &event.body {
            Body::StepScheduled(_) => scheduled.extend(run),
            Body::StepDone(_) | Body::StepFailed(_) | Body::LoopDone(_) => {
                *boundaries.entry(run.unwrap_or_default()).or_default() += 1;
            }
            Body::NextEvaluated(_) => *routed.entry(run.unwrap_or_default()).or_default() += 1,
            Body::LoopStarted(started) => total += started.total,
            Body::IterationDone(_) | Body::IterationFailed(_) => {
                *ends.entry((run, event.at.iteration)).or_default() += 1;
            }
            Body::PlaybookFinished(_) => terminals += 1,
            _ => {}
        }
    }
    assert_eq!(terminals, 1, "seed {seed}");
    assert_eq!(scheduled.len(), boundaries.len(), "seed {seed}");
    for run in &scheduled {
        assert_eq!(boundaries.get(run), Some(&1), "seed {seed}: {run}");
        assert_eq!(routed.get(run), Some(&1), "seed {seed}: {run}");
    }
    assert_eq!(ends.len() as u64, total, "seed {seed}");
    assert!(
        ends.values().all(|count| *count == 1),
        "seed {seed}: {ends:?}"
    );
    let state: Option<State> = log.iter().fold(None, engine::fold);
    let state = state.expect("a log folds to a state");
    assert!(
        state.is_ended() && state.status() == RunStatus::Completed,
        "seed {seed}"
    );
}

/// Waits until no process of the folder lives; every one of them has the folder as its home.
fn nobody_is_left(desk: &Desk, seed: u64) {
    let home = desk
        .path("")
        .to_string_lossy()
        .trim_end_matches('/')
        .to_owned();
    let lives = || {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let environments =
            processes.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
        let mine = format!("HOME={home}\0");
        let mut environments = environments;
        environments.any(|environ| String::from_utf8_lossy(&environ).contains(&mine))
    };
    // Each look takes a good part of a millisecond; what lives on after so many lives on for good.
    let gone = (0..20_000).any(|_| {
        std::thread::yield_now();
        !lives()
    });
    assert!(gone, "seed {seed}: a process of the killed run lives on");
}

#[test]
fn a_run_killed_at_any_moment_finishes_right() {
    let seeds: Vec<u64> = (1..=RUNS).collect();
    let kills: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = seeds
            .chunks(4)
            .map(|seeds| scope.spawn(|| seeds.iter().copied().map(survive).sum::<u64>()))
            .collect();
        let kills = threads.into_iter().map(|thread| thread.join());
        kills.map(|kills| kills.expect("a run survives")).sum()
    });
    // A kill that comes after the last event hits nothing; the seeds are chosen so that few do.
    assert!(kills >= RUNS * KILLS * 9 / 10, "only {kills} kills hit");
}
