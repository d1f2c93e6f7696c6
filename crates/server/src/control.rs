//! Control requests: cancel, pause, resume, retry, finalize, patch and signal, whichever process owns the execution.

use std::time::Duration;

use engine::{Input, MessageBody, Refusal};
use model::event::{Ending, StopRequested};
use model::id::{ExecutionId, Name, Seq};
use model::raw::Raw;
use model::status::RunStatus;
use store::{Adoption, Message, MessageKey, OwnerId, Priority};
use tokio::time::Instant;

use crate::drive::{Extras, Order, Posted};
use crate::error::Error;
use crate::playbooks::Registered;
use crate::{Server, Shared};

/// How long a request waits for an owner in another process: longer than it takes to detect that the owner is dead and
/// to adopt its executions.
const DELIVERY_MAX: Duration = Duration::from_secs(10);
/// Pause before the first check whether the message was consumed; it doubles up to `LOOK_PAUSE_MAX`.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(100);
/// How often the owner of an execution may change while a request is carried out.
const DRIVERS_MAX: usize = 4;

/// Result of a message to the owner of an execution.
enum Delivery {
    /// The request was carried out.
    CarriedOut,
    /// The request is invalid in the current state of the execution.
    Refused(Refusal),
    /// No process consumed the message in time, and it was deleted.
    TakenBack,
}

/// A control request for an execution.
#[derive(Debug, Clone)]
pub enum Control {
    /// Cancel the execution.
    Cancel {
        /// Reason, recorded in the log.
        reason: Option<String>,
        /// Whether child executions are cancelled too.
        cascade: bool,
    },
    /// Offer no more commands until the execution is resumed.
    Pause {
        /// Reason, recorded in the log.
        reason: Option<String>,
    },
    /// Resume a paused execution.
    Resume,
    /// Retry what failed.
    Retry {
        /// Another version of the playbook to continue with.
        version: Option<u32>,
    },
    /// End a stuck execution with a status that the caller chooses.
    Finalize {
        /// Final status.
        ending: Ending,
        /// Reason, recorded in the log.
        reason: Option<String>,
    },
    /// Patch `ctx`.
    Patch(Raw),
    /// Deliver a signal.
    Signal {
        /// Name of the signal.
        name: Name,
        /// Payload of the signal.
        payload: Option<Raw>,
    },
}

impl Control {
    /// Whether the request may use the space that is reserved for control requests: even on a full disk an execution
    /// can be stopped.
    pub fn priority(&self) -> Priority {
        match self {
            Self::Cancel { .. } | Self::Finalize { .. } | Self::Pause { .. } => Priority::Control,
            Self::Resume | Self::Retry { .. } | Self::Patch(_) | Self::Signal { .. } => {
                Priority::Normal
            }
        }
    }
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
    pub async fn control(&self, id: ExecutionId, control: Control) -> Result<(), ControlError> {
        let mut was_taken_back = false;
        for _ in 0..DRIVERS_MAX {
            match self.adopt(id, control.priority()).await? {
                Adoption::Unknown => return Err(Error::NotFound(id).into()),
                Adoption::HeldBy(owner) if was_taken_back => {
                    return Err(Error::Elsewhere(owner).into());
                }
                Adoption::HeldBy(_) => {
                    self.check(id, &control).await?;
                    match self.deliver(id, &control).await? {
                        Delivery::CarriedOut => return Ok(()),
                        Delivery::Refused(refusal) => return Err(refusal.into()),
                        // The owner may have died meanwhile.
                        Delivery::TakenBack => was_taken_back = true,
                    }
                }
                Adoption::Mine => match self.carry_out(id, &control).await {
                    Ok(()) => return Ok(()),
                    Err(Posted::Refused(refusal)) => return Err(refusal.into()),
                    // Another process has adopted the execution meanwhile.
                    Err(Posted::Failed(Error::Elsewhere(_))) => {}
                    Err(Posted::Failed(error)) => return Err(error.into()),
                },
            }
        }
        Err(Error::NotFound(id).into())
    }

    /// Carries out a request on an execution that this process owns.
    async fn carry_out(&self, id: ExecutionId, control: &Control) -> Result<(), Posted> {
        let switch = match control {
            Control::Retry { version } => switch(&self.shared, id, *version).await?,
            _ => None,
        };
        let extras = Extras {
            switch,
            ..Extras::default()
        };
        let input = input(control.clone());
        self.shared.drive.post(id, input, extras).await.map(drop)
    }

