//! The oracle: reads every run through the API and from the database, and applies the checkers.

use std::collections::BTreeMap;
use std::time::Duration;

use model::event::Event;
use model::id::{ExecutionId, Seq};
use serde_json::Value;
use store::{PostgresOptions, PostgresUrl, Store as _};
use tokio_postgres::NoTls;
use wire::api::{EventPage, ExecutionDetail, ExecutionPage, ExecutionSummary, ReplayResponse};
use wire::{CallError, Client};

use crate::e2e::checks::{self, ApiView, LeftoverRows, new_violation};
use crate::e2e::load::StartedExecution;
use crate::sim::Violation;

/// Page size of requests for runs and events.
const PAGE_MAX: usize = 1_000;

/// Queries that return each projection as one text.
const PROJECTIONS: [&str; 7] = [
    "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r.execution_id), '') FROM noetl.execution r",
    "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r.execution_id, r.step_name), '') FROM noetl.step_state r",
    "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r.execution_id, r.seq), '') FROM noetl.result_index r",
    "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r.execution_id, r.step_name, r.run), '') FROM noetl.loop_progress r",
    "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r.execution_id, r.step_name, r.task_label, r.run), '') FROM noetl.loop_task r",
    "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r.execution_id, r.step_name, r.run, r.seq, r.block), '') FROM noetl.iteration_index r",
    "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r.execution_id, r.seq_last), '') FROM noetl.iteration_span r",
];

/// Counts the open commands, timers and messages of a run.
const LEFTOVER_QUERY: &str = "SELECT (SELECT count(*) FROM noetl.command WHERE execution_id = $1), \
     (SELECT count(*) FROM noetl.timer WHERE execution_id = $1), \
     (SELECT count(*) FROM noetl.message WHERE to_id = $1 AND body IS NOT NULL)";

/// Describes them, for the report about a stuck run.
const OWED_QUERY: &str = "SELECT 'execution owner ' || coalesce(e.owner, 'none') || ', which ' || \
     CASE WHEN r.owner IS NULL THEN 'is not known' ELSE 'was heard ' || ((noetl.micros() - r.heartbeat) / 1000000) || ' s ago' END \
     FROM noetl.execution e LEFT JOIN noetl.runtime r ON r.owner = e.owner WHERE e.execution_id = $1 \
     UNION ALL SELECT 'command ' || c.seq || ' ' || c.unit || ' epoch ' || c.lease_epoch || ' of ' || coalesce(c.worker, 'nobody') || \
     ' claimed ' || coalesce(((noetl.micros() - c.claimed_at) / 1000000)::text, '-') || ' s ago, session for ' || \
     coalesce(((s.expires_at - noetl.micros()) / 1000000)::text, '-') || ' s' \
     FROM noetl.command c LEFT JOIN noetl.session s ON s.worker = c.worker WHERE c.execution_id = $1 \
     UNION ALL SELECT 'timer ' || t.seq || ' due in ' || ((t.due - noetl.micros()) / 1000000) || ' s' FROM noetl.timer t WHERE t.execution_id = $1 \
     UNION ALL SELECT 'message ' || coalesce(m.body, '-') FROM noetl.message m WHERE m.to_id = $1";

/// All columns that contain text of users or of the engine.
const TEXTS_QUERY: &str = "SELECT coalesce(string_agg(t, E'\\n'), '') FROM (SELECT body AS t FROM noetl.log \
     UNION ALL SELECT body FROM noetl.command UNION ALL SELECT coalesce(body, '') FROM noetl.message \
     UNION ALL SELECT coalesce(error, '') FROM noetl.execution) AS texts";

/// What the oracle has read, and the violations it found.
#[derive(Debug, Clone, Default)]
pub(crate) struct OracleReport {
    /// Number of runs, sub-playbooks included.
    pub(crate) runs: usize,
    /// Number of events.
    pub(crate) events: usize,
    /// Number of effects that happened more than once, which at-least-once tasks allow.
    pub(crate) repeated_effects: usize,
    /// Violated invariants, each with its run.
    pub(crate) violations: Vec<(ExecutionId, Violation)>,
}

