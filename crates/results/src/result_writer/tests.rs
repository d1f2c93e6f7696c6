//! A streamed text yields the same reference as a value in memory.

use model::event::EventLocation;
use model::id::ExecutionId;
use model::playbook::SelectEntry;
use model::time::Time;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{DirBodyStore, LargeResult, ResultOrigin};

fn result_writer(dir: &TempDir, control: ResultControl) -> ResultWriter {
    ResultWriter {
        store: Arc::new(DirBodyStore::open(dir.path()).unwrap()),
        control,
        uri: "noetl://execution/1/step//task//run/0.0/attempt/0".to_owned(),
        bytes_max: u64::MAX,
        missing_paths: MissingPaths::default(),
    }
}

fn select_control(path: &str) -> ResultControl {
    ResultControl {
        select: vec![SelectEntry {
            path: path.to_owned(),
            name: "found".into(),
        }],
        ..ResultControl::default()
    }
}

fn count_files(dir: &TempDir) -> usize {
    let shards = std::fs::read_dir(dir.path().join("bodies")).unwrap();
    shards
        .map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap().count())
        .sum()
}

#[tokio::test]
async fn a_streamed_result_is_stored_like_a_value_in_memory() {
    let dir = TempDir::new().unwrap();
    let rows: Vec<Value> = (0..20_000).map(|n| json!({"id": n, "t": "x"})).collect();
    let value = json!({"status": "done", "n": 1, "rows": rows, "deep": {"x": [true]}});
    for control in [ResultControl::default(), select_control("$.deep.x[0]")] {
        let text = value.to_string();
        let writer = result_writer(&dir, control.clone());
        assert!(writer.can_stream());
        let streamed = writer.write(&mut text.as_bytes()).await.unwrap();
        let origin = ResultOrigin {
            execution: ExecutionId(1),
            location: &EventLocation::default(),
            now: Time(0),
        };
        let bodies = writer.store.as_ref();
        let large = LargeResult::new(&value, &control).unwrap();
        let large = large.store(bodies, origin).await.unwrap();
        let uri = large.uri.clone();
        assert_eq!(ResultRef { uri, ..streamed }, large);
    }
}

#[tokio::test]
async fn a_text_that_is_too_large_or_broken_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let mut small = result_writer(&dir, ResultControl::default());
    small.bytes_max = 10;
    let before = count_files(&dir);
    let error = small.write(&mut b"[1,2,3,4,5]".as_slice()).await;
    assert_eq!(error.unwrap_err().code(), "LIMIT_PAYLOAD");
    let error = small.write(&mut b"[1,2".as_slice()).await;
    assert_eq!(error.unwrap_err().code(), "RESULT_NOT_JSON");
    assert_eq!(count_files(&dir), before);
    small.write(&mut b"[1,2,3,4]".as_slice()).await.unwrap();
    assert!(count_files(&dir) > before);
}

#[tokio::test]
async fn a_path_that_searches_needs_the_whole_value() {
    let dir = TempDir::new().unwrap();
    assert!(!result_writer(&dir, select_control("$..id")).can_stream());
}
