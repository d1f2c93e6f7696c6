//! The `artifact` tool: gets, slices, stores, lists and deletes stored results and files.

mod files;
mod nats;
mod outside;
mod parts;
mod target;
#[cfg(test)]
mod tests;
mod tool;

pub(crate) use tool::Artifact;