/// Reads the log of a run from the database.
pub async fn read_log(store: &store::PostgresStore, id: ExecutionId) -> Vec<Event> {
    let log = store.events(id, Seq(0), usize::MAX >> 1).await;
    log.expect("the log can be read")
}

pub(crate) struct Oracle<'a> {
    client: &'a Client,
    store: store::PostgresStore,
    sql: tokio_postgres::Client,
    effects: BTreeMap<String, u32>,
}

impl<'a> Oracle<'a> {
    /// Creates an oracle for the database at a URL.
    pub(crate) async fn open(client: &'a Client, database: &str, effects: BTreeMap<String, u32>) -> Self {
        let options = PostgresOptions::new(PostgresUrl::new(database));
        let store = store::PostgresStore::open(options).await;
        let connected = tokio_postgres::connect(database, NoTls).await;
        let (sql, connection) = connected.expect("the database accepts connections");
        tokio::spawn(connection);
        Self {
            client,
            store: store.expect("the store opens"),
            sql,
            effects,
        }
    }

    /// Reads and checks everything.
    pub(crate) async fn check_all(&self, load: &[StartedExecution], output: &str, secret: &str) -> OracleReport {
        let mut report = OracleReport::default();
        let summary = self.list_executions().await.expect("runs can be listed");
        let mut logs = BTreeMap::new();
        for run in &summary {
            let id = run.execution_id;
            let log = read_log(&self.store, id).await;
            report.runs += 1;
            report.events += log.len();
            let started = load.iter().find(|started| started.id == id);
            if let Err(violation) = self.check_execution(run, &log, started).await {
                report.violations.push((id, violation));
            }
            logs.insert(id, log);
        }
        let everywhere = ExecutionId(0);
        let lost = load.iter().filter(|started| !logs.contains_key(&started.id));
        report.violations.extend(lost.map(|started| {
            let message = format!("{:?} {} was started, but does not exist", started.recipe, started.n);
            (started.id, new_violation(4, &message))
        }));
        let whole = [
            checks::check_effect_causes(&logs, &self.effects),
            self.check_rebuild().await,
            self.check_secret_absent(output, secret).await,
            checks::check_all_published(self.count_unpublished().await),
        ];
        let whole = whole.into_iter().filter_map(Result::err);
        report.violations.extend(whole.map(|violation| (everywhere, violation)));
        report.repeated_effects = self.effects.values().filter(|count| **count > 1).count();
        report
    }

    /// Describes the state of a stuck run, for debugging.
    pub(crate) async fn describe(&self, id: ExecutionId) -> String {
        let log = read_log(&self.store, id).await;
        let recent = log.iter().rev().take(12).rev();
        let recent = recent.map(|event| {
            let (seq, kind) = (event.seq, event.kind());
            format!("  {seq} {kind} {:?}\n", event.body.payload())
        });
        let mut text = recent.collect::<Vec<_>>().concat();
        let id = id.0;
        let rows = self.sql.query(OWED_QUERY, &[&id]).await;
        for row in rows.expect("rows can be read") {
            text.push_str(&format!("  {}\n", row.get::<_, String>(0)));
        }
        text
    }

    async fn check_execution(
        &self,
        summary: &ExecutionSummary,
        log: &[Event],
        started: Option<&StartedExecution>,
    ) -> Result<(), Violation> {
        let id = summary.execution_id;
        let entry = self
            .store
            .catalog_entry(summary.path.as_str(), Some(summary.version))
            .await;
        let entry = entry.ok().flatten();
        let entry = entry.ok_or_else(|| new_violation(45, "its playbook does not exist"))?;
        let state = checks::check_log(&entry.text, log)?;
        checks::check_single_end(log)?;
        checks::check_no_leftovers(&state, &self.leftover_rows(id).await)?;
        let unread = |error: CallError| new_violation(12, &format!("a route failed: {error}"));
        let (api_view, detail) = self.load_api_view(summary).await.map_err(unread)?;
        checks::check_routes(&state, log, &api_view)?;
        checks::check_replay(&state, &api_view)?;
        checks::check_effects_recorded(log, &self.effects)?;
        match started {
            Some(started) => checks::check_end(started, &detail),
            None => Ok(()),
        }
    }

