//! When iterations ran: of a short range all of them, of a long one a sample.

use std::collections::BTreeMap;
use std::ops::Range;

use model::id::{ExecutionId, StepRunId};
use store::{ITERATION_BLOCK, IterationTiming};

use crate::Server;
use crate::error::Error;

/// Maximum number of iterations that are all measured.
pub(crate) const EXACT_MAX: u64 = 20_000;
/// Number of blocks of 64 iterations that are measured of a longer range.
pub(crate) const SAMPLE_BLOCKS: u64 = 256;
/// Number of iterations whose appends are read at a time.
const ITERATIONS_AT_ONCE: u64 = 1_024;
/// Maximum number of appends of the log that one request reads.
const APPENDS_MAX: usize = 50_000;

/// Measured iterations.
#[derive(Debug, Default)]
pub(crate) struct IterationSample {
    /// When each ran.
    pub(crate) timings: BTreeMap<u64, IterationTiming>,
    /// Whether all appends that record them were read.
    pub(crate) is_complete: bool,
}

impl Server {
    /// Measures the iterations of these ranges of a loop run.
    pub(crate) async fn sample_iterations(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        ranges: Vec<Range<u64>>,
    ) -> Result<IterationSample, Error> {
        let mut sample = IterationSample {
            timings: BTreeMap::new(),
            is_complete: true,
        };
        let mut appends_left = APPENDS_MAX;
        for range in ranges {
            if appends_left == 0 {
                sample.is_complete = false;
                break;
            }
            let read = self
                .shared
                .store
                .iteration_timings(id, run, range, appends_left)
                .await?;
            appends_left = appends_left.saturating_sub(read.appends);
            sample.is_complete &= read.is_complete;
            sample.timings.extend(read.timings);
        }
        Ok(sample)
    }
}

/// The ranges to measure: everything up to `exact_max` iterations, or else this many blocks at equal distances.
pub(crate) fn sample_ranges(range: &Range<u64>, exact_max: u64, blocks: u64) -> Vec<Range<u64>> {
    let Range { start, end } = *range;
    let count = end.saturating_sub(start);
    if count <= exact_max {
        return split_range(range);
    }
    let distance = count / blocks.max(1);
    let starts = (0..blocks).map(|block| start + block * distance);
    starts
        .map(|from| middle_block(&(from..(from + distance).min(end))))
        .collect()
}

/// A range in parts that are read at a time.
pub(super) fn split_range(range: &Range<u64>) -> Vec<Range<u64>> {
    let Range { start, end } = *range;
    let parts = end.saturating_sub(start).div_ceil(ITERATIONS_AT_ONCE);
    let starts = (0..parts).map(|part| start + part * ITERATIONS_AT_ONCE);
    starts.map(|from| from..(from + ITERATIONS_AT_ONCE).min(end)).collect()
}

/// At most 64 iterations in the middle of a range, in one block of the index if the range has a whole one.
pub(super) fn middle_block(range: &Range<u64>) -> Range<u64> {
    let middle = range.start + (range.end - range.start) / 2;
    let from = (middle / ITERATION_BLOCK * ITERATION_BLOCK).max(range.start);
    from..(from + ITERATION_BLOCK).min(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_range_is_measured_completely() {
        assert_eq!(
            sample_ranges(&(10..3_000), 20_000, 256),
            [10..1_034, 1_034..2_058, 2_058..3_000]
        );
        assert!(sample_ranges(&(7..7), 20_000, 256).is_empty());
    }

    #[test]
    fn a_long_range_is_sampled_evenly() {
        for end in [20_001, 50_000, 1_000_000, 10_000_000] {
            let ranges = sample_ranges(&(0..end), 20_000, 256);
            assert_eq!(ranges.len(), 256, "{end}");
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{end}");
            assert!(ranges.iter().all(|range| (1..=64).contains(&(range.end - range.start))));
            assert!(
                ranges[0].start < end / 100 && ranges[255].end > end - end / 100,
                "{end}"
            );
        }
    }
}
