//! Backends for runs: a local store or a remote server. Commands use the traits of this module for both.

mod admin;
mod backend;
mod local_backend;
mod local_run;
mod open;
mod run_watch;

pub(crate) use backend::{
    AdminBackend, CatalogBackend, FetchedLines, ListedRun, RegisterOutput, RunBackend, StatusWait,
};
pub(crate) use open::{open_existing, open_or_create};
pub(crate) use run_watch::{DrivenRun, RunUpdate, RunWatcher, StartRequest};
