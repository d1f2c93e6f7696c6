//! Which iterations each cell covers.

use std::ops::Range;

/// Maximum number of cells; beyond it, a cell covers several iterations.
pub(crate) const CELLS_MAX: u64 = 20_000;
/// Maximum number of cells whose durations are sampled.
pub(crate) const SAMPLED_CELLS_MAX: u64 = 512;

/// Adjacent cells of the same size over a range of iterations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellLayout {
    /// The iterations.
    pub(crate) range: Range<u64>,
    /// Number of iterations that a cell covers.
    pub(crate) cell_size: u64,
}

impl CellLayout {
    /// The cells of a range; `has_durations` makes fewer cells if their durations have to be sampled.
    pub(crate) fn new(range: Range<u64>, has_durations: bool) -> Self {
        let count = range.end.saturating_sub(range.start);
        let cells_max = if has_durations && count > CELLS_MAX {
            SAMPLED_CELLS_MAX
        } else {
            CELLS_MAX
        };
        Self {
            cell_size: round_size(count.div_ceil(cells_max)),
            range,
        }
    }

    /// Number of cells.
    pub(crate) fn count(&self) -> u64 {
        (self.range.end - self.range.start).div_ceil(self.cell_size)
    }

    /// The iterations of each cell.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Range<u64>> {
        let Range { start, end } = self.range;
        let size = self.cell_size;
        (0..self.count()).map(move |cell| {
            let from = start + cell * size;
            from..(from + size).min(end)
        })
    }

    /// The cell of an iteration.
    pub(crate) fn cell_of(&self, iteration: u64) -> Option<usize> {
        let offset = self
            .range
            .contains(&iteration)
            .then(|| (iteration - self.range.start) / self.cell_size);
        offset.and_then(|cell| usize::try_from(cell).ok())
    }
}

/// The next number of the form 1, 2 or 5 times a power of ten.
fn round_size(least: u64) -> u64 {
    let mut power = 1;
    loop {
        for factor in [1, 2, 5] {
            if factor * power >= least {
                return factor * power;
            }
        }
        power *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cover_a_range_without_gaps() {
        for (range, has_durations, size, count) in [
            (0..0, false, 1, 0),
            (0..1, false, 1, 1),
            (0..20_000, true, 1, 20_000),
            (0..20_001, false, 2, 10_001),
            (5..1_000_005, false, 50, 20_000),
            (0..1_000_000, true, 2_000, 500),
            (0..10_000_000, false, 500, 20_000),
        ] {
            let layout = CellLayout::new(range.clone(), has_durations);
            assert_eq!((layout.cell_size, layout.count()), (size, count), "{range:?}");
            let cells: Vec<_> = layout.cells().collect();
            assert!(cells.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(cells.first().map(|cell| cell.start), (count > 0).then_some(range.start));
            assert_eq!(cells.last().map(|cell| cell.end), (count > 0).then_some(range.end));
            for (index, cell) in cells.iter().enumerate() {
                assert_eq!(layout.cell_of(cell.start), Some(index));
                assert_eq!(layout.cell_of(cell.end - 1), Some(index));
            }
            assert_eq!(layout.cell_of(range.end), None);
        }
    }
}
