//! Asynchronous batches: stored in a message to their execution and decided later.

use engine::Input;
use model::event::{Batch, Body};
use model::id::{ExecutionId, Name, Seq};
use model::outcome::{ErrorKind, TaskError};
use model::raw::Raw;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::{Message, MessageKey, Priority};
use wire::api::{BatchAnswer, BatchRequest, BatchState, BatchStatus};

use crate::Shared;
use crate::drive::Extras;
use crate::error::Error;
use crate::ingest::intake::{IncomingEvents, Refused, take};

/// A batch in a message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Deferred {
    /// ID of the batch.
    pub(crate) request_id: Name,
    /// The events.
    pub(crate) request: BatchRequest,
}

/// Result of a batch, for status requests.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    status: BatchState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
}

/// Description of a batch, stored when it is accepted.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {
    execution_id: ExecutionId,
    events: u32,
}

fn begin_key(request_id: &Name) -> String {
    format!("{}{request_id}", store::BATCH)
}

fn end_key(request_id: &Name) -> String {
    format!("{}{request_id}", store::BATCH_END)
}

/// Stores a batch durably, to be decided soon. Repeating the request has no further effect.
pub(crate) async fn accept(
    shared: &Shared,
    request_id: Name,
    request: BatchRequest,
) -> Result<BatchAnswer, Refused> {
    let execution = request.execution_id;
    if shared
        .store
        .execution(execution)
        .await
        .map_err(Error::from)?
        .is_none()
    {
        return Err(Error::NotFound(execution).into());
    }
    let begin = Begin {
        execution_id: execution,
        events: u32::try_from(request.events.len()).unwrap_or(u32::MAX),
    };
    let deferred = Deferred {
        request_id: request_id.clone(),
        request,
    };
    let message = Message {
        key: key(&request_id),
        to: execution,
        body: Raw::of(&deferred),
    };
    let sent = shared.store.send(message, Priority::Normal).await;
    sent.map_err(Error::from)?;
    // The message is stored first, because the description of a batch without a message would never be removed.
    let (key_text, text) = (begin_key(&request_id), Raw::of(&begin));
    let kept = shared.store.set_setting_once(&key_text, text.text()).await;
    kept.map_err(Error::from)?;
    shared.sweeps.messages.notify_one();
    Ok(BatchAnswer {
        request_id: request_id.to_string(),
        status: BatchState::Accepted,
        events: Vec::new(),
        verdict: None,
        next: Vec::new(),
    })
}

/// Message key that depends only on the batch ID.
fn key(request_id: &Name) -> MessageKey {
    let digest: [u8; 32] = Sha256::digest(request_id.as_str().as_bytes()).into();
    let head: [u8; 8] = digest[..8].try_into().expect("a digest has 32 bytes");
    MessageKey {
        from: ExecutionId(i64::from_be_bytes(head) & i64::MAX),
        seq: Seq(0),
        n: 0,
    }
}

/// Decides a stored batch. The message is consumed together with its final event.
pub(crate) async fn decide(
    shared: &Shared,
    deferred: Deferred,
    consumed: MessageKey,
) -> Result<(), Error> {
    let Deferred {
        request_id,
        request,
    } = deferred;
    let execution = request.execution_id;
    let batch = |error| Batch {
        request_id: request_id.clone(),
        events: u32::try_from(request.events.len()).unwrap_or(u32::MAX),
        error,
    };
    for body in [
        Body::BatchAccepted(batch(None)),
        Body::BatchProcessing(batch(None)),
    ] {
        record(shared, execution, body, None).await?;
    }
    let incoming = IncomingEvents {
        execution,
        worker: request.worker_id.clone(),
        command: request.command_id,
        lease_epoch: request.lease_epoch,
        events: request.events.clone(),
    };
    let taken = take(shared, incoming);
    let (end, body) = match taken.await {
        Ok(_) => {
            let status = BatchState::Completed;
            (
                End {
                    status,
                    error: None,
                },
                Body::BatchCompleted(batch(None)),
            )
        }
        Err(Refused::Failed(error)) if error.is_passing() => return Err(error),
        Err(refused) => {
            let error = TaskError {
                retryable: false,
                ..TaskError::new(ErrorKind::ClientError, "BATCH_REFUSED", refused.to_string())
            };
            let status = BatchState::Failed;
            let end = End {
                status,
                error: Some(error.clone()),
            };
            (end, Body::BatchFailed(batch(Some(error))))
        }
    };
    let text = Raw::of(&end);
    shared
        .store
        .set_setting_once(&end_key(&request_id), text.text())
        .await?;
    record(shared, execution, body, Some(consumed)).await
}

/// Records an event about a batch. An execution that has ended only accepts the final one.
async fn record(
    shared: &Shared,
    execution: ExecutionId,
    body: Body,
    consumed: Option<MessageKey>,
) -> Result<(), Error> {
    let input = Input::Record(Box::new(body));
    let extras = Extras::consuming(consumed);
    shared.drive.tell(execution, input, extras).await
}

/// Returns the status of a batch.
pub(crate) async fn status(
    shared: &Shared,
    request_id: &Name,
) -> Result<Option<BatchStatus>, Error> {
    let begin = shared.store.setting(&begin_key(request_id)).await?;
    let Some(begin) = begin.and_then(|text| serde_json::from_str::<Begin>(&text).ok()) else {
        return Ok(None);
    };
    let end = shared.store.setting(&end_key(request_id)).await?;
    let end = end.and_then(|text| serde_json::from_str::<End>(&text).ok());
    let (status, error) = end.map_or((BatchState::Accepted, None), |end| (end.status, end.error));
    Ok(Some(BatchStatus {
        request_id: request_id.to_string(),
        execution_id: begin.execution_id,
        status,
        events: begin.events,
        error,
    }))
}
