//! Requests that race, servers that share a store, and what must level off: answers say what happened, what is driven is
//! what was committed, and no worker stays assigned to work that is gone.

mod bounds;
mod clock;
mod control;
mod dedup;
mod forwarding;
mod node;
mod ownership;
mod retention;
mod sessions;
