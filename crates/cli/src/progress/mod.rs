//! Progress of a run on standard error: live on a terminal, otherwise one plain line for each change.

mod live;
mod plain;
mod show;

pub(crate) use show::{Progress, Subject};
