//! Progress of a run on standard error: live on a terminal, otherwise one plain line for each change.

mod display;
mod live;
mod plain;

pub(crate) use display::{Progress, RunDescription};
