//! The store in Postgres: the contract of stores, and faults that only a database over the network has.

use std::sync::Arc;
use std::time::Duration;

use model::command::Fence;
use model::id::{ExecutionId, LeaseEpoch, Seq, WorkerId};
use serde_json::Value;
use store::contract::{PlainStep, StoreFixture, creation_commit};
use store::{
    Adoption, CommandChange, Commit, CommitStatus, Error, OldRows, OwnerId, PostgresOptions, PostgresStore,
    PostgresUrl, Priority, SessionHolder, Snapshot, Store,
};
use tests::peers::{self, FaultProxy, TestDatabase};
use tokio::runtime::Handle;
use tokio_postgres::{Client, NoTls};

/// A fresh database that processes can join.
struct PostgresStoreFixture(TestDatabase);

fn store_options(url: &str) -> PostgresOptions {
    PostgresOptions {
        pool_size: 4,
        ..PostgresOptions::new(PostgresUrl::new(url))
    }
}

fn open_store(options: PostgresOptions) -> Arc<dyn Store> {
    let opened = tokio::task::block_in_place(|| Handle::current().block_on(PostgresStore::open(options)));
    Arc::new(opened.unwrap_or_else(|error| panic!("{error:?}")))
}

async fn open_error(url: &str) -> Error {
    match PostgresStore::open(store_options(url)).await {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

impl StoreFixture for PostgresStoreFixture {
    fn join(&self) -> Arc<dyn Store> {
        open_store(store_options(&self.0.url()))
    }

    fn join_publishing(&self) -> Arc<dyn Store> {
        open_store(PostgresOptions {
            publishes: true,
            ..store_options(&self.0.url())
        })
    }
}

impl PostgresStoreFixture {
    /// A connection of the test, separate from those of the store.
    async fn raw_client(&self) -> Client {
        let connected = tokio_postgres::connect(&self.0.url(), NoTls).await;
        let (client, connection) = connected.expect("the database runs");
        tokio::spawn(connection);
        client
    }
}

fn new_fixture() -> PostgresStoreFixture {
    PostgresStoreFixture(peers::PostgresServer::shared().fresh_database())
}

async fn start_commit(store: &dyn Store) -> Commit {
    let first = creation_commit(store);
    let committed = store.commit(first.clone()).await;
    assert!(matches!(committed, Ok(CommitStatus::Committed)), "{committed:?}");
    first
}

store::contract_suite!(new_fixture());

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_once_on_an_empty_database_all_become_ready() {
    let fixture = new_fixture();
    let url = fixture.0.url();
    let opening = (0..4).map(|_| {
        let options = store_options(&url);
        tokio::spawn(async move { PostgresStore::open(options).await })
    });
    let mut owners = Vec::new();
    let mut open = Vec::new();
    for opening in opening.collect::<Vec<_>>() {
        let store = opening.await.unwrap().unwrap();
        owners.push(store.owner().unwrap());
        open.push(store);
    }
    owners.sort();
    owners.dedup();
    assert_eq!(owners.len(), 4);
    let mut ids: Vec<_> = open.iter().flat_map(|store| (0..100).map(|_| store.ids(1))).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_newer_than_the_binary_is_refused_by_its_number() {
    let fixture = new_fixture();
    drop(fixture.join());
    let newer = "INSERT INTO noetl.migration (version) VALUES (99)";
    fixture.raw_client().await.batch_execute(newer).await.unwrap();
    let refused = open_error(&fixture.0.url()).await;
    assert!(
        matches!(refused, Error::SchemaTooNew { version: 99, .. }),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("schema version 99"), "{refused}");
}

/// Undoes the migration that gave rows their retention.
const BEFORE_RETENTION: &str = "
    DROP FUNCTION noetl.remove_old_rows;
    DROP TRIGGER message_is_consumed ON noetl.message;
    DROP FUNCTION noetl.record_consumption;
    ALTER TABLE noetl.message DROP COLUMN consumed_at;
    ALTER TABLE noetl.setting DROP COLUMN retained_from;
    ALTER TABLE noetl.message DROP CONSTRAINT message_key, ADD CONSTRAINT message_key UNIQUE (from_id, seq, n),
        ADD PRIMARY KEY (ordinal);
    ALTER TABLE noetl.runtime DROP COLUMN clock_offset, DROP COLUMN publishes;
    ALTER TABLE noetl.session DROP COLUMN holder, DROP COLUMN description;
    DROP TABLE noetl.loop_progress, noetl.loop_task, noetl.iteration_index, noetl.iteration_span;
    DROP FUNCTION noetl.write_iterations, noetl.write_iterations_and_labels;
    DROP INDEX noetl.keychain_expiry, noetl.execution_status_path, noetl.execution_error_code;
    DROP TABLE noetl.execution_label;
    DROP TABLE noetl.pending_wait, noetl.early_signal;
    DROP FUNCTION noetl.write_waits;
    DELETE FROM noetl.migration WHERE version >= 7;
    INSERT INTO noetl.message (from_id, seq, n, to_id, body) VALUES (1, 2, 0, 7, NULL), (1, 2, 1, 7, '\"x\"');
    INSERT INTO noetl.setting (key, value)
    VALUES ('dedup:a', '5'), ('batch:b', '{}'), ('batch-end:b', '{}'), ('other', 'x')";

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_earlier_schema_get_a_retention() {
    let fixture = new_fixture();
    drop(fixture.join());
    let raw = fixture.raw_client().await;
    raw.batch_execute(BEFORE_RETENTION).await.unwrap();

    let store = fixture.join();

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
    let left = "SELECT (SELECT count(*) FROM noetl.message),
        (SELECT count(*) FROM noetl.setting WHERE key IN ('dedup:a', 'batch:b', 'batch-end:b', 'other'))";
    let left = raw.query_one(left, &[]).await.unwrap();
    assert_eq!((left.get::<_, i64>(0), left.get::<_, i64>(1)), (1, 1));
}

/// Tables, columns, keys, indexes, triggers and functions, in a form that is the same in all versions of Postgres.
const SCHEMA: &str = "
    SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END AS line
        FROM information_schema.columns WHERE table_schema = 'noetl'
    UNION ALL SELECT 'index ' || pg_get_indexdef(indexrelid) FROM pg_index
        JOIN pg_class c ON c.oid = indexrelid WHERE c.relnamespace = 'noetl'::regnamespace
    UNION ALL SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'noetl'::regnamespace AND contype IN ('p', 'u', 'c', 'f')
    UNION ALL SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        WHERE c.relnamespace = 'noetl'::regnamespace AND NOT tgisinternal
    UNION ALL SELECT 'function ' || proname || ' ' || md5(prosrc) FROM pg_proc WHERE pronamespace = 'noetl'::regnamespace";

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_is_the_one_on_record() {
    let fixture = new_fixture();
    drop(fixture.join());
    let rows = fixture.raw_client().await.query(SCHEMA, &[]).await.unwrap();
    let mut lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    lines.sort();
    let schema = lines.join("\n") + "\n";
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/store/migrations/postgres/schema.txt"
    );
    #[expect(
        clippy::disallowed_methods,
        reason = "accepting a new expectation is asked for in the environment"
    )]
    let accepts = std::env::var_os("NOETL_ACCEPT").is_some();
    if accepts {
        std::fs::write(file, &schema).unwrap();
    }
    let recorded = std::fs::read_to_string(file).unwrap_or_default();
    assert!(schema == recorded, "schema.txt is stale: run with NOETL_ACCEPT=1");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_view_shows_what_the_api_shows() {
    let fixture = new_fixture();
    let store = fixture.join();
    let id = start_commit(&*store).await.execution;
    let step = PlainStep::new("a", 1);
    store.commit(step.schedule(&*store, id, Seq(2))).await.unwrap();
    store.commit(step.finish(&*store, id, Seq(4))).await.unwrap();
    let view = "SELECT to_json(e)::text FROM noetl.event e ORDER BY seq";
    let rows = fixture.raw_client().await.query(view, &[]).await.unwrap();
    let events = store.events(id, Seq(0), 99).await.unwrap();
    assert_eq!((events.len(), rows.len()), (6, 6));
    for (event, row) in events.iter().zip(rows) {
        let stored: serde_json::Map<String, Value> = serde_json::from_str(row.get(0)).unwrap();
        let json = event.to_json();
        assert!(stored.len() > 20);
        for (column, value) in stored {
            let wanted = &json[&column];
            let same = value == *wanted || wanted.as_str() == Some(&value.to_string());
            assert!(same, "{column} of {}: {value} is not {wanted}", event.kind());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_opening_a_store_names_the_cause_and_not_the_password() {
    let fixture = new_fixture();
    let good = fixture.0.url();
    let (before, after) = good.split_once("a-password-of-the-tests").unwrap();
    let wrong = open_error(&format!("{before}hunter2{after}")).await;
    assert!(
        matches!(&wrong, Error::Authentication { user, .. } if user == "postgres"),
        "{wrong:?}"
    );
    let port = {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        free.local_addr().unwrap().port()
    };
    let nobody = open_error(&format!("postgres://me:hunter2@127.0.0.1:{port}/x")).await;
    assert!(matches!(nobody, Error::Unreachable { .. }), "{nobody:?}");
    assert!(nobody.to_string().contains(&format!("127.0.0.1:{port}")), "{nobody}");
    let missing = open_error(&good.replace(fixture.0.name(), "no_such_database")).await;
    assert!(matches!(missing, Error::NoDatabase { .. }), "{missing:?}");
    let role = format!("reader_{}", fixture.0.name());
    let raw = fixture.raw_client().await;
    raw.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'hunter2'"))
        .await
        .unwrap();
    let weak = open_error(&good.replace("postgres:a-password-of-the-tests", &format!("{role}:hunter2"))).await;
    raw.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
    assert!(matches!(weak, Error::Permission { .. }), "{weak:?}");
    for error in [wrong, nobody, missing, weak] {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2") && !text.contains("a-password"), "{text}");
    }
}

/// A store behind a network that fails on demand.
fn store_behind(proxy: &FaultProxy, fixture: &PostgresStoreFixture) -> Arc<dyn Store> {
    open_store(store_options(&fixture.0.url_at(proxy.port())))
}

fn start_proxy(fixture: &PostgresStoreFixture) -> FaultProxy {
    FaultProxy::start(&fixture.0.location())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_reply_is_lost_is_found_in_the_log() {
    let fixture = new_fixture();
    let proxy = Arc::new(start_proxy(&fixture));
    let store = store_behind(&proxy, &fixture);
    let id = start_commit(&*store).await.execution;
    let mut commit = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    if let CommandChange::Issue(issue) = &mut commit.commands[0] {
        issue.claimed = Some((WorkerId("w".into()), LeaseEpoch(1)));
    }
    store.commit(commit).await.unwrap();
    // The report closes the command that entitles to it: sent again, it is fenced by itself.
    let mut report = PlainStep::new("a", 1).finish(&*store, id, Seq(4));
    report.fences.push(Fence {
        command: Seq(4),
        lease_epoch: LeaseEpoch(1),
    });
    report.commands.push(CommandChange::Close { seq: Seq(4) });
    proxy.set_dropping_responses(true);
    let cutting = {
        let proxy = Arc::clone(&proxy);
        tokio::task::spawn_blocking(move || {
            proxy.wait_until_response_dropped();
            proxy.cut_connections();
            proxy.set_dropping_responses(false);
        })
    };
    assert_eq!(store.commit(report).await.unwrap(), CommitStatus::Committed);
    cutting.await.unwrap();
    assert_eq!(store.events(id, Seq(0), 99).await.unwrap().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_does_not_hide_that_another_commit_won() {
    let fixture = new_fixture();
    let proxy = Arc::new(start_proxy(&fixture));
    let store = store_behind(&proxy, &fixture);
    let there = fixture.join();
    let id = start_commit(&*store).await.execution;
    let rival = PlainStep::new("b", 1).schedule(&*there, id, Seq(2));
    there.commit(rival).await.unwrap();
    let mine = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    proxy.set_dropping_responses(true);
    let cutting = {
        let proxy = Arc::clone(&proxy);
        tokio::task::spawn_blocking(move || {
            proxy.wait_until_response_dropped();
            proxy.cut_connections();
            proxy.set_dropping_responses(false);
        })
    };
    let status = store.commit(mine).await.unwrap();
    assert_eq!(status, CommitStatus::VersionConflict { version: Seq(4) });
    cutting.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_login_gets_no_reply_is_replaced() {
    let fixture = new_fixture();
    let proxy = Arc::new(start_proxy(&fixture));
    let store = store_behind(&proxy, &fixture);
    let id = start_commit(&*store).await.execution;
    proxy.set_dropping_responses(true);
    proxy.cut_connections();
    let reading = tokio::spawn(async move { store.events(id, Seq(0), 99).await });
    let proxy_clone = Arc::clone(&proxy);
    tokio::task::spawn_blocking(move || proxy_clone.wait_until_response_dropped())
        .await
        .unwrap();
    // The connection stays open: only its client can detect that no reply will arrive.
    proxy.set_dropping_responses(false);
    let bound = Duration::from_secs(40);
    let read = tokio::time::timeout(bound, reading).await;
    let events = read.expect("the read ends").unwrap().unwrap();
    assert_eq!(events.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_to_an_unreachable_database_fails_as_unavailable() {
    let fixture = new_fixture();
    let proxy = start_proxy(&fixture);
    let store = store_behind(&proxy, &fixture);
    let id = start_commit(&*store).await.execution;
    proxy.set_refusing(true);
    proxy.cut_connections();
    let commit = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    let failed = store.commit(commit.clone()).await.unwrap_err();
    assert!(failed.is_transient(), "{failed:?}");
    proxy.set_refusing(false);
    assert_eq!(store.commit(commit).await.unwrap(), CommitStatus::Committed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_store_reports_unavailable_until_it_is_reachable() {
    let fixture = new_fixture();
    let proxy = start_proxy(&fixture);
    let store = store_behind(&proxy, &fixture);
    store.check_health().unwrap();
    proxy.set_refusing(true);
    proxy.cut_connections();
    let wait_for_health = async |is_healthy: bool| {
        while store.check_health().is_ok() != is_healthy {
            store.wait_for_change().await;
        }
    };
    let timeout_max = Duration::from_secs(20);
    tokio::time::timeout(timeout_max, wait_for_health(false)).await.unwrap();
    proxy.set_refusing(false);
    tokio::time::timeout(timeout_max, wait_for_health(true)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_continue_after_the_database_has_crashed() {
    let server = peers::PostgresServer::private();
    let database = PostgresStoreFixture(server.fresh_database());
    let store = database.join();
    let id = start_commit(&*store).await.execution;
    server.restart_immediate();
    let commit = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    assert_eq!(store.commit(commit).await.unwrap(), CommitStatus::Committed);
    assert_eq!(store.events(id, Seq(0), 9).await.unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_lists_do_not_block_commits_and_leases() {
    let fixture = new_fixture();
    let store = fixture.join();
    let raw = fixture.raw_client().await;
    raw.batch_execute("BEGIN; LOCK TABLE noetl.catalog IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let lists: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.catalog().await })
        })
        .collect();
    let soon = Duration::from_secs(10);
    let work = async {
        start_commit(&*store).await;
        let (worker, holder) = (WorkerId("w".into()), SessionHolder("h".into()));
        store.renew_session(&worker, &holder, soon).await.unwrap();
        store.lost_claims(None).await.unwrap();
    };
    tokio::time::timeout(soon, work).await.unwrap();
    assert!(lists.iter().all(|list| !list.is_finished()));
    raw.batch_execute("ROLLBACK").await.unwrap();
    for list in lists {
        list.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_passed_over() {
    let fixture = new_fixture();
    let store = fixture.join();
    let id = start_commit(&*store).await.execution;
    let mut second = PlainStep::new("a", 1).schedule(&*store, id, Seq(2));
    second.snapshot = Some(Snapshot {
        version: 1,
        seq: Seq(4),
        bytes: vec![1, 2, 3],
    });
    store.commit(second).await.unwrap();
    let damage = "UPDATE noetl.snapshot SET bytes = '\\x00'";
    fixture.raw_client().await.batch_execute(damage).await.unwrap();
    let loaded = store.load(id, 1).await.unwrap().unwrap();
    assert_eq!((loaded.snapshot, loaded.tail.len()), (None, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_the_log_and_of_the_audit_trail_cannot_be_changed() {
    let fixture = new_fixture();
    let store = fixture.join();
    start_commit(&*store).await;
    let raw = fixture.raw_client().await;
    raw.batch_execute("SELECT noetl.append_audit('{}')").await.unwrap();
    for sql in [
        "UPDATE noetl.log SET body = '{}'",
        "UPDATE noetl.audit SET body = ''",
        "DELETE FROM noetl.audit",
        "TRUNCATE noetl.audit",
    ] {
        let refused = raw.batch_execute(sql).await.unwrap_err();
        let message = refused.as_db_error().unwrap().message().to_owned();
        assert!(message.contains("never change"), "{sql}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_left_no_longer_owns_its_executions() {
    let fixture = new_fixture();
    let there = fixture.join();
    let here = fixture.join();
    let owned = async |store: &dyn Store| -> ExecutionId {
        let mut first = creation_commit(store);
        first.creation.owner = Some(store.owner().unwrap());
        store.commit(first.clone()).await.unwrap();
        first.execution
    };
    let id = owned(&*there).await;
    let me = here.owner().unwrap();
    assert!(matches!(
        here.adopt(id, &me, Priority::Normal).await.unwrap(),
        Adoption::OwnedBy(_)
    ));
    drop(there);
    let freed = async {
        while here.abandoned_executions().await.unwrap() != [id] {
            here.wait_for_change().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed).await.unwrap();
    assert_eq!(here.adopt(id, &me, Priority::Normal).await.unwrap(), Adoption::Owned);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_heartbeat_is_dead_after_three_seconds_of_the_databases_clock() {
    let fixture = new_fixture();
    let store = fixture.join();
    let mut first = creation_commit(&*store);
    first.creation.owner = Some(OwnerId("ghost".into()));
    let id = first.execution;
    store.commit(first).await.unwrap();
    let raw = fixture.raw_client().await;
    let is_alive = async |age: i64| {
        let sql = "INSERT INTO noetl.runtime (node, owner, address, started_at, heartbeat)
            VALUES (63, 'ghost', 'http://ghost', 0, noetl.micros() - $1)
            ON CONFLICT (node) DO UPDATE SET heartbeat = excluded.heartbeat";
        raw.execute(sql, &[&age]).await.unwrap();
        let driver = store.owner_of(id).await.unwrap().unwrap();
        assert_eq!(driver.address.as_deref(), Some("http://ghost"));
        driver.is_alive
    };
    assert!(is_alive(500_000).await);
    assert!(!is_alive(3_500_000).await);
    assert_eq!(store.abandoned_executions().await.unwrap(), [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sslmode_verifies_as_documented() {
    let server = peers::PostgresServer::private();
    let database = server.fresh_database();
    let plain = open_error(&format!("{}?sslmode=require", database.url())).await;
    assert!(matches!(plain, Error::Unreachable { .. }), "{plain:?}");
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    server.enable_tls(&certificate.cert.pem(), &certificate.signing_key.serialize_pem());
    let dir = tempfile::tempdir().unwrap();
    let roots = dir.path().join("roots.pem");
    std::fs::write(&roots, certificate.cert.pem()).unwrap();
    let by_address = database.url();
    let by_name = by_address.replace("127.0.0.1", "localhost");
    let roots_parameter = format!("sslrootcert={}", roots.display());
    for (url, is_trusted) in [
        (format!("{by_address}?sslmode=require"), true),
        // The password is verified over this connection, so a man in the middle cannot use it.
        (format!("{by_address}?sslmode=require&channel_binding=require"), true),
        (format!("{by_address}?sslmode=verify-ca&{roots_parameter}"), true),
        (format!("{by_address}?sslmode=verify-full&{roots_parameter}"), false),
        (format!("{by_name}?sslmode=verify-full&{roots_parameter}"), true),
    ] {
        let opened = PostgresStore::open(store_options(&url)).await;
        assert_eq!(opened.is_ok(), is_trusted, "{url}: {:?}", opened.err());
    }
    let encrypted =
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'noetl'";
    let store = PostgresStore::open(store_options(&by_address)).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&by_address, NoTls).await.unwrap();
    tokio::spawn(connection);
    store.check_health().unwrap();
    // Its connections come up one by one.
    let all = loop {
        let all: Option<bool> = client.query_one(encrypted, &[]).await.unwrap().get(0);
        if let Some(all) = all {
            break all;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_never_passes_a_transaction_that_is_still_open() {
    let fixture = new_fixture();
    let store = fixture.join_publishing();
    let raw = fixture.raw_client().await;
    raw.batch_execute("BEGIN; INSERT INTO noetl.outbox (execution_id, seq_first, seq_last) VALUES (7, 1, 2)")
        .await
        .unwrap();
    let late = start_commit(&*store).await.execution;
    assert!(store.outbox(0, 9).await.unwrap().is_empty());
    raw.batch_execute("COMMIT").await.unwrap();
    let mut rows = Vec::new();
    while rows.len() < 2 {
        rows = store.outbox(0, 9).await.unwrap();
    }
    let order: Vec<_> = rows.iter().map(|row| row.execution).collect();
    assert_eq!(order, [ExecutionId(7), late]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_the_database_cannot_store_does_not_fail_the_others() {
    let fixture = new_fixture();
    let store = fixture.join();
    let (one, two) = (start_commit(&*store).await, start_commit(&*store).await);
    let commits = vec![
        PlainStep::new("a\0b", 1).schedule(&*store, one.execution, Seq(2)),
        PlainStep::new("a", 1).schedule(&*store, two.execution, Seq(2)),
    ];
    let statuses = store.commit_all(commits).await;
    assert!(matches!(statuses[0], Err(Error::Malformed(_))), "{statuses:?}");
    assert!(matches!(statuses[1], Ok(CommitStatus::Committed)), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_or_read_only_database_reports_so_and_recovers() {
    let fixture = new_fixture();
    let store = fixture.join();
    let raw = fixture.raw_client().await;
    // The database refuses as it does when its volume is full.
    let full = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$; \
         CREATE TRIGGER full_disk BEFORE INSERT ON noetl.log EXECUTE FUNCTION full_disk()";
    raw.batch_execute(full).await.unwrap();
    let first = creation_commit(&*store);
    let error = store.commit(first.clone()).await.unwrap_err();
    assert_eq!(error.code(), "STORE_FULL", "{error:?}");
    let room = "DROP TRIGGER full_disk ON noetl.log";
    raw.batch_execute(room).await.unwrap();
    assert_eq!(store.commit(first).await.unwrap(), CommitStatus::Committed);

    // As a server that became a standby does; connections opened from now on accept no writes.
    let standby = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', \
         current_database()); END $$";
    raw.batch_execute(standby).await.unwrap();
    let error = open_error(&fixture.0.url()).await;
    assert_eq!(error.code(), "STORE_READ_ONLY", "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_row_of_the_log_is_named_with_its_run() {
    let fixture = new_fixture();
    let store = fixture.join();
    let first = start_commit(&*store).await;
    let raw = fixture.raw_client().await;
    let change = "ALTER TABLE noetl.log DISABLE TRIGGER log_is_never_changed; \
         UPDATE noetl.log SET body = replace(body, 'hello', 'jello')";
    raw.batch_execute(change).await.unwrap();
    let error = store.events(first.execution, Seq(0), 9).await.unwrap_err();
    assert_eq!(error.code(), "STORE_CORRUPT", "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    let row = format!("run {}, log row of event 1", first.execution);
    assert!(cause.starts_with(&row), "{cause}");
    let verified = store.verify().await.unwrap();
    assert_eq!(verified.damages.len(), 1, "{verified:?}");
}
