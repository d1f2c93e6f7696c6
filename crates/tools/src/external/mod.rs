//! Kinds that a deployment adds: programs that speak JSON lines, told of by a manifest each.

mod check;
mod manifest;
mod pool;
mod process;
mod protocol;
mod tool;

#[cfg(test)]
mod tests;

pub use manifest::{KeyType, Manifest, ManifestError, ManifestKey, manifests};
pub(crate) use tool::External;
