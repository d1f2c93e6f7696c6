//! What a commit or a claim reads in Postgres does not depend on the planner's statistics.
//!
//! The statistics are made as wrong as they can be: taken while the tables hold next to nothing, then kept while thousands
//! of commands are queued. The database counts the rows that statements read.
//!
//! What reading a run costs does not depend on the number of its iterations, which older stores get an index of.

use std::sync::Arc;
use std::time::Duration;

use model::id::{ExecutionId, LeaseEpoch, Seq, WorkerId};
use store::contract::{FinishedLoop, PlainStep, finish_loop, request};
use store::{
    Ask, CommandChange, Commit, Committed, Fence, Postgres, PostgresOptions, PostgresUrl, Store,
};
use tests::peers::{self, Database};
use tokio_postgres::{Client, NoTls};

/// Commands that nobody has claimed while the commits are measured.
const QUEUED: i32 = 5_000;

/// Executions that are committed together.
const MEMBERS: usize = 20;

/// Appends of the command that the queue is copied from.
const QUEUE_APPENDS: usize = 2;

/// More than the keys, commands and steps of a commit need; far less than the queue holds.
const ROWS_PER_COMMIT_MAX: i64 = 40;

struct Fixture {
    database: Database,
    store: Arc<dyn Store>,
    raw: Client,
}

impl Fixture {
    async fn new() -> Self {
        let database = peers::Postgres::shared().fresh_database();
        let url = database.url();
        let options = PostgresOptions {
            // One connection commits everything, so that its cached plans are those that are measured.
            pool_size: 1,
            ..PostgresOptions::new(PostgresUrl::new(&url))
        };
        let store: Arc<dyn Store> =
            Arc::new(Postgres::open(options).await.expect("the database is up"));
        let (raw, connection) = tokio_postgres::connect(&url, NoTls)
            .await
            .expect("the database is up");
        tokio::spawn(connection);
        Self {
            database,
            store,
            raw,
        }
    }

    /// Takes statistics now, and never again.
    async fn freeze_statistics(&self) {
        for table in ["command", "execution", "event_key", "step_state", "session"] {
            let freeze = format!(
                "ALTER TABLE noetl.{table} SET (autovacuum_enabled = off); VACUUM ANALYZE noetl.{table}"
            );
            for statement in freeze.split(';') {
                self.raw
                    .batch_execute(statement)
                    .await
                    .expect("a table of the store");
            }
        }
    }

    /// Fills the queue behind the planner's back, with copies of one command.
    async fn queue_commands(&self) {
        let first = request(&*self.store);
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
        for statement in [executions, commands] {
            let count = i64::from(QUEUED);
            self.raw
                .execute(statement, &[&count])
                .await
                .expect("rows that fit");
        }
    }

