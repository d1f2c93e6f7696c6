//! The HTTP API as its clients meet it: permissions, ingestion, streams, each against a real listening server.

mod events;
mod fuzz;
mod permissions;
mod site;
mod streams;