    /// Sends a message to the owner and waits for the result. Deletes the message if it is not consumed in time.
    async fn deliver(&self, id: ExecutionId, control: &Control) -> Result<Delivery, Error> {
        if let Control::Retry { version } = control {
            // An unknown version is rejected at once.
            switch(&self.shared, id, *version).await?;
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
            body: Raw::of(&message(control.clone())),
        };
        store.send(message, control.priority()).await?;
        let sent = Instant::now();
        let mut pause = LOOK_PAUSE;
        while store.is_pending(key).await? {
            if sent.elapsed() > DELIVERY_MAX && store.take_back(key).await? {
                return Ok(Delivery::TakenBack);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_PAUSE_MAX);
        }
        let refusal = store.refusal(key).await?;
        let refusal = refusal.and_then(|text| serde_json::from_str(&text).ok());
        Ok(refusal.map_or(Delivery::CarriedOut, Delivery::Refused))
    }

    /// Rejects at once what the owner would reject.
    async fn check(&self, id: ExecutionId, control: &Control) -> Result<(), ControlError> {
        let row = self.shared.store.execution(id).await.map_err(Error::from)?;
        let status = row.ok_or(Error::NotFound(id))?.status;
        let ended = matches!(
            status,
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled
        );
        match control {
            Control::Retry { .. } if !ended || status == RunStatus::Completed => {
                Err(Refusal::NotRetryable.into())
            }
            Control::Retry { .. } => Ok(()),
            _ if ended => Err(Refusal::Ended.into()),
            Control::Pause { .. } if status == RunStatus::Paused => {
                Err(Refusal::AlreadyPaused.into())
            }
            Control::Resume if status != RunStatus::Paused => Err(Refusal::NotPaused.into()),
            _ => Ok(()),
        }
    }

    /// Adopts an execution whose owner is dead. The commands of the workers in the dead process are offered again.
    pub async fn adopt(&self, id: ExecutionId, priority: Priority) -> Result<Adoption, Error> {
        adopt(&self.shared, id, priority).await
    }
}

/// Text of the playbook version that a retry continues with, if it names one.
pub(crate) async fn switch(
    shared: &Shared,
    id: ExecutionId,
    version: Option<u32>,
) -> Result<Option<Box<Registered>>, Error> {
    let Some(version) = version else {
        return Ok(None);
    };
    let row = shared.store.execution(id).await?;
    let row = row.ok_or(Error::NotFound(id))?;
    let registered = shared.playbooks.version_of(&row, version).await?;
    Ok(Some(Box::new(registered)))
}

/// Adopts an execution whose owner is dead.
pub(crate) async fn adopt(
    shared: &Shared,
    id: ExecutionId,
    priority: Priority,
) -> Result<Adoption, Error> {
    let known = shared.store.execution(id).await?;
    let former = known.and_then(|row| row.owner);
    if former.as_ref() == Some(&shared.owner) {
        return Ok(Adoption::Mine);
    }
    let adoption = shared.store.adopt(id, &shared.owner, priority).await?;
    if let (Adoption::Mine, Some(former)) = (&adoption, former) {
        release_former(shared, id, &former, priority).await?;
        // The former owner may have died between two decisions.
        shared.drive.go_on(id).await?;
    }
    Ok(adoption)
}

/// Releases the commands of workers inside the dead process. That is an outage and no fault of the work, so it is no
/// strike. Workers in processes of their own are alive, and their claims stay.
async fn release_former(
    shared: &Shared,
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
        let input = Input::Lost {
            command: open.command.id.seq,
            worker,
            lease_epoch: open.lease_epoch,
            is_strike: false,
        };
        let extras = Extras {
            priority,
            ..Extras::default()
        };
        shared.drive.tell(id, input, extras).await?;
    }
    shared.drive.send(Order::Offered).await
}

fn input(control: Control) -> Input {
    match control {
        Control::Cancel { reason, cascade } => Input::Cancel(stop(reason, cascade, None)),
        Control::Finalize { ending, reason } => Input::Cancel(stop(reason, true, Some(ending))),
        Control::Pause { reason } => Input::Pause { reason },
        Control::Resume => Input::Resume,
        Control::Retry { .. } => Input::Retry { switch: None },
        Control::Patch(patch) => Input::Patch(patch),
        Control::Signal { name, payload } => Input::Signal { name, payload },
    }
}

fn stop(reason: Option<String>, cascade: bool, ending: Option<Ending>) -> StopRequested {
    StopRequested {
        reason,
        cascade,
        ending,
    }
}

fn message(control: Control) -> MessageBody {
    match control {
        Control::Cancel { reason, cascade } => MessageBody::Cancel(stop(reason, cascade, None)),
        Control::Finalize { ending, reason } => {
            MessageBody::Cancel(stop(reason, true, Some(ending)))
        }
        Control::Pause { reason } => MessageBody::Pause { reason },
        Control::Resume => MessageBody::Resume,
        Control::Retry { version } => MessageBody::Retry { version },
        Control::Patch(patch) => MessageBody::Patch { patch },
        Control::Signal { name, payload } => MessageBody::Signal { name, payload },
    }
}
