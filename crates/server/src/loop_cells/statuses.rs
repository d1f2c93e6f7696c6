//! How many iterations of each cell have which status.
//!
//! Input: the state of a live loop, or rows of the index of iterations. Output: counts by cell.

use engine::LoopRun;
use model::command::PipelineStage;
use store::{ITERATION_BLOCK, IterationRow};
use wire::api::{ByIterationStatus, IterationStatus};

use crate::loop_cells::layout::CellLayout;

/// Number of iterations by status.
pub(crate) type StatusCounts = ByIterationStatus<u64>;

/// Counts from the state of a loop that has not ended, or that can be continued. If the loop has stopped, what has not
/// ended is cancelled.
pub(crate) fn count_in_state(layout: &CellLayout, loop_run: &LoopRun, is_stopped: bool) -> Vec<StatusCounts> {
    let idle = if is_stopped {
        IterationStatus::Cancelled
    } else {
        IterationStatus::Waiting
    };
    let cells = layout.cells().map(|cell| {
        let size = cell.end - cell.start;
        let success = loop_run.done.range_cardinality(cell.clone());
        let error = loop_run.failed.range_cardinality(cell);
        let mut counts = StatusCounts {
            success,
            error,
            ..StatusCounts::default()
        };
        *counts.get_mut(idle) = size.saturating_sub(success + error);
        counts
    });
    let mut cells: Vec<StatusCounts> = cells.collect();
    if is_stopped {
        return cells;
    }
    for (index, continuation) in loop_run.live.range(layout.range.clone()) {
        let Some(counts) = layout.cell_of(*index).and_then(|cell| cells.get_mut(cell)) else {
            continue;
        };
        let status = match continuation.stage {
            PipelineStage::Retrying { .. } => IterationStatus::Retrying,
            PipelineStage::Awaiting { .. } => IterationStatus::Waiting,
            _ if continuation.attempt > 1 => IterationStatus::Retrying,
            _ => IterationStatus::Running,
        };
        if counts.waiting > 0 {
            counts.waiting -= 1;
            *counts.get_mut(status) += 1;
        }
    }
    cells
}

/// Adds up rows of the index of iterations, which are ordered by block.
#[derive(Debug)]
pub(crate) struct IndexCounter<'a> {
    layout: &'a CellLayout,
    cells: Vec<StatusCounts>,
    /// The block whose rows are being read.
    block: u64,
    recorded: u64,
    failed: u64,
}

impl<'a> IndexCounter<'a> {
    pub(crate) fn new(layout: &'a CellLayout) -> Self {
        Self {
            layout,
            cells: layout.cells().map(|_| StatusCounts::default()).collect(),
            block: 0,
            recorded: 0,
            failed: 0,
        }
    }

    /// Adds the next row.
    pub(crate) fn add(&mut self, row: IterationRow) {
        if row.block != self.block {
            self.end_block();
            self.block = row.block;
        }
        self.recorded |= row.recorded;
        self.failed |= row.failed;
    }

    /// Adds the iterations of a block: each bit once, in whatever number of rows it was recorded.
    fn end_block(&mut self) {
        for bit in 0..ITERATION_BLOCK {
            let mask = 1 << bit;
            let status = if self.failed & mask != 0 {
                IterationStatus::Error
            } else if self.recorded & mask != 0 {
                IterationStatus::Success
            } else {
                continue;
            };
            let cell = self.layout.cell_of(self.block * ITERATION_BLOCK + bit);
            if let Some(counts) = cell.and_then(|cell| self.cells.get_mut(cell)) {
                *counts.get_mut(status) += 1;
            }
        }
        (self.recorded, self.failed) = (0, 0);
    }

    /// The counts of a loop all of whose iterations ended, from the rows with failures: the others succeeded.
    pub(crate) fn finish_done(mut self) -> Vec<StatusCounts> {
        self.end_block();
        for (counts, cell) in self.cells.iter_mut().zip(self.layout.cells()) {
            counts.success = (cell.end - cell.start).saturating_sub(counts.error);
        }
        self.cells
    }

