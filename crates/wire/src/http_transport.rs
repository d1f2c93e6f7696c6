//! `Transport` over HTTP: connects a worker to a remote server, and one server to another.

use std::time::Duration;

use async_trait::async_trait;
use model::command::ReportEnd;
use model::event::Event;
use model::id::{ExecutionId, PlaybookHash, Seq, WorkerId};
use model::raw::RawJson;
use model::result_ref::{ResolvedRef, ResultRef};
use model::source::SourceText;
use model::step_pointer::LoopPointer;
use model::time::Time;

use crate::api::{
    BatchRequest, BatchResponse, ClaimRequest, ClaimResponse, HeartbeatRequest, LoadEventsRequest, LoadEventsResponse,
    LoopResultsRequest, NoticesResponse, ResolveRefRequest, SecretsRequest, SecretsResponse, WorkerRequest,
};
use crate::client::{CallError, Client};
use crate::event::WireEvent;
use crate::secret::ResolvedSecret;
use crate::transport::{
    ByteStream, ClaimedCommand, CommandNotice, Error, ReportRequest, ReportResponse, Transport, Verdict,
};

/// Additional timeout beyond the time that the server waits before it responds.
const RESPONSE_MARGIN: Duration = Duration::from_secs(10);
/// Timeout of a heartbeat.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the server holds a long poll.
const LISTEN_WAIT: Duration = Duration::from_secs(25);

/// Maximum number of events in a batch.
const BATCH_EVENTS_MAX: usize = 256;
/// Maximum number of bytes of payloads and envelopes in a batch; the server accepts 25 percent more.
const BATCH_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Estimated size of an event without its payload.
const ENVELOPE_BYTES: usize = 512;

/// `Transport` over HTTP.
pub struct HttpTransport {
    client: Client,
}

impl HttpTransport {
    /// Creates a transport that uses this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn send_batch(
        &self,
        report: &ReportRequest,
        events: Vec<WireEvent>,
        end: ReportEnd,
    ) -> Result<ReportResponse, Error> {
        let command = report.command;
        let request = BatchRequest {
            execution_id: command.execution,
            worker_id: Some(report.worker.clone()),
            events,
            command_id: Some(command),
            lease_epoch: Some(report.lease_epoch),
            end,
            pool: Some(report.pool.clone()),
            kinds: report.kinds.clone(),
            free: if end == ReportEnd::Open { 0 } else { report.free },
        };
        let response: BatchResponse = match self.client.post("/api/events/batch", &request).await {
            Ok(response) => response,
            Err(CallError::Problem(problem)) if problem.code == "FENCED" => {
                return Err(Error::Fenced(command));
            }
            Err(error) => return Err(to_transport_error(error)),
        };
        Ok(ReportResponse {
            verdict: response.verdict.unwrap_or(Verdict::Proceed),
            next: response.next,
        })
    }
}

