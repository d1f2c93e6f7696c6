//! The transport inside a process: the protocol of the workers without the network.
//!
//! Calls for an execution that another server owns are forwarded to it, once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::Refusal;
use model::command::ClaimId;
use model::event::Event;
use model::id::{CommandId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, WorkerId};
use model::raw::RawJson;
use model::result_ref::{ResolvedRef, ResultRef};
use model::source::SourceText;
use model::step_pointer::LoopPointer;
use store::{Priority, SessionHolder};
use tokio::sync::oneshot;
use wire::api::{ClaimRequest, HeartbeatRequest, SecretsRequest};
use wire::{
    ByteStream, ClaimedCommand, CommandNotice, ReportRequest, ReportResponse, ResolvedSecret, Transport, Verdict,
};

use crate::driver::{DriverRequest, InputAttachments, InputError, PendingClaim, WorkerCapacity};
use crate::error::Error;
use crate::keychain::{self, SecretsError};
use crate::peers::{self, OwnerStatus};
use crate::result_reader::LocatedResult;
use crate::{ServerShared, control, sessions};

/// How long a worker's session lives without a heartbeat.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(15);

/// If a worker does not list a claim for this long, the response with the claim was lost.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(8);

/// How often the store is checked for notices that other servers wrote.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often a report is decided or forwarded again while the owner of its execution changes.
const OWNER_CHANGES_MAX: usize = 4;

/// Transport to the driver of this process.
pub(crate) struct InProcessTransport {
    shared: Arc<ServerShared>,
    /// Whether another server forwarded the call; it is not forwarded again.
    is_forwarded: bool,
}

impl InProcessTransport {
    pub(crate) fn new(shared: Arc<ServerShared>) -> Self {
        Self {
            shared,
            is_forwarded: false,
        }
    }

    /// Transport for calls that another server forwarded.
    pub(crate) fn for_forwarded_calls(shared: Arc<ServerShared>) -> Self {
        Self {
            shared,
            is_forwarded: true,
        }
    }

    async fn apply_report(&self, report: ReportRequest) -> Result<ReportResponse, InputError> {
        let capacity = (report.free > 0).then(|| WorkerCapacity {
            worker: report.worker.clone(),
            pool: report.pool,
            kinds: report.kinds,
            free: report.free,
        });
        let input = engine::Input::Report(engine::CommandReport {
            command: report.command.seq,
            worker: report.worker,
            lease_epoch: report.lease_epoch,
            events: report.events,
            end: report.end,
        });
        let execution = report.command.execution;
        let attachments = InputAttachments {
            capacity,
            ..InputAttachments::default()
        };
        let reply = self.shared.driver.apply(execution, input, attachments).await?;
        Ok(ReportResponse {
            verdict: reply.verdict,
            next: reply.next_commands,
        })
    }

    /// Sends a report to the owner of its execution; adopts the execution if its owner is dead.
    async fn deliver_report(&self, report: ReportRequest) -> Result<ReportResponse, wire::Error> {
        let command = report.command;
        for _ in 0..OWNER_CHANGES_MAX {
            let result = self.apply_report(report.clone()).await;
            let owner = match result {
                Err(InputError::Failed(Error::OwnedBy(owner))) if !self.is_forwarded => owner,
                other => return other.map_err(|error| from_input_error(command, error)),
            };
            let driver = peers::owner_status(&self.shared, &owner).await;
            match driver.map_err(|error| unavailable(error.into()))? {
                OwnerStatus::Reachable(client) => {
                    let worker = report.worker.clone();
                    let response = peers::forward_report(client, report).await?;
                    self.record_assigned(worker, &response).await;
                    return Ok(response);
                }
                OwnerStatus::Unreachable => return Err(unavailable(Error::OwnedBy(owner))),
                OwnerStatus::Dead => {
                    let adopted = control::adopt(&self.shared, command.execution, Priority::Normal).await;
                    adopted.map_err(unavailable)?;
                }
            }
        }
        Err(unavailable(Error::NotFound(command.execution)))
    }

    /// Records what another server assigned to a worker of this server, so that the worker is notified here if it is
    /// withdrawn.
    async fn record_assigned(&self, worker: WorkerId, response: &ReportResponse) {
        let commands: Vec<CommandId> = response.next.iter().map(|next| next.command.id).collect();
        if !commands.is_empty() {
            // A server that is stopping sends no more notices.
            let _ = self
                .shared
                .driver
                .send(DriverRequest::RecordRemoteClaims { worker, commands })
                .await;
        }
    }

