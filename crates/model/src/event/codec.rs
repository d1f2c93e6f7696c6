//! The form of events in the log: one JSON object per append, shared envelope fields hoisted, defaults left out.
//!
//! Enters: the events of one append, in order. Leaves: text a database can expand with its JSON functions.
//! Header: `b` first event id, `t` timestamp and `r` recorded time of the first event in microseconds, `s` `n` step
//! and run of the first event that has a step, `w` the first worker, `z` the trace where one was given, `e` the events. Last,
//! `y`: a checksum (CRC-32) of the execution, the first seq and the text before it.
//! Event: `k` kind, `i` id less `b` (left out: its index), `t` and `r` microseconds after the header's (left out: 0),
//! `c` cause (left out: the event before; 0: none), `o` 1 for the worker as source (left out: the server), `w` worker
//! (left out: the header's if `o`, else none), `s` and `n` step and run (left out: the header's; `s` empty: none),
//! `x` iteration, `l` task, `v` visit and `a` attempt (left out: 1 with a task, else 0), `g` page, `d` duration in
//! milliseconds, `m` meta, `p` payload (left out: empty).

mod checksum;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{CodecError, EventHead, Unpacked, unpack, unpack_wanted};
pub use write::{PackedAppend, pack};
