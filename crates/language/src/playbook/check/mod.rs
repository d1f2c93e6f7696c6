//! Checks that need the whole playbook.

mod all;
mod conditions;
mod graph;
mod lint;
mod lookalike;
mod names;
mod statements;

pub(crate) use all::check;
pub(crate) use lint::RESERVED;
