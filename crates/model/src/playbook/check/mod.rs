//! Checks of a playbook as a whole: what no single part can know.

mod all;
mod graph;
mod lint;
mod lookalike;
mod names;
mod statements;
mod words;

pub(crate) use all::check;
pub(crate) use lint::RESERVED;