    async fn load_api_view(&self, summary: &ExecutionSummary) -> Result<(ApiView, ExecutionDetail), CallError> {
        let id = summary.execution_id;
        let client = self.client;
        let detail: ExecutionDetail = client.get(&format!("/api/executions/{id}")).await?;
        let status: ExecutionSummary = client.get(&format!("/api/executions/{id}/status")).await?;
        let replayed: ReplayResponse = client.get(&format!("/api/replay/state?execution_id={id}")).await?;
        let mut events = Vec::new();
        let mut after = Some(Seq(0));
        while let Some(seq) = after {
            let page: EventPage = client
                .get(&format!("/api/executions/{id}/events?after_seq={seq}&limit={PAGE_MAX}"))
                .await?;
            for event in page.events {
                let event: Value = serde_json::from_str(event.text()).unwrap_or_default();
                let kind = event["event_type"].as_str().unwrap_or_default().to_owned();
                events.push((kind, Seq(event["seq"].as_u64().unwrap_or(0))));
            }
            after = page.next_after_seq;
        }
        let api_view = ApiView {
            statuses: vec![summary.status, detail.status, detail.execution.status, status.status],
            seqs: vec![summary.seq, detail.execution.seq, status.seq],
            events,
            replayed: (replayed.seq, replayed.status, replayed.state),
        };
        Ok((api_view, detail))
    }

    async fn list_executions(&self) -> Result<Vec<ExecutionSummary>, CallError> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let after = cursor.map(|cursor| format!("&cursor={cursor}"));
            let path = format!("/api/executions?limit={PAGE_MAX}{}", after.unwrap_or_default());
            let page: ExecutionPage = self.client.get(&path).await?;
            all.extend(page.executions);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn leftover_rows(&self, id: ExecutionId) -> LeftoverRows {
        let id = id.0;
        let row = self.sql.query_one(LEFTOVER_QUERY, &[&id]).await;
        let row = row.expect("rows can be counted");
        LeftoverRows {
            commands: row.get(0),
            timers: row.get(1),
            messages: row.get(2),
        }
    }

    /// Rebuilds the projections; they must stay the same.
    async fn check_rebuild(&self) -> Result<(), Violation> {
        let before = self.projections().await;
        self.store
            .rebuild_projections()
            .await
            .map_err(|error| new_violation(46, &format!("cannot rebuild the projections: {error}")))?;
        checks::check_projections(&before, &self.projections().await)
    }

    async fn projections(&self) -> Vec<String> {
        let mut texts = Vec::new();
        for sql in PROJECTIONS {
            let row = self.sql.query_one(sql, &[]).await;
            texts.push(row.expect("a projection can be read").get(0));
        }
        texts
    }

    /// Number of unpublished rows, after the publisher had time to catch up.
    async fn count_unpublished(&self) -> i64 {
        let mut waiting = 0;
        for _ in 0..100 {
            let row = self.sql.query_one("SELECT count(*) FROM noetl.outbox", &[]);
            waiting = row.await.expect("rows can be counted").get(0);
            if waiting == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        waiting
    }

    /// The secret that every process has is in no stored text and no output.
    async fn check_secret_absent(&self, output: &str, secret: &str) -> Result<(), Violation> {
        let row = self.sql.query_one(TEXTS_QUERY, &[]).await;
        let lines: String = row.expect("texts can be read").get(0);
        checks::check_secret_absent(&[("the database", &lines), ("an output", output)], secret)
    }
}
