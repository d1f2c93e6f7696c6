//! Loops whose results are too many or too large for one event: whoever reads them reads all of them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use model::id::Seq;
use model::template::LoopPointer;
use serde_json::{Value, json};
use server::{Found, Reader, ResultAddress, ResultPlace};
use store::Store;
use store::contract::{FinishedLoop, finish_loop};
use tests::binary::Desk;
use tokio::time::Instant;

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: tests/large}
workload: {count: 1500, size: 1}
workflow:
  - step: many
    loop:
      in: "{{ range(workload.count | int) | list }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 8}
    tool:
      - part:
          kind: noop
          result: {n: "{{ iter.n }}", text: "{{ 'x' * (workload.size | int) }}"}
    next:
      arcs:
        - step: end
          args:
            count: "{{ many.data | length }}"
            sum: "{{ many.data | map(attribute='n') | sum }}"
            last: "{{ (many.data | last).n }}"
  - step: end
    tool:
      - report:
          kind: noop
          result:
            arc: "{{ args }}"
            step: "{{ many.data | map(attribute='n') | sum }}"
"#;

fn run(count: u64, size: u64) {
    let desk = Desk::new();
    desk.write("large.yaml", PLAYBOOK);
    let (count_is, size_is) = (format!("count={count}"), format!("size={size}"));
    let args = ["run", "large.yaml", "--set", &count_is, "--set", &size_is];
    let sum = count * (count - 1) / 2;
    let arc = json!({"count": count, "sum": sum, "last": count - 1});
    assert_eq!(desk.json(&args), json!({"arc": arc, "step": sum}));
}

#[test]
fn more_results_than_fit_into_one_event_are_all_there() {
    run(1_500, 1);
}

#[test]
fn larger_results_than_fit_into_one_event_are_all_there() {
    run(40, 4_000);
}

/// A loop in a store of its own, and what reads it.
struct ReadingFixture {
    reader: Reader,
    finished: FinishedLoop,
    _dir: tempfile::TempDir,
}

impl ReadingFixture {
    async fn new(iterations: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(store::Sqlite::open(dir.path()).unwrap());
        let bodies = results::Local::open(&dir.path().join("bodies")).unwrap();
        let finished = finish_loop(&*store, iterations).await;
        Self {
            reader: Reader::new(store, Arc::new(bodies)),
            finished,
            _dir: dir,
        }
    }

    async fn read_iteration(&self, index: u64) {
        let address = ResultAddress {
            place: ResultPlace {
                iteration: Some(index),
                ..ResultPlace::default()
            },
            ..ResultAddress::of_step("each".into())
        };
        let found = self.reader.find(self.finished.execution, &address).await;
        let Some(Found::Value(value)) = found.unwrap() else {
            panic!("iteration {index} has no result");
        };
        assert_eq!(value, json!(index));
    }

    /// Reads all results; answers their text.
    async fn read_all(&self) -> Vec<u8> {
        let mut pieces = self.pieces().await;
        let mut text = Vec::new();
        while let Some(piece) = pieces.next().await {
            text.extend_from_slice(&piece.unwrap());
        }
        text
    }

    async fn read_outline(&self) {
        let id = self.finished.execution;
        let outline = self.reader.outline(id, Seq(0), 1_000).await.unwrap();
        assert_eq!(outline.events.len(), 7);
        assert_eq!(outline.seq, self.finished.done.next());
        assert_eq!(outline.next, None);
    }

    async fn pieces(&self) -> results::Pieces {
        let pointer = LoopPointer {
            started: self.finished.started,
            done: self.finished.done,
        };
        let found = Found::Loop(self.finished.execution, pointer);
        self.reader.pieces(found).await.unwrap()
    }
}

/// The shortest of some times that it takes.
async fn shortest(mut read: impl AsyncFnMut()) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..7 {
        let begun = Instant::now();
        read().await;
        shortest = shortest.min(begun.elapsed());
    }
    shortest
}

/// A pass over the log would take a hundred times as long for the large loop as for the small one.
#[tokio::test(flavor = "multi_thread")]
async fn reading_a_run_costs_the_same_at_any_number_of_iterations() {
    let small = ReadingFixture::new(1_000).await;
    let large = ReadingFixture::new(100_000).await;
    let outlines = [
        shortest(async || small.read_outline().await).await,
        shortest(async || large.read_outline().await).await,
    ];
    let iterations = [
        shortest(async || small.read_iteration(997).await).await,
        shortest(async || large.read_iteration(99_997).await).await,
    ];
    for (what, [small, large]) in [("the outline", outlines), ("one iteration", iterations)] {
        assert!(large < small * 10, "{what}: {large:?} after {small:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_results_of_a_loop_come_in_order_and_in_linear_time() {
    let small = ReadingFixture::new(500).await;
    let large = ReadingFixture::new(20_000).await;
    let mut text = Vec::new();
    let small = shortest(async || text = small.read_all().await).await;
    let large = shortest(async || text = large.read_all().await).await;
    let values: Vec<Value> = serde_json::from_slice(&text).unwrap();
    let wanted: Vec<Value> = (0..20_000).map(|index| json!(index)).collect();
    assert_eq!(values, wanted);
    assert!(large < small * 40 * 4, "{large:?} after {small:?}");
}