    /// Releases claims that the store has and that the worker does not list in its heartbeat.
    pub(crate) async fn release_unacknowledged(&self, request: &HeartbeatRequest) -> Result<(), Error> {
        let acknowledged: HashSet<ClaimId> = request.claims.iter().copied().collect();
        let now = self.shared.store.now();
        for row in self.shared.store.worker_claims(&request.worker).await? {
            if !acknowledged.contains(&row.claim) && now.since(row.claimed_at) > UNACKNOWLEDGED_MAX {
                self.release_claim(row.claim.command, row.claim.lease_epoch).await?;
            }
        }
        Ok(())
    }

    /// Ends a session and releases the commands of its worker at once.
    pub(crate) async fn end_session(&self, worker: &WorkerId, holder: &SessionHolder) -> Result<(), Error> {
        for row in self.shared.store.worker_claims(worker).await? {
            self.release_claim(row.claim.command, row.claim.lease_epoch).await?;
        }
        let end_session = self.shared.store.renew_session(worker, holder, Duration::ZERO);
        end_session.await?;
        Ok(())
    }

    /// Releases a claim; other workers can claim the command at once.
    pub(crate) async fn release_claim(&self, command: CommandId, epoch: LeaseEpoch) -> Result<(), Error> {
        self.shared.store.release_claim(command, epoch).await?;
        self.shared.driver.send(DriverRequest::ForgetHolder(command)).await?;
        self.shared.driver.send(DriverRequest::RecheckOffers).await
    }

    /// Reads notices for a worker from the store; other servers may have written them.
    async fn read_notices_from_store(&self, worker: &WorkerId) -> Vec<CommandNotice> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.shared.store.wait_for_change() => {}
            }
            // Read before the store, so that a command assigned in between does not appear to be withdrawn.
            let Ok(remote_claims) = self.shared.driver.remote_claims(worker).await else {
                continue;
            };
            let Ok(claims) = self.shared.store.worker_claims(worker).await else {
                continue;
            };
            let mut notices: Vec<CommandNotice> = claims.iter().filter_map(notice_for).collect();
            let is_claimed = |command: &CommandId| claims.iter().any(|claims| claims.claim.command == *command);
            for command in remote_claims.into_iter().filter(|command| !is_claimed(command)) {
                // The command was withdrawn, or it has ended and its holder knows.
                notices.push(CommandNotice {
                    command,
                    verdict: Verdict::Stop,
                });
                if self
                    .shared
                    .driver
                    .send(DriverRequest::ForgetHolder(command))
                    .await
                    .is_err()
                {
                    return notices;
                }
            }
            if !notices.is_empty() {
                return notices;
            }
            // Limits the rate if the store changes continuously.
            tokio::time::sleep(POLL_INTERVAL / 10).await;
        }
    }
}

#[async_trait]
impl Transport for InProcessTransport {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedCommand>, wire::Error> {
        let (reply, response) = oneshot::channel();
        let driver_request = DriverRequest::Claim(PendingClaim {
            request: request.clone(),
            reply,
        });
        self.shared.driver.send(driver_request).await.map_err(unavailable)?;
        match tokio::time::timeout(request.wait(), response).await {
            Ok(Ok(claims)) => claims.map_err(unavailable),
            Ok(Err(_)) => Err(unavailable(Error::Stopping)),
            Err(_) => Ok(Vec::new()),
        }
    }

    async fn report(&self, report: ReportRequest) -> Result<ReportResponse, wire::Error> {
        if self.shared.peer_clients.is_some() {
            return self.deliver_report(report).await;
        }
        let command = report.command;
        let result = self.apply_report(report).await;
        result.map_err(|error| from_input_error(command, error))
    }

    async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<(), wire::Error> {
        let holder = sessions::process_holder(&self.shared.owner);
        let renewed = sessions::renew_session(&*self.shared.store, &request.worker, &holder).await;
        if !renewed.map_err(|error| unavailable(error.into()))? {
            return Err(wire::Error::SessionReplaced(request.worker.clone()));
        }
        let descriptions = &self.shared.worker_descriptions;
        let recorded = descriptions.record(&*self.shared.store, &request.worker, &holder, &request.description);
        recorded.await.map_err(|error| unavailable(error.into()))?;
        self.release_unacknowledged(request).await.map_err(unavailable)
    }

    async fn leave(&self, worker: &WorkerId) -> Result<(), wire::Error> {
        let holder = sessions::process_holder(&self.shared.owner);
        self.end_session(worker, &holder).await.map_err(unavailable)
    }

