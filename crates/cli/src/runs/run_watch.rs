//! How to start a run and how to follow it.

use std::sync::Arc;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use model::labels::Labels;
use model::raw::RawJson;
use model::time::Time;
use results::ByteStream;
use server::{CommitNotice, ResultAddress};
use store::ExecutionRow;
use wire::api::RerunRequest;

use crate::cli_error::CliError;

/// Request to start or continue a run.
pub(crate) enum StartRequest {
    /// New run of a playbook text.
    Text {
        /// Name of the text in messages.
        name: String,
        /// The playbook.
        text: String,
        /// Inputs that override its defaults.
        payload: Option<RawJson>,
        /// Labels.
        labels: Labels,
    },
    /// New run of a registered playbook.
    Catalog {
        /// Path in the catalog.
        path: String,
        /// Version; the latest if `None`.
        version: Option<u32>,
        /// Inputs that override its defaults.
        payload: Option<RawJson>,
        /// Labels.
        labels: Labels,
    },
    /// Resume a run that is paused or whose process exited.
    Resume(ExecutionRow),
    /// Retry a run that failed or was cancelled, optionally with another playbook version.
    Retry(ExecutionRow, Option<u32>),
    /// New run that reuses results of an earlier one.
    Rerun(ExecutionRow, RerunRequest),
}

/// Update about a run.
pub(crate) enum RunUpdate {
    /// A commit of this process.
    Commit(Arc<CommitNotice>),
    /// Events, in order.
    Events(Vec<Event>),
    /// The log may contain events that were not delivered.
    LogChanged,
    /// A message for the user.
    Notice(String),
    /// There are no more updates.
    Closed,
}

/// Follows one run.
#[async_trait]
pub(crate) trait RunWatcher: Send {
    /// Returns the next update. Cancel-safe: dropping the future loses no update.
    async fn next_update(&mut self) -> Result<RunUpdate, CliError>;
}

/// A run that this process started or continued.
#[async_trait]
pub(crate) trait DrivenRun: RunWatcher {
    /// Returns the ID of the run.
    fn id(&self) -> ExecutionId;

    /// Returns the time from which on finished steps are shown.
    fn ended_since(&self) -> Time;

    /// Returns whether Ctrl-C cancels the run; otherwise it only stops following.
    fn is_owned(&self) -> bool;

    /// Returns the message for a second Ctrl-C, before the cancellation finished.
    fn interrupt_message(&self) -> String;

    /// Returns where the run continues after this process stops waiting.
    fn detached_location(&self) -> &'static str;

    /// Starts delivering the events after this one.
    fn start_watching(&mut self, after: Seq);

    /// Checks whether this process must do something for the run; called at intervals.
    async fn poll(&mut self) -> Result<(), CliError>;

    /// Returns why events of the run cannot be recorded, if they cannot.
    fn store_error(&self) -> Option<String> {
        None
    }

    /// Returns the next events of its log; empty at the end.
    async fn events(&self, after: Seq) -> Result<Vec<Event>, CliError>;

    /// Returns a result of the run as a stream of JSON text.
    async fn result(&self, address: &ResultAddress) -> Result<Option<ByteStream>, CliError>;

    /// Requests its cancellation.
    async fn cancel(&self) -> Result<(), CliError>;

    /// Lets the run continue without this process.
    async fn detach(self: Box<Self>) -> Result<(), CliError>;

    /// Stops what this process runs for it.
    async fn stop(self: Box<Self>);
}
