//! The protocol between worker and server: claim, report, listen, load.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use model::command::{Command, Continuation, ReportEnd};
use model::event::Event;
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, WorkerId};
use model::raw::Raw;
use model::result_ref::{Resolved, ResultRef};
use model::template::LoopPointer;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::secret::{Secret, SecretsAsk};

/// A worker asks for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Its session.
    pub worker: WorkerId,
    /// The pool it serves.
    pub pool: Name,
    /// The tool kinds it can call; none means every kind.
    pub kinds: Option<Vec<Name>>,
    /// At most so many commands.
    pub max: u32,
    /// How long to wait for the first of them.
    pub wait: Duration,
}

/// A command handed out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Claimed {
    /// What to run.
    pub command: Command,
    /// What its reports must carry.
    pub lease_epoch: LeaseEpoch,
    /// The execution's data.
    pub context: Arc<Context>,
    /// Pipelines of the command that had begun before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<Resume>,
    /// Iterations of its range that are over or wait elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<u64>,
}

/// A pipeline that had begun before, and how far it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// The iteration; none for a plain step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// How far it came.
    pub continuation: Continuation,
    /// Whether its `step.started` or `loop.iteration.started` is recorded.
    pub started: bool,
}

/// What a worker says of a command it holds. Events carry id 0 where the server shall give them one.
#[derive(Debug, Clone)]
pub struct Report {
    /// The command.
    pub command: CommandId,
    /// Who reports.
    pub worker: WorkerId,
    /// The claim it reports under.
    pub lease_epoch: LeaseEpoch,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Whether the worker is done with the command.
    pub end: ReportEnd,
    /// The pool it serves.
    pub pool: Name,
    /// The tool kinds it can call; none means every kind.
    pub kinds: Option<Vec<Name>>,
    /// How many further commands it could take at once.
    pub free: u32,
}

/// The answer to a report, once it is durable.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Receipt {
    /// How to go on with the command.
    pub verdict: Verdict,
    /// Commands handed over in the same breath, already claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<Claimed>,
}

/// How a worker goes on with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As before.
    Proceed,
    /// Begin nothing more: end the tasks that run, then give back the rest.
    Yield,
    /// Stop the tools that run.
    Stop,
}

/// What a worker is told between reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The command it is about.
    pub command: CommandId,
    /// How to go on with it.
    pub verdict: Verdict,
}

/// A sign of life, and what the worker holds: a claim it does not name for long never reached it, and is offered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    /// Its session.
    pub worker: WorkerId,
    /// The commands it holds.
    pub holds: Vec<Held>,
}

/// A command that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Held {
    /// The command.
    pub command: CommandId,
    /// Under which claim.
    pub lease_epoch: LeaseEpoch,
}

/// A playbook's text, and the name errors give it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaybookText {
    /// The file or catalog path.
    pub name: Arc<str>,
    /// The text.
    pub text: Arc<str>,
}

/// Why a call to the server did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The claim is not current any more; whatever the worker does under it is refused.
    #[error("the claim on command {0} is not current")]
    Fenced(CommandId),
    /// Another process works under the worker's name; whatever this one does under it is refused.
    #[error("another process works under the name `{0}`")]
    SessionReplaced(WorkerId),
    /// The server cannot answer now; the same call may succeed later.
    #[error("the server is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The thing asked for does not exist.
    #[error("{0} does not exist")]
    NotFound(String),
    /// The server does not hand out what was asked for; the code says why.
    #[error("{detail}")]
    Denied {
        /// The stable code.
        code: String,
        /// Why, and what to do about it.
        detail: String,
        /// Whether it may be handed out later without anyone changing anything.
        is_passing: bool,
    },
    /// The server found the call malformed; repeating it does not help.
    #[error("the report was refused: {0}")]
    Refused(String),
}

/// Pieces of a text, in order. An error means that the rest cannot be had now.
pub type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// How a worker reaches its server.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Takes up to `max` commands, waiting for the first of them as long as the ask says.
    async fn claim(&self, ask: &Ask) -> Result<Vec<Claimed>, Error>;

    /// Reports; answers when the report is durable.
    async fn report(&self, report: Report) -> Result<Receipt, Error>;

    /// Keeps the worker's session alive.
    async fn heartbeat(&self, pulse: &Pulse) -> Result<(), Error>;

    /// Ends the worker's session: what it still holds is offered to others at once.
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error>;

    /// Waits until there is something to tell this worker.
    async fn listen(&self, worker: &WorkerId) -> Result<Vec<Told>, Error>;

    /// A playbook's text.
    async fn playbook(&self, hash: &PlaybookHash) -> Result<PlaybookText, Error>;

    /// Events of a log, for outcomes, writes and collections that a pipeline needs again.
    async fn events(&self, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error>;

    /// A loop's results, `{results: […], stats: {…}}`.
    async fn loop_results(
        &self,
        execution: ExecutionId,
        pointer: &LoopPointer,
    ) -> Result<Raw, Error>;

    /// What the parts of a manifest come to, as JSON text, piece by piece.
    async fn manifest(&self, reference: &ResultRef) -> Result<Pieces, Error>;

    /// What an address, `noetl://execution/…`, leads to, in whichever execution.
    async fn look_up(&self, uri: &str) -> Result<Resolved, Error>;

    /// What names of credentials come to, for the holder of a command whose step declares them.
    async fn secrets(&self, ask: &SecretsAsk) -> Result<Vec<Secret>, Error>;
}
