//! Bodies and task logs keep their contracts in Postgres and through a server, and what only a network can get wrong.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod database;
mod elsewhere;
mod faults;
mod served;
