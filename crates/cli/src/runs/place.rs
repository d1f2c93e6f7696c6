//! Traits of a backend for runs: a local store or a remote server.

use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use model::playbook::Playbook;
use model::status::RunStatus;
use model::time::Time;
use results::Pieces;
use server::{Control, Listed, ResultAddress, RunOutline};
use store::{ExecutionRow, Filter};
use wire::api::{
    CredentialEntry, CredentialRequest, KeyRotated, PlaybookEntry, TokenCreated, TokenEntry,
    TokenRequest,
};
use worker::LogLine;

use crate::args::Driving;
use crate::problem::Problem;
use crate::runs::begin::{Begin, Driven, Watch};

/// Reads, controls and starts runs.
#[async_trait]
pub(crate) trait Runs: Playbooks + Keys + Send + Sync {
    /// Returns a description of the backend for users.
    fn place(&self) -> String;

    /// Returns the current time of the clock that timestamps events, as closely as it is known.
    fn now(&self) -> Time;

    /// Returns a run.
    async fn get(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Problem>;

    /// Returns runs, newest first.
    async fn list(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Problem>;

    /// Returns the next events of a log; empty at the end.
    async fn events(&self, id: ExecutionId, after: Seq) -> Result<Vec<Event>, Problem>;

    /// Returns the next page of a run's outline, which starts after this event.
    async fn outline(&self, id: ExecutionId, after: Seq) -> Result<RunOutline, Problem>;

    /// Watches the events after this one.
    fn watch<'a>(&'a self, id: ExecutionId, after: Seq) -> Box<dyn Watch + 'a>;

    /// Returns the playbook of a run; `None` if it is missing or invalid.
    async fn playbook(&self, row: &ExecutionRow) -> Result<Option<Playbook>, Problem>;

    /// Returns a result as a stream of JSON text; for a failed task or step, its error.
    async fn result(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem>;

    /// Returns a result as it is stored; text results are not quoted.
    async fn read(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem>;

    /// Returns the results that match an address, oldest first, after this event.
    async fn results(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        after: Seq,
    ) -> Result<Listed, Problem>;

    /// Returns log lines of tasks from this position on.
    async fn lines(&self, id: ExecutionId, after: u64) -> Result<Lines, Problem>;

    /// Waits until there may be more lines, at most `patience`.
    async fn changed(&self, patience: Duration);

    /// Returns whether a run is unfinished and no process drives it.
    async fn is_abandoned(&self, row: &ExecutionRow) -> Result<bool, Problem>;

    /// Sends a control request to a run, waits up to a timeout for the wanted status, and returns the status.
    async fn say(
        &self,
        row: &ExecutionRow,
        word: Control,
        wanted: Option<Wanted>,
    ) -> Result<RunStatus, Problem>;

    /// Starts or continues a run.
    async fn begin<'a>(
        &'a self,
        begin: Begin,
        driving: &'a Driving,
    ) -> Result<Box<dyn Driven + 'a>, Problem>;
}

/// Status to wait for, and the timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) status: RunStatus,
    pub(crate) patience: Duration,
}

/// Log lines of tasks.
pub(crate) struct Lines {
    pub(crate) fresh: Vec<LogLine>,
    /// Position of the next line.
    pub(crate) next: u64,
    /// Whether more lines are available now.
    pub(crate) is_more: bool,
}

/// Catalog of the backend.
#[async_trait]
pub(crate) trait Playbooks {
    /// Registers a playbook text that was checked.
    async fn register(&self, path: &str, text: &str) -> Result<Kept, Problem>;

    /// Returns all paths with their latest version.
    async fn catalog(&self) -> Result<Vec<PlaybookEntry>, Problem>;

    /// Returns one version of a playbook, or the latest, with its text.
    async fn find(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<PlaybookEntry>, Problem>;
}

/// A registered playbook.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Kept {
    pub(crate) path: String,
    pub(crate) version: u32,
    /// Whether this call created a new version.
    pub(crate) is_new: bool,
}

/// Access tokens and credentials of the backend.
#[async_trait]
pub(crate) trait Keys {
    /// Creates a token.
    async fn create_token(&self, request: &TokenRequest) -> Result<TokenCreated, Problem>;

    /// Returns all tokens.
    async fn tokens(&self) -> Result<Vec<TokenEntry>, Problem>;

    /// Revokes a token.
    async fn revoke_token(&self, id: &str) -> Result<(), Problem>;

    /// Creates or updates a credential.
    async fn set_credential(&self, request: &CredentialRequest)
    -> Result<CredentialEntry, Problem>;

    /// Returns all credentials, without their values.
    async fn credentials(&self) -> Result<Vec<CredentialEntry>, Problem>;

    /// Removes a credential.
    async fn remove_credential(&self, name: &str) -> Result<(), Problem>;

    /// Re-encrypts all credentials with a new master key.
    async fn rotate_key(&self) -> Result<KeyRotated, Problem>;
}
