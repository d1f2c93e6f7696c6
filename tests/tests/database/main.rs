//! The `postgres` tool against a real server.

mod appendix;
mod calls;
mod cursor;
mod effect;
mod failures;
mod fixture;
mod injection;
mod large;
mod placement;
mod pools;
mod types;
