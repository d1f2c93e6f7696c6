//! Backends for runs: a local store or a remote server. Commands use the traits of this module for both.

mod begin;
mod here;
mod holdings;
mod local;
mod open;
mod place;

pub(crate) use begin::{Begin, Driven, News, Watch};
pub(crate) use open::{existing, fresh};
pub(crate) use place::{Kept, Keys, Lines, Playbooks, Runs, Wanted};
