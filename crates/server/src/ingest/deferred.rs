//! Asynchronous batches: stored in a message to their execution and decided later.

use engine::Input;
use model::event::{BatchProgress, EventBody};
use model::id::{ExecutionId, Name, Seq};
use model::outcome::{ErrorKind, TaskError};
use model::raw::RawJson;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::{Message, MessageKey, Priority};
use wire::api::{BatchRequest, BatchResponse, BatchState, BatchStatusResponse};

use crate::ServerShared;
use crate::driver::InputAttachments;
use crate::error::Error;
use crate::ingest::batch::{IncomingEvents, IngestError, ingest_batch};

/// A batch in a message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeferredBatch {
    /// ID of the batch.
    pub(crate) request_id: Name,
    /// The events.
    pub(crate) request: BatchRequest,
}

/// Result of a batch, for status requests.
#[derive(Debug, Serialize, Deserialize)]
struct BatchEnd {
    status: BatchState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
}

/// Description of a batch, stored when it is accepted.
#[derive(Debug, Serialize, Deserialize)]
struct BatchStart {
    execution_id: ExecutionId,
    events: u32,
}

fn start_key(request_id: &Name) -> String {
    format!("{}{request_id}", store::BATCH_PREFIX)
}

fn end_key(request_id: &Name) -> String {
    format!("{}{request_id}", store::BATCH_END_PREFIX)
}

/// Stores a batch durably, to be decided soon. Repeating the request has no further effect.
pub(crate) async fn store_batch(
    shared: &ServerShared,
    request_id: Name,
    request: BatchRequest,
) -> Result<BatchResponse, IngestError> {
    let execution = request.execution_id;
    if shared.store.execution(execution).await.map_err(Error::from)?.is_none() {
        return Err(Error::NotFound(execution).into());
    }
    let start = BatchStart {
        execution_id: execution,
        events: u32::try_from(request.events.len()).unwrap_or(u32::MAX),
    };
    let deferred = DeferredBatch {
        request_id: request_id.clone(),
        request,
    };
    let message = Message {
        key: message_key(&request_id),
        to: execution,
        body: RawJson::from_serializable(&deferred),
    };
    let delivery = shared.store.send_message(message, Priority::Normal).await;
    delivery.map_err(Error::from)?;
    // The message is stored first, because the description of a batch without a message would never be removed.
    let (key_text, text) = (start_key(&request_id), RawJson::from_serializable(&start));
    let stored_text = shared.store.set_setting_once(&key_text, text.text()).await;
    stored_text.map_err(Error::from)?;
    shared.sweep_signals.messages.notify_one();
    Ok(BatchResponse {
        request_id: request_id.to_string(),
        status: BatchState::Accepted,
        events: Vec::new(),
        verdict: None,
        next: Vec::new(),
    })
}

/// Message key that depends only on the batch ID.
fn message_key(request_id: &Name) -> MessageKey {
    let digest: [u8; 32] = Sha256::digest(request_id.as_str().as_bytes()).into();
    let head: [u8; 8] = digest[..8].try_into().expect("a digest has 32 bytes");
    MessageKey {
        from: ExecutionId(i64::from_be_bytes(head) & i64::MAX),
        seq: Seq(0),
        n: 0,
    }
}

/// Decides a stored batch. The message is consumed together with its final event.
pub(crate) async fn decide_batch(
    shared: &ServerShared,
    deferred: DeferredBatch,
    consumed: MessageKey,
) -> Result<(), Error> {
    let DeferredBatch { request_id, request } = deferred;
    let execution = request.execution_id;
    let batch = |error| BatchProgress {
        request_id: request_id.clone(),
        events: u32::try_from(request.events.len()).unwrap_or(u32::MAX),
        error,
    };
    for body in [
        EventBody::BatchAccepted(batch(None)),
        EventBody::BatchProcessing(batch(None)),
    ] {
        record_batch_event(shared, execution, body, None).await?;
    }
    let incoming = IncomingEvents {
        execution,
        worker: request.worker_id.clone(),
        command: request.command_id,
        lease_epoch: request.lease_epoch,
        events: request.events.clone(),
    };
    let ingested = ingest_batch(shared, incoming);
    let (end, body) = match ingested.await {
        Ok(_) => {
            let status = BatchState::Completed;
            (BatchEnd { status, error: None }, EventBody::BatchCompleted(batch(None)))
        }
        Err(IngestError::Failed(error)) if error.is_transient() => return Err(error),
        Err(refused) => {
            let error = TaskError::permanent(ErrorKind::ClientError, "BATCH_REFUSED", refused.to_string());
            let status = BatchState::Failed;
            let end = BatchEnd {
                status,
                error: Some(error.clone()),
            };
            (end, EventBody::BatchFailed(batch(Some(error))))
        }
    };
    let text = RawJson::from_serializable(&end);
    shared
        .store
        .set_setting_once(&end_key(&request_id), text.text())
        .await?;
    record_batch_event(shared, execution, body, Some(consumed)).await
}

/// Records an event about a batch. An execution that has ended only accepts the final one.
async fn record_batch_event(
    shared: &ServerShared,
    execution: ExecutionId,
    body: EventBody,
    consumed: Option<MessageKey>,
) -> Result<(), Error> {
    let input = Input::RecordEvent(Box::new(body));
    let attachments = InputAttachments::from_message(consumed);
    shared.driver.apply_if_valid(execution, input, attachments).await
}

/// Returns the status of a batch.
pub(crate) async fn batch_status(
    shared: &ServerShared,
    request_id: &Name,
) -> Result<Option<BatchStatusResponse>, Error> {
    let start = shared.store.setting(&start_key(request_id)).await?;
    let Some(start) = start.and_then(|text| serde_json::from_str::<BatchStart>(&text).ok()) else {
        return Ok(None);
    };
    let end = shared.store.setting(&end_key(request_id)).await?;
    let end = end.and_then(|text| serde_json::from_str::<BatchEnd>(&text).ok());
    let (status, error) = end.map_or((BatchState::Accepted, None), |end| (end.status, end.error));
    Ok(Some(BatchStatusResponse {
        request_id: request_id.to_string(),
        execution_id: start.execution_id,
        status,
        events: start.events,
        error,
    }))
}
