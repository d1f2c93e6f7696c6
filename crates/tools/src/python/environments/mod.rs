//! Virtual environments: one per set of requirements and interpreter, built once and shared on this machine.

mod build;
mod clean;
mod shelf;

#[cfg(test)]
mod tests;

pub(crate) use shelf::{Absent, Environments, Wanted};
