//! How long the iterations of a loop took, as a histogram.

use store::IterationTiming;
use wire::api::{DurationBin, LoopDurations};

use crate::Server;
use crate::error::Error;
use crate::loop_cells::cells::CellRequest;
use crate::loop_cells::sample::{EXACT_MAX, SAMPLE_BLOCKS, sample_ranges};

impl Server {
    /// The durations of the iterations of a loop; `None` if the step has no such run of a loop.
    pub(crate) async fn loop_durations(&self, request: &CellRequest) -> Result<Option<LoopDurations>, Error> {
        let Some(selected) = self.find_loop(request).await? else {
            return Ok(None);
        };
        let range = request.range_of(&selected.record);
        let is_sampled = range.end - range.start > EXACT_MAX;
        let ranges = sample_ranges(&range, EXACT_MAX, SAMPLE_BLOCKS);
        let sample = self.sample_iterations(request.execution, &selected.run, ranges).await?;
        let mut measured: Vec<(u64, bool)> = sample.timings.values().filter_map(measure).collect();
        measured.sort_unstable();
        let at_share = |percent: usize| {
            let index = (measured.len() * percent).div_ceil(100).saturating_sub(1);
            measured.get(index).map(|(duration, _)| *duration)
        };
        Ok(Some(LoopDurations {
            execution_id: request.execution,
            step: selected.run.step,
            run: selected.run.run,
            measured: measured.len() as u64,
            is_complete: sample.is_complete && !is_sampled,
            median_us: at_share(50),
            p95_us: at_share(95),
            max_us: at_share(100),
            bins: count_durations(&measured),
        }))
    }
}

fn measure(timing: &IterationTiming) -> Option<(u64, bool)> {
    Some((timing.duration_us()?, timing.is_failed))
}

/// Counts sorted durations in bins whose bounds are 0, 1, 2, 5, 10, 20, 50 and so on; there are at most 59.
fn count_durations(sorted: &[(u64, bool)]) -> Vec<DurationBin> {
    let mut bins: Vec<DurationBin> = Vec::new();
    for (duration, is_failed) in sorted {
        let mut bin = bins.pop().unwrap_or_else(|| bin_of(*duration));
        while *duration >= bin.to_us && bin.to_us < u64::MAX {
            bins.push(bin);
            bin = DurationBin {
                from_us: bin.to_us,
                to_us: next_bound(bin.to_us),
                count: 0,
                failed: 0,
            };
        }
        bin.count += 1;
        bin.failed += u64::from(*is_failed);
        bins.push(bin);
    }
    bins
}

/// The empty bin that contains a duration.
fn bin_of(duration: u64) -> DurationBin {
    let (mut from_us, mut to_us) = (0, 1);
    while duration >= to_us && to_us < u64::MAX {
        (from_us, to_us) = (to_us, next_bound(to_us));
    }
    DurationBin {
        from_us,
        to_us,
        count: 0,
        failed: 0,
    }
}

/// The bound after one of the form 1, 2 or 5 times a power of ten.
fn next_bound(bound: u64) -> u64 {
    let power = 10_u64.pow(bound.max(1).ilog10());
    match bound / power {
        2 => bound.saturating_mul(5) / 2,
        _ => bound.saturating_mul(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_adjacent_bins() {
        let bins = count_durations(&[(3, false), (4, true), (50, false), (199, false)]);
        let counted: Vec<_> = bins
            .iter()
            .map(|bin| (bin.from_us, bin.to_us, bin.count, bin.failed))
            .collect();
        assert_eq!(
            counted,
            [
                (2, 5, 2, 1),
                (5, 10, 0, 0),
                (10, 20, 0, 0),
                (20, 50, 0, 0),
                (50, 100, 1, 0),
                (100, 200, 1, 0)
            ]
        );
        assert!(count_durations(&[]).is_empty());
    }

    #[test]
    fn the_number_of_bins_is_bounded() {
        let bins = count_durations(&[(0, false), (u64::MAX, false)]);
        assert!(bins.len() <= 59, "{}", bins.len());
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 2);
    }
}
