//! The cells of a run of a loop.
//!
//! Input: a [`CellRequest`]. Output: [`LoopCells`]. The cost grows with the number of failed iterations if the loop is
//! done, and with the number of index rows if it stopped early; both are limited by [`ROWS_MAX`].

use std::ops::Range;

use engine::Phase;
use model::id::{ExecutionId, Name, StepRunId};
use store::{IterationRowQuery, IterationTiming};
use wire::api::{ByIterationStatus, IterationStatus, LoopCells};

use crate::Server;
use crate::error::Error;
use crate::loading;
use crate::loop_cells::layout::CellLayout;
use crate::loop_cells::records::{LoopRecord, LoopRecords};
use crate::loop_cells::sample::{EXACT_MAX, IterationSample, middle_block, split_range};
use crate::loop_cells::statuses::{IndexCounter, StatusCounts, cancel_the_rest, count_in_state, worst_status};

/// Number of rows of the index that are read at a time.
const PAGE_ROWS: usize = 50_000;
/// Maximum number of rows of the index that one request reads.
const ROWS_MAX: usize = 3_000_000;
/// Maximum number of runs of a loop that are listed.
const RUNS_MAX: usize = 100;

/// The values of cells besides their statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellColumns {
    /// None.
    Statuses,
    /// Durations and attempts.
    Timings,
}

/// Which iterations to show.
#[derive(Debug, Clone)]
pub(crate) struct CellRequest {
    /// The execution.
    pub(crate) execution: ExecutionId,
    /// The step.
    pub(crate) step: Name,
    /// The run of the step; `None` means the latest.
    pub(crate) run: Option<u32>,
    /// The first iteration.
    pub(crate) from: u64,
    /// Maximum number of iterations.
    pub(crate) limit: u64,
}

impl CellRequest {
    /// The iterations of a loop that are requested.
    pub(crate) fn range_of(&self, record: &LoopRecord) -> Range<u64> {
        let from = self.from.min(record.total);
        from..from.saturating_add(self.limit).min(record.total)
    }
}

/// The run of a loop that a request selects.
pub(crate) struct SelectedLoop {
    pub(crate) run: StepRunId,
    pub(crate) record: LoopRecord,
    /// All runs of the step that are loops.
    runs: Vec<u32>,
}

/// The counts of all cells.
struct CountedCells {
    cells: Vec<StatusCounts>,
    is_complete: bool,
}

impl Server {
    /// The cells of a loop; `None` if the step has no such run of a loop.
    pub(crate) async fn loop_cells(
        &self,
        request: &CellRequest,
        columns: CellColumns,
    ) -> Result<Option<LoopCells>, Error> {
        let Some(selected) = self.find_loop(request).await? else {
            return Ok(None);
        };
        let has_timings = columns == CellColumns::Timings;
        let layout = CellLayout::new(request.range_of(&selected.record), has_timings);
        let counted = self.count_statuses(request.execution, &selected, &layout).await?;
        let sample = if has_timings {
            let ranges = measured_ranges(&layout);
            Some(self.sample_iterations(request.execution, &selected.run, ranges).await?)
        } else {
            None
        };
        let sample = sample.as_ref();
        Ok(Some(LoopCells {
            execution_id: request.execution,
            step: selected.run.step,
            run: selected.run.run,
            runs: selected.runs,
            total: selected.record.total,
            may_grow: selected.record.may_grow,
            from: layout.range.start,
            to: layout.range.end,
            cell_size: layout.cell_size,
            statuses: counted.cells.iter().map(|cell| worst_status(cell).letter()).collect(),
            counts: if layout.cell_size > 1 {
                to_columns(&counted.cells)
            } else {
                ByIterationStatus::default()
            },
            totals: add_up(&counted.cells),
            durations_us: sample.map(|sample| longest(&layout, sample, IterationTiming::duration_us)),
            attempts: sample.map(|sample| longest(&layout, sample, |timing| Some(timing.attempts))),
            is_complete: counted.is_complete,
            is_sampled: sample.is_some_and(|sample| layout.cell_size > 1 || !sample.is_complete),
        }))
    }

    /// Finds a run of a loop in the outline.
    pub(super) async fn find_loop(&self, request: &CellRequest) -> Result<Option<SelectedLoop>, Error> {
        let mut records = LoopRecords::default();
        self.read_outline(request.execution, |event| records.fold(&event))
            .await?;
        let mut loops = records.loops;
        loops.retain(|run, _| run.step == request.step);
        let runs: Vec<u32> = loops.keys().map(|run| run.run).collect();
        let wanted = request.run.or(runs.last().copied());
        let selected = loops.into_iter().find(|(run, _)| Some(run.run) == wanted);
        Ok(selected.map(|(run, record)| SelectedLoop {
            run,
            record,
            runs: runs[runs.len().saturating_sub(RUNS_MAX)..].to_vec(),
        }))
    }

