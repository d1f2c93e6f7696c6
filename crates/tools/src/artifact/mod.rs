//! The `artifact` tool: gets, slices, stores, lists and deletes stored results and files.

mod buckets;
mod files;
mod nats_address;
mod parts;
mod target;
#[cfg(test)]
mod tests;
mod tool;

pub use buckets::{bytes_to_value, unknown_action_error};
pub use nats_address::{NatsAddress, NatsBuckets};
pub(crate) use tool::ArtifactTool;
