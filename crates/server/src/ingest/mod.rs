//! Ingestion: events from clients of any age become reports on commands.
//!
//! Enters: a batch of wire events of one execution. Leaves: one report to the drive, or every reason why not.
//! Checked in this order: parse, authorise, duplicate, fence, type.

mod identity;
mod intake;
mod later;
mod outcome;
mod translate;

pub(crate) use intake::{IncomingEvents, Refused, needs_no_row, take};
pub(crate) use later::{Deferred, accept, decide, status};