    async fn count_statuses(
        &self,
        id: ExecutionId,
        selected: &SelectedLoop,
        layout: &CellLayout,
    ) -> Result<CountedCells, Error> {
        if selected.record.is_done {
            let (counter, is_complete) = self.count_rows(id, selected, layout).await?;
            let cells = counter.finish_done();
            return Ok(CountedCells { cells, is_complete });
        }
        let state = loading::load_state(&*self.shared.store, id).await?;
        if let Some(state) = &state
            && let Some(run) = state.run(&selected.run)
            && let Some(loop_run) = &run.loop_
        {
            let is_stopped = state.phase != Phase::Live || run.held || run.boundary.is_some();
            let cells = count_in_state(layout, loop_run, is_stopped);
            let is_complete = true;
            return Ok(CountedCells { cells, is_complete });
        }
        drop(state);
        self.count_stopped(id, selected, layout).await
    }

    /// Counts the iterations of a loop that stopped early. The rows of the index do not tell an iteration that ended from
    /// one that was stopped between two tasks, so the log of a short range is read.
    async fn count_stopped(
        &self,
        id: ExecutionId,
        selected: &SelectedLoop,
        layout: &CellLayout,
    ) -> Result<CountedCells, Error> {
        let range = &layout.range;
        let mut counted = if range.end - range.start <= EXACT_MAX {
            let sample = self.sample_iterations(id, &selected.run, split_range(range)).await?;
            CountedCells {
                cells: count_timings(layout, &sample),
                is_complete: sample.is_complete,
            }
        } else {
            let (counter, _) = self.count_rows(id, selected, layout).await?;
            CountedCells {
                cells: counter.finish_stopped(),
                is_complete: false,
            }
        };
        let reused = selected.record.reused.iter();
        let reused = reused.flat_map(|reused| reused.start.max(range.start)..reused.end.min(range.end));
        for cell in reused.filter_map(|index| layout.cell_of(index)) {
            if let Some(counts) = counted.cells.get_mut(cell).filter(|counts| counts.cancelled > 0) {
                counts.cancelled -= 1;
                counts.success += 1;
            }
        }
        Ok(counted)
    }

    /// Reads rows of the index: those with failures if all iterations ended, otherwise all. Returns whether there are no
    /// more than the maximum.
    async fn count_rows<'l>(
        &self,
        id: ExecutionId,
        selected: &SelectedLoop,
        layout: &'l CellLayout,
    ) -> Result<(IndexCounter<'l>, bool), Error> {
        let mut counter = IndexCounter::new(layout);
        if layout.range.is_empty() {
            return Ok((counter, true));
        }
        let mut query = IterationRowQuery::of_iterations(&layout.range, selected.record.is_done, PAGE_ROWS);
        let mut row_count = 0;
        loop {
            let rows = self.shared.store.iteration_rows(id, &selected.run, &query).await?;
            row_count += rows.len();
            let is_last_page = rows.len() < PAGE_ROWS;
            if let Some(last) = rows.last() {
                query.after = (last.block, last.seq);
            }
            for row in rows {
                counter.add(row);
            }
            if is_last_page || row_count >= ROWS_MAX {
                return Ok((counter, is_last_page));
            }
        }
    }
}

/// The ranges whose durations are read: all iterations if each has a cell, otherwise a block of each cell.
fn measured_ranges(layout: &CellLayout) -> Vec<Range<u64>> {
    if layout.cell_size == 1 {
        return split_range(&layout.range);
    }
    layout.cells().map(|cell| middle_block(&cell)).collect()
}

fn count_timings(layout: &CellLayout, sample: &IterationSample) -> Vec<StatusCounts> {
    let mut cells: Vec<StatusCounts> = layout.cells().map(|_| StatusCounts::default()).collect();
    for (index, timing) in sample.timings.iter().filter(|(_, timing)| timing.ended_at.is_some()) {
        let status = if timing.is_failed {
            IterationStatus::Error
        } else {
            IterationStatus::Success
        };
        if let Some(counts) = layout.cell_of(*index).and_then(|cell| cells.get_mut(cell)) {
            *counts.get_mut(status) += 1;
        }
    }
    cancel_the_rest(&mut cells, layout);
    cells
}

/// The largest value in each cell.
fn longest<T: Ord + Copy>(
    layout: &CellLayout,
    sample: &IterationSample,
    value_of: impl Fn(&IterationTiming) -> Option<T>,
) -> Vec<Option<T>> {
    let mut column: Vec<Option<T>> = layout.cells().map(|_| None).collect();
    for (index, timing) in &sample.timings {
        if let Some(cell) = layout.cell_of(*index).and_then(|cell| column.get_mut(cell)) {
            *cell = (*cell).max(value_of(timing));
        }
    }
    column
}

fn to_columns(cells: &[StatusCounts]) -> ByIterationStatus<Vec<u64>> {
    let mut columns = ByIterationStatus::default();
    for status in IterationStatus::ALL {
        if cells.iter().any(|counts| *counts.get(status) > 0) {
            *columns.get_mut(status) = cells.iter().map(|counts| *counts.get(status)).collect();
        }
    }
    columns
}

fn add_up(cells: &[StatusCounts]) -> StatusCounts {
    let mut totals = StatusCounts::default();
    for status in IterationStatus::ALL {
        *totals.get_mut(status) = cells.iter().map(|counts| *counts.get(status)).sum();
    }
    totals
}
