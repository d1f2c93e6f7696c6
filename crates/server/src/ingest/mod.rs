//! Ingestion: events from clients of any age become reports on commands.
//!
//! Enters: a batch of wire events of one execution. Leaves: one report to the drive, or every reason why not.
//! Checked in this order: parse, authorise, duplicate, fence, type.

mod identity;
mod intake;
mod later;
mod translate;

pub(crate) use intake::{Refused, take};
pub(crate) use later::{Deferred, accept, decide, status};
