//! The iterations of a loop over time: a band of counts, and the iterations to look at.

use std::collections::BTreeMap;

use model::time::Time;
use store::IterationTiming;
use wire::api::{ByIterationStatus, IterationStatus, TimelineIteration};

/// Number of bins of a band.
const BINS: i64 = 120;
/// Maximum number of iterations that are listed.
const LISTED_MAX: usize = 50;
/// Maximum number of failed iterations among them.
pub(super) const FAILED_LISTED_MAX: usize = 25;

/// The ends of iterations by time.
pub(super) struct LoopBand {
    pub(super) bin_us: u64,
    pub(super) counts: ByIterationStatus<Vec<u64>>,
}

/// Counts the iterations that ended in each bin between two times.
pub(super) fn count_ends<'a>(timings: impl Iterator<Item = &'a IterationTiming>, from: Time, until: Time) -> LoopBand {
    let length = until.0.saturating_sub(from.0).max(0);
    let bin = (length / BINS) + 1;
    let mut counts: ByIterationStatus<Vec<u64>> = ByIterationStatus::default();
    for timing in timings {
        let Some(ended_at) = timing.ended_at else { continue };
        let number = (ended_at.0.saturating_sub(from.0) / bin).clamp(0, BINS - 1);
        let column = counts.get_mut(status_of(timing));
        column.resize(usize::try_from(BINS).unwrap_or(0), 0);
        if let Some(count) = usize::try_from(number).ok().and_then(|number| column.get_mut(number)) {
            *count += 1;
        }
    }
    LoopBand {
        bin_us: bin.unsigned_abs(),
        counts,
    }
}

/// The failed iterations and the slowest of the others, in the order of their start.
pub(super) fn list_iterations(
    failed: &BTreeMap<u64, IterationTiming>,
    measured: &BTreeMap<u64, IterationTiming>,
) -> Vec<TimelineIteration> {
    let failed = failed.iter().take(FAILED_LISTED_MAX);
    let mut listed: Vec<(u64, IterationTiming)> = failed.map(|(index, timing)| (*index, *timing)).collect();
    let mut others: Vec<(u64, IterationTiming)> = measured
        .iter()
        .filter(|(index, timing)| timing.ended_at.is_some() && listed.iter().all(|(other, _)| other != *index))
        .map(|(index, timing)| (*index, *timing))
        .collect();
    others.sort_by_key(|(index, timing)| (std::cmp::Reverse(timing.duration_us()), *index));
    listed.extend(others.into_iter().take(LISTED_MAX.saturating_sub(listed.len())));
    listed.sort_by_key(|(index, timing)| (timing.started_at, *index));
    let iterations = listed.into_iter().map(|(iteration, timing)| TimelineIteration {
        iteration,
        status: status_of(&timing),
        started_at: timing.started_at,
        ended_at: timing.ended_at,
        attempts: timing.attempts,
    });
    iterations.collect()
}

fn status_of(timing: &IterationTiming) -> IterationStatus {
    match (timing.ended_at, timing.is_failed) {
        (None, _) => IterationStatus::Retrying,
        (Some(_), true) => IterationStatus::Error,
        (Some(_), false) => IterationStatus::Success,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(from: i64, until: i64, is_failed: bool) -> IterationTiming {
        IterationTiming {
            started_at: Some(Time(from)),
            ended_at: Some(Time(until)),
            is_failed,
            attempts: 1,
        }
    }

    #[test]
    fn ends_are_counted_by_time_and_status() {
        let timings = [timing(0, 0, false), timing(0, 599, true), timing(0, 5_000, false)];
        let band = count_ends(timings.iter(), Time(0), Time(600));
        assert_eq!(band.bin_us, 6);
        assert_eq!((band.counts.success[0], band.counts.success[119]), (1, 1));
        assert_eq!((band.counts.error[99], band.counts.error.iter().sum::<u64>()), (1, 1));
        assert!(band.counts.cancelled.is_empty());
    }

    #[test]
    fn failed_and_slow_iterations_are_listed_up_to_a_limit() {
        let measured: BTreeMap<u64, IterationTiming> = (0..200_u64)
            .map(|index| (index, timing(0, 1_000 - index.cast_signed(), index % 50 == 49)))
            .collect();
        let failed: BTreeMap<u64, IterationTiming> =
            (0..40).map(|index| (index * 50 + 49, timing(0, 5, true))).collect();
        let listed = list_iterations(&failed, &measured);
        assert_eq!(listed.len(), 50);
        let failures = listed.iter().filter(|entry| entry.status == IterationStatus::Error);
        assert_eq!(failures.count(), 25);
        assert!(listed.iter().any(|entry| entry.iteration == 0));
        assert!(!listed.iter().any(|entry| entry.iteration == 100));
    }
}
