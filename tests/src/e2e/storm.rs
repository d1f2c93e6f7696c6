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

use crate::e2e::cluster::{ClusterShape, TestCluster};
use crate::e2e::effect_recorder::EffectRecorder;
use crate::e2e::load::{EffectUrls, StartedExecution, apply_recipe, register_playbooks, start_execution};
use crate::e2e::nemesis::{FaultLog, Nemesis};
use crate::e2e::oracle::{Oracle, OracleReport};
use crate::e2e::playbooks::Recipe;

/// Interval between two checks of unfinished runs.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Settings of a test.
#[derive(Debug, Clone)]
pub struct StormPlan {
    /// Seed of all random choices.
    pub seed: u64,
    /// How long faults are injected.
    pub duration: Duration,
    /// Number of runs to start in that time.
    pub runs: u64,
    /// How long the last runs may take after the last fault.
    pub settle_timeout: Duration,
    /// File for the output of the processes if an invariant is violated.
    pub output_file: PathBuf,
}

/// Outcome of a test.
#[derive(Debug, Clone)]
pub struct StormReport {
    /// The settings.
    pub plan: StormPlan,
    settled_after: Duration,
    unfinished: Vec<(ExecutionId, RunStatus)>,
    fault_log: FaultLog,
    oracle_report: OracleReport,
}

impl StormReport {
    /// Whether no invariant was violated and no run is stuck.
    pub fn has_no_violations(&self) -> bool {
        self.unfinished.is_empty() && self.oracle_report.violations.is_empty()
    }
}

impl fmt::Display for StormReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OracleReport {
            runs,
            events,
            repeated_effects,
            violations,
        } = &self.oracle_report;
        writeln!(
            f,
            "seed {}, {:.0} s of faults: {runs} runs with {events} events; {repeated_effects} effects repeated",
            self.plan.seed,
            self.plan.duration.as_secs_f64(),
        )?;
        let faults = self.fault_log.faults.iter();
        let faults: Vec<String> = faults.map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "faults: {}", faults.join(", "))?;
        for ended in &self.fault_log.ended_processes {
            writeln!(f, "{ended}")?;
        }
        writeln!(
            f,
            "the last run finished {:.1} s after the last fault",
            self.settled_after.as_secs_f64()
        )?;
        for (id, status) in &self.unfinished {
            writeln!(f, "STUCK {id} is {status}")?;
        }
        for (id, violation) in violations {
            writeln!(f, "BROKEN {} in {id}: {}", violation.number, violation.description)?;
        }
        Ok(())
    }
}

/// Runs a test.
pub async fn run_storm(plan: StormPlan) -> StormReport {
    let shape = ClusterShape {
        servers: 2,
        workers: 3,
        slots: 8,
    };
    let cluster = TestCluster::start(shape).await;
    let client = cluster.client();
    let recorder = Arc::new(EffectRecorder::start());
    register_playbooks(&client).await;
    let table_url = cluster.effect_table.url();
    let nemesis = Nemesis::new(cluster, plan.seed);
    let time = plan.duration;
    let injection = tokio::task::spawn_blocking(move || nemesis.inject_faults(time));
    let load = start_load(&client, &plan, &recorder, &table_url);
    let (cluster, fault_log) = injection.await.expect("the nemesis does not panic");
    let faults_ended = Instant::now();
    let (load, unfinished) = wait_until_settled(&client, load, plan.settle_timeout).await;
    let settled_after = faults_ended.elapsed();
    let mut effects = recorder.effects();
    effects.extend(cluster.effect_table.counts().await);
    let oracle = Oracle::open(&client, &cluster.database_url(), effects).await;
    let output = cluster.process_output();
    let oracle_report = oracle.check_all(&load, &output, cluster.postgres.password()).await;
    let report = StormReport {
        plan,
        settled_after,
        unfinished,
        fault_log,
        oracle_report,
    };
    if !report.has_no_violations() {
        let fault_entries = report.fault_log.entries.join("\n");
        let mut stuck = String::new();
        for (id, _) in &report.unfinished {
            stuck.push_str(&format!("{id}\n{}", oracle.describe(*id).await));
        }
        let text = format!("{report}\n{fault_entries}\n\n{stuck}\n{output}");
        std::fs::write(&report.plan.output_file, text).expect("the output can be written");
    }
    report
}

/// Starts runs, evenly over the time, and sends each the control requests of its recipe.
fn start_load(
    client: &Client,
    plan: &StormPlan,
    recorder: &Arc<EffectRecorder>,
    table: &str,
) -> JoinSet<StartedExecution> {
    let mut started = JoinSet::new();
    let interval = plan.duration / u32::try_from(plan.runs.max(1)).expect("the number of runs fits");
    for n in 0..plan.runs {
        let recipe = Recipe::ALL[usize::try_from(n).expect("the number of runs fits") % Recipe::ALL.len()];
        let (client, recorder) = (client.clone(), recorder.clone());
        let table_url = table.to_owned();
        let delay = interval * u32::try_from(n).expect("the number of runs fits");
        started.spawn(async move {
            tokio::time::sleep(delay).await;
            let effect_urls = EffectUrls {
                recorder: &recorder.url(),
                table: &table_url,
            };
            let started = start_execution(&client, recipe, n, effect_urls).await;
            apply_recipe(&client, started).await;
            started
        });
    }
    started
}

/// Waits until all runs have finished or the time is up; returns the started and the unfinished runs.
async fn wait_until_settled(
    client: &Client,
    mut started: JoinSet<StartedExecution>,
    timeout: Duration,
) -> (Vec<StartedExecution>, Vec<(ExecutionId, RunStatus)>) {
    let end = Instant::now() + timeout;
    let mut load = Vec::new();
    while let Ok(Some(execution)) = tokio::time::timeout_at(end, started.join_next()).await {
        load.push(execution.expect("the load does not panic"));
    }
    loop {
        let open = open_executions(client).await;
        if open.is_empty() || Instant::now() >= end {
            return (load, open);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Runs that have not finished.
async fn open_executions(client: &Client) -> Vec<(ExecutionId, RunStatus)> {
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
