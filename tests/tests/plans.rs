//! What a commit, a claim or a sweep reads in Postgres does not depend on the planner's statistics.
//!
//! The statistics are as wrong as possible: they are collected while the tables are almost empty, and not updated when
//! thousands of rows are added to each. The database counts the rows that statements read.
//!
//! The cost of reading a run does not depend on the number of its iterations: they have an index, which the migration of
//! an older store creates.

use std::sync::Arc;
use std::time::Duration;

use model::command::Fence;
use model::id::{EventId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, WorkerId};
use model::labels::Labels;
use model::status::RunStatus;
use model::time::Time;
use store::contract::{FinishedLoop, LOOP_APPEND_ITERATIONS, PlainStep, creation_commit, finish_loop, start_waiting};
use store::{
    ClaimQuery, CommandChange, Commit, CommitStatus, ExecutionFilter, ExecutionSearch, KeychainRow, OldRows,
    OutcomeRange, PostgresOptions, PostgresStore, PostgresUrl, Priority, SealedValue, Store,
};
use tests::peers::{self, TestDatabase};
use tokio_postgres::{Client, NoTls};

/// Number of unclaimed commands while the commits are measured.
const QUEUED: i32 = 20_000;

/// Executions that are committed together.
const MEMBERS: usize = 20;

/// Appends of the command that the queue is copied from.
const QUEUE_APPENDS: usize = 2;

/// The tables that statements of the hot path and of the sweeps read.
const TABLES: [&str; 10] = [
    "catalog",
    "command",
    "event_key",
    "execution",
    "keychain",
    "message",
    "session",
    "setting",
    "step_state",
    "timer",
];

/// More than the keys, commands and steps of a commit need; far less than the length of the queue.
const ROWS_PER_COMMIT_MAX: i64 = 40;

/// More pages of indexes than a commit finds and changes its rows with; an index that is read as a whole has as many.
const PAGES_PER_COMMIT_MAX: i64 = 120;

/// Interval between two checks whether a connection has reported its counts.
const REPORT_CHECK_EVERY: Duration = Duration::from_millis(250);

/// Counts of what statements have read.
#[derive(Debug, Clone, Copy)]
struct ReadCounts {
    rows: i64,
    index_pages: i64,
}

impl ReadCounts {
    fn since(self, before: Self) -> Self {
        Self {
            rows: self.rows - before.rows,
            index_pages: self.index_pages - before.index_pages,
        }
    }

    /// Whether the rows that were read are as many as these commits may read, plus a few.
    fn is_within(self, commits: i64, rows: i64) -> bool {
        self.rows <= commits * ROWS_PER_COMMIT_MAX + rows
            && self.index_pages <= commits * PAGES_PER_COMMIT_MAX + 3 * rows
    }
}

struct QueryPlanFixture {
    database: TestDatabase,
    store: Arc<dyn Store>,
    raw_client: Client,
}

