//! The contracts of body stores, for every store, and of task logs, in Postgres and through a server. Also tests of faults
//! that only a network or a disk has.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

mod database;
mod database_faults;
mod http_bodies;
mod outages;
mod remote_worker;
mod space_waits;
mod stores;
mod tier;
