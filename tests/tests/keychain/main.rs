//! Credentials end to end: what is sealed, who is given it, and that what it opens with shows nowhere.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod away;
mod canary;
mod derived;
mod handed;
mod keys;
mod private;
mod scan;
