//! Progress on standard error while a run goes on: live on a terminal, one plain line per change elsewhere.

mod live;
mod plain;
mod show;

pub(crate) use show::{Progress, Subject};
