//! What can be asked of the place that runs are in.

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

/// Runs: read, spoken to and set going.
#[async_trait]
pub(crate) trait Runs: Playbooks + Keys + Send + Sync {
    /// Where they are, for people.
    fn place(&self) -> String;

    /// The time by the clock that stamps events, as nearly as it can be told.
    fn now(&self) -> Time;

    /// A run.
    async fn get(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Problem>;

    /// Runs, newest first.
    async fn list(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Problem>;

    /// The next events of a log; none at its end.
    async fn events(&self, id: ExecutionId, after: Seq) -> Result<Vec<Event>, Problem>;

    /// The next page of a run's outline, from the event after this one.
    async fn outline(&self, id: ExecutionId, after: Seq) -> Result<RunOutline, Problem>;

    /// Tells of events after this one as they happen.
    fn watch<'a>(&'a self, id: ExecutionId, after: Seq) -> Box<dyn Watch + 'a>;

    /// The playbook of a run, where it can be read.
    async fn playbook(&self, row: &ExecutionRow) -> Result<Option<Playbook>, Problem>;

    /// A result of a run as JSON text, piece by piece; of a task or step that failed, its error.
    async fn result(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem>;

    /// The same as it is stored: text that a task stored is not quoted.
    async fn read(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem>;

    /// The results that fit an address, oldest first, from one on.
    async fn results(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        after: Seq,
    ) -> Result<Listed, Problem>;

    /// What tasks printed, from a place on.
    async fn lines(&self, id: ExecutionId, after: u64) -> Result<Lines, Problem>;

    /// Waits until there may be more lines, but no longer than that.
    async fn changed(&self, patience: Duration);

    /// Whether a run goes on by its log, but no process drives it.
    async fn is_abandoned(&self, row: &ExecutionRow) -> Result<bool, Problem>;

    /// Says a word to a run, and waits until it stands as wanted where that is soon; answers how it stands.
    async fn say(
        &self,
        row: &ExecutionRow,
        word: Control,
        wanted: Option<Wanted>,
    ) -> Result<RunStatus, Problem>;

    /// Sets a run going.
    async fn begin<'a>(
        &'a self,
        begin: Begin,
        driving: &'a Driving,
    ) -> Result<Box<dyn Driven + 'a>, Problem>;
}

/// How a run should come to stand, and how long to wait for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) status: RunStatus,
    pub(crate) patience: Duration,
}

/// Lines that tasks printed.
pub(crate) struct Lines {
    pub(crate) fresh: Vec<LogLine>,
    /// Where the next ones begin.
    pub(crate) next: u64,
    /// Whether more are there now.
    pub(crate) is_more: bool,
}

/// The catalog beside the runs.
#[async_trait]
pub(crate) trait Playbooks {
    /// Puts a text that was checked into the catalog.
    async fn register(&self, path: &str, text: &str) -> Result<Kept, Problem>;

    /// Every path with its latest version.
    async fn catalog(&self) -> Result<Vec<PlaybookEntry>, Problem>;

    /// One version of a playbook, or its latest, with its text.
    async fn find(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<PlaybookEntry>, Problem>;
}

/// A playbook that was put into the catalog.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Kept {
    pub(crate) path: String,
    pub(crate) version: u32,
    /// Whether the catalog had no such text there before.
    pub(crate) is_new: bool,
}

/// The tokens and credentials beside the runs.
#[async_trait]
pub(crate) trait Keys {
    /// Makes a token.
    async fn create_token(&self, request: &TokenRequest) -> Result<TokenCreated, Problem>;

    /// Every token.
    async fn tokens(&self) -> Result<Vec<TokenEntry>, Problem>;

    /// Takes a token back.
    async fn revoke_token(&self, id: &str) -> Result<(), Problem>;

    /// Sets a credential.
    async fn set_credential(&self, request: &CredentialRequest)
    -> Result<CredentialEntry, Problem>;

    /// Every credential.
    async fn credentials(&self) -> Result<Vec<CredentialEntry>, Problem>;

    /// Removes a credential.
    async fn remove_credential(&self, name: &str) -> Result<(), Problem>;

    /// Seals every credential under a new master key.
    async fn rotate_key(&self) -> Result<KeyRotated, Problem>;
}
