//! A damaged file is reported as damaged: a flipped byte never leads to a wrong log, a panic or another error.

use std::path::Path;

use model::event::Event;
use model::id::{ExecutionId, Seq};
use tempfile::TempDir;

use super::super::SqliteStore;
use crate::contract::{PlainStep, creation_commit};
use crate::{Error, ExecutionFilter, ExecutionRow, Snapshot, Store};

/// Number of bytes that are flipped, one at a time.
const FLIPS: u64 = 250;
/// Number of executions in the store.
const RUNS: usize = 8;
const PLAYBOOK: &str = "kind: Playbook, as far as the store is concerned";

/// The data read from a store.
#[derive(Debug, PartialEq)]
struct StoreContents {
    logs: Vec<Vec<Event>>,
    tails: Vec<Vec<Event>>,
    texts: Vec<String>,
}

/// Creates a store with executions that each have steps, a snapshot and an offered command.
async fn fill_store(dir: &Path) -> Vec<ExecutionId> {
    let store = SqliteStore::open(dir).unwrap();
    store.put_playbook("examples/hello", PLAYBOOK).await.unwrap();
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let first = creation_commit(&store);
        let id = first.execution;
        store.commit(first).await.unwrap();
        let (step_a, step_b) = (PlainStep::new("a", 1), PlainStep::new("b", 1));
        let mut commit = step_a.schedule(&store, id, Seq(2));
        commit.snapshot = Some(Snapshot {
            version: 1,
            seq: Seq(2),
            bytes: vec![7; 64],
        });
        store.commit(commit).await.unwrap();
        let finished = step_a.finish(&store, id, Seq(4));
        let version = finished.version();
        store.commit(finished).await.unwrap();
        store.commit(step_b.schedule(&store, id, version)).await.unwrap();
        runs.push(id);
    }
    runs
}

async fn read_contents(store: &dyn Store, runs: &[ExecutionId]) -> Result<StoreContents, Error> {
    let mut contents = StoreContents {
        logs: Vec::new(),
        tails: Vec::new(),
        texts: Vec::new(),
    };
    for id in runs {
        contents.logs.push(store.events(*id, Seq(0), 1_000).await?);
        let tail = store.load(*id, 9).await?.map(|loaded| loaded.tail);
        contents.tails.push(tail.unwrap_or_default());
    }
    for entry in store.catalog().await? {
        contents.texts.push(entry.text.to_string());
    }
    Ok(contents)
}

async fn read_rows(store: &dyn Store) -> Result<Vec<ExecutionRow>, Error> {
    store.executions(&ExecutionFilter::default()).await
}

/// A copy of the store with one byte changed.
fn copy_with_flipped_byte(file: &[u8], offset: usize, mask: u8) -> TempDir {
    let dir = TempDir::new().unwrap();
    let mut bytes = file.to_vec();
    bytes[offset] ^= mask;
    std::fs::write(dir.path().join("noetl.db"), bytes).unwrap();
    dir
}

/// Opens, reads and writes a store as its users do.
async fn use_store(dir: &Path, runs: &[ExecutionId]) -> Result<(StoreContents, Vec<ExecutionRow>), Error> {
    let store = SqliteStore::open(dir)?;
    let contents = read_contents(&store, runs).await?;
    let rows = read_rows(&store).await?;
    let version = contents.logs[0].last().map_or(Seq(0), |event| event.seq);
    let next = PlainStep::new("c", 1).schedule(&store, runs[0], version);
    store.commit(next).await?;
    store.commit(creation_commit(&store)).await?;
    Ok((contents, rows))
}

