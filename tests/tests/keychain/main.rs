//! Credentials end to end: what is sealed, who is given it, and that what it opens with shows nowhere.

#![allow(clippy::unwrap_used)]

mod canary;
mod handed;
mod keys;
mod scan;
