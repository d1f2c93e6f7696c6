//! The `artifact` tool: gets, slices, stores, lists and deletes stored results and files.

mod buckets;
mod files;
mod nats;
mod parts;
mod target;
#[cfg(test)]
mod tests;
mod tool;

pub(crate) use tool::ArtifactTool;
