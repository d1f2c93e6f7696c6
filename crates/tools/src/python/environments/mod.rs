//! Virtual environments: one per set of requirements and interpreter, built once and shared on this machine.

mod build;
mod clean;
mod store;

#[cfg(test)]
mod tests;

pub(crate) use store::{EnvironmentSpec, Environments, IfAbsent};
