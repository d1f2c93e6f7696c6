//! A run that is set going, and how news of it come.

use std::sync::Arc;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use model::raw::Raw;
use model::time::Time;
use results::Pieces;
use server::{Published, ResultAddress};
use store::ExecutionRow;
use wire::api::RerunRequest;

use crate::problem::Problem;

/// How a run is set going.
pub(crate) enum Begin {
    /// A new one of a text.
    Text {
        /// What the text is called here.
        name: String,
        /// The playbook.
        text: String,
        /// Inputs over its own.
        payload: Option<Raw>,
    },
    /// A new one of a playbook in the catalog.
    Catalog {
        /// Where it is kept.
        path: String,
        /// Which version; the latest if none.
        version: Option<u32>,
        /// Inputs over its own.
        payload: Option<Raw>,
    },
    /// After a pause, or after its process died.
    Resume(ExecutionRow),
    /// After it failed or was cancelled.
    Retry(ExecutionRow, Option<u32>),
    /// A new one that takes over what another has done.
    Rerun(ExecutionRow, RerunRequest),
}

/// What is new about a run.
pub(crate) enum News {
    /// A commit of this process.
    Commit(Arc<Published>),
    /// Events, in order.
    Events(Vec<Event>),
    /// There may be events in the log that were not told.
    Unread,
    /// Something the person should know.
    Said(String),
    /// Nothing more will come.
    Over,
}

/// News of one run.
#[async_trait]
pub(crate) trait Watch: Send {
    /// The next news. Dropping this before it answers loses none.
    async fn news(&mut self) -> Result<News, Problem>;
}

/// A run that this process set going.
#[async_trait]
pub(crate) trait Driven: Watch {
    /// Which.
    fn id(&self) -> ExecutionId;

    /// From when on its steps are shown as they end.
    fn since(&self) -> Time;

    /// Whether Ctrl-C means the run, not only the watching.
    fn is_mine(&self) -> bool;

    /// What is said when the person stops waiting for the cancelling.
    fn farewell(&self) -> String;

    /// Where the run goes on when nobody waits for it here.
    fn elsewhere(&self) -> &'static str;

    /// Begins to tell of events after this one.
    fn follow(&mut self, after: Seq);

    /// Looks now and then whether there is something to be done for the run.
    async fn look(&mut self) -> Result<(), Problem>;

    /// Why its events cannot be recorded now, if that is so.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// The next events of its log; none at its end.
    async fn events(&self, after: Seq) -> Result<Vec<Event>, Problem>;

    /// A result of it as JSON text, piece by piece.
    async fn result(&self, address: &ResultAddress) -> Result<Option<Pieces>, Problem>;

    /// Asks for its end.
    async fn cancel(&self) -> Result<(), Problem>;

    /// Lets it go on without this process.
    async fn leave(self: Box<Self>) -> Result<(), Problem>;

    /// Ends what this process holds for it.
    async fn stop(self: Box<Self>);
}
