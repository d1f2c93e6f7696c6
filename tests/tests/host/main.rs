//! The machine underneath: a disk that is full or read-only, a damaged file, too few descriptors, a step out of time.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod damage;
mod descriptors;
mod disk;
mod disk_bodies;
mod disk_control;
mod disk_server;
mod memory;
mod programs;
