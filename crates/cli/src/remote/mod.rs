//! Access to a remote server: runs, catalog, access tokens and credentials.

mod admin;
mod paths;
mod playbook_error;
mod remote_backend;
mod remote_run;
mod result_unwrapper;
mod sse;
mod sse_watcher;
mod token;

pub(crate) use remote_backend::{RemoteBackend, new_client};
pub(crate) use token::add_context_help;