impl QueryPlanFixture {
    async fn new() -> Self {
        let database = peers::PostgresServer::shared().fresh_database();
        let url = database.url();
        let options = PostgresOptions {
            // One connection commits everything, so that its cached plans are those that are measured.
            pool_size: 1,
            ..PostgresOptions::new(PostgresUrl::new(&url))
        };
        let store: Arc<dyn Store> = Arc::new(PostgresStore::open(options).await.expect("the database is up"));
        let (raw, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the database is up");
        tokio::spawn(connection);
        Self {
            database,
            store,
            raw_client: raw,
        }
    }

    /// Collects statistics now, and disables later updates.
    async fn freeze_statistics(&self) {
        for table in TABLES {
            let freeze =
                format!("ALTER TABLE noetl.{table} SET (autovacuum_enabled = off); VACUUM ANALYZE noetl.{table}");
            for statement in freeze.split(';') {
                self.raw_client
                    .batch_execute(statement)
                    .await
                    .expect("a table of the store");
            }
        }
    }

    /// Fills the queue behind the planner's back, with copies of one command.
    async fn queue_commands(&self) {
        let first = creation_commit(&*self.store);
        let scheduled = PlainStep::new("a", 1).schedule(&*self.store, first.execution, Seq(2));
        self.commit_all(vec![first]).await;
        self.commit_all(vec![scheduled]).await;
        let executions = "INSERT INTO noetl.execution
            SELECT n, 4, 'RUNNING', false, 1, 'queued', 'queued', 1, 'hash', NULL, NULL, 1, NULL, NULL, NULL
            FROM generate_series(1::bigint, $1) AS n";
        let commands = "INSERT INTO noetl.command
                (execution_id, seq, unit, pool, lease_epoch, issued_at, body)
            SELECT n, 4, 'step:a:run:1', 'queued', 0, n, (SELECT body FROM noetl.command)
            FROM generate_series(1::bigint, $1) AS n";
        let claimed = "INSERT INTO noetl.command
                (execution_id, seq, unit, pool, worker, lease_epoch, issued_at, body)
            SELECT n, 5, 'step:b:run:1', 'queued', 'busy', 1, n, (SELECT body FROM noetl.command LIMIT 1)
            FROM generate_series(1::bigint, $1) AS n";
        for statement in [executions, commands, claimed] {
            let count = i64::from(QUEUED);
            self.raw_client
                .execute(statement, &[&count])
                .await
                .expect("rows that fit");
        }
    }

    /// What statements have read, once the database has counted this many rows of the log.
    async fn read_counts(&self, log_rows: i64) -> ReadCounts {
        const READ: &str = "SELECT
                (sum(coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0)))::bigint,
                (sum(coalesce(b.idx_blks_hit, 0) + coalesce(b.idx_blks_read, 0)))::bigint,
                (sum(t.n_tup_ins) FILTER (WHERE t.relname = 'log'))::bigint
            FROM pg_stat_user_tables t JOIN pg_statio_user_tables b USING (relid) WHERE t.schemaname = 'noetl'";
        self.report_own_counts().await;
        loop {
            let row = self.raw_client.query_one(READ, &[]).await.expect("the counts");
            let counted: i64 = row.get(2);
            if counted >= log_rows {
                return ReadCounts {
                    rows: row.get(0),
                    index_pages: row.get(1),
                };
            }
            // A connection reports its counts with a statement that ends a second after the last report, or after ten idle
            // seconds. This statement finds no row.
            tokio::time::sleep(REPORT_CHECK_EVERY).await;
            let absent = WorkerId("absent".into());
            self.store.session(&absent).await.expect("the store");
        }
    }

    /// Reports what the connection of the test did, so that it is not counted later as something that the store did.
    async fn report_own_counts(&self) {
        let report = "SELECT pg_stat_force_next_flush()";
        let reported = self.raw_client.execute(report, &[]).await;
        reported.expect("Postgres 15 or later");
    }

