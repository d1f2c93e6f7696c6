//! Concurrent requests, servers that share a store, and memory bounds: responses state what happened, servers run what
//! was committed, and no worker stays assigned to work that no longer exists.

mod bounds;
mod clock;
mod control;
mod dedup;
mod forwarding;
mod node;
mod ownership;
mod retention;
mod sessions;