/// Splits events into batches within the limits of the API, in order.
fn split_into_batches(events: Vec<WireEvent>) -> Vec<Vec<WireEvent>> {
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut bytes = 0;
    for event in events {
        let size = event.payload.as_ref().map_or(0, |payload| payload.text().len());
        if batch.len() == BATCH_EVENTS_MAX || bytes + size > BATCH_BYTES_MAX {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size + ENVELOPE_BYTES;
        batch.push(event);
    }
    batches.push(batch);
    batches
}

#[async_trait]
impl Transport for HttpTransport {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedCommand>, Error> {
        let timeout = request.wait() + RESPONSE_MARGIN;
        let response = self.client.post_with_timeout("/api/commands/claim", request, timeout);
        let response: ClaimResponse = response.await.map_err(to_transport_error)?;
        Ok(response.commands)
    }

    async fn report(&self, report: ReportRequest) -> Result<ReportResponse, Error> {
        let events: Vec<WireEvent> = report.events.iter().map(WireEvent::from_event).collect();
        let mut batches = split_into_batches(events);
        let last = batches.pop().unwrap_or_default();
        for events in batches {
            // Only the last batch ends the command.
            let receipt = self.send_batch(&report, events, ReportEnd::Open).await?;
            if receipt.verdict == Verdict::Stop {
                return Ok(receipt);
            }
        }
        self.send_batch(&report, last, report.end).await
    }

    async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<(), Error> {
        let path = "/api/worker/pool/heartbeat";
        let response = self.client.post_with_timeout(path, request, HEARTBEAT_TIMEOUT).await;
        match response.map(|_: NoticesResponse| ()) {
            Err(CallError::Problem(problem)) if problem.code == "SESSION_MISMATCH" => {
                Err(Error::SessionReplaced(request.worker.clone()))
            }
            response => response.map_err(to_transport_error),
        }
    }

    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        let request = WorkerRequest { worker: worker.clone() };
        let response = self.client.post("/api/worker/pool/deregister", &request).await;
        response.map(|_: serde_json::Value| ()).map_err(to_transport_error)
    }

    async fn listen(&self, worker: &WorkerId) -> Result<Vec<CommandNotice>, Error> {
        let request = WorkerRequest { worker: worker.clone() };
        let path = "/api/worker/pool/listen";
        let response = self
            .client
            .post_with_timeout(path, &request, LISTEN_WAIT + RESPONSE_MARGIN);
        let response: NoticesResponse = response.await.map_err(to_transport_error)?;
        Ok(response.notices)
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<SourceText, Error> {
        let path = format!("/api/catalog/hash/{hash}");
        self.client.get(&path).await.map_err(to_transport_error)
    }

    async fn events(&self, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        let request = LoadEventsRequest {
            execution_id: execution,
            seqs: seqs.to_vec(),
        };
        let response = self.client.post("/api/commands/events", &request).await;
        let response: LoadEventsResponse = response.map_err(to_transport_error)?;
        let mut events = Vec::with_capacity(response.events.len());
        for (seq, event) in response.events {
            let mut event = event
                .to_recorded_event(Time::default())
                .map_err(|error| Error::Unavailable(Box::new(error)))?;
            event.seq = seq;
            events.push(event);
        }
        Ok(events)
    }

    async fn loop_results(&self, execution: ExecutionId, pointer: &LoopPointer) -> Result<RawJson, Error> {
        let request = LoopResultsRequest {
            execution_id: execution,
            pointer: pointer.clone(),
        };
        let response = self.client.post("/api/commands/loop", &request).await;
        response.map_err(to_transport_error)
    }

    async fn manifest(&self, reference: &ResultRef) -> Result<ByteStream, Error> {
        let response = self.client.post_for_stream("/api/commands/manifest", reference).await;
        response.map_err(to_transport_error)
    }

    async fn secrets(&self, request: &SecretsRequest) -> Result<Vec<ResolvedSecret>, Error> {
        let response = self.client.post("/api/commands/secrets", request).await;
        let response: SecretsResponse = match response {
            Ok(response) => response,
            Err(CallError::Problem(problem)) if problem.code == "FENCED" => {
                return Err(Error::Fenced(request.command));
            }
            // Errors of the keychain are final. A rejected token is not: it may be fixed while the worker waits.
            Err(CallError::Problem(problem)) if is_keychain_code(&problem.code) => {
                return Err(Error::SecretsRefused {
                    code: problem.code,
                    detail: problem.detail,
                    is_transient: problem.status == 503,
                });
            }
            Err(error) => return Err(to_transport_error(error)),
        };
        Ok(response.into_secrets())
    }

    async fn resolve_ref(&self, uri: &str) -> Result<ResolvedRef, Error> {
        let request = ResolveRefRequest {
            reference: uri.to_owned(),
        };
        let response = self.client.post("/api/commands/reference", &request).await;
        response.map_err(to_transport_error)
    }
}

/// Whether an error code belongs to the keychain.
fn is_keychain_code(code: &str) -> bool {
    let own = ["CREDENTIAL_", "KEYCHAIN_", "MASTER_KEY_"];
    own.iter().any(|prefix| code.starts_with(prefix))
}

/// Converts an API error to an error of the transport. A rejected token may be fixed while the worker waits.
fn to_transport_error(error: CallError) -> Error {
    match error {
        CallError::Problem(problem) if matches!(problem.status, 400 | 413 | 422) => Error::Refused(problem.detail),
        CallError::Problem(problem) if problem.status == 404 => Error::NotFound(problem.detail),
        CallError::Problem(problem) if problem.status == 409 => Error::Refused(problem.detail),
        error => Error::Unavailable(Box::new(error)),
    }
}
