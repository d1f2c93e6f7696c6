//! Checks that need the whole playbook.

mod all;
mod graph;
mod lint;
mod lookalike;
mod names;
mod statements;
mod words;

pub(crate) use all::check;
pub(crate) use lint::RESERVED;
