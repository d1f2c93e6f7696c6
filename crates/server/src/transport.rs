//! The transport inside a process: the protocol of the workers without the network.
//!
//! Calls for an execution that another server owns are forwarded to it, once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::Refusal;
use model::event::Event;
use model::id::{CommandId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, WorkerId};
use model::raw::Raw;
use model::result_ref::{Resolved, ResultRef};
use model::template::LoopPointer;
use store::{Priority, SessionHolder};
use tokio::sync::oneshot;
use wire::{
    Ask, Claimed, Held, Pieces, PlaybookText, Pulse, Receipt, Report, Secret, SecretsAsk, Told,
    Transport, Verdict,
};

use crate::Shared;
use crate::control;
use crate::drive::{Extras, Hands, Order, Posted};
use crate::error::Error;
use crate::keychain::{self, Denied};
use crate::peers::{self, Driver};
use crate::reading::Found;
use crate::sessions;

/// How long a worker's session lives without a heartbeat.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(15);

/// If a worker does not list a claim for this long, the response with the claim was lost.
const UNHEARD_MAX: Duration = Duration::from_secs(8);

/// How often the store is checked for notices that other servers wrote.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a report is decided or forwarded again while the owner of its execution changes.
const HANDS_MAX: usize = 4;

/// Transport to the driver of this process.
pub(crate) struct InProcess {
    shared: Arc<Shared>,
    /// Whether another server forwarded the call; it is not forwarded again.
    is_passed_on: bool,
}

