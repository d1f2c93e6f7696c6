//! The keychain: stores credentials encrypted and resolves names for workers just before use.
//!
//! Input: credentials from admins, names from workers with a live claim. Output: values, only to those workers.

mod cache;
mod check;
mod config;
mod credentials;
mod declared;
mod entries;
mod error;
mod fetch;
mod keys;
mod rotate;
mod seal;
mod secrets;
mod shared;
mod uses;

pub(crate) use cache::SharedEntry;
pub(crate) use check::{StartingExecution, needs_network};
pub use config::{FetchError, FetchRequest, FetchResponse, KeychainConfig, SecretFetcher, VaultConfig};
pub use error::Error as KeychainError;
pub use keys::{MasterKey, MasterKeys};
pub(crate) use secrets::{SecretsError, resolve_secrets};
pub(crate) use shared::Keychain;
