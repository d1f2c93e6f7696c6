//! Credentials end to end: they are encrypted, only authorized workers read them, and no output contains secrets.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod away;
mod canary;
mod derived;
mod handed;
mod keys;
mod private;
mod scan;
