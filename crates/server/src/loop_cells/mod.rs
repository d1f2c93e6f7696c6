//! The iterations of a loop for display: their status, and how long they took.
//!
//! Statuses come from the state of a live loop, or from the index of iterations; the log is not scanned. Durations are
//! only in the log, so of a long loop a sample is read.

mod cells;
mod durations;
mod layout;
mod records;
mod sample;
mod statuses;

pub(crate) use cells::{CellColumns, CellRequest};
pub(crate) use records::{LoopRecord, LoopRecords};
pub(crate) use sample::{EXACT_MAX, SAMPLE_BLOCKS, sample_ranges};
