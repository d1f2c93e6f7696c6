//! The oracle: reads every run through the API and from the database, and applies the checkers.

use std::collections::BTreeMap;
use std::time::Duration;

use model::event::Event;
use model::id::{ExecutionId, Seq};
use serde_json::Value;
use store::{PostgresOptions, PostgresUrl, Store as _};
use tokio_postgres::NoTls;
use wire::api::{EventPage, Execution, ExecutionPage, ReplayState, RunAnswer};
use wire::{CallError, Client};

use crate::e2e::checks::{self, Left, Shown, broken};
use crate::e2e::load::Begun;
use crate::sim::Violation;

/// Page size of requests for runs and events.
const PAGE: usize = 1_000;

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
const LEFT: &str = "SELECT (SELECT count(*) FROM noetl.command WHERE execution_id = $1), \
     (SELECT count(*) FROM noetl.timer WHERE execution_id = $1), \
     (SELECT count(*) FROM noetl.message WHERE to_id = $1 AND body IS NOT NULL)";

/// Describes them, for the report about a stuck run.
const OWED: &str = "SELECT 'execution owner ' || coalesce(e.owner, 'none') || ', which ' || \
     CASE WHEN r.owner IS NULL THEN 'is not known' ELSE 'was heard ' || ((noetl.micros() - r.heartbeat) / 1000000) || ' s ago' END \
     FROM noetl.execution e LEFT JOIN noetl.runtime r ON r.owner = e.owner WHERE e.execution_id = $1 \
     UNION ALL SELECT 'command ' || c.seq || ' ' || c.unit || ' epoch ' || c.lease_epoch || ' of ' || coalesce(c.worker, 'nobody') || \
     ' claimed ' || coalesce(((noetl.micros() - c.claimed_at) / 1000000)::text, '-') || ' s ago, session for ' || \
     coalesce(((s.expires_at - noetl.micros()) / 1000000)::text, '-') || ' s' \
     FROM noetl.command c LEFT JOIN noetl.session s ON s.worker = c.worker WHERE c.execution_id = $1 \
     UNION ALL SELECT 'timer ' || t.seq || ' due in ' || ((t.due - noetl.micros()) / 1000000) || ' s' FROM noetl.timer t WHERE t.execution_id = $1 \
     UNION ALL SELECT 'message ' || coalesce(m.body, '-') FROM noetl.message m WHERE m.to_id = $1";

/// All columns that contain text of users or of the engine.
const TEXTS: &str = "SELECT coalesce(string_agg(t, E'\\n'), '') FROM (SELECT body AS t FROM noetl.log \
     UNION ALL SELECT body FROM noetl.command UNION ALL SELECT coalesce(body, '') FROM noetl.message \
     UNION ALL SELECT coalesce(error, '') FROM noetl.execution) AS texts";

/// What the oracle has read, and the violations it found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    /// Number of runs, sub-playbooks included.
    pub(crate) runs: usize,
    /// Number of events.
    pub(crate) events: usize,
    /// Number of effects that happened more than once, which at-least-once tasks allow.
    pub(crate) repeated: usize,
    /// Violated invariants, each with its run.
    pub(crate) broken: Vec<(ExecutionId, Violation)>,
}

/// Reads the log of a run from the database.
pub async fn read_log(store: &store::Postgres, id: ExecutionId) -> Vec<Event> {
    let log = store.events(id, Seq(0), usize::MAX >> 1).await;
    log.expect("the log can be read")
}

pub(crate) struct Oracle<'a> {
    client: &'a Client,
    store: store::Postgres,
    sql: tokio_postgres::Client,
    seen: BTreeMap<String, u32>,
}

impl<'a> Oracle<'a> {
    /// Creates an oracle for the database at a URL.
    pub(crate) async fn open(
        client: &'a Client,
        database: &str,
        seen: BTreeMap<String, u32>,
    ) -> Self {
        let options = PostgresOptions::new(PostgresUrl::new(database));
        let store = store::Postgres::open(options).await;
        let connected = tokio_postgres::connect(database, NoTls).await;
        let (sql, connection) = connected.expect("the database accepts connections");
        tokio::spawn(connection);
        Self {
            client,
            store: store.expect("the store opens"),
            sql,
            seen,
        }
    }

