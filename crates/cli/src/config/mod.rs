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
mod single_sign_on;
mod storage;
mod store_url;
pub(crate) mod variables;

pub(crate) use address::{ServerAddress, TokenSource};
pub(crate) use contexts::{Contexts, LOCAL_CONTEXT, ServerContext};
pub(crate) use environment::Environment;
pub(crate) use settings::{DEFAULT_CONFIG, Settings};
pub(crate) use store_url::is_store_url;
