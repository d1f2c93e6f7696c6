//! Traits of a backend for runs: a local store or a remote server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::ControlRequest;
use language::playbook::Playbook;
use model::event::Event;
use model::id::{ExecutionId, Name, Seq};
use model::status::RunStatus;
use model::time::Time;
use results::ByteStream;
use server::{ExecutionOutline, ReferencePage, ResultAddress};
use store::{ExecutionFilter, ExecutionRow};
use wire::api::{
    AccessTokenEntry, CreateAccessTokenRequest, CreateAccessTokenResponse, CredentialEntry, PlaybookEntry,
    RerunPreview, RerunRequest, RotateKeyResponse, SetCredentialRequest,
};
use worker::LogLine;

use crate::args::DriveArgs;
use crate::cli_error::CliError;
use crate::runs::run_watch::{DrivenRun, RunWatcher, StartRequest};

/// A run in a list.
pub(crate) struct ListedRun {
    /// The run.
    pub(crate) row: ExecutionRow,
    /// A signal that it waits for.
    pub(crate) waits_for: Option<Name>,
}

/// Reads, controls and starts runs.
#[async_trait]
pub(crate) trait RunBackend: CatalogBackend + AdminBackend + Send + Sync {
    /// Returns for users where a run is: the local store, or its page on a server.
    fn run_location(&self, id: ExecutionId) -> String;

    /// Returns the current time of the clock that timestamps events, as closely as it is known.
    fn now(&self) -> Time;

    /// Returns a run.
    async fn find_row(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, CliError>;

    /// Returns runs, newest first.
    async fn list_runs(&self, filter: &ExecutionFilter) -> Result<Vec<ListedRun>, CliError>;

    /// Returns the next events of a log; empty at the end.
    async fn events(&self, id: ExecutionId, after: Seq) -> Result<Vec<Event>, CliError>;

    /// Returns the next page of a run's outline, which starts after this event.
    async fn outline(&self, id: ExecutionId, after: Seq) -> Result<ExecutionOutline, CliError>;

    /// Watches the events after this one.
    fn watch_run<'a>(&'a self, id: ExecutionId, after: Seq) -> Box<dyn RunWatcher + 'a>;

    /// Returns the playbook of a run; `None` if it is missing or invalid.
    async fn playbook(&self, row: &ExecutionRow) -> Result<Option<Arc<Playbook>>, CliError>;

    /// Returns a result as a stream of JSON text; for a failed task or step, its error.
    async fn result(&self, id: ExecutionId, address: &ResultAddress) -> Result<Option<ByteStream>, CliError>;

    /// Returns a result as it is stored; text results are not quoted.
    async fn raw_result(&self, id: ExecutionId, address: &ResultAddress) -> Result<Option<ByteStream>, CliError>;

    /// Returns the results that match an address, oldest first, after this event.
    async fn list_results(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        after: Seq,
    ) -> Result<ReferencePage, CliError>;

    /// Returns log lines of tasks from this position on.
    async fn log_lines(&self, id: ExecutionId, after: u64) -> Result<FetchedLines, CliError>;

    /// Waits until there may be more lines, at most for `timeout`.
    async fn wait_for_change(&self, timeout: Duration);

    /// Returns whether a run is unfinished and no process drives it.
    async fn is_abandoned(&self, row: &ExecutionRow) -> Result<bool, CliError>;

    /// Sends a control request to a run, waits up to a timeout for the wanted status, and returns the status.
    async fn control(
        &self,
        row: &ExecutionRow,
        request: ControlRequest,
        wait: Option<StatusWait>,
    ) -> Result<RunStatus, CliError>;

    /// Returns what a rerun would do.
    async fn preview_rerun(&self, row: &ExecutionRow, request: RerunRequest) -> Result<RerunPreview, CliError>;

    /// Starts or continues a run.
    async fn start_run<'a>(
        &'a self,
        start_request: StartRequest,
        drive_args: &'a DriveArgs,
    ) -> Result<Box<dyn DrivenRun + 'a>, CliError>;
}

/// Status to wait for, and the timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusWait {
    pub(crate) status: RunStatus,
    pub(crate) timeout: Duration,
}

/// Log lines of tasks.
pub(crate) struct FetchedLines {
    pub(crate) lines: Vec<LogLine>,
    /// Position of the next line.
    pub(crate) next_after: u64,
    /// Whether more lines are available now.
    pub(crate) has_more: bool,
}

/// Catalog of the backend.
#[async_trait]
pub(crate) trait CatalogBackend {
    /// Registers a playbook text that was checked.
    async fn register(&self, path: &str, text: &str) -> Result<RegisterOutput, CliError>;

    /// Returns all paths with their latest version.
    async fn list_catalog(&self) -> Result<Vec<PlaybookEntry>, CliError>;

    /// Returns one version of a playbook, or the latest, with its text.
    async fn find_playbook(&self, path: &str, version: Option<u32>) -> Result<Option<PlaybookEntry>, CliError>;
}

/// A registered playbook.
#[derive(Debug, serde::Serialize)]
pub(crate) struct RegisterOutput {
    pub(crate) path: String,
    pub(crate) version: u32,
    /// Whether this call created a new version.
    pub(crate) is_new: bool,
}

/// Access tokens and credentials of the backend.
#[async_trait]
pub(crate) trait AdminBackend {
    /// Creates a token.
    async fn create_token(&self, request: &CreateAccessTokenRequest) -> Result<CreateAccessTokenResponse, CliError>;

    /// Returns all tokens.
    async fn list_tokens(&self) -> Result<Vec<AccessTokenEntry>, CliError>;

    /// Revokes a token.
    async fn revoke_token(&self, id: &str) -> Result<(), CliError>;

    /// Creates or updates a credential.
    async fn set_credential(&self, request: &SetCredentialRequest) -> Result<CredentialEntry, CliError>;

    /// Returns all credentials, without their values.
    async fn list_credentials(&self) -> Result<Vec<CredentialEntry>, CliError>;

    /// Removes a credential.
    async fn remove_credential(&self, name: &str) -> Result<(), CliError>;

    /// Re-encrypts all credentials with a new master key.
    async fn rotate_key(&self) -> Result<RotateKeyResponse, CliError>;
}
