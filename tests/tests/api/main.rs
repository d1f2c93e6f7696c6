//! The HTTP API for its clients: permissions, ingestion, streams, each test with a real listening server.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod administration;
mod browsing;
mod bulk;
mod claims;
mod control;
mod events;
mod fairness;
mod fixture;
mod fuzz;
mod inbox;
mod language;
mod loops;
mod oidc_provider;
mod older_workers;
mod permissions;
mod playbooks;
mod results;
mod sessions;
mod single_sign_on;
mod streams;
mod time_travel;
mod web_client;
mod wire;
