//! Credentials end to end: they are encrypted, only authorized workers read them, and no output contains secrets.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod canary;
mod derived;
mod keys;
mod outages;
mod private;
mod scan;
mod secret_delivery;
