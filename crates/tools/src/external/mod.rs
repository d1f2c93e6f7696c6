//! External tools: programs that exchange JSON lines with the worker, each described by a manifest.

mod check;
mod manifest;
mod pool;
mod process;
mod protocol;
mod tool;

#[cfg(test)]
mod tests;

pub use manifest::{KeyType, KindManifest, ManifestError, ManifestKey, load_manifests};
pub(crate) use tool::ExternalTool;
