//! The transport in process: the same protocol that crosses the network, without the network.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::Refusal;
use model::event::Event;
use model::id::{ExecutionId, PlaybookHash, Seq, WorkerId};
use model::raw::Raw;
use model::template::LoopPointer;
use tokio::sync::oneshot;
use wire::{Ask, Claimed, PlaybookText, Receipt, Report, Told, Transport};

use crate::Shared;
use crate::drive::{Order, Posted};
use crate::error::Error;

/// How long a worker's session lives without a heartbeat.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(15);

/// Reaches the drive of this process.
pub(crate) struct InProcess {
    shared: Arc<Shared>,
}

impl InProcess {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait]
impl Transport for InProcess {
    async fn claim(&self, ask: &Ask) -> Result<Vec<Claimed>, wire::Error> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Claim {
            ask: ask.clone(),
            reply,
        };
        self.shared.drive.send(order).await.map_err(unavailable)?;
        match tokio::time::timeout(ask.wait, answer).await {
            Ok(Ok(claims)) => claims.map_err(unavailable),
            Ok(Err(_)) => Err(unavailable(Error::Stopping)),
            Err(_) => Ok(Vec::new()),
        }
    }

    async fn report(&self, report: Report) -> Result<Receipt, wire::Error> {
        let command = report.command;
        let hands =
            (report.free > 0).then(|| (report.worker.clone(), report.pool.clone(), report.free));
        let input = engine::Input::Report(engine::Report {
            command: command.seq,
            worker: report.worker,
            lease_epoch: report.lease_epoch,
            events: report.events,
            end: report.end,
        });
        match self
            .shared
            .drive
            .post(command.execution, input, hands, None)
            .await
        {
            Ok(reply) => Ok(Receipt {
                verdict: reply.verdict,
                next: reply.next,
            }),
            Err(Posted::Refused(Refusal::Fenced | Refusal::Ended)) => {
                Err(wire::Error::Fenced(command))
            }
            Err(Posted::Refused(refusal)) => Err(wire::Error::Refused(refusal.to_string())),
            Err(Posted::Failed(error)) => Err(unavailable(error)),
        }
    }

    async fn heartbeat(&self, worker: &WorkerId) -> Result<(), wire::Error> {
        let renewed = self.shared.store.renew(worker, SESSION_TTL).await;
        renewed.map_err(|error| unavailable(error.into()))
    }

    async fn listen(&self, worker: &WorkerId) -> Result<Vec<Told>, wire::Error> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Listen {
            worker: worker.clone(),
            reply,
        };
        self.shared.drive.send(order).await.map_err(unavailable)?;
        answer.await.map_err(|_| unavailable(Error::Stopping))
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<PlaybookText, wire::Error> {
        let net = self.shared.playbooks.net(hash).await.map_err(unavailable)?;
        let source = &net.playbook.source;
        Ok(PlaybookText {
            name: source.name.clone(),
            text: source.text.clone(),
        })
    }

    async fn events(
        &self,
        execution: ExecutionId,
        seqs: &[Seq],
    ) -> Result<Vec<Event>, wire::Error> {
        let events = self.shared.store.events_at(execution, seqs).await;
        events.map_err(|error| unavailable(error.into()))
    }

    async fn loop_results(
        &self,
        execution: ExecutionId,
        pointer: &LoopPointer,
    ) -> Result<Raw, wire::Error> {
        let results = crate::loading::loop_results(&self.shared, execution, pointer).await;
        results.map(|value| Raw::of(&value)).map_err(unavailable)
    }
}

fn unavailable(error: Error) -> wire::Error {
    wire::Error::Unavailable(Box::new(error))
}
