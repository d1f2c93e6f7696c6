//! The HTTP API as its clients meet it: permissions, ingestion, streams, each against a real listening server.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod claims;
mod control;
mod events;
mod fairness;
mod fuzz;
mod permissions;
mod results;
mod sessions;
mod site;
mod streams;
mod wire;
