//! Bodies keep their contract in every store, task logs in Postgres and through a server; and what only a network or a
//! disk can get wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

mod database;
mod database_faults;
mod http_bodies;
mod outages;
mod remote_worker;
mod space_waits;
mod stores;
mod tier;
