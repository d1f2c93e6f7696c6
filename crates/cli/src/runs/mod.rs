//! Where runs are: in a store of this machine, or on a server elsewhere. Verbs ask here and know neither.

mod begin;
mod here;
mod holdings;
mod local;
mod open;
mod place;

pub(crate) use begin::{Begin, Driven, News, Watch};
pub(crate) use open::{existing, fresh};
pub(crate) use place::{Kept, Keys, Lines, Playbooks, Runs, Wanted};
