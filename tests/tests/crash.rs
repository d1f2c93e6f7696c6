//! A killed run continues where its log ends: it finishes with the right result, no recorded task runs again, and the
//! log is complete.

use std::collections::{BTreeMap, BTreeSet};

use engine::ExecutionState;
use model::event::{Event, EventBody, EventKind};
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use serde_json::Value;
use store::Store as _;
use tests::cli_sandbox::CliSandbox;

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
            with open("effects", "a") as effects:
                effects.write(key + "\n")
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
            with open("effects", "a") as effects:
                effects.write(key + "\n")
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
            with open("effects", "a") as effects:
                effects.write(key + "\n")
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
            with open("effects", "a") as effects:
                effects.write(key + "\n")
            result = [sum(doubled), sum(squares)]
      - report:
          kind: noop
          result: {sums: "{{ sum.data }}", doubled: "{{ ctx.doubled }}", squares: "{{ ctx.squares }}"}
"#;

/// Pseudorandom numbers, the same in every test run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Starts or resumes the run and kills it after this number of new events. Returns false if it ended before.
fn kill_after_events(sandbox: &CliSandbox, verb: &[&str], seq: u64) -> bool {
    let mut running = sandbox.start(&[verb, &["-o", "ndjson"]].concat());
    let reached = running.wait_for_line(|line| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["seq"].as_u64().is_some_and(|now| now >= seq)
    });
    running.kill();
    reached.is_some()
}

/// Kills it after this number of started tasks instead, before their ends are recorded.
fn kill_after_tasks(sandbox: &CliSandbox, verb: &[&str], tasks: usize) -> bool {
    let mut running = sandbox.start(&[verb, &["-q"]].concat());
    while effect_lines(sandbox).len() < tasks && running.exit_code().is_none() {
        std::thread::yield_now();
    }
    let is_running = running.exit_code().is_none();
    running.kill();
    is_running
}

/// Reads the log from the store.
fn read_log(sandbox: &CliSandbox) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(async {
        let store = store::SqliteStore::open(&sandbox.path(".noetl")).expect("the store can be opened");
        let filter = store::ExecutionFilter {
            limit: 2,
            ..store::ExecutionFilter::default()
        };
        let rows = store.executions(&filter).await.expect("runs can be listed");
        assert!(rows.len() <= 1, "the store has one run");
        let id = rows.first().map_or(ExecutionId(0), |row| row.id);
        let events = store.events(id, Seq(0), usize::MAX >> 1).await;
        events.expect("the log can be read")
    })
}

fn effect_lines(sandbox: &CliSandbox) -> Vec<String> {
    sandbox.read("effects").lines().map(str::to_owned).collect()
}

/// Keys of the tasks that the log records as done.
fn finished_tasks(log: &[Event]) -> BTreeSet<String> {
    let done = log.iter().filter(|event| event.kind() == EventKind::TaskDone);
    done.map(|event| pipeline::idempotency_key(event.execution_id, &event.location))
        .collect()
}

/// Runs the playbook, kills it repeatedly, and lets it finish; returns the number of kills.
fn run_with_kills(seed: u64) -> u64 {
    let sandbox = CliSandbox::new();
    sandbox.write("crash.yaml", PLAYBOOK);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (seed << 32));
    let (mut last, mut kills) = (0, 0);
    for kill in 0..KILLS {
        let verb: &[&str] = match last {
            0 => &["run", "crash.yaml"],
            _ => &["resume", "last"],
        };
        let was_killed = if dice.roll(2) == 0 {
            kill_after_events(&sandbox, verb, last + 1 + dice.roll(24))
        } else {
            let more = usize::try_from(1 + dice.roll(6)).unwrap_or(1);
            kill_after_tasks(&sandbox, verb, effect_lines(&sandbox).len() + more)
        };
        let (log, effect_count) = (read_log(&sandbox), effect_lines(&sandbox).len());
        last = log.last().map_or(0, |event| event.seq.0);
        let finished = finished_tasks(&log);
        if !was_killed || log.iter().any(|event| event.kind() == EventKind::PlaybookFinished) {
            break;
        }
        kills += 1;
        check_no_late_effects(&sandbox, seed, kill, &finished, effect_count);
    }
    let ended = sandbox.run(&["show", "last", "-o", "json"]).json()["status"] == "COMPLETED";
    if !ended {
        let before = (finished_tasks(&read_log(&sandbox)), effect_lines(&sandbox).len());
        let output = sandbox.run(&["resume", "last", "-o", "json"]);
        assert_eq!(output.code, Some(0), "seed {seed}: {output:?}");
        check_no_repeats(&before.0, &effect_lines(&sandbox)[before.1..], seed);
    }
    let report = sandbox.run(&["show", "last", "-o", "json"]).json();
    assert_eq!(report["status"], "COMPLETED", "seed {seed}");
    let expected = serde_json::json!({"sums": [42, 91], "doubled": 42, "squares": 91});
    assert_eq!(report["result"], expected, "seed {seed}");
    check_log(&read_log(&sandbox), seed);
    assert!(
        sandbox.wait_for_no_processes(),
        "seed {seed}: a process is still running"
    );
    kills
}

