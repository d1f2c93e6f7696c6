//! Reads the timeline of a run.

use model::id::{ExecutionId, StepRunId};
use model::time::Time;
use store::LoopProgress;
use wire::api::{ExecutionTimeline, TimelineLoop, TimelineStep};

use crate::Server;
use crate::error::Error;
use crate::loop_cells::{EXACT_MAX, LoopRecord, LoopRecords, SAMPLE_BLOCKS, sample_ranges};
use crate::timeline::loop_band::{FAILED_LISTED_MAX, count_ends, list_iterations};
use crate::timeline::rows::TimelineRows;

/// Maximum number of loops with a band. They share the number of iterations that are measured.
const LOOPS_MAX: usize = 20;

/// A run of a loop, and the time until which it is shown.
struct TimedLoop<'a> {
    run: &'a StepRunId,
    record: &'a LoopRecord,
    until: Time,
}

/// How many iterations of each loop are measured.
#[derive(Clone, Copy)]
struct SampleSize {
    /// Maximum number of iterations of a loop that is measured completely.
    exact_max: u64,
    /// Number of blocks that are measured of a longer one.
    blocks: u64,
}

impl Server {
    /// The timeline of a run.
    pub(crate) async fn execution_timeline(&self, id: ExecutionId) -> Result<ExecutionTimeline, Error> {
        let store = &self.shared.store;
        let row = store.execution(id).await?.ok_or(Error::NotFound(id))?;
        let progress = store.loops(id).await?;
        let (mut rows, mut records) = (TimelineRows::default(), LoopRecords::default());
        let end = self
            .read_outline(id, |event| {
                rows.fold(&event);
                records.fold(&event);
            })
            .await?;
        let now = store.now();
        let (mut steps, has_all_rows) = rows.finish();
        let loop_count = records.loops.len();
        let shared_by = loop_count.clamp(1, LOOPS_MAX) as u64;
        let size = SampleSize {
            exact_max: EXACT_MAX / shared_by,
            blocks: SAMPLE_BLOCKS / shared_by,
        };
        for (run, record) in records.loops.iter().take(LOOPS_MAX) {
            let is_same = |step: &&mut TimelineStep| step.step == run.step && step.run == run.run;
            let Some(step) = steps.iter_mut().find(is_same) else {
                continue;
            };
            let until = step.ended_at.unwrap_or(now);
            let timed = TimedLoop { run, record, until };
            let mut loop_ = self.timeline_loop(id, timed, size).await?;
            if let Some(counts) = progress.iter().find(|counts| counts.run == *run) {
                add_progress(&mut loop_, counts);
            }
            step.loop_ = Some(loop_);
        }
        Ok(ExecutionTimeline {
            execution_id: id,
            seq: end.seq,
            status: row.status,
            started_at: row.started_at,
            ended_at: row.finished_at,
            now,
            is_complete: end.is_complete && has_all_rows && loop_count <= LOOPS_MAX,
            steps,
        })
    }

    /// The band of a loop, from a sample of this size.
    async fn timeline_loop(
        &self,
        id: ExecutionId,
        timed: TimedLoop<'_>,
        size: SampleSize,
    ) -> Result<TimelineLoop, Error> {
        let TimedLoop { run, record, until } = timed;
        let ranges = sample_ranges(&(0..record.total), size.exact_max, size.blocks);
        let sample = self.sample_iterations(id, run, ranges).await?;
        let failed = self.shared.store.failed_iterations(id, run, FAILED_LISTED_MAX).await?;
        let failed = failed.into_iter().map(|index| index..index + 1).collect();
        let failed = self.sample_iterations(id, run, failed).await?;
        // The listed failures are in the band even if they are not in the sample.
        let mut timings = failed.timings.clone();
        timings.extend(&sample.timings);
        let band = count_ends(timings.values(), record.started_at, until);
        let measured = timings.values().filter(|timing| timing.ended_at.is_some());
        Ok(TimelineLoop {
            total: record.total,
            succeeded: 0,
            failed: 0,
            from: record.started_at,
            bin_us: band.bin_us,
            band: band.counts,
            measured: measured.count() as u64,
            is_complete: sample.is_complete && record.total <= size.exact_max,
            iterations: list_iterations(&failed.timings, &sample.timings),
        })
    }
}

fn add_progress(loop_: &mut TimelineLoop, counts: &LoopProgress) {
    loop_.succeeded = counts.succeeded;
    loop_.failed = counts.failed;
}
