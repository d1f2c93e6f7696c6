//! The whole fault-injection test: starts a cluster, a load and a nemesis, waits for all runs to finish, checks them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::id::ExecutionId;
use model::status::RunStatus;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::Client;
use wire::api::ExecutionPage;

use crate::e2e::cluster::{Cluster, Shape};
use crate::e2e::load::{Begun, Seen, attend, begin, register};
use crate::e2e::nemesis::{Deeds, Nemesis};
use crate::e2e::oracle::{Oracle, Verdict};
use crate::e2e::playbooks::Recipe;
use crate::e2e::witness::Witness;

/// Interval between two checks of unfinished runs.
const LOOK: Duration = Duration::from_millis(250);

/// Settings of a test.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Seed of all random choices.
    pub seed: u64,
    /// How long faults are injected.
    pub time: Duration,
    /// Number of runs to start in that time.
    pub runs: u64,
    /// How long the last runs may take after the last fault.
    pub patience: Duration,
    /// Directory for the output of the processes if an invariant is violated.
    pub diary: PathBuf,
}

/// Outcome of a test.
#[derive(Debug, Clone)]
pub struct Report {
    /// The settings.
    pub plan: Plan,
    calm_after: Duration,
    unfinished: Vec<(ExecutionId, RunStatus)>,
    deeds: Deeds,
    verdict: Verdict,
}

impl Report {
    /// Whether no invariant was violated and no run is stuck.
    pub fn is_fine(&self) -> bool {
        self.unfinished.is_empty() && self.verdict.broken.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict {
            runs,
            events,
            repeated,
            broken,
        } = &self.verdict;
        writeln!(
            f,
            "seed {}, {:.0} s of faults: {runs} runs with {events} events; {repeated} effects repeated",
            self.plan.seed,
            self.plan.time.as_secs_f64(),
        )?;
        let faults = self.deeds.faults.iter();
        let faults: Vec<String> = faults
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        writeln!(f, "faults: {}", faults.join(", "))?;
        for ended in &self.deeds.ended {
            writeln!(f, "{ended}")?;
        }
        writeln!(
            f,
            "the last run finished {:.1} s after the last fault",
            self.calm_after.as_secs_f64()
        )?;
        for (id, status) in &self.unfinished {
            writeln!(f, "STUCK {id} is {status}")?;
        }
        for (id, violation) in broken {
            writeln!(f, "BROKEN {} in {id}: {}", violation.number, violation.what)?;
        }
        Ok(())
    }
}

/// Runs a test.
pub async fn storm(plan: Plan) -> Report {
    let shape = Shape {
        servers: 2,
        workers: 3,
        slots: 8,
    };
    let cluster = Cluster::start(shape).await;
    let client = cluster.client();
    let witness = Arc::new(Witness::start());
    register(&client).await;
    let tally = cluster.tally.url();
    let nemesis = Nemesis::new(cluster, plan.seed);
    let time = plan.time;
    let raging = tokio::task::spawn_blocking(move || nemesis.rage(time));
    let begun = load(&client, &plan, &witness, &tally);
    let (cluster, deeds) = raging.await.expect("the nemesis does not panic");
    let calm = Instant::now();
    let (load, unfinished) = settle(&client, begun, plan.patience).await;
    let calm_after = calm.elapsed();
    let mut seen = witness.seen();
    seen.extend(cluster.tally.counts().await);
    let oracle = Oracle::open(&client, &cluster.database_url(), seen).await;
    let said = cluster.said();
    let verdict = oracle
        .judge(&load, &said, cluster.postgres.password())
        .await;
    let report = Report {
        plan,
        calm_after,
        unfinished,
        deeds,
        verdict,
    };
    if !report.is_fine() {
        let diary = report.deeds.diary.join("\n");
        let mut stuck = String::new();
        for (id, _) in &report.unfinished {
            stuck.push_str(&format!("{id}\n{}", oracle.describe(*id).await));
        }
        let text = format!("{report}\n{diary}\n\n{stuck}\n{said}");
        std::fs::write(&report.plan.diary, text).expect("the output can be written");
    }
    report
}

/// Starts runs, evenly over the time, and sends each the control requests of its recipe.
fn load(client: &Client, plan: &Plan, witness: &Arc<Witness>, tally: &str) -> JoinSet<Begun> {
    let mut begun = JoinSet::new();
    let every = plan.time / u32::try_from(plan.runs.max(1)).expect("the number of runs fits");
    for n in 0..plan.runs {
        let recipe =
            Recipe::ALL[usize::try_from(n).expect("the number of runs fits") % Recipe::ALL.len()];
        let (client, witness) = (client.clone(), witness.clone());
        let tally = tally.to_owned();
        let when = every * u32::try_from(n).expect("the number of runs fits");
        begun.spawn(async move {
            tokio::time::sleep(when).await;
            let seen = Seen {
                witness: &witness.url(),
                tally: &tally,
            };
            let begun = begin(&client, recipe, n, seen).await;
            attend(&client, begun).await;
            begun
        });
    }
    begun
}

/// Waits until all runs have finished or the time is up; returns the started and the unfinished runs.
async fn settle(
    client: &Client,
    mut begun: JoinSet<Begun>,
    patience: Duration,
) -> (Vec<Begun>, Vec<(ExecutionId, RunStatus)>) {
    let end = Instant::now() + patience;
    let mut load = Vec::new();
    while let Ok(Some(one)) = tokio::time::timeout_at(end, begun.join_next()).await {
        load.push(one.expect("the load does not panic"));
    }
    loop {
        let open = open(client).await;
        if open.is_empty() || Instant::now() >= end {
            return (load, open);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Runs that have not finished.
async fn open(client: &Client) -> Vec<(ExecutionId, RunStatus)> {
    let mut open = Vec::new();
    for status in ["RUNNING", "PAUSED"] {
        let path = format!("/api/executions?limit=1000&status={status}");
        let page = client.get::<ExecutionPage>(&path).await;
        let page = page.expect("runs can be listed when no fault is active");
        let runs = page.executions.into_iter();
        open.extend(runs.map(|run| (run.execution_id, run.status)));
    }
    open
}
