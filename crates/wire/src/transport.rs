//! The protocol between worker and server: claim, report, listen, load.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use model::command::{Command, Continuation, ReportEnd};
use model::event::{Event, ReportedEvent};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, WorkerId};
use model::raw::RawJson;
use model::result_ref::{ResolvedRef, ResultRef};
use model::source::SourceText;
use model::step_pointer::LoopPointer;
use serde::{Deserialize, Serialize};

use crate::api::{ClaimRequest, HeartbeatRequest, SecretsRequest};
use crate::context::ExecutionContext;
use crate::secret::ResolvedSecret;

/// A claimed command with everything that is needed to run it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimedCommand {
    /// Command to run.
    pub command: Command,
    /// Lease epoch that its reports must contain.
    pub lease_epoch: LeaseEpoch,
    /// Data of the execution.
    pub context: Arc<ExecutionContext>,
    /// Resume points of pipelines that have started before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<ResumePoint>,
    /// Iterations of the range that are finished or suspended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "over")]
    pub finished: Vec<u64>,
}

/// Resume point of a pipeline that has started before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumePoint {
    /// Iteration; `None` for a step without a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Position of the pipeline.
    pub continuation: Continuation,
    /// Whether `step.started` or `loop.iteration.started` is recorded.
    pub started: bool,
}

/// Report on a claimed command. The server assigns IDs to events with ID 0.
#[derive(Debug, Clone)]
pub struct ReportRequest {
    /// Command.
    pub command: CommandId,
    /// Worker session.
    pub worker: WorkerId,
    /// Lease epoch of the claim.
    pub lease_epoch: LeaseEpoch,
    /// Events, in order.
    pub events: Vec<ReportedEvent>,
    /// Whether the worker is done with the command.
    pub end: ReportEnd,
    /// Pool that the worker serves.
    pub pool: Name,
    /// Tool kinds that the worker can call; `None` means every kind.
    pub kinds: Option<Vec<Name>>,
    /// Number of further commands that the worker can run now.
    pub free: u32,
}

/// Response to a report that is durable.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportResponse {
    /// How to continue with the command.
    pub verdict: Verdict,
    /// Commands that were assigned to this worker in the same commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<ClaimedCommand>,
}

/// How a worker continues with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Continue.
    Proceed,
    /// Start nothing more: finish running tasks, then release the command.
    Yield,
    /// Stop running tools.
    Stop,
}

/// Notice to a worker about one command, sent between reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandNotice {
    /// Command.
    pub command: CommandId,
    /// How to continue with it.
    pub verdict: Verdict,
}

/// Why a call to the server failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lease has expired; the server rejects everything that the worker does under it.
    #[error("the lease on command {0} has expired")]
    Fenced(CommandId),
    /// Another process uses the same worker name; the server rejects requests of this one.
    #[error("another process has replaced the session of worker `{0}`")]
    SessionReplaced(WorkerId),
    /// The server cannot respond now; the same call may succeed later.
    #[error("the server is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The requested object does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// The server denies the requested secrets; the code states why.
    #[error("{detail}")]
    SecretsRefused {
        /// Stable error code.
        code: String,
        /// Cause and remedy.
        detail: String,
        /// Whether the error is transient.
        is_transient: bool,
    },
    /// The server rejected the call as invalid; repeating it does not help.
    #[error("the server rejected the request: {0}")]
    Refused(String),
}

/// Chunks of a text, in order. After an error, the following chunks are unavailable.
pub type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Connection of a worker to its server.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Claims up to `request.max` commands; waits up to `request.wait_ms` for the first one.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedCommand>, Error>;

    /// Sends a report; returns when the report is durable.
    async fn report(&self, report: ReportRequest) -> Result<ReportResponse, Error>;

    /// Sends a heartbeat, which keeps the worker's session alive.
    async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<(), Error>;

    /// Ends the worker's session; its commands return to the queue at once.
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error>;

    /// Waits for notices to this worker.
    async fn listen(&self, worker: &WorkerId) -> Result<Vec<CommandNotice>, Error>;

    /// Returns the text of a playbook.
    async fn playbook(&self, hash: &PlaybookHash) -> Result<SourceText, Error>;

    /// Returns events of a log, for outcomes, writes and collections that a pipeline needs again.
    async fn events(&self, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error>;

    /// Returns the results of a loop, `{results: […], stats: {…}}`.
    async fn loop_results(&self, execution: ExecutionId, pointer: &LoopPointer) -> Result<RawJson, Error>;

    /// Returns the combined parts of a result manifest as JSON text, in chunks.
    async fn manifest(&self, reference: &ResultRef) -> Result<ByteStream, Error>;

    /// Resolves an address, `noetl://execution/…`, of any execution.
    async fn resolve_ref(&self, uri: &str) -> Result<ResolvedRef, Error>;

    /// Resolves credentials for the holder of a command whose step declares them.
    async fn secrets(&self, request: &SecretsRequest) -> Result<Vec<ResolvedSecret>, Error>;
}
