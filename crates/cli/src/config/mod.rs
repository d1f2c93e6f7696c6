//! Configuration: flags over the environment over `noetl.toml` over the person's own file over the defaults.
//!
//! The only room that reads the environment; everything leaves it as typed values.

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
