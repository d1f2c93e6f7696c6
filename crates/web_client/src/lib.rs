//! The files of the web client, which the build script builds from `ui/` and embeds.
//!
//! Input: the path of a request. Output: the file at this path, compressed. Without Node.js at build time there are no
//! files, and [`client`] returns the reason.

mod files;

pub use files::{Client, File, client};
