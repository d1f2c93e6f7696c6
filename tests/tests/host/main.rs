//! Problems of the host: a full or read-only disk, a damaged file, too few file descriptors, memory limits, timeouts.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod damage;
mod descriptors;
mod disk;
mod disk_bodies;
mod disk_control;
mod disk_server;
mod memory;
mod programs;