/// Waits until the tools of the killed run have exited too, and checks that they repeated no recorded task.
fn check_no_late_effects(sandbox: &CliSandbox, seed: u64, kill: u64, finished: &BTreeSet<String>, effect_count: usize) {
    assert!(
        sandbox.wait_for_no_processes(),
        "seed {seed}, kill {kill}: a process is still running"
    );
    let later = effect_lines(sandbox);
    assert!(
        later.len() >= effect_count,
        "seed {seed}, kill {kill}: recorded effects disappeared"
    );
    check_no_repeats(finished, &later[effect_count..], seed);
}

fn check_no_repeats(done: &BTreeSet<String>, later: &[String], seed: u64) {
    for key in later {
        assert!(
            !done.contains(key),
            "seed {seed}: {key} was recorded as done and ran again"
        );
    }
}

/// Checks the invariants of a log that has ended.
fn check_log(log: &[Event], seed: u64) {
    let mut boundaries: BTreeMap<_, u32> = BTreeMap::new();
    let mut routed: BTreeMap<_, u32> = BTreeMap::new();
    let mut ends: BTreeMap<_, u32> = BTreeMap::new();
    let (mut scheduled, mut total, mut terminals) = (Vec::new(), 0, 0);
    for (index, event) in log.iter().enumerate() {
        assert_eq!(
            event.seq.0,
            index as u64 + 1,
            "seed {seed}: a gap in the sequence numbers"
        );
        let cause = event.cause_seq.unwrap_or_default();
        assert!(cause < event.seq, "seed {seed}: {} is its own cause", event.seq.0);
        let run = event.location.step_run_id().map(|run| run.to_string());
        match &event.body {
            EventBody::StepScheduled(_) => scheduled.extend(run),
            EventBody::StepDone(_) | EventBody::StepFailed(_) | EventBody::LoopDone(_) => {
                *boundaries.entry(run.unwrap_or_default()).or_default() += 1;
            }
            EventBody::NextEvaluated(_) => *routed.entry(run.unwrap_or_default()).or_default() += 1,
            EventBody::LoopStarted(started) => total += started.total,
            EventBody::IterationDone(_) | EventBody::IterationFailed(_) => {
                *ends.entry((run, event.location.iteration)).or_default() += 1;
            }
            EventBody::PlaybookFinished(_) => terminals += 1,
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
    assert!(ends.values().all(|count| *count == 1), "seed {seed}: {ends:?}");
    let state: Option<ExecutionState> = log.iter().fold(None, engine::fold);
    let state = state.expect("a log can be replayed");
    assert!(
        state.is_ended() && state.status() == RunStatus::Completed,
        "seed {seed}"
    );
}

#[test]
fn a_run_killed_at_any_moment_finishes_right() {
    let seeds: Vec<u64> = (1..=RUNS).collect();
    let kills: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = seeds
            .chunks(4)
            .map(|seeds| scope.spawn(|| seeds.iter().copied().map(run_with_kills).sum::<u64>()))
            .collect();
        let kills = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        kills.map(|kills| kills.expect("a run survives")).sum()
    });
    // A kill after the last event has no effect; the seeds are chosen so that few kills come that late.
    assert!(kills >= RUNS * KILLS * 9 / 10, "only {kills} kills had an effect");
}