    /// The counts of a loop that stopped early, from all rows: iterations without a row are cancelled.
    pub(crate) fn finish_stopped(mut self) -> Vec<StatusCounts> {
        self.end_block();
        cancel_the_rest(&mut self.cells, self.layout);
        self.cells
    }
}

/// Counts iterations without a status as cancelled.
pub(crate) fn cancel_the_rest(cells: &mut [StatusCounts], layout: &CellLayout) {
    for (counts, cell) in cells.iter_mut().zip(layout.cells()) {
        let counted = counts.success + counts.error;
        counts.cancelled = (cell.end - cell.start).saturating_sub(counted);
    }
}

/// The worst status of a cell.
pub(crate) fn worst_status(counts: &StatusCounts) -> IterationStatus {
    let present = IterationStatus::ALL
        .into_iter()
        .filter(|status| *counts.get(*status) > 0);
    present.max().unwrap_or(IterationStatus::Waiting)
}

#[cfg(test)]
mod tests {
    use model::command::Continuation;
    use model::event::LoopStarted;
    use model::id::Seq;
    use model::playbook::{FailureMode, LoopMode};
    use model::time::Time;

    use super::*;

    fn row(block: u64, seq: u64, recorded: u64, failed: u64) -> IterationRow {
        IterationRow {
            block,
            seq: Seq(seq),
            recorded,
            failed,
        }
    }

    fn loop_of(total: u64) -> LoopRun {
        let started = LoopStarted {
            total,
            mode: LoopMode::Parallel,
            max_in_flight: 8,
            failure: FailureMode::BestEffort,
            local: false,
            collection: None,
            collection_ref: None,
            range: None,
            sha256: String::new(),
            reused: None,
            more: false,
        };
        LoopRun::from_started(&started, Seq(1))
    }

    #[test]
    fn a_cell_has_the_worst_status_of_its_iterations() {
        let layout = CellLayout {
            range: 0..130,
            cell_size: 50,
        };
        let mut counter = IndexCounter::new(&layout);
        for row in [row(0, 5, 0b1111, 0), row(0, 9, 0b1_0000, 0b1_0000), row(1, 7, 0b1, 0)] {
            counter.add(row);
        }
        let cells = counter.finish_stopped();
        let counts: Vec<_> = cells
            .iter()
            .map(|cell| (cell.success, cell.error, cell.cancelled))
            .collect();
        assert_eq!(counts, [(4, 1, 45), (1, 0, 49), (0, 0, 30)]);
        let worst: Vec<_> = cells.iter().map(worst_status).collect();
        let [error, cancelled] = [IterationStatus::Error, IterationStatus::Cancelled];
        assert_eq!(worst, [error, cancelled, cancelled]);
    }

    #[test]
    fn a_loop_that_is_done_needs_only_its_failures() {
        let layout = CellLayout {
            range: 60..70,
            cell_size: 5,
        };
        let mut counter = IndexCounter::new(&layout);
        counter.add(row(0, 5, 1 << 63, 1 << 63));
        counter.add(row(1, 6, 0b10_0011, 0b10_0010));
        let counts: Vec<_> = counter
            .finish_done()
            .iter()
            .map(|cell| (cell.success, cell.error))
            .collect();
        assert_eq!(counts, [(4, 1), (3, 2)]);
    }

    #[test]
    fn a_live_loop_has_iterations_in_every_status() {
        let layout = CellLayout {
            range: 0..10,
            cell_size: 1,
        };
        let mut run = loop_of(10);
        run.done.insert_range(0..3);
        run.failed.insert(3);
        let staged = |stage| Continuation {
            stage,
            ..Continuation::default()
        };
        let (due, suspended) = (Time(0), true);
        run.live.insert(4, staged(PipelineStage::Started));
        run.live.insert(5, staged(PipelineStage::Retrying { due, suspended }));
        run.live.insert(6, staged(PipelineStage::Awaiting { since: Seq(1) }));
        let letters = |is_stopped| -> String {
            let cells = count_in_state(&layout, &run, is_stopped);
            cells.iter().map(|cell| worst_status(cell).letter()).collect()
        };
        assert_eq!(letters(false), "sssertwwww");
        assert_eq!(letters(true), "ssseccccccc"[..10]);
    }
}
