//! Control requests: cancel, pause, resume, retry, finalize, patch and signal, whichever process owns the execution.

use std::time::Duration;

use engine::{ControlRequest, ExecutionMessage, Input, Refusal};
use model::id::{ExecutionId, Seq};
use model::raw::RawJson;
use model::status::RunStatus;
use store::{Adoption, Message, MessageKey, OwnerId, Priority};
use tokio::time::Instant;

use crate::driver::{DriverRequest, InputAttachments, InputError, input_priority};
use crate::error::Error;
use crate::playbooks::RegisteredPlaybook;
use crate::{Server, ServerShared};

/// How long a request waits for an owner in another process: longer than it takes to detect that the owner is dead and
/// to adopt its executions.
const DELIVERY_MAX: Duration = Duration::from_secs(10);
/// Pause before the first check whether the message was consumed; it doubles up to `POLL_PAUSE_MAX`.
const POLL_PAUSE: Duration = Duration::from_millis(5);
const POLL_PAUSE_MAX: Duration = Duration::from_millis(100);
/// How often the owner of an execution may change while a request is carried out.
const OWNER_CHANGES_MAX: usize = 4;

/// Result of a message to the owner of an execution.
enum DeliveryResult {
    /// The request was carried out.
    Applied,
    /// The request is invalid in the current state of the execution.
    Refused(Refusal),
    /// No process consumed the message in time, and it was deleted.
    Withdrawn,
}

