//! Metrics: one table of all names. Counters and gauges are rendered from the start, with the value zero; the histogram
//! is rendered after the first commit.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Commits that became durable.
pub(crate) const COMMITS: &str = "noetl_commits_total";
/// Events that became durable.
pub(crate) const EVENTS: &str = "noetl_events_total";
/// Commands assigned to workers.
pub(crate) const COMMANDS_CLAIMED: &str = "noetl_commands_claimed_total";
/// Reports rejected because their lease had expired.
pub(crate) const REPORTS_FENCED: &str = "noetl_reports_fenced_total";
/// Commands reassigned because the lease of their worker expired.
pub(crate) const CLAIMS_LOST: &str = "noetl_claims_lost_total";
/// Commits that failed because the log had changed.
pub(crate) const COMMITS_MOVED: &str = "noetl_commits_moved_total";
/// Commits that failed because the store was unavailable.
pub(crate) const STORE_FAILURES: &str = "noetl_store_failures_total";
/// Rows removed after their retention time.
pub(crate) const OLD_ROWS_REMOVED: &str = "noetl_old_rows_removed_total";
/// Executions in memory.
pub(crate) const EXECUTIONS_IN_MEMORY: &str = "noetl_executions_in_memory";
/// Duration of a batch of commits.
pub(crate) const COMMIT_SECONDS: &str = "noetl_commit_seconds";

const COUNTERS: [(&str, &str); 8] = [
    (COMMITS, "commits that became durable"),
    (EVENTS, "events that became durable"),
    (COMMANDS_CLAIMED, "commands assigned to workers"),
    (REPORTS_FENCED, "reports rejected because their lease had expired"),
    (
        CLAIMS_LOST,
        "commands reassigned because the lease of their worker expired",
    ),
    (COMMITS_MOVED, "commits that failed because the log had changed"),
    (STORE_FAILURES, "commits that failed because the store was unavailable"),
    (OLD_ROWS_REMOVED, "rows removed after their retention time"),
];

const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];

/// Renders the metrics of this process.
pub(crate) struct MetricsRenderer {
    handle: Option<PrometheusHandle>,
}

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

impl MetricsRenderer {
    /// Installs the recorder on the first call; all servers of the process share it.
    pub(crate) fn new() -> Self {
        let handle = RECORDER.get_or_init(|| {
            let builder = PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Full(COMMIT_SECONDS.to_owned()), &BUCKETS)
                .ok()?;
            let handle = builder.install_recorder().ok()?;
            for (name, text) in COUNTERS {
                metrics::describe_counter!(name, text);
                metrics::counter!(name).increment(0);
            }
            metrics::describe_gauge!(EXECUTIONS_IN_MEMORY, "executions in memory");
            metrics::gauge!(EXECUTIONS_IN_MEMORY).set(0.0);
            metrics::describe_histogram!(COMMIT_SECONDS, "duration of a batch of commits");
            Some(handle)
        });
        Self { handle: handle.clone() }
    }

    /// The metrics in the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        match &self.handle {
            Some(handle) => {
                handle.run_upkeep();
                handle.render()
            }
            None => String::new(),
        }
    }
}
