//! The interface of the driver for the rest of the server.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{Input, Net, Refusal, Submit};
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use model::status::RunStatus;
use store::{MessageKey, Priority};
use tokio::sync::{mpsc, oneshot};
use wire::{Claimed, Told, Verdict};

use crate::error::Error;
use crate::playbooks::Registered;

/// Capacity of the driver's request queue; when it is full, senders wait.
const ORDERS_MAX: usize = 4096;

/// A commit that became durable.
#[derive(Debug)]
pub struct Published {
    /// The execution.
    pub execution: ExecutionId,
    /// The committed events.
    pub events: Vec<Event>,
    /// Status of the execution after the commit.
    pub status: RunStatus,
}

/// Commands that the driver has assigned to workers.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    /// Assigned to a waiting worker; it receives them once they are durable.
    pub waiting: Vec<CommandId>,
    /// Held by a worker.
    pub held: Vec<CommandId>,
}

/// The capacity of a worker that can receive more commands in the reply to its report.
#[derive(Debug, Clone)]
pub(crate) struct Hands {
    /// The worker.
    pub(crate) worker: WorkerId,
    /// Pool of the worker.
    pub(crate) pool: Name,
    /// Tool kinds that the worker can call; `None` means every kind.
    pub(crate) kinds: Option<Vec<Name>>,
    /// Number of free slots.
    pub(crate) free: u32,
}

/// Reply to an input that is durable.
#[derive(Debug)]
pub(crate) struct Reply {
    /// What the reporting worker must do next.
    pub(crate) verdict: Verdict,
    /// Commands assigned to the worker.
    pub(crate) next: Vec<Claimed>,
    /// Seqs of the events whose IDs came from a client.
    pub(crate) recorded: Vec<(EventId, Seq)>,
}

/// Data that accompanies an input.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// Capacity of the reporting worker.
    pub(crate) hands: Option<Hands>,
    /// Message that carried the input.
    pub(crate) consumed: Option<MessageKey>,
    /// Whether the caller consumes the message if the input is refused; otherwise the driver consumes it.
    pub(crate) answers_refusal: bool,
    /// Events whose IDs came from a client, with the hash of what the client sent.
    pub(crate) foreign: HashMap<EventId, [u8; 32]>,
    /// Playbook version that a retry continues with.
    pub(crate) switch: Option<Box<Registered>>,
    /// Net of the playbook that a submission starts.
    pub(crate) net: Option<Arc<Net>>,
    /// Whether the input may use the space that is reserved for control requests.
    pub(crate) priority: Priority,
}

impl Extras {
    /// Extras of an input that arrived in a message.
    pub(crate) fn consuming(consumed: Option<MessageKey>) -> Self {
        Self {
            consumed,
            ..Self::default()
        }
    }
}

/// Whether this kind of input may use the space that is reserved for control requests.
pub(crate) fn priority_of(input: &Input) -> Priority {
    match input {
        Input::Cancel(_) | Input::Pause { .. } => Priority::Control,
        _ => Priority::Normal,
    }
}

/// Why an input failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Posted {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] Error),
}

/// A request to the driver.
pub(crate) enum Order {
    /// Start an execution.
    Submit {
        submit: Box<Submit>,
        net: Arc<Net>,
        consumed: Option<MessageKey>,
        reply: oneshot::Sender<Result<Reply, Posted>>,
    },
    /// Apply an input to an execution.
    Move {
        execution: ExecutionId,
        input: Input,
        extras: Extras,
        reply: oneshot::Sender<Result<Reply, Posted>>,
    },
    /// Claim commands for a worker; the reply is sent when there are some.
    Claim {
        ask: wire::Ask,
        reply: oneshot::Sender<Result<Vec<Claimed>, Error>>,
    },
    /// Wait for notices to a worker.
    Listen {
        worker: WorkerId,
        reply: oneshot::Sender<Vec<Told>>,
    },
    /// The store may have offered commands that this driver did not issue.
    Offered,
    /// Build commands of executions owned here for a worker of another server that holds them.
    Build {
        worker: WorkerId,
        commands: Vec<(CommandId, LeaseEpoch)>,
        reply: oneshot::Sender<Vec<Claimed>>,
    },
    /// Return the commands of executions owned elsewhere that a worker of this server holds.
    HeldElsewhere {
        worker: WorkerId,
        reply: oneshot::Sender<Vec<CommandId>>,
    },
    /// A worker of this server holds these commands of executions owned elsewhere.
    Taken {
        worker: WorkerId,
        commands: Vec<CommandId>,
    },
    /// Remove the holder of a command.
    Forget(CommandId),
    /// Return the commands that are assigned to workers.
    Inspect(oneshot::Sender<Assignments>),
    /// Reply when everything accepted so far is durable.
    Drain(oneshot::Sender<()>),
}

/// Sends requests to the driver.
#[derive(Clone)]
pub(crate) struct Handle {
    orders: mpsc::Sender<Order>,
}

/// Creates the request queue of a driver.
pub(crate) fn channel() -> (Handle, mpsc::Receiver<Order>) {
    let (orders, receiver) = mpsc::channel(ORDERS_MAX);
    (Handle { orders }, receiver)
}

impl Handle {
    pub(crate) async fn send(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).await.map_err(|_| Error::Stopping)
    }

    /// Applies an input to an execution and waits until it is durable.
    pub(crate) async fn post(
        &self,
        execution: ExecutionId,
        input: Input,
        extras: Extras,
    ) -> Result<Reply, Posted> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Move {
            execution,
            input,
            extras,
            reply,
        };
        self.send(order).await?;
        answer.await.unwrap_or(Err(Posted::Failed(Error::Stopping)))
    }

    /// Like `post`, but a refusal is not an error: the input then has no effect.
    pub(crate) async fn tell(
        &self,
        execution: ExecutionId,
        input: Input,
        extras: Extras,
    ) -> Result<(), Error> {
        match self.post(execution, input, extras).await {
            Ok(_) | Err(Posted::Refused(_)) => Ok(()),
            Err(Posted::Failed(error)) => Err(error),
        }
    }

    /// Lets an execution continue with the work that its log leaves undone; does not wait for it.
    pub(crate) async fn go_on(&self, execution: ExecutionId) -> Result<(), Error> {
        let (reply, _) = oneshot::channel();
        let extras = Extras::default();
        let input = Input::GoOn;
        self.send(Order::Move {
            execution,
            input,
            extras,
            reply,
        })
        .await
    }

    /// Returns the commands that are assigned to workers; empty if the driver has stopped.
    pub(crate) async fn assignments(&self) -> Assignments {
        let (reply, answer) = oneshot::channel();
        if self.send(Order::Inspect(reply)).await.is_err() {
            return Assignments::default();
        }
        answer.await.unwrap_or_default()
    }

    /// Returns the commands of executions owned elsewhere that a worker of this server holds.
    pub(crate) async fn held_elsewhere(&self, worker: &WorkerId) -> Result<Vec<CommandId>, Error> {
        let (reply, answer) = oneshot::channel();
        let worker = worker.clone();
        self.send(Order::HeldElsewhere { worker, reply }).await?;
        answer.await.map_err(|_| Error::Stopping)
    }

    /// Waits until everything accepted so far is durable.
    pub(crate) async fn drain(&self) {
        let (reply, answer) = oneshot::channel();
        if self.send(Order::Drain(reply)).await.is_ok() {
            // If the driver has stopped, there is nothing to wait for.
            let _ = answer.await;
        }
    }
}