#[tokio::test]
async fn a_flipped_byte_is_reported_as_damage_or_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let runs = fill_store(dir.path()).await;
    let file = std::fs::read(dir.path().join("noetl.db")).unwrap();
    let undamaged = copy_with_flipped_byte(&file, 0, 0);
    let expected = use_store(undamaged.path(), &runs).await.unwrap();
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut reported = 0;
    for _ in 0..FLIPS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let offset = usize::try_from(random % file.len() as u64).unwrap();
        let mask = 1 << (random >> 40 & 7);
        let damaged = copy_with_flipped_byte(&file, offset, mask);
        let flip = format!("byte {offset}, mask {mask:#04x}");
        match use_store(damaged.path(), &runs).await {
            Ok(opened) => {
                assert_eq!(opened.0, expected.0, "{flip}");
                if opened.1 != expected.1 {
                    let store = SqliteStore::open(damaged.path()).unwrap();
                    let verified = store.verify().await.unwrap();
                    assert!(!verified.damages.is_empty(), "{flip}: {:?}", opened.1);
                }
            }
            Err(Error::Corrupt { file, .. }) => {
                assert!(file.ends_with("noetl.db"), "{flip}");
                reported += 1;
            }
            Err(error) => panic!("{flip}: {} {error:?}", error.code()),
        }
    }
    assert!(reported > 20, "only {reported} of {FLIPS} flips were reported");
}

#[tokio::test]
async fn a_changed_row_of_the_log_is_named_with_its_run_and_file() {
    let dir = TempDir::new().unwrap();
    let runs = fill_store(dir.path()).await;
    let db = rusqlite::Connection::open(dir.path().join("noetl.db")).unwrap();
    db.execute_batch("DROP TRIGGER log_is_never_changed").unwrap();
    let change = "UPDATE log SET body = replace(body, 'hello', 'jello')
        WHERE execution_id = ?1 AND seq_first = 1";
    assert_eq!(db.execute(change, [runs[3].0]).unwrap(), 1);
    let store = SqliteStore::open(dir.path()).unwrap();
    let error = store.events(runs[3], Seq(0), 9).await.unwrap_err();
    assert_eq!(error.code(), "STORE_CORRUPT");
    assert!(error.to_string().contains("noetl.db"), "{error}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    let row = format!(
        "run {}, log row of event 1: a log row does not match its checksum",
        runs[3]
    );
    assert_eq!(cause, row);
    let verified = store.verify().await.unwrap();
    assert_eq!(verified.executions, RUNS as u64);
    let [damage] = &verified.damages[..] else {
        panic!("{verified:?}")
    };
    assert_eq!((damage.execution, &damage.description), (Some(runs[3]), &row));
}

#[tokio::test]
async fn a_row_that_is_missing_from_a_log_is_noticed() {
    let dir = TempDir::new().unwrap();
    let runs = fill_store(dir.path()).await;
    let db = rusqlite::Connection::open(dir.path().join("noetl.db")).unwrap();
    let remove = "DELETE FROM log WHERE execution_id = ?1 AND seq_first = ?2";
    db.execute(remove, [runs[0].0, 3]).unwrap();
    let last = "DELETE FROM log WHERE execution_id = ?1 AND seq_last =
        (SELECT version FROM execution WHERE execution_id = ?1)";
    db.execute(last, [runs[1].0]).unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for (run, row) in [(runs[0], "event 3:"), (runs[1], "event 7:")] {
        for query in [
            store.events(run, Seq(0), 99).await.map(drop),
            store.load(run, 9).await.map(drop),
        ] {
            let error = query.unwrap_err();
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains(row), "{cause}");
        }
    }
}

#[tokio::test]
async fn rows_without_a_checksum_are_read_as_before() {
    let dir = TempDir::new().unwrap();
    let runs = fill_store(dir.path()).await;
    let before = SqliteStore::open(dir.path()).unwrap().events(runs[0], Seq(0), 99).await;
    let db = rusqlite::Connection::open(dir.path().join("noetl.db")).unwrap();
    db.execute_batch(
        "DROP TRIGGER log_is_never_changed;
        UPDATE log SET body = json_remove(body, '$.y');",
    )
    .unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let after = store.events(runs[0], Seq(0), 99).await;
    assert_eq!(after.unwrap(), before.unwrap());
    assert_eq!(store.verify().await.unwrap().damages, []);
}

#[test]
fn a_damaged_number_of_the_schema_is_not_taken_for_a_newer_one() {
    let dir = TempDir::new().unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    let db = rusqlite::Connection::open(dir.path().join("noetl.db")).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let refused = SqliteStore::open(dir.path()).err().unwrap();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
}