    async fn listen(&self, worker: &WorkerId) -> Result<Vec<CommandNotice>, wire::Error> {
        let (reply, response) = oneshot::channel();
        let driver_request = DriverRequest::Listen {
            worker: worker.clone(),
            reply,
        };
        self.shared.driver.send(driver_request).await.map_err(unavailable)?;
        if self.shared.peer_clients.is_none() {
            return response.await.map_err(|_| unavailable(Error::Stopping));
        }
        tokio::select! {
            notices = response => notices.map_err(|_| unavailable(Error::Stopping)),
            notices = self.read_notices_from_store(worker) => Ok(notices),
        }
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<SourceText, wire::Error> {
        let net = self.shared.catalog.net(hash).await;
        let net = net.map_err(|error| match error {
            Error::NoPlaybook(hash) => wire::Error::NotFound(format!("playbook {hash}")),
            error => unavailable(error),
        })?;
        Ok(net.playbook.source.clone())
    }

    async fn events(&self, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, wire::Error> {
        let events = crate::loading::load_events(&*self.shared.store, execution, seqs).await;
        events.map_err(unavailable)
    }

    async fn loop_results(&self, execution: ExecutionId, pointer: &LoopPointer) -> Result<RawJson, wire::Error> {
        let results = crate::loading::load_loop_results(&self.shared, execution, pointer).await;
        results
            .map(|value| RawJson::from_serializable(&value))
            .map_err(unavailable)
    }

    async fn manifest(&self, reference: &ResultRef) -> Result<ByteStream, wire::Error> {
        let located = LocatedResult::from_reference(reference.clone());
        let pieces = self.shared.reader().stream(located).await;
        pieces.map_err(|error| match error {
            Error::TooLarge(..) => wire::Error::Refused(error.to_string()),
            Error::Body(body) if body.is_missing() => wire::Error::NotFound(body.to_string()),
            error => unavailable(error),
        })
    }

    async fn secrets(&self, request: &SecretsRequest) -> Result<Vec<ResolvedSecret>, wire::Error> {
        let secrets = keychain::resolve_secrets(&self.shared, request).await;
        secrets.map_err(|error| from_secrets_error(request.command, error))
    }

    async fn resolve_ref(&self, uri: &str) -> Result<ResolvedRef, wire::Error> {
        let reader = self.shared.reader();
        let resolved = reader.resolve(uri).await.map_err(unavailable)?;
        match resolved {
            None => Err(wire::Error::NotFound(format!("result `{uri}`"))),
            Some(LocatedResult::Body(reference) | LocatedResult::Manifest(reference, _)) => {
                Ok(ResolvedRef::Body(reference))
            }
            Some(resolved) => {
                let value = reader.load_value(resolved).await.map_err(unavailable)?;
                Ok(ResolvedRef::Value(RawJson::from_serializable(&value)))
            }
        }
    }
}

fn from_secrets_error(command: CommandId, denied: SecretsError) -> wire::Error {
    match denied {
        SecretsError::Fenced => wire::Error::Fenced(command),
        SecretsError::Failed(error) => unavailable(error),
        SecretsError::Keychain(error) => wire::Error::SecretsRefused {
            code: error.code().to_owned(),
            detail: error.message_with_remedy(),
            is_transient: error.is_transient(),
        },
    }
}

/// Notice for the holder of a command, depending on the state of its execution.
pub(crate) fn notice_for(worker_claim: &store::WorkerClaim) -> Option<CommandNotice> {
    let verdict = match (worker_claim.is_cancelling, worker_claim.is_paused) {
        (true, _) => Verdict::Stop,
        (false, true) => Verdict::Yield,
        (false, false) => return None,
    };
    Some(CommandNotice {
        command: worker_claim.claim.command,
        verdict,
    })
}

fn from_input_error(command: CommandId, error: InputError) -> wire::Error {
    match error {
        InputError::Refused(Refusal::Fenced | Refusal::ExecutionEnded) => {
            metrics::counter!(crate::metrics::REPORTS_FENCED).increment(1);
            wire::Error::Fenced(command)
        }
        InputError::Refused(refusal) => wire::Error::Refused(refusal.to_string()),
        InputError::Failed(Error::NotFound(execution)) => wire::Error::NotFound(format!("run {execution}")),
        InputError::Failed(error) => unavailable(error),
    }
}

fn unavailable(error: Error) -> wire::Error {
    wire::Error::Unavailable(Box::new(error))
}