    /// Reads and checks everything.
    pub(crate) async fn judge(&self, load: &[Begun], said: &str, secret: &str) -> Verdict {
        let mut verdict = Verdict::default();
        let listed = self.list().await.expect("runs can be listed");
        let mut logs = BTreeMap::new();
        for run in &listed {
            let id = run.execution_id;
            let log = read_log(&self.store, id).await;
            verdict.runs += 1;
            verdict.events += log.len();
            let begun = load.iter().find(|begun| begun.id == id);
            if let Err(violation) = self.look(run, &log, begun).await {
                verdict.broken.push((id, violation));
            }
            logs.insert(id, log);
        }
        let everywhere = ExecutionId(0);
        let lost = load.iter().filter(|begun| !logs.contains_key(&begun.id));
        verdict.broken.extend(lost.map(|begun| {
            let what = format!(
                "{:?} {} was started, but does not exist",
                begun.recipe, begun.n
            );
            (begun.id, broken(4, &what))
        }));
        let whole = [
            checks::effects_have_a_cause(&logs, &self.seen),
            self.rebuilt_is_the_same().await,
            self.secret_is_nowhere(said, secret).await,
            checks::everything_is_published(self.unpublished().await),
        ];
        let whole = whole.into_iter().filter_map(Result::err);
        verdict
            .broken
            .extend(whole.map(|violation| (everywhere, violation)));
        verdict.repeated = self.seen.values().filter(|count| **count > 1).count();
        verdict
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
        let rows = self.sql.query(OWED, &[&id]).await;
        for row in rows.expect("rows can be read") {
            text.push_str(&format!("  {}\n", row.get::<_, String>(0)));
        }
        text
    }

    async fn look(
        &self,
        listed: &Execution,
        log: &[Event],
        begun: Option<&Begun>,
    ) -> Result<(), Violation> {
        let id = listed.execution_id;
        let entry = self
            .store
            .latest(listed.path.as_str(), Some(listed.version))
            .await;
        let entry = entry.ok().flatten();
        let entry = entry.ok_or_else(|| broken(45, "its playbook does not exist"))?;
        let state = checks::log_is_lawful(&entry.text, log)?;
        checks::ends_once(log)?;
        checks::nothing_is_left(&state, &self.left(id).await)?;
        let unread = |error: CallError| broken(12, &format!("a route failed: {error}"));
        let (shown, detail) = self.shown(listed).await.map_err(unread)?;
        checks::routes_agree(&state, log, &shown)?;
        checks::replay_is_the_fold(&state, &shown)?;
        checks::effects_were_seen(log, &self.seen)?;
        match begun {
            Some(begun) => checks::ends_as_it_must(begun, &detail),
            None => Ok(()),
        }
    }

    async fn shown(&self, listed: &Execution) -> Result<(Shown, RunAnswer), CallError> {
        let id = listed.execution_id;
        let client = self.client;
        let detail: RunAnswer = client.get(&format!("/api/executions/{id}")).await?;
        let status: Execution = client.get(&format!("/api/executions/{id}/status")).await?;
        let replayed: ReplayState = client
            .get(&format!("/api/replay/state?execution_id={id}"))
            .await?;
        let mut events = Vec::new();
        let mut after = Some(Seq(0));
        while let Some(seq) = after {
            let page: EventPage = client
                .get(&format!(
                    "/api/executions/{id}/events?after_seq={seq}&limit={PAGE}"
                ))
                .await?;
            for event in page.events {
                let event: Value = serde_json::from_str(event.text()).unwrap_or_default();
                let kind = event["event_type"].as_str().unwrap_or_default().to_owned();
                events.push((kind, Seq(event["seq"].as_u64().unwrap_or(0))));
            }
            after = page.next_after_seq;
        }
        let shown = Shown {
            statuses: vec![
                listed.status,
                detail.status,
                detail.execution.status,
                status.status,
            ],
            seqs: vec![listed.seq, detail.execution.seq, status.seq],
            events,
            replayed: (replayed.seq, replayed.status, replayed.state),
        };
        Ok((shown, detail))
    }

    async fn list(&self) -> Result<Vec<Execution>, CallError> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let after = cursor.map(|cursor| format!("&cursor={cursor}"));
            let path = format!("/api/executions?limit={PAGE}{}", after.unwrap_or_default());
            let page: ExecutionPage = self.client.get(&path).await?;
            all.extend(page.executions);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn left(&self, id: ExecutionId) -> Left {
        let id = id.0;
        let row = self.sql.query_one(LEFT, &[&id]).await;
        let row = row.expect("rows can be counted");
        Left {
            commands: row.get(0),
            timers: row.get(1),
            messages: row.get(2),
        }
    }

    /// Rebuilds the projections; they must stay the same.
    async fn rebuilt_is_the_same(&self) -> Result<(), Violation> {
        let before = self.projections().await;
        self.store
            .rebuild_projections()
            .await
            .map_err(|error| broken(46, &format!("cannot rebuild the projections: {error}")))?;
        checks::projections_are_the_same(&before, &self.projections().await)
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
    async fn unpublished(&self) -> i64 {
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
    async fn secret_is_nowhere(&self, said: &str, secret: &str) -> Result<(), Violation> {
        let row = self.sql.query_one(TEXTS, &[]).await;
        let kept: String = row.expect("texts can be read").get(0);
        checks::secret_is_nowhere(&[("the database", &kept), ("an output", said)], secret)
    }
}
