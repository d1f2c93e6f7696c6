//! The recent runs of playbooks: outcomes and durations.
//!
//! Input: the newest rows of each playbook. Output: the outcomes of the last 20, and percentiles of the durations of
//! those that completed. Each playbook costs one list of 50 rows.

use std::time::Duration;

use model::id::Name;
use model::status::RunStatus;
use store::{ExecutionFilter, ExecutionRow};
use wire::api::{RecentRuns, RunOutcome};

use crate::Server;
use crate::error::Error;

/// Number of runs whose outcomes are returned.
const OUTCOMES: usize = 20;
/// Number of runs from which the durations are computed.
const MEASURED_RUNS: usize = 50;

impl Server {
    /// The recent runs of a playbook.
    pub(crate) async fn recent_runs(&self, path: &str) -> Result<RecentRuns, Error> {
        let filter = ExecutionFilter {
            paths: vec![Name::from(path)],
            limit: MEASURED_RUNS,
            ..ExecutionFilter::default()
        };
        let rows = self.shared.store.executions(&filter).await?;
        Ok(summarize_runs(path, &rows))
    }
}

fn summarize_runs(path: &str, rows: &[ExecutionRow]) -> RecentRuns {
    let completed = rows.iter().filter(|row| row.status == RunStatus::Completed);
    let durations = completed.filter_map(|row| Some(row.finished_at?.since(row.started_at)));
    let mut durations: Vec<Duration> = durations.collect();
    durations.sort_unstable();
    let outcomes = rows.iter().take(OUTCOMES).map(|row| RunOutcome {
        execution_id: row.id,
        status: row.status,
        version: row.playbook_version,
        started_at: row.started_at,
        finished_at: row.finished_at,
    });
    RecentRuns {
        path: path.to_owned(),
        outcomes: outcomes.collect(),
        measured_runs: u32::try_from(durations.len()).unwrap_or(u32::MAX),
        p50_ms: percentile(&durations, 50),
        p95_ms: percentile(&durations, 95),
    }
}

/// The smallest duration that is not shorter than this percentage of all, in milliseconds.
fn percentile(sorted: &[Duration], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    let duration = sorted.get(rank - 1)?;
    Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_durations_that_occurred() {
        let durations: Vec<Duration> = (1..=20).map(|number| Duration::from_millis(number * 10)).collect();
        assert_eq!(percentile(&durations, 50), Some(100));
        assert_eq!(percentile(&durations, 95), Some(190));
        assert_eq!(percentile(&durations[..1], 50), Some(10));
        assert_eq!(percentile(&durations[..1], 95), Some(10));
        assert_eq!(percentile(&[], 50), None);
    }
}
