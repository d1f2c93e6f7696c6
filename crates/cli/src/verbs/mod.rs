//! One module for each command: takes its arguments and returns the exit code.

pub(crate) mod catalog;
pub(crate) mod completions;
pub(crate) mod context;
pub(crate) mod control;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod gc;
pub(crate) mod graph;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod open;
pub(crate) mod register;
pub(crate) mod rerun;
pub(crate) mod result;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod token;
pub(crate) mod validate;
pub(crate) mod worker;