    /// How many rows statements have read, once the database has counted this many rows of the log.
    async fn rows_read(&self, log_rows: i64) -> i64 {
        const READ: &str = "SELECT
                (sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)))::bigint,
                (sum(n_tup_ins) FILTER (WHERE relname = 'log'))::bigint
            FROM pg_stat_user_tables WHERE schemaname = 'noetl'";
        loop {
            let row = self.raw.query_one(READ, &[]).await.expect("the counts");
            let counted: i64 = row.get(1);
            if counted >= log_rows {
                return row.get(0);
            }
            // Counts arrive when a connection has been idle for a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn commit_all(&self, commits: Vec<Commit>) {
        for committed in self.store.commit_all(commits).await {
            assert!(matches!(committed, Ok(Committed::Done)), "{committed:?}");
        }
    }

    /// Executions with one step each, from their request to the end of the step; three appends each.
    async fn run_steps(&self, count: usize) {
        let store = &*self.store;
        let requests: Vec<Commit> = (0..count).map(|_| request(store)).collect();
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
        let ask = Ask {
            worker: WorkerId("w".into()),
            pool: pool.into(),
            max,
            owner: None,
            kinds: None,
        };
        self.store.claim(&ask).await.expect("a claim").len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_reads_its_own_rows_whatever_the_statistics_say() {
    let fixture = Fixture::new().await;
    fixture.run_steps(1).await;
    fixture.freeze_statistics().await;
    // Plans are made anew after statistics were taken, and kept from then on.
    fixture.run_steps(MEMBERS).await;
    fixture.run_steps(1).await;
    fixture.queue_commands().await;
    let appends = 3 * (1 + MEMBERS + 1) + QUEUE_APPENDS;
    let before = fixture.rows_read(i64::try_from(appends).unwrap()).await;

    fixture.run_steps(MEMBERS).await;
    fixture.run_steps(1).await;

    let measured = 3 * (MEMBERS + 1);
    let after = fixture
        .rows_read(i64::try_from(appends + measured).unwrap())
        .await;
    let per_commit = (after - before) / i64::try_from(measured).unwrap();
    assert!(
        per_commit <= ROWS_PER_COMMIT_MAX,
        "{per_commit} rows read for each commit in {}",
        fixture.database.name()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_reads_as_many_commands_as_it_takes() {
    let fixture = Fixture::new().await;
    fixture.run_steps(1).await;
    fixture.freeze_statistics().await;
    assert_eq!(fixture.claim("queued", 1).await, 0);
    fixture.queue_commands().await;
    let before = fixture.rows_read(5).await;

    assert_eq!(fixture.claim("queued", 10).await, 10);

    // The next step's appends bring the counts of the claim along.
    fixture.run_steps(1).await;
    let read = fixture.rows_read(8).await - before;
    assert!(read <= 10 * ROWS_PER_COMMIT_MAX, "{read} rows read");
}

/// The shortest of some times that it takes to read the outline of a loop and one of its last iterations.
async fn shortest_reading(store: &dyn Store, finished: &FinishedLoop, index: u64) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..7 {
        let begun = tokio::time::Instant::now();
        let id = finished.execution;
        let outline = store.outline(id, Seq(0), 1_000).await.unwrap();
        assert_eq!(outline.len(), 7);
        let wanted = index..index + 1;
        let events = store.iteration_events(id, &finished.run, wanted).await;
        assert_eq!(events.unwrap().len(), 2);
        shortest = shortest.min(begun.elapsed());
    }
    shortest
}

/// A pass over the log would take fifty times as long for the large loop as for the small one.
#[tokio::test(flavor = "multi_thread")]
async fn reading_a_run_costs_the_same_at_any_number_of_iterations() {
    let fixture = Fixture::new().await;
    let store = &*fixture.store;
    let small = finish_loop(store, 1_000).await;
    let large = finish_loop(store, 50_000).await;
    let small = shortest_reading(store, &small, 997).await;
    let large = shortest_reading(store, &large, 49_997).await;
    assert!(large < small * 10, "{large:?} after {small:?}");
}

/// The rows of iterations, as text.
async fn rows_of_iterations(client: &Client) -> Vec<String> {
    let mut found = Vec::new();
    for table in ["loop_progress", "iteration_index", "iteration_span"] {
        let rows = format!("SELECT '{table} ' || r::text FROM noetl.{table} r ORDER BY r::text");
        let rows = client.query(&rows, &[]).await.unwrap();
        found.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn iterations_of_an_older_store_are_indexed() {
    let fixture = Fixture::new().await;
    let raw = &fixture.raw;
    finish_loop(&*fixture.store, 200).await;
    let written = rows_of_iterations(raw).await;
    assert!(written.len() > 6, "{written:?}");
    let older = "DROP TABLE noetl.loop_progress, noetl.iteration_index, noetl.iteration_span;
        DROP FUNCTION noetl.write_iterations; DELETE FROM noetl.migration WHERE version >= 7";
    raw.batch_execute(older).await.unwrap();
    let options = PostgresOptions::new(PostgresUrl::new(&fixture.database.url()));
    Postgres::open(options)
        .await
        .expect("the schema is migrated");
    assert_eq!(rows_of_iterations(raw).await, written);
}
