//! Runs the contract suite against the store in a directory, and tests what only applies to directories.

mod damage;

use std::sync::Arc;
use std::time::Duration;

use model::id::{ExecutionId, Seq};
use model::labels::Labels;
use model::status::RunStatus;
use model::time::Time;
use rusqlite::Connection;
use tempfile::TempDir;

use super::SqliteStore;
use crate::contract::{PlainStep, StoreFixture, creation_commit};
use crate::{Adoption, Commit, CommitStatus, Error, ExecutionFilter, ExecutionSearch, OldRows, Priority, Store};

struct DirectoryFixture(TempDir);

impl DirectoryFixture {
    fn connect_raw(&self) -> Connection {
        Connection::open(self.0.path().join("noetl.db")).unwrap()
    }
}

impl StoreFixture for DirectoryFixture {
    fn join(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path()).unwrap())
    }

    fn join_publishing(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path()).unwrap().with_outbox())
    }
}

fn fixture() -> DirectoryFixture {
    DirectoryFixture(TempDir::new().unwrap())
}

crate::contract_suite!(fixture());

async fn start_commit(store: &dyn Store) -> Commit {
    let first = creation_commit(store);
    store.commit(first.clone()).await.unwrap();
    first
}

#[test]
fn the_schema_is_the_one_on_record() {
    let site = fixture();
    drop(site.join());
    let db = site.connect_raw();
    let mut statement = db
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type, name")
        .unwrap();
    let parts: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let schema = parts.join(";\n\n") + ";\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite/schema.txt");
    #[expect(
        clippy::disallowed_methods,
        reason = "an environment variable accepts the new schema"
    )]
    let accepts = std::env::var_os("NOETL_ACCEPT").is_some();
    if accepts {
        std::fs::write(file, &schema).unwrap();
    }
    let recorded = std::fs::read_to_string(file).unwrap_or_default();
    assert!(schema == recorded, "schema.txt is stale: run with NOETL_ACCEPT=1");
}

/// Creates a store with the first schema and an offered command.
fn create_first_schema(site: &DirectoryFixture) -> Commit {
    let store = SqliteStore::open(site.0.path()).unwrap();
    let first = creation_commit(&store);
    drop(store);
    std::fs::remove_file(site.0.path().join("noetl.db")).unwrap();
    let db = site.connect_raw();
    db.execute_batch(super::open::MIGRATIONS[0]).unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    let command = r#"{"id":{"execution":"7","seq":4},"playbook":"h","run":{"step":"a","run":1},"work":"pipeline","dispatch":1,"pool":"default"}"#;
    db.execute(
        "INSERT INTO command (execution_id, seq, unit, pool, lease_epoch, issued_at, body)
         VALUES (7, 4, 'u', 'default', 0, 5, ?1)",
        [command],
    )
    .unwrap();
    first
}