/// Whether a request may use the space that is reserved for control requests: even on a full disk an execution can be
/// stopped.
pub fn control_priority(request: &ControlRequest) -> Priority {
    input_priority(&request.clone().into())
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The request is invalid in the current state of the execution.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server failed to carry it out.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Server {
    /// Carries out a request: directly if this process owns the execution or no process does, otherwise with a message
    /// to the owner. When this returns `Ok`, the request has been carried out.
    pub async fn control(&self, id: ExecutionId, control: ControlRequest) -> Result<(), ControlError> {
        let mut was_withdrawn = false;
        for _ in 0..OWNER_CHANGES_MAX {
            match self.adopt(id, control_priority(&control)).await? {
                Adoption::NotFound => return Err(Error::NotFound(id).into()),
                Adoption::OwnedBy(owner) if was_withdrawn => {
                    return Err(Error::OwnedBy(owner).into());
                }
                Adoption::OwnedBy(_) => {
                    self.check_control(id, &control).await?;
                    match self.deliver_control(id, &control).await? {
                        DeliveryResult::Applied => return Ok(()),
                        DeliveryResult::Refused(refusal) => return Err(refusal.into()),
                        // The owner may have died meanwhile.
                        DeliveryResult::Withdrawn => was_withdrawn = true,
                    }
                }
                Adoption::Owned => match self.apply_control(id, &control).await {
                    Ok(()) => return Ok(()),
                    Err(InputError::Refused(refusal)) => return Err(refusal.into()),
                    // Another process has adopted the execution meanwhile.
                    Err(InputError::Failed(Error::OwnedBy(_))) => {}
                    Err(InputError::Failed(error)) => return Err(error.into()),
                },
            }
        }
        Err(Error::NotFound(id).into())
    }

    /// Carries out a request on an execution that this process owns.
    async fn apply_control(&self, id: ExecutionId, control: &ControlRequest) -> Result<(), InputError> {
        let switch = match control {
            ControlRequest::Retry { version } => resolve_switch(&self.shared, id, *version).await?,
            _ => None,
        };
        let attachments = InputAttachments {
            switch,
            ..InputAttachments::default()
        };
        let input = Input::from(control.clone());
        self.shared.driver.apply(id, input, attachments).await.map(drop)
    }

    /// Sends a message to the owner and waits for the result. Deletes the message if it is not consumed in time.
    async fn deliver_control(&self, id: ExecutionId, control: &ControlRequest) -> Result<DeliveryResult, Error> {
        if let ControlRequest::Retry { version } = control {
            // An unknown version is rejected at once.
            resolve_switch(&self.shared, id, *version).await?;
        }
        let store = &self.shared.store;
        let key = MessageKey {
            from: ExecutionId(store.ids(1).0),
            seq: Seq(0),
            n: 0,
        };
        let message = Message {
            key,
            to: id,
            body: RawJson::from_serializable(&ExecutionMessage::Control(control.clone())),
        };
        store.send_message(message, control_priority(control)).await?;
        let sent_at = Instant::now();
        let mut pause = POLL_PAUSE;
        while store.is_pending(key).await? {
            if sent_at.elapsed() > DELIVERY_MAX && store.withdraw_message(key).await? {
                return Ok(DeliveryResult::Withdrawn);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL_PAUSE_MAX);
        }
        let refusal = store.refusal(key).await?;
        let refusal = refusal.and_then(|text| serde_json::from_str(&text).ok());
        Ok(refusal.map_or(DeliveryResult::Applied, DeliveryResult::Refused))
    }

    /// Rejects at once what the owner would reject.
    async fn check_control(&self, id: ExecutionId, control: &ControlRequest) -> Result<(), ControlError> {
        let row = self.shared.store.execution(id).await.map_err(Error::from)?;
        let status = row.ok_or(Error::NotFound(id))?.status;
        control_refusal(status, control).map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// Adopts an execution whose owner is dead. The commands of the workers in the dead process are offered again.
    pub async fn adopt(&self, id: ExecutionId, priority: Priority) -> Result<Adoption, Error> {
        adopt(&self.shared, id, priority).await
    }
}

/// Why a request is invalid for a run with this status.
pub(crate) fn control_refusal(status: RunStatus, control: &ControlRequest) -> Option<Refusal> {
    match control {
        ControlRequest::Retry { .. } => {
            let is_retryable = matches!(status, RunStatus::Failed | RunStatus::Cancelled);
            (!is_retryable).then_some(Refusal::NotRetryable)
        }
        _ if status.is_terminal() => Some(Refusal::ExecutionEnded),
        ControlRequest::Pause { .. } if status == RunStatus::Paused => Some(Refusal::AlreadyPaused),
        ControlRequest::Resume if status != RunStatus::Paused => Some(Refusal::NotPaused),
        _ => None,
    }
}

/// Text of the playbook version that a retry continues with, if it names one.
pub(crate) async fn resolve_switch(
    shared: &ServerShared,
    id: ExecutionId,
    version: Option<u32>,
) -> Result<Option<Box<RegisteredPlaybook>>, Error> {
    let Some(version) = version else {
        return Ok(None);
    };
    let row = shared.store.execution(id).await?;
    let row = row.ok_or(Error::NotFound(id))?;
    let registered = shared.catalog.find_version(&row, version).await?;
    Ok(Some(Box::new(registered)))
}

/// Adopts an execution whose owner is dead.
pub(crate) async fn adopt(shared: &ServerShared, id: ExecutionId, priority: Priority) -> Result<Adoption, Error> {
    let execution_row = shared.store.execution(id).await?;
    let former = execution_row.and_then(|row| row.owner);
    if former.as_ref() == Some(&shared.owner) {
        return Ok(Adoption::Owned);
    }
    let adoption = shared.store.adopt(id, &shared.owner, priority).await?;
    if let (Adoption::Owned, Some(former)) = (&adoption, former) {
        release_former_claims(shared, id, &former, priority).await?;
        // The former owner may have died between two decisions.
        shared.driver.continue_execution(id).await?;
    }
    Ok(adoption)
}

/// Releases the commands of workers inside the dead process. That is an outage and no fault of the work, so it is no
/// strike. Workers in processes of their own are alive, and their claims stay.
async fn release_former_claims(
    shared: &ServerShared,
    id: ExecutionId,
    former: &OwnerId,
    priority: Priority,
) -> Result<(), Error> {
    let inside = format!("{former}/");
    for open in shared.store.open_commands(id).await? {
        let Some(worker) = open.worker else { continue };
        if !worker.0.starts_with(&inside) {
            continue;
        }
        let input = Input::ClaimLost {
            command: open.command.id.seq,
            worker,
            lease_epoch: open.lease_epoch,
            is_strike: false,
        };
        let attachments = InputAttachments {
            priority,
            ..InputAttachments::default()
        };
        shared.driver.apply_if_valid(id, input, attachments).await?;
    }
    shared.driver.send(DriverRequest::RecheckOffers).await
}
