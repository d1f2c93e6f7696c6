//! Where in the log the events of an iteration are: around its recorded ends, which are indexed.

use model::id::{ExecutionId, Name, Seq};

use super::SearchRange;
use crate::Server;
use crate::error::Error;

/// Number of events before the first recorded end that are searched for the start of the iteration.
const BEFORE_FIRST: u64 = 10_000;
/// Number of events before each other recorded end that are searched, and after the last one.
const AROUND: u64 = 500;
/// Maximum number of recorded ends around which events are searched: the latest ones.
const ENDS_MAX: usize = 20;

/// Finds the parts of the log to search for the events of an iteration, in order and apart from each other.
pub(super) async fn find_ranges(
    server: &Server,
    id: ExecutionId,
    step: &Name,
    iteration: u64,
) -> Result<Vec<SearchRange>, Error> {
    let store = &server.shared.store;
    let mut ends = Vec::new();
    for progress in store.loops(id).await? {
        if progress.run.step == *step {
            let events = store
                .iteration_events(id, &progress.run, iteration..iteration + 1)
                .await?;
            ends.extend(events.iter().map(|event| event.seq));
        }
    }
    if ends.is_empty() {
        // The iteration has no recorded end, so its start is near the end of the log or nowhere.
        let newest = store.execution(id).await?.ok_or(Error::NotFound(id))?.version;
        ends.push(newest);
    }
    ends.sort_unstable();
    Ok(ranges_around(&ends))
}

/// The ranges around recorded ends, merged where they touch.
fn ranges_around(ends: &[Seq]) -> Vec<SearchRange> {
    let first_of_latest = ends.len().saturating_sub(ENDS_MAX);
    let mut ranges: Vec<SearchRange> = Vec::new();
    for (index, end) in ends.iter().enumerate().skip(first_of_latest) {
        let before = if index == first_of_latest { BEFORE_FIRST } else { AROUND };
        let after = Seq(end.0.saturating_sub(before));
        let until = Seq(end.0 + if index + 1 == ends.len() { AROUND } else { 0 });
        match ranges.last_mut() {
            Some(last) if after <= last.until => last.until = until,
            _ => ranges.push(SearchRange { after, until }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_merged() {
        let ranges = |ends: &[u64]| {
            let ends: Vec<Seq> = ends.iter().map(|seq| Seq(*seq)).collect();
            let ranges = ranges_around(&ends).into_iter();
            ranges.map(|range| (range.after.0, range.until.0)).collect::<Vec<_>>()
        };
        assert_eq!(ranges(&[300]), [(0, 800)]);
        assert_eq!(ranges(&[20_000, 20_100]), [(10_000, 20_600)]);
        assert_eq!(ranges(&[20_000, 90_000]), [(10_000, 20_000), (89_500, 90_500)]);
        assert_eq!(ranges(&[]), []);
    }

    #[test]
    fn the_number_of_searched_events_is_bounded() {
        let ends: Vec<Seq> = (1..=1_000).map(|index| Seq(index * 100_000)).collect();
        let searched: u64 = ranges_around(&ends)
            .iter()
            .map(|range| range.until.0 - range.after.0)
            .sum();
        assert_eq!(searched, BEFORE_FIRST + 20 * AROUND);
    }
}
