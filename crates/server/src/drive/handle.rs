//! How the rest of the server speaks to the drive.

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

/// Orders waiting for the drive; a full queue makes senders wait.
const ORDERS_MAX: usize = 4096;

/// A commit that became durable.
#[derive(Debug)]
pub struct Published {
    /// The execution.
    pub execution: ExecutionId,
    /// What happened.
    pub events: Vec<Event>,
    /// How the execution stands.
    pub status: RunStatus,
}

/// The commands that the drive has assigned to workers.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    /// Those that a waiting worker gets once they are durable.
    pub waiting: Vec<CommandId>,
    /// Those that a worker holds.
    pub held: Vec<CommandId>,
}

/// A worker that can take further commands with the answer to its report.
#[derive(Debug, Clone)]
pub(crate) struct Hands {
    /// The worker.
    pub(crate) worker: WorkerId,
    /// The pool it serves.
    pub(crate) pool: Name,
    /// The tool kinds it can call; none means every kind.
    pub(crate) kinds: Option<Vec<Name>>,
    /// How many it takes.
    pub(crate) free: u32,
}

/// What the drive answers when an input is durable.
#[derive(Debug)]
pub(crate) struct Reply {
    /// How the reporting worker goes on.
    pub(crate) verdict: Verdict,
    /// Commands handed over to it.
    pub(crate) next: Vec<Claimed>,
    /// Where the events whose ids came from outside stand in the log.
    pub(crate) recorded: Vec<(EventId, Seq)>,
}

/// What rides along with an input.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// The worker that can take further commands.
    pub(crate) hands: Option<Hands>,
    /// The message that the input came in.
    pub(crate) consumed: Option<MessageKey>,
    /// Whether whoever posts the input answers its message should it be refused; else the drive consumes it.
    pub(crate) answers_refusal: bool,
    /// The events whose ids came from outside, with the hash of what was sent.
    pub(crate) foreign: HashMap<EventId, [u8; 32]>,
    /// The text of the playbook that a retry goes on with.
    pub(crate) switch: Option<Box<Registered>>,
    /// The playbook that a submission starts.
    pub(crate) net: Option<Arc<Net>>,
    /// Whether it may use the space that is reserved for control requests.
    pub(crate) priority: Priority,
}

impl Extras {
    /// The input came in a message.
    pub(crate) fn consuming(consumed: Option<MessageKey>) -> Self {
        Self {
            consumed,
            ..Self::default()
        }
    }
}

/// Whether an input by itself may use the space that is reserved for control requests.
pub(crate) fn priority_of(input: &Input) -> Priority {
    match input {
        Input::Cancel(_) | Input::Pause { .. } => Priority::Control,
        _ => Priority::Normal,
    }
}

/// Why an input was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Posted {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Something for the drive to do.
pub(crate) enum Order {
    /// Start an execution.
    Submit {
        submit: Box<Submit>,
        net: Arc<Net>,
        consumed: Option<MessageKey>,
        reply: oneshot::Sender<Result<Reply, Posted>>,
    },
    /// Move an execution.
    Move {
        execution: ExecutionId,
        input: Input,
        extras: Extras,
        reply: oneshot::Sender<Result<Reply, Posted>>,
    },
    /// A worker asks for commands; answered when there are some.
    Claim {
        ask: wire::Ask,
        reply: oneshot::Sender<Result<Vec<Claimed>, Error>>,
    },
    /// A worker listens for what it should be told.
    Listen {
        worker: WorkerId,
        reply: oneshot::Sender<Vec<Told>>,
    },
    /// Commands on offer may exist that this drive has not seen being issued.
    Offered,
    /// A worker elsewhere holds commands of executions driven here and needs what it takes to run them.
    Build {
        worker: WorkerId,
        commands: Vec<(CommandId, LeaseEpoch)>,
        reply: oneshot::Sender<Vec<Claimed>>,
    },
    /// Which commands of executions driven elsewhere a worker has taken here.
    HeldElsewhere {
        worker: WorkerId,
        reply: oneshot::Sender<Vec<CommandId>>,
    },
    /// A worker has taken these commands of executions driven elsewhere.
    Taken {
        worker: WorkerId,
        commands: Vec<CommandId>,
    },
    /// A command is held by nobody of this process any more.
    Forget(CommandId),
    /// Tell which commands are assigned to workers.
    Inspect(oneshot::Sender<Assignments>),
    /// Answer when everything taken in so far is durable.
    Drain(oneshot::Sender<()>),
}

/// The sending side.
#[derive(Clone)]
pub(crate) struct Handle {
    orders: mpsc::Sender<Order>,
}

/// A drive's queue.
pub(crate) fn channel() -> (Handle, mpsc::Receiver<Order>) {
    let (orders, receiver) = mpsc::channel(ORDERS_MAX);
    (Handle { orders }, receiver)
}

impl Handle {
    pub(crate) async fn send(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).await.map_err(|_| Error::Stopping)
    }

    /// Moves an execution and waits until that is durable.
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

    /// The same for an input that changes nothing where it does not fit.
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

    /// Lets an execution go on with whatever its log leaves undone; nobody waits for it.
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

    /// Which commands are assigned to workers; none where the drive is gone.
    pub(crate) async fn assignments(&self) -> Assignments {
        let (reply, answer) = oneshot::channel();
        if self.send(Order::Inspect(reply)).await.is_err() {
            return Assignments::default();
        }
        answer.await.unwrap_or_default()
    }

    /// Which commands of executions driven elsewhere a worker has taken here.
    pub(crate) async fn held_elsewhere(&self, worker: &WorkerId) -> Result<Vec<CommandId>, Error> {
        let (reply, answer) = oneshot::channel();
        let worker = worker.clone();
        self.send(Order::HeldElsewhere { worker, reply }).await?;
        answer.await.map_err(|_| Error::Stopping)
    }

    /// Waits until everything taken in so far is durable.
    pub(crate) async fn drain(&self) {
        let (reply, answer) = oneshot::channel();
        if self.send(Order::Drain(reply)).await.is_ok() {
            // A drive that is gone has nothing left to wait for.
            let _ = answer.await;
        }
    }
}
