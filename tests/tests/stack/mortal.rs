//! A worker's way to the server that can be cut: after death nothing it says arrives, and nothing is answered.

use std::sync::Arc;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, PlaybookHash, Seq, WorkerId};
use model::raw::Raw;
use model::result_ref::{Resolved, ResultRef};
use model::template::LoopPointer;
use tokio_util::sync::CancellationToken;
use wire::{Ask, Claimed, Error, Pieces, PlaybookText, Pulse, Receipt, Report, Told, Transport};

/// The way of one worker.
pub(crate) struct Mortal {
    /// The server.
    pub(crate) server: Arc<dyn Transport>,
    /// Cancelled when the worker dies.
    pub(crate) death: CancellationToken,
}

impl Mortal {
    async fn alive<T>(&self, call: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.death.cancelled() => std::future::pending().await,
            answer = call => answer,
        }
    }
}

#[async_trait]
impl Transport for Mortal {
    async fn claim(&self, ask: &Ask) -> Result<Vec<Claimed>, Error> {
        self.alive(self.server.claim(ask)).await
    }
    async fn report(&self, report: Report) -> Result<Receipt, Error> {
        self.alive(self.server.report(report)).await
    }
    async fn heartbeat(&self, pulse: &Pulse) -> Result<(), Error> {
        self.alive(self.server.heartbeat(pulse)).await
    }
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        self.alive(self.server.leave(worker)).await
    }
    async fn listen(&self, worker: &WorkerId) -> Result<Vec<Told>, Error> {
        self.alive(self.server.listen(worker)).await
    }
    async fn playbook(&self, hash: &PlaybookHash) -> Result<PlaybookText, Error> {
        self.alive(self.server.playbook(hash)).await
    }
    async fn events(&self, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        self.alive(self.server.events(execution, seqs)).await
    }
    async fn loop_results(
        &self,
        execution: ExecutionId,
        pointer: &LoopPointer,
    ) -> Result<Raw, Error> {
        self.alive(self.server.loop_results(execution, pointer))
            .await
    }
    async fn manifest(&self, reference: &ResultRef) -> Result<Pieces, Error> {
        self.alive(self.server.manifest(reference)).await
    }
    async fn secrets(&self, ask: &wire::SecretsAsk) -> Result<Vec<wire::Secret>, Error> {
        self.alive(self.server.secrets(ask)).await
    }
    async fn look_up(&self, uri: &str) -> Result<Resolved, Error> {
        self.alive(self.server.look_up(uri)).await
    }
}