    /// How many rows of logs and of loops lists have read.
    async fn loop_rows_read(&self) -> i64 {
        const READ: &str = "SELECT
                (sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FILTER (WHERE relname IN
                    ('log', 'loop_progress', 'loop_task', 'iteration_index', 'iteration_span')))::bigint,
                (sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)) FILTER (WHERE relname = 'result_index'))::bigint
            FROM pg_stat_user_tables WHERE schemaname = 'noetl'";
        self.count_after_lists(READ).await
    }

    /// How often tables of executions and labels were read completely.
    async fn list_scans(&self) -> i64 {
        const READ: &str = "SELECT
                (sum(coalesce(seq_scan, 0)) FILTER (WHERE relname IN ('execution', 'execution_label')))::bigint,
                (sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)) FILTER (WHERE relname = 'result_index'))::bigint
            FROM pg_stat_user_tables WHERE schemaname = 'noetl'";
        self.count_after_lists(READ).await
    }

    /// The first column of a statement, once the connection of the lists has reported what it did. The second column counts
    /// the reads of `result_index`.
    async fn count_after_lists(&self, read: &str) -> i64 {
        let mut scans_before = None;
        loop {
            let row = self.raw_client.query_one(read, &[]).await.expect("the counts");
            let scans: i64 = row.get(1);
            if scans > *scans_before.get_or_insert(scans) {
                return row.get(0);
            }
            // The connection of the lists reports this statement together with all before it, a second after its last
            // report.
            tokio::time::sleep(REPORT_CHECK_EVERY).await;
            let results = self.store.results(ExecutionId(1)).await;
            assert!(results.expect("the store").is_empty());
        }
    }

    async fn commit_all(&self, commits: Vec<Commit>) {
        for committed in self.store.commit_all(commits).await {
            assert!(matches!(committed, Ok(CommitStatus::Committed)), "{committed:?}");
        }
    }

    /// Executions with one step each, from their request to the end of the step; three appends each.
    async fn run_steps(&self, count: usize) {
        let store = &*self.store;
        let requests: Vec<Commit> = (0..count).map(|_| creation_commit(store)).collect();
        let ids: Vec<ExecutionId> = requests.iter().map(|commit| commit.execution).collect();
        self.commit_all(requests).await;
        let step = PlainStep::new("a", 1);
        let scheduled = ids.iter().map(|id| {
            let mut commit = step.schedule(store, *id, Seq(2));
            for change in &mut commit.commands {
                if let CommandChange::Issue(issue) = change {
                    issue.claimed = Some((WorkerId("w".into()), LeaseEpoch(1)));
                }
            }
            commit
        });
        self.commit_all(scheduled.collect()).await;
        let finished = ids.iter().map(|id| {
            let mut commit = step.finish(store, *id, Seq(4));
            commit.fences.push(Fence {
                command: Seq(4),
                lease_epoch: LeaseEpoch(1),
            });
            commit.commands.push(CommandChange::Close { seq: Seq(4) });
            commit
        });
        self.commit_all(finished.collect()).await;
    }

    async fn claim(&self, pool: &str, max: u32) -> usize {
        let query = ClaimQuery {
            worker: WorkerId("w".into()),
            pool: pool.into(),
            max,
            owner: None,
            kinds: None,
        };
        self.store.claim_commands(&query).await.expect("a claim").len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_reads_only_its_own_rows_with_any_statistics() {
    let fixture = QueryPlanFixture::new().await;
    fixture.run_steps(1).await;
    fixture.freeze_statistics().await;
    // Statements are planned again after statistics were collected, and the plans are cached.
    fixture.run_steps(MEMBERS).await;
    fixture.run_steps(1).await;
    fixture.queue_commands().await;
    let appends = 3 * (1 + MEMBERS + 1) + QUEUE_APPENDS;
    let before = fixture.read_counts(i64::try_from(appends).unwrap()).await;

    fixture.run_steps(MEMBERS).await;
    fixture.run_steps(1).await;

    let measured = 3 * (MEMBERS + 1);
    let after = fixture.read_counts(i64::try_from(appends + measured).unwrap());
    let reads = after.await.since(before);
    assert!(
        reads.is_within(i64::try_from(measured).unwrap(), 0),
        "{reads:?} for {measured} commits in {}",
        fixture.database.name()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_reads_as_many_commands_as_it_takes() {
    let fixture = QueryPlanFixture::new().await;
    fixture.run_steps(1).await;
    fixture.freeze_statistics().await;
    assert_eq!(fixture.claim("queued", 1).await, 0);
    fixture.queue_commands().await;
    let before = fixture.read_counts(5).await;

    assert_eq!(fixture.claim("queued", 10).await, 10);

    // The next step's appends bring the counts of the claim along.
    fixture.run_steps(1).await;
    let reads = fixture.read_counts(8).await.since(before);
    assert!(reads.is_within(10, 0), "{reads:?}");
}

/// Rows of each table that no sweep needs: ended executions of another server, unclaimed commands, consumed
/// messages, timers of the next day, keys of one execution, versions of one playbook, permanent settings,
/// values of credentials that expire the next day.
const OTHER_ROWS: [&str; 9] = [
    "INSERT INTO noetl.execution
        SELECT n, 4, 'COMPLETED', false, 1, 'ended', 'ended', 1, 'hash', NULL, 'other', 1, 1, NULL, NULL
        FROM generate_series(1::bigint, $1) AS n",
    "INSERT INTO noetl.command (execution_id, seq, unit, pool, lease_epoch, issued_at, body)
        SELECT n, 4, 'step:a:run:1', 'queued', 0, n, '{}' FROM generate_series(1::bigint, $1) AS n",
    "INSERT INTO noetl.message (from_id, seq, n, to_id, body, consumed_at)
        SELECT n, 4, 0, n, NULL, noetl.micros() FROM generate_series(1::bigint, $1) AS n",
    // A few messages are pending, to executions whose driver is dead.
    "INSERT INTO noetl.message (from_id, seq, n, to_id, body)
        SELECT n, 5, 0, n, '{}' FROM generate_series(1::bigint, least($1::bigint, 20)) AS n",
    "INSERT INTO noetl.timer (execution_id, seq, due)
        SELECT n, 4, noetl.micros() + 86400000000 + n FROM generate_series(1::bigint, $1) AS n",
    "INSERT INTO noetl.event_key (execution_id, key, seq, hash)
        SELECT 1, 'event:' || n, n, sha256('x') FROM generate_series(1::bigint, $1) AS n",
    "INSERT INTO noetl.catalog (path, version, hash, text, registered_at)
        SELECT 'many', n, encode(sha256(convert_to('text ' || n, 'UTF8')), 'hex'), 'text ' || n, n FROM generate_series(1, ($1::bigint)::integer) AS n",
    "INSERT INTO noetl.setting (key, value)
        SELECT 'permanent:' || n, 'x' FROM generate_series(1::bigint, $1) AS n",
    "INSERT INTO noetl.keychain (scope, name, data, data_key, key_id, resolved_at, expires_at)
        SELECT 'run:' || n, 'token', 'x', 'x', 'k', 1, noetl.micros() + 86400000000 + n FROM generate_series(1::bigint, $1) AS n",
];

/// A statement that is measured.
#[derive(Debug, Clone, Copy)]
enum MeasuredStatement {
    Abandoned,
    Adopt,
    DueTimers,
    EventKeys,
    WorkerClaims,
    Inbox,
    LostClaims,
    NextTimer,
    OverdueCommands,
    PlaybookByHash,
    PlaybookByVersion,
    PutKeychain,
    RemoveOldRows,
}

impl MeasuredStatement {
    const ALL: [Self; 13] = [
        Self::Abandoned,
        Self::Adopt,
        Self::DueTimers,
        Self::EventKeys,
        Self::WorkerClaims,
        Self::Inbox,
        Self::LostClaims,
        Self::NextTimer,
        Self::OverdueCommands,
        Self::PlaybookByHash,
        Self::PlaybookByVersion,
        Self::PutKeychain,
        Self::RemoveOldRows,
    ];

    async fn run(self, store: &dyn Store) {
        let me = store.owner().expect("an owner");
        let owner = Some(&me);
        let ran = match self {
            Self::Abandoned => store.abandoned_executions().await.map(drop),
            Self::Adopt => store.adopt(ExecutionId(1), &me, Priority::Normal).await.map(drop),
            Self::DueTimers => store.due_timers(owner, 256).await.map(drop),
            Self::EventKeys => store.external_events(ExecutionId(1), &[EventId(1)]).await.map(drop),
            Self::WorkerClaims => store.worker_claims(&WorkerId("w".into())).await.map(drop),
            Self::Inbox => store.inbox(owner, 256).await.map(drop),
            Self::LostClaims => store.lost_claims(owner).await.map(drop),
            Self::NextTimer => {
                let until = store.now().after(Duration::from_secs(1));
                store.next_timer(owner, until).await.map(drop)
            }
            Self::OverdueCommands => store.overdue_commands(owner).await.map(drop),
            Self::PlaybookByHash => {
                let hash = PlaybookHash::from_text("text 1");
                store.playbook(&hash).await.map(drop)
            }
            Self::PlaybookByVersion => store.catalog_entry("many", Some(1)).await.map(drop),
            Self::PutKeychain => store.sealed_store().put_keychain(resolved_token()).await,
            Self::RemoveOldRows => {
                let before = store.now().before(Duration::from_secs(3_600));
                let old = OldRows {
                    sessions_before: before,
                    requests_before: before,
                    messages_before: before,
                    limit: 1_000,
                };
                store.remove_old_rows(old).await.map(drop)
            }
        };
        ran.unwrap_or_else(|error| panic!("{self:?}: {error:?}"));
    }

    /// Number of rows that it may read in addition to a few.
    fn rows_needed(self) -> i64 {
        match self {
            // No index has the times by which commands must be claimed.
            Self::OverdueCommands => i64::from(QUEUED),
            // A message, its receiver, and that the receiver exists.
            Self::Inbox => 3 * 20,
            _ => 0,
        }
    }
}

fn resolved_token() -> KeychainRow {
    KeychainRow {
        scope: "run:0".to_owned(),
        name: "token".to_owned(),
        sealed: SealedValue {
            data: b"x".to_vec(),
            data_key: b"x".to_vec(),
            key_id: "k".to_owned(),
        },
        resolved_at: Time(1),
        expires_at: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_reads_only_the_rows_that_it_needs_with_any_statistics() {
    let fixture = QueryPlanFixture::new().await;
    fixture.run_steps(1).await;
    fixture.freeze_statistics().await;
    // Plans are made and cached while the tables are empty.
    for statement in MeasuredStatement::ALL {
        statement.run(&*fixture.store).await;
    }
    for rows in OTHER_ROWS {
        let count = i64::from(QUEUED);
        let added = fixture.raw_client.execute(rows, &[&count]).await;
        added.unwrap_or_else(|error| panic!("{rows}: {error}"));
    }
    let mut log_rows = 3;
    let mut wrong = Vec::new();
    for statement in MeasuredStatement::ALL {
        let before = fixture.read_counts(log_rows).await;
        statement.run(&*fixture.store).await;
        // The next step's appends bring the counts of the statement along.
        fixture.run_steps(1).await;
        log_rows += 3;
        let reads = fixture.read_counts(log_rows).await.since(before);
        if !reads.is_within(3, statement.rows_needed()) {
            wrong.push((statement, reads));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Filters of lists that match no run, each by another index.
fn empty_lists() -> Vec<ExecutionFilter> {
    let all = ExecutionFilter::default;
    let mut labels = Labels::default();
    labels.insert("team", "none").expect("a valid label");
    let failed_or_cancelled = vec![RunStatus::Failed, RunStatus::Cancelled];
    let paths = vec!["none".into(), "other".into()];
    let search = ExecutionSearch {
        error_code: Some("NONE".to_owned()),
        ..ExecutionSearch::default()
    };
    vec![
        ExecutionFilter {
            statuses: failed_or_cancelled.clone(),
            ..all()
        },
        ExecutionFilter {
            paths: paths.clone(),
            ..all()
        },
        ExecutionFilter {
            statuses: failed_or_cancelled.clone(),
            paths,
            ..all()
        },
        ExecutionFilter {
            labels: labels.clone(),
            ..all()
        },
        ExecutionFilter {
            labels,
            statuses: failed_or_cancelled,
            ..all()
        },
        ExecutionFilter { search, ..all() },
        ExecutionFilter {
            parent: Some(ExecutionId(7)),
            ..all()
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_reads_no_table_completely() {
    const LABELS: &str = "INSERT INTO noetl.execution_label
        SELECT n, 'team', 'x' || n % 10 FROM generate_series(1::bigint, $1) AS n";
    let fixture = QueryPlanFixture::new().await;
    let raw = &fixture.raw_client;
    for rows in [OTHER_ROWS[0], LABELS] {
        let added = raw.execute(rows, &[&i64::from(QUEUED)]).await;
        added.unwrap_or_else(|error| panic!("{rows}: {error}"));
    }
    raw.batch_execute("ANALYZE noetl.execution, noetl.execution_label")
        .await
        .unwrap();
    fixture.report_own_counts().await;
    let before = fixture.list_scans().await;
    for filter in empty_lists() {
        let rows = fixture.store.executions(&filter).await.expect("the list is read");
        assert!(rows.is_empty(), "{filter:?}");
    }
    let newest = fixture.store.executions(&ExecutionFilter::default()).await;
    assert_eq!(newest.expect("the list is read").len(), 50);
    assert_eq!(fixture.list_scans().await, before);
    // The count notices a scan.
    raw.execute("SELECT count(*) FROM noetl.execution WHERE owner IS NULL", &[])
        .await
        .unwrap();
    fixture.report_own_counts().await;
    assert!(fixture.list_scans().await > before);
}

/// Reads a loop as commands do: its outline, one of its last iterations, their outcomes, and the latest ends of a task.
async fn read_loop(store: &dyn Store, finished: &FinishedLoop, index: u64) {
    let id = finished.execution;
    let outline = store.outline(id, Seq(0), 1_000).await.expect("the outline is read");
    assert_eq!(outline.len(), 7);
    let wanted = index..index + 1;
    let events = store.iteration_events(id, &finished.run, wanted.clone());
    assert_eq!(events.await.expect("the events are read").len(), 2);
    let range = OutcomeRange {
        iterations: wanted,
        after: finished.started,
        until: finished.done,
        bytes_max: usize::MAX,
    };
    let read = store.iteration_outcomes(id, &finished.run, &range);
    assert_eq!(read.await.expect("the outcomes are read").outcomes.len(), 1);
    let (step, task) = ("each".into(), "part".into());
    let result = store.loop_task(id, &step, None, &task).await;
    let ends = result.expect("the ends are read");
    assert!(ends.is_some_and(|ends| ends.succeeded.is_some()));
}

/// A pass over the log of the large loop would read a thousand rows.
#[tokio::test(flavor = "multi_thread")]
async fn reading_a_run_costs_the_same_at_any_number_of_iterations() {
    let fixture = QueryPlanFixture::new().await;
    let store = &*fixture.store;
    let mut counts = Vec::new();
    for iterations in [1_000, 50_000] {
        let finished = finish_loop(store, iterations).await;
        let before = fixture.loop_rows_read().await;
        read_loop(store, &finished, iterations - 3).await;
        let after = fixture.loop_rows_read().await;
        counts.push(after - before);
        let log = store.events(finished.execution, Seq(0), usize::MAX).await;
        assert!(!log.expect("the log is read").is_empty());
        let pass = fixture.loop_rows_read().await - after;
        let appends = i64::try_from(iterations / LOOP_APPEND_ITERATIONS).unwrap();
        assert!(pass > appends, "{pass}");
    }
    assert!(counts.iter().all(|rows| (7..100).contains(rows)), "{counts:?}");
}

/// The rows of iterations and of waits, as text.
async fn indexed_rows(client: &Client) -> Vec<String> {
    let mut names = Vec::new();
    for table in [
        "loop_progress",
        "loop_task",
        "iteration_index",
        "iteration_span",
        "pending_wait",
        "early_signal",
    ] {
        let rows = format!("SELECT '{table} ' || r::text FROM noetl.{table} r ORDER BY r::text");
        let rows = client.query(&rows, &[]).await.expect("the rows are read");
        names.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn iterations_and_waits_of_an_older_store_are_indexed() {
    let fixture = QueryPlanFixture::new().await;
    let raw = &fixture.raw_client;
    finish_loop(&*fixture.store, 200).await;
    start_waiting(&*fixture.store).await;
    let written = indexed_rows(raw).await;
    assert!(written.len() > 7, "{written:?}");
    let without_index = "DROP TABLE noetl.loop_progress, noetl.loop_task, noetl.iteration_index, noetl.iteration_span;
        DROP FUNCTION noetl.write_iterations, noetl.write_iterations_and_labels; DROP INDEX noetl.keychain_expiry;
        DROP INDEX noetl.execution_status_path, noetl.execution_error_code; DROP TABLE noetl.execution_label;
        ALTER TABLE noetl.runtime DROP COLUMN publishes; ALTER TABLE noetl.session DROP COLUMN description;
        DROP TABLE noetl.pending_wait, noetl.early_signal; DROP FUNCTION noetl.write_waits;
        DELETE FROM noetl.migration WHERE version >= 9";
    let without_tasks = "DROP TABLE noetl.loop_task; DROP INDEX noetl.keychain_expiry;
        DROP FUNCTION noetl.write_iterations_and_labels;
        DROP INDEX noetl.execution_status_path, noetl.execution_error_code; DROP TABLE noetl.execution_label;
        ALTER TABLE noetl.runtime DROP COLUMN publishes; ALTER TABLE noetl.session DROP COLUMN description;
        DROP TABLE noetl.pending_wait, noetl.early_signal; DROP FUNCTION noetl.write_waits;
        DELETE FROM noetl.migration WHERE version >= 10";
    let without_waits = "DROP TABLE noetl.pending_wait, noetl.early_signal; DROP FUNCTION noetl.write_waits;
        DELETE FROM noetl.migration WHERE version >= 14";
    for older in [without_index, without_tasks, without_waits] {
        raw.batch_execute(older).await.unwrap();
        let options = PostgresOptions::new(PostgresUrl::new(fixture.database.url()));
        PostgresStore::open(options).await.expect("the schema is migrated");
        assert_eq!(indexed_rows(raw).await, written);
    }
}