#[tokio::test]
async fn a_store_of_the_first_schema_is_brought_up_to_date() {
    let site = fixture();
    let first = create_first_schema(&site);
    let store = site.join();
    let db = site.connect_raw();
    let migrated: (i64, String, Option<i64>) = db
        .query_row(
            "SELECT (SELECT user_version FROM pragma_user_version), kinds, claimed_at FROM command",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    let latest = i64::try_from(super::open::MIGRATIONS.len()).unwrap();
    assert_eq!(migrated, (latest, "[]".to_owned(), None));
    assert!(store.setting("cluster_secret").await.unwrap().is_some());
    assert_eq!(store.commit(first).await.unwrap(), CommitStatus::Committed);
}

#[tokio::test]
async fn iterations_and_waits_of_an_older_store_are_indexed() {
    let site = fixture();
    let tables = [
        "loop_progress",
        "iteration_index",
        "iteration_span",
        "loop_task",
        "pending_wait",
        "early_signal",
    ];
    let rows = |db: &rusqlite::Connection| -> Vec<String> {
        let each = tables.iter().flat_map(|table| {
            let sql = format!("SELECT * FROM {table} ORDER BY 1, 2, 3");
            let mut statement = db.prepare(&sql).unwrap();
            let width = statement.column_count();
            let rows = statement.query_map([], |row| {
                let values = (0..width).map(|column| row.get_ref(column).unwrap());
                Ok(format!("{table} {:?}", values.collect::<Vec<_>>()))
            });
            rows.unwrap().map(Result::unwrap).collect::<Vec<_>>()
        });
        each.collect()
    };
    crate::contract::iterations_are_counted_and_a_retry_counts_failures_anew(&site).await;
    crate::contract::the_latest_ends_of_a_loop_task_are_found(&site).await;
    crate::contract::a_wait_lasts_until_its_signal(&site).await;
    let written = rows(&site.connect_raw());
    assert!(written.len() > 9, "{written:?}");
    for (version, missing) in [(7, &tables[..]), (8, &tables[3..]), (9, &tables[4..])] {
        let db = site.connect_raw();
        for table in missing {
            db.execute_batch(&format!("DROP TABLE {table}")).unwrap();
        }
        if version < 9 {
            db.execute_batch("DROP INDEX keychain_expiry").unwrap();
        }
        let later = "DROP INDEX execution_status_path; DROP INDEX execution_error_code; DROP TABLE execution_label;
            ALTER TABLE session DROP COLUMN description";
        db.execute_batch(later).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        drop(site.join());
        assert_eq!(rows(&site.connect_raw()), written, "{version}");
    }
}

#[tokio::test]
async fn expired_values_of_credentials_are_found_by_their_index() {
    let site = fixture();
    drop(site.join());
    let explained = format!("EXPLAIN QUERY PLAN {}", super::sealed::REMOVE_EXPIRED);
    let db = site.connect_raw();
    let plan: String = db.query_row(&explained, [7], |row| row.get("detail")).unwrap();
    assert!(plan.contains("keychain_expiry (expires_at<?)"), "{plan}");
}

/// The plan of a list, one line per step.
fn list_plan(db: &Connection, filter: &ExecutionFilter) -> Vec<String> {
    let statement = super::queries::executions_statement(filter, Time(0));
    let explained = format!("EXPLAIN QUERY PLAN {}", statement.sql);
    let mut prepared = db.prepare(&explained).unwrap();
    let values = super::queries::list_values(&statement);
    let steps = prepared.query_map(values, |row| row.get("detail")).unwrap();
    steps.map(Result::unwrap).collect()
}

#[tokio::test]
async fn a_list_reads_an_index_in_its_order() {
    let site = fixture();
    drop(site.join());
    let db = site.connect_raw();
    let all = ExecutionFilter::default;
    let mut labels = Labels::default();
    labels.insert("env", "prod").unwrap();
    labels.insert("team", "x").unwrap();
    let statuses = vec![RunStatus::Failed, RunStatus::Cancelled];
    let paths = vec!["a".into(), "b".into()];
    let error_code = Some("HTTP_STATUS".to_owned());
    let search = ExecutionSearch {
        error_code,
        ..ExecutionSearch::default()
    };
    for (index, filter) in [
        (
            "execution_status (status=?)",
            ExecutionFilter {
                statuses: statuses.clone(),
                ..all()
            },
        ),
        (
            "execution_path (path=?)",
            ExecutionFilter {
                paths: paths.clone(),
                ..all()
            },
        ),
        (
            "execution_status_path (status=? AND path=?)",
            ExecutionFilter {
                statuses: statuses.clone(),
                paths,
                ..all()
            },
        ),
        (
            "execution_label_value (key=? AND value=?",
            ExecutionFilter {
                labels: labels.clone(),
                ..all()
            },
        ),
        (
            "execution_label_value (key=? AND value=?",
            ExecutionFilter {
                statuses,
                labels,
                ..all()
            },
        ),
        ("execution_error_code (<expr>=?)", ExecutionFilter { search, ..all() }),
        (
            "execution_parent (parent_id=?)",
            ExecutionFilter {
                parent: Some(ExecutionId(7)),
                ..all()
            },
        ),
    ] {
        let plan = list_plan(&db, &filter);
        assert!(plan.iter().any(|step| step.contains(index)), "{index}: {plan:?}");
        let is_slow = |step: &String| step.starts_with("SCAN") || step.contains("TEMP B-TREE");
        assert!(!plan.iter().any(is_slow), "{plan:?}");
    }
    // Without a filter, the table itself has the order of the list.
    assert_eq!(list_plan(&db, &all()), ["SCAN e"]);
}

#[tokio::test]
async fn rows_of_an_earlier_schema_get_a_retention() {
    let site = fixture();
    create_first_schema(&site);
    let db = site.connect_raw();
    db.execute_batch(super::open::MIGRATIONS[1]).unwrap();
    db.pragma_update(None, "user_version", 2).unwrap();
    db.execute_batch(
        "INSERT INTO message (from_id, seq, n, to_id, body) VALUES (1, 2, 0, 7, NULL), (1, 2, 1, 7, '\"x\"');
         INSERT INTO setting (key, value)
         VALUES ('dedup:a', '5'), ('batch:b', '{}'), ('batch-end:b', '{}'), ('other', 'x');",
    )
    .unwrap();
    let store = site.join();
    let old = |before| OldRows {
        sessions_before: before,
        requests_before: before,
        messages_before: before,
        limit: 10,
    };
    let hour = Duration::from_secs(3_600);
    let young = store.remove_old_rows(old(store.now().before(hour)));
    assert_eq!(young.await.unwrap().removed, 0);
    let aged = store.remove_old_rows(old(store.now().after(hour)));
    assert_eq!(aged.await.unwrap().removed, 3);
    let left: (i64, i64) = db
        .query_row(
            "SELECT (SELECT count(*) FROM message),
                 (SELECT count(*) FROM setting WHERE key IN ('dedup:a', 'batch:b', 'batch-end:b', 'other'))",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(left, (1, 1));
}

#[test]
fn a_newer_schema_is_refused() {
    let site = fixture();
    drop(site.join());
    let db = site.connect_raw();
    db.pragma_update(None, "user_version", 99).unwrap();
    db.execute("UPDATE setting SET value = '99' WHERE key = 'schema_version'", [])
        .unwrap();
    let refused = SqliteStore::open(site.0.path()).err().unwrap();
    assert!(matches!(refused, Error::SchemaTooNew { version: 99, .. }));
}

#[test]
fn a_file_that_is_no_database_is_named() {
    let site = fixture();
    std::fs::write(site.0.path().join("noetl.db"), "hello, this is text").unwrap();
    let refused = SqliteStore::open(site.0.path()).err().unwrap();
    let Error::Corrupt { file, .. } = &refused else {
        panic!("{refused:?}")
    };
    assert!(file.ends_with("noetl.db"));
}

#[tokio::test]
async fn a_damaged_page_is_reported_as_corrupt() {
    let site = fixture();
    let id = {
        let store = site.join();
        start_commit(&*store).await.execution
    };
    let file = site.0.path().join("noetl.db");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4096..].fill(0xAA);
    std::fs::write(&file, bytes).unwrap();
    let open_error = match SqliteStore::open(site.0.path()) {
        Ok(store) => store.execution(id).await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(matches!(open_error, Err(Error::Corrupt { .. })), "{open_error:?}");
}

#[tokio::test]
async fn a_damaged_snapshot_is_passed_over() {
    let site = fixture();
    let store = site.join();
    let first = start_commit(&*store).await;
    let mut second = PlainStep::new("a", 1).schedule(&*store, first.execution, Seq(2));
    second.snapshot = Some(crate::Snapshot {
        version: 1,
        seq: Seq(4),
        bytes: vec![1, 2, 3],
    });
    store.commit(second).await.unwrap();
    site.connect_raw()
        .execute("UPDATE snapshot SET bytes = x'00'", [])
        .unwrap();
    let loaded = store.load(first.execution, 1).await.unwrap().unwrap();
    assert_eq!((loaded.snapshot, loaded.tail.len()), (None, 4));
}

#[tokio::test]
async fn a_full_disk_is_reported_until_there_is_space() {
    let site = fixture();
    let mut db = super::open::connect(
        &super::open::prepare_directory(site.0.path()).unwrap(),
        super::open::ConnectionRole::Writer,
    )
    .unwrap();
    let file = site.0.path().join("noetl.db");
    super::open::migrate(&mut db, &file).unwrap();
    let pages: i64 = db.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    db.pragma_update(None, "max_page_count", pages).unwrap();
    let started = super::writer::start_writer(db, &file, Arc::default()).unwrap();
    let mut store = SqliteStore::open(site.0.path()).unwrap();
    store.queue = Some(started.queue);
    store.write_connection = Some(started.connection);
    let blank = store.thread.replace(started.thread);
    blank.unwrap().join().unwrap();
    let text = "x".repeat(100_000);
    let refused = store.put_playbook("big", &text).await;
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    assert_eq!(store.catalog_entry("big", None).await.unwrap(), None);
    let first = creation_commit(&store);
    assert_eq!(store.commit(first).await.unwrap(), CommitStatus::Committed);
}

#[tokio::test]
async fn a_log_row_cannot_be_changed() {
    let site = fixture();
    start_commit(&*site.join()).await;
    let refused = site.connect_raw().execute("UPDATE log SET body = '{}'", []);
    assert!(refused.unwrap_err().to_string().contains("never change"));
}

#[tokio::test]
async fn what_was_committed_is_there_after_reopening() {
    let site = fixture();
    let first = start_commit(&*site.join()).await;
    let events = site.join().events(first.execution, Seq(0), 9).await.unwrap();
    assert_eq!(events, first.events);
}

#[tokio::test]
async fn a_process_that_ended_no_longer_owns_its_executions() {
    let site = fixture();
    let other_store = site.join();
    let mut first = creation_commit(&*other_store);
    first.creation.owner = Some(other_store.owner().unwrap());
    let id = first.execution;
    other_store.commit(first).await.unwrap();
    let first_store = site.join();
    let me = first_store.owner().unwrap();
    assert!(matches!(
        first_store.adopt(id, &me, Priority::Normal).await.unwrap(),
        Adoption::OwnedBy(_)
    ));
    drop(other_store);
    assert_eq!(first_store.abandoned_executions().await.unwrap(), [id]);
    assert_eq!(
        first_store.adopt(id, &me, Priority::Normal).await.unwrap(),
        Adoption::Owned
    );
}

#[tokio::test]
async fn the_event_view_shows_what_the_api_shows() {
    let site = fixture();
    let store = site.join();
    let first = start_commit(&*store).await;
    let step = PlainStep::new("a", 1);
    let id = first.execution;
    store.commit(step.schedule(&*store, id, Seq(2))).await.unwrap();
    store.commit(step.finish(&*store, id, Seq(4))).await.unwrap();
    let db = site.connect_raw();
    let mut statement = db.prepare("SELECT * FROM event ORDER BY seq").unwrap();
    let columns: Vec<String> = statement.column_names().map(ToString::to_string).collect();
    let mut rows = statement.query([]).unwrap();
    let events = store.events(id, Seq(0), 99).await.unwrap();
    assert_eq!(events.len(), 6);
    for event in events {
        let row = rows.next().unwrap().unwrap();
        let json = event.to_json();
        for (index, column) in columns.iter().enumerate() {
            let stored = match row.get_ref(index).unwrap() {
                rusqlite::types::ValueRef::Null => serde_json::Value::Null,
                rusqlite::types::ValueRef::Integer(number) => number.into(),
                other => other.as_str().unwrap().into(),
            };
            let expected = &json[column];
            let same = match column.as_str() {
                "payload" | "meta" if !stored.is_null() => {
                    serde_json::from_str::<serde_json::Value>(stored.as_str().unwrap()).unwrap() == *expected
                }
                _ => stored == *expected || expected.as_str() == Some(&stored.to_string()),
            };
            assert!(same, "{column} of {}: {stored} is not {expected}", event.kind());
        }
    }
}
