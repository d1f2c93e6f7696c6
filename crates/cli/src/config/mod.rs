//! Configuration. Precedence: flags, environment, `noetl.toml`, configuration file of the user, defaults.
//!
//! Only this module reads the environment; other modules get typed values.

mod address;
mod contexts;
mod environment;
mod files;
mod keychain;
mod network;
mod settings;
mod storage;
mod store_url;

pub(crate) use address::{Address, Credential};
pub(crate) use contexts::{Context, Contexts, LOCAL};
pub(crate) use environment::Environment;
pub(crate) use settings::{DEFAULTS, Settings};
pub(crate) use store_url::is_store_url;
