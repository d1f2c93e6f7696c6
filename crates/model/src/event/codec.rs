//! The form of events in the log: one JSON object per append. Fields that its events share are stored once, and default
//! values are omitted.
//!
//! Input: the events of one append, in order. Output: text that a database can expand with its JSON functions.
//! Header: `b` ID of the first event, `t` timestamp and `r` recorded time of the first event in microseconds, `s` and `n`
//! step and run of the first event that has a step, `w` the first worker, `z` the trace if it is not the default, `e` the
//! events. Last, `y`: a checksum (CRC-32) of the execution, the first seq and the text before it.
//! Event: `k` kind, `i` ID minus `b` (default: its index), `t` and `r` microseconds after those of the header (default:
//! 0), `c` cause (default: the previous event; 0: none), `o` 1 if the source is the worker (default: the server), `w`
//! worker (default: that of the header if `o` is 1, otherwise none), `s` and `n` step and run (default: those of the
//! header; an empty `s`: none), `x` iteration, `l` task, `v` visit and `a` attempt (default: 1 with a task, otherwise 0),
//! `g` page, `d` duration in milliseconds, `m` meta, `p` payload (default: empty).

mod checksum;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{CodecError, EventHead, Unpacked, unpack, unpack_selected};
pub use write::{PackedAppend, pack};
