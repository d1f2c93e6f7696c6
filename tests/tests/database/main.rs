//! The `postgres` tool against a real server.

mod appendix;
mod calls;
mod cursor;
mod effect;
mod failures;
mod house;
mod injection;
mod large;
mod placing;
mod pools;
mod types;
