//! The keychain: stores credentials encrypted and resolves names for workers just before use.
//!
//! Input: credentials from admins, names from workers with a live claim. Output: values, only to those workers.

mod cached;
mod check;
mod config;
mod credentials;
mod declared;
mod entries;
mod error;
mod fetched;
mod keys;
mod lookup;
mod rotate;
mod seal;
mod secrets;

pub(crate) use cached::Global;
pub(crate) use check::{Beginning, asks_network};
pub use config::{Fetch, FetchError, FetchRequest, Fetched, KeychainConfig, VaultConfig};
pub use error::Error as KeychainError;
pub use keys::{MasterKey, MasterKeys};
pub(crate) use lookup::Keychain;
pub use rotate::Rotated;
pub(crate) use secrets::{Denied, secrets};
