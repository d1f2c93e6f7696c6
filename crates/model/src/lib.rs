//! Types shared by all crates: ids, events, outcomes, commands, references to results.
//!
//! Pure: no I/O, clock, randomness or environment.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cache;
pub mod command;
pub mod ctx;
pub mod duration;
pub mod event;
pub mod id;
pub mod labels;
pub mod manifest;
pub mod merge;
pub mod nats_version;
pub mod number_range;
pub mod outcome;
pub mod playbook;
pub mod raw;
pub mod result_ref;
pub mod size;
pub mod source;
pub mod status;
pub mod steady_time;
pub mod step_pointer;
pub mod task_log;
pub mod time;
pub mod userinfo;