impl InProcess {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            is_passed_on: false,
        }
    }

    /// Transport for calls that another server forwarded.
    pub(crate) fn passed_on(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            is_passed_on: true,
        }
    }

    async fn post(&self, report: Report) -> Result<Receipt, Posted> {
        let hands = (report.free > 0).then(|| Hands {
            worker: report.worker.clone(),
            pool: report.pool,
            kinds: report.kinds,
            free: report.free,
        });
        let input = engine::Input::Report(engine::Report {
            command: report.command.seq,
            worker: report.worker,
            lease_epoch: report.lease_epoch,
            events: report.events,
            end: report.end,
        });
        let execution = report.command.execution;
        let extras = Extras {
            hands,
            ..Extras::default()
        };
        let reply = self.shared.drive.post(execution, input, extras).await?;
        Ok(Receipt {
            verdict: reply.verdict,
            next: reply.next,
        })
    }

    /// Sends a report to the owner of its execution; adopts the execution if its owner is dead.
    async fn deliver(&self, report: Report) -> Result<Receipt, wire::Error> {
        let command = report.command;
        for _ in 0..HANDS_MAX {
            let posted = self.post(report.clone()).await;
            let owner = match posted {
                Err(Posted::Failed(Error::Elsewhere(owner))) if !self.is_passed_on => owner,
                other => return other.map_err(|posted| refused(command, posted)),
            };
            let driver = peers::driver(&self.shared, &owner).await;
            match driver.map_err(|error| unavailable(error.into()))? {
                Driver::Reachable(client) => {
                    let worker = report.worker.clone();
                    let receipt = peers::report(client, report).await?;
                    self.note_taken(worker, &receipt).await;
                    return Ok(receipt);
                }
                Driver::Silent => return Err(unavailable(Error::Elsewhere(owner))),
                Driver::Dead => {
                    let adopted =
                        control::adopt(&self.shared, command.execution, Priority::Normal).await;
                    adopted.map_err(unavailable)?;
                }
            }
        }
        Err(unavailable(Error::NotFound(command.execution)))
    }

    /// Records what another server assigned to a worker of this server, so that the worker is notified here if it is
    /// withdrawn.
    async fn note_taken(&self, worker: WorkerId, receipt: &Receipt) {
        let commands: Vec<CommandId> = receipt.next.iter().map(|next| next.command.id).collect();
        if !commands.is_empty() {
            // A server that is stopping sends no more notices.
            let _ = self
                .shared
                .drive
                .send(Order::Taken { worker, commands })
                .await;
        }
    }

    /// Releases claims that the store has and that the worker does not list in its heartbeat.
    pub(crate) async fn reclaim_unheard(&self, pulse: &Pulse) -> Result<(), Error> {
        let known: HashSet<Held> = pulse.holds.iter().copied().collect();
        let now = self.shared.store.now();
        for held in self.shared.store.held(&pulse.worker).await? {
            let claim = Held {
                command: held.command,
                lease_epoch: held.lease_epoch,
            };
            if !known.contains(&claim) && now.since(held.claimed_at) > UNHEARD_MAX {
                self.offer_again(held.command, held.lease_epoch).await?;
            }
        }
        Ok(())
    }

    /// Ends a session and releases the commands of its worker at once.
    pub(crate) async fn end_session(
        &self,
        worker: &WorkerId,
        holder: &SessionHolder,
    ) -> Result<(), Error> {
        for held in self.shared.store.held(worker).await? {
            self.offer_again(held.command, held.lease_epoch).await?;
        }
        let ended = self.shared.store.renew(worker, holder, Duration::ZERO);
        ended.await?;
        Ok(())
    }

    async fn offer_again(&self, command: CommandId, epoch: LeaseEpoch) -> Result<(), Error> {
        self.shared.store.release(command, epoch).await?;
        self.shared.drive.send(Order::Forget(command)).await?;
        self.shared.drive.send(Order::Offered).await
    }

    /// Reads notices for a worker from the store; other servers may have written them.
    async fn told_elsewhere(&self, worker: &WorkerId) -> Vec<Told> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.shared.store.changed() => {}
            }
            // Read before the store, so that a command assigned in between does not appear to be withdrawn.
            let Ok(taken) = self.shared.drive.held_elsewhere(worker).await else {
                continue;
            };
            let Ok(held) = self.shared.store.held(worker).await else {
                continue;
            };
            let mut told: Vec<Told> = held.iter().filter_map(told).collect();
            let is_held = |command: &CommandId| held.iter().any(|held| held.command == *command);
            for command in taken.into_iter().filter(|command| !is_held(command)) {
                // The command was withdrawn, or it has ended and its holder knows.
                told.push(Told {
                    command,
                    verdict: Verdict::Stop,
                });
                if self
                    .shared
                    .drive
                    .send(Order::Forget(command))
                    .await
                    .is_err()
                {
                    return told;
                }
            }
            if !told.is_empty() {
                return told;
            }
            // Limits the rate if the store changes continuously.
            tokio::time::sleep(LOOK_EVERY / 10).await;
        }
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
        if self.shared.peers.is_some() {
            return self.deliver(report).await;
        }
        let command = report.command;
        let posted = self.post(report).await;
        posted.map_err(|posted| refused(command, posted))
    }

    async fn heartbeat(&self, pulse: &Pulse) -> Result<(), wire::Error> {
        let holder = sessions::process_holder(&self.shared.owner);
        let renewed = sessions::renew(&*self.shared.store, &pulse.worker, &holder).await;
        if !renewed.map_err(|error| unavailable(error.into()))? {
            return Err(wire::Error::SessionReplaced(pulse.worker.clone()));
        }
        self.reclaim_unheard(pulse).await.map_err(unavailable)
    }

    async fn leave(&self, worker: &WorkerId) -> Result<(), wire::Error> {
        let holder = sessions::process_holder(&self.shared.owner);
        self.end_session(worker, &holder).await.map_err(unavailable)
    }

    async fn listen(&self, worker: &WorkerId) -> Result<Vec<Told>, wire::Error> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Listen {
            worker: worker.clone(),
            reply,
        };
        self.shared.drive.send(order).await.map_err(unavailable)?;
        if self.shared.peers.is_none() {
            return answer.await.map_err(|_| unavailable(Error::Stopping));
        }
        tokio::select! {
            told = answer => told.map_err(|_| unavailable(Error::Stopping)),
            told = self.told_elsewhere(worker) => Ok(told),
        }
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<PlaybookText, wire::Error> {
        let net = self.shared.playbooks.net(hash).await;
        let net = net.map_err(|error| match error {
            Error::NoPlaybook(hash) => wire::Error::NotFound(format!("playbook {hash}")),
            error => unavailable(error),
        })?;
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
        let events = crate::loading::events_at(&*self.shared.store, execution, seqs).await;
        events.map_err(unavailable)
    }

    async fn loop_results(
        &self,
        execution: ExecutionId,
        pointer: &LoopPointer,
    ) -> Result<Raw, wire::Error> {
        let results = crate::loading::loop_results(&self.shared, execution, pointer).await;
        results.map(|value| Raw::of(&value)).map_err(unavailable)
    }

    async fn manifest(&self, reference: &ResultRef) -> Result<Pieces, wire::Error> {
        let found = Found::behind(reference.clone());
        let pieces = self.shared.reader().pieces(found).await;
        pieces.map_err(|error| match error {
            Error::TooLarge(..) => wire::Error::Refused(error.to_string()),
            Error::Body(body) if body.is_missing() => wire::Error::NotFound(body.to_string()),
            error => unavailable(error),
        })
    }

    async fn secrets(&self, ask: &SecretsAsk) -> Result<Vec<Secret>, wire::Error> {
        let secrets = keychain::secrets(&self.shared, ask).await;
        secrets.map_err(|error| denied(ask.command, error))
    }

    async fn look_up(&self, uri: &str) -> Result<Resolved, wire::Error> {
        let reader = self.shared.reader();
        let found = reader.resolve(uri).await.map_err(unavailable)?;
        match found {
            None => Err(wire::Error::NotFound(format!("result `{uri}`"))),
            Some(Found::Body(reference) | Found::Manifest(reference, _)) => {
                Ok(Resolved::Body(reference))
            }
            Some(found) => {
                let value = reader.value(found).await.map_err(unavailable)?;
                Ok(Resolved::Value(Raw::of(&value)))
            }
        }
    }
}

fn denied(command: CommandId, denied: Denied) -> wire::Error {
    match denied {
        Denied::Fenced => wire::Error::Fenced(command),
        Denied::Failed(error) => unavailable(error),
        Denied::Keychain(error) => wire::Error::Denied {
            code: error.code().to_owned(),
            detail: error.told(),
            is_passing: error.is_passing(),
        },
    }
}

/// Notice for the holder of a command, depending on the state of its execution.
pub(crate) fn told(held: &store::Held) -> Option<Told> {
    let verdict = match (held.cancelling, held.paused) {
        (true, _) => Verdict::Stop,
        (false, true) => Verdict::Yield,
        (false, false) => return None,
    };
    Some(Told {
        command: held.command,
        verdict,
    })
}

fn refused(command: CommandId, posted: Posted) -> wire::Error {
    match posted {
        Posted::Refused(Refusal::Fenced | Refusal::Ended) => {
            metrics::counter!(crate::metrics::FENCED).increment(1);
            wire::Error::Fenced(command)
        }
        Posted::Refused(refusal) => wire::Error::Refused(refusal.to_string()),
        Posted::Failed(Error::NotFound(execution)) => {
            wire::Error::NotFound(format!("run {execution}"))
        }
        Posted::Failed(error) => unavailable(error),
    }
}

fn unavailable(error: Error) -> wire::Error {
    wire::Error::Unavailable(Box::new(error))
}
