//! Control: cancel, pause, resume, retry and signal, whoever drives the execution.

use engine::{Input, MessageBody, Refusal};
use model::id::{ExecutionId, Name, Seq};
use model::raw::Raw;
use model::status::RunStatus;
use store::{Adoption, Message, MessageKey};

use crate::drive::{Order, Posted};
use crate::error::Error;
use crate::{Server, Shared};

/// What someone asks of a run.
#[derive(Debug, Clone)]
pub enum Control {
    /// Stop it.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
    /// Offer nothing more for now.
    Pause {
        /// Why.
        reason: Option<String>,
    },
    /// Go on after a pause.
    Resume,
    /// Redo what failed.
    Retry,
    /// Something from outside.
    Signal {
        /// Its name.
        name: Name,
        /// What it carries.
        payload: Option<Raw>,
    },
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It does not fit the run as it stands.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server could not do it.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Server {
    /// Carries out a request: here if this process drives the run or nobody does, else by message to its driver.
    pub async fn control(&self, id: ExecutionId, control: Control) -> Result<(), ControlError> {
        let shared = &self.shared;
        match self.adopt(id).await? {
            Adoption::Unknown => Err(Error::NotFound(id).into()),
            Adoption::Mine => match shared.drive.post(id, input(control), None, None).await {
                Ok(_) => Ok(()),
                Err(Posted::Refused(refusal)) => Err(refusal.into()),
                Err(Posted::Failed(error)) => Err(error.into()),
            },
            Adoption::HeldBy(_) => {
                self.check(id, &control).await?;
                let from = ExecutionId(shared.store.ids(1).0);
                let key = MessageKey {
                    from,
                    seq: Seq(0),
                    n: 0,
                };
                let message = Message {
                    key,
                    to: id,
                    body: Raw::of(&message(control)),
                };
                shared
                    .store
                    .send(message)
                    .await
                    .map_err(|error| Error::from(error).into())
            }
        }
    }

    /// Refuses at once what the driver would refuse.
    async fn check(&self, id: ExecutionId, control: &Control) -> Result<(), ControlError> {
        let row = self.shared.store.execution(id).await.map_err(Error::from)?;
        let status = row.ok_or(Error::NotFound(id))?.status;
        let ended = matches!(
            status,
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled
        );
        match control {
            Control::Retry if !ended || status == RunStatus::Completed => {
                Err(Refusal::NotRetryable.into())
            }
            Control::Retry => Ok(()),
            _ if ended => Err(Refusal::Ended.into()),
            Control::Pause { .. } if status == RunStatus::Paused => {
                Err(Refusal::AlreadyPaused.into())
            }
            Control::Resume if status != RunStatus::Paused => Err(Refusal::NotPaused.into()),
            _ => Ok(()),
        }
    }

    /// Takes a run that nobody drives any more. What its former workers held is offered again.
    pub async fn adopt(&self, id: ExecutionId) -> Result<Adoption, Error> {
        let shared = &self.shared;
        let known = shared.store.execution(id).await?;
        let mine = known
            .as_ref()
            .is_some_and(|row| row.owner.as_ref() == Some(&shared.owner));
        if mine {
            return Ok(Adoption::Mine);
        }
        let adoption = shared.store.adopt(id, &shared.owner).await?;
        if adoption == Adoption::Mine {
            release_former(shared, id).await?;
        }
        Ok(adoption)
    }
}

/// The former driver is dead, and with it every worker that held a command: that is an outage, not the work's fault.
async fn release_former(shared: &Shared, id: ExecutionId) -> Result<(), Error> {
    for open in shared.store.open_commands(id).await? {
        let Some(worker) = open.worker else { continue };
        let input = Input::Lost {
            command: open.command.id.seq,
            worker,
            lease_epoch: open.lease_epoch,
            is_strike: false,
        };
        match shared.drive.post(id, input, None, None).await {
            Ok(_) | Err(Posted::Refused(_)) => {}
            Err(Posted::Failed(error)) => return Err(error),
        }
    }
    shared.drive.send(Order::Offered).await
}

fn input(control: Control) -> Input {
    match control {
        Control::Cancel { reason } => Input::Cancel { reason },
        Control::Pause { reason } => Input::Pause { reason },
        Control::Resume => Input::Resume,
        Control::Retry => Input::Retry,
        Control::Signal { name, payload } => Input::Signal { name, payload },
    }
}

fn message(control: Control) -> MessageBody {
    match control {
        Control::Cancel { reason } => MessageBody::Cancel { reason },
        Control::Pause { reason } => MessageBody::Pause { reason },
        Control::Resume => MessageBody::Resume,
        Control::Retry => MessageBody::Retry,
        Control::Signal { name, payload } => MessageBody::Signal { name, payload },
    }
}
