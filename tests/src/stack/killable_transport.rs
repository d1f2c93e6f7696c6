//! A worker's connection to the server with latency. It can be cut: then no request arrives and no response returns.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, PlaybookHash, Seq, WorkerId};
use model::raw::RawJson;
use model::result_ref::{ResolvedRef, ResultRef};
use model::source::SourceText;
use model::step_pointer::LoopPointer;
use tokio_util::sync::CancellationToken;
use wire::api::{ClaimRequest, HeartbeatRequest};
use wire::{ByteStream, ClaimedCommand, CommandNotice, Error, ReportRequest, ReportResponse, Transport};

/// The connection of one worker.
pub struct KillableTransport {
    /// The server.
    pub server: Arc<dyn Transport>,
    /// Cancelled when the worker is killed.
    pub kill_token: CancellationToken,
    /// The time that a report takes to the server.
    pub report_latency: Duration,
}

impl KillableTransport {
    async fn run_unless_killed<T>(&self, call: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.kill_token.cancelled() => std::future::pending().await,
            output = call => output,
        }
    }
}

#[async_trait]
impl Transport for KillableTransport {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedCommand>, Error> {
        self.run_unless_killed(self.server.claim(request)).await
    }
    async fn report(&self, report: ReportRequest) -> Result<ReportResponse, Error> {
        let delayed = async {
            tokio::time::sleep(self.report_latency).await;
            self.server.report(report).await
        };
        self.run_unless_killed(delayed).await
    }
    async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<(), Error> {
        self.run_unless_killed(self.server.heartbeat(request)).await
    }
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        self.run_unless_killed(self.server.leave(worker)).await
    }
    async fn listen(&self, worker: &WorkerId) -> Result<Vec<CommandNotice>, Error> {
        self.run_unless_killed(self.server.listen(worker)).await
    }
    async fn playbook(&self, hash: &PlaybookHash) -> Result<SourceText, Error> {
        self.run_unless_killed(self.server.playbook(hash)).await
    }
    async fn events(&self, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        self.run_unless_killed(self.server.events(execution, seqs)).await
    }
    async fn loop_results(&self, execution: ExecutionId, pointer: &LoopPointer) -> Result<RawJson, Error> {
        self.run_unless_killed(self.server.loop_results(execution, pointer))
            .await
    }
    async fn manifest(&self, reference: &ResultRef) -> Result<ByteStream, Error> {
        self.run_unless_killed(self.server.manifest(reference)).await
    }
    async fn secrets(&self, request: &wire::api::SecretsRequest) -> Result<Vec<wire::ResolvedSecret>, Error> {
        self.run_unless_killed(self.server.secrets(request)).await
    }
    async fn resolve_ref(&self, uri: &str) -> Result<ResolvedRef, Error> {
        self.run_unless_killed(self.server.resolve_ref(uri)).await
    }
}
