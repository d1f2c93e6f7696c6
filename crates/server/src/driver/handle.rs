//! The interface of the driver for the rest of the server.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use engine::{ExecutionRequest, ExecutionState, Input, PlaybookNet, Refusal};
use model::command::ClaimId;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, Name, Seq, WorkerId};
use model::status::RunStatus;
use store::{MessageKey, Priority};
use tokio::sync::{mpsc, oneshot};
use wire::{ClaimedCommand, CommandNotice, Verdict};

use crate::api::RenderedEvents;
use crate::error::Error;
use crate::playbooks::RegisteredPlaybook;

/// Capacity of the driver's request queue; when it is full, senders wait.
const REQUESTS_MAX: usize = 4096;

/// A commit that became durable.
#[derive(Debug)]
pub struct CommitNotice {
    /// The execution.
    pub execution: ExecutionId,
    /// The committed events.
    pub events: Vec<Event>,
    /// Status of the execution after the commit.
    pub status: RunStatus,
    /// The events as messages of streams, rendered by the first stream that sends them and shared by all.
    pub(crate) rendered: OnceLock<RenderedEvents>,
}

/// Commands that the driver has assigned to workers.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    /// Assigned to a waiting worker; it receives them once they are durable.
    pub pending: Vec<CommandId>,
    /// Held by a worker.
    pub claimed: Vec<CommandId>,
}

/// The capacity of a worker that can receive more commands in the reply to its report.
#[derive(Debug, Clone)]
pub(crate) struct WorkerCapacity {
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
pub(crate) struct InputReply {
    /// What the reporting worker must do next.
    pub(crate) verdict: Verdict,
    /// Commands assigned to the worker.
    pub(crate) next_commands: Vec<ClaimedCommand>,
    /// Seqs of the events whose IDs came from a client.
    pub(crate) recorded: Vec<(EventId, Seq)>,
}

impl InputReply {
    /// Reply to an input from which nothing follows for its caller.
    pub(crate) fn unchanged() -> Self {
        Self {
            verdict: Verdict::Proceed,
            next_commands: Vec::new(),
            recorded: Vec::new(),
        }
    }
}

/// Data that accompanies an input.
#[derive(Debug, Default)]
pub(crate) struct InputAttachments {
    /// Capacity of the reporting worker.
    pub(crate) capacity: Option<WorkerCapacity>,
    /// Message that carried the input.
    pub(crate) consumed_message: Option<MessageKey>,
    /// Whether the caller consumes the message if the input is refused; otherwise the driver consumes it.
    pub(crate) has_refusal_handler: bool,
    /// Events whose IDs came from a client, with the hash of what the client sent.
    pub(crate) external_event_hashes: HashMap<EventId, [u8; 32]>,
    /// Playbook version that a retry continues with.
    pub(crate) switch: Option<Box<RegisteredPlaybook>>,
    /// Net of the playbook that a submission starts.
    pub(crate) net: Option<Arc<PlaybookNet>>,
    /// Whether the input may use the space that is reserved for control requests.
    pub(crate) priority: Priority,
}

impl InputAttachments {
    /// Attachments of an input that arrived in a message.
    pub(crate) fn from_message(consumed_message: Option<MessageKey>) -> Self {
        Self {
            consumed_message,
            ..Self::default()
        }
    }
}

/// Whether this kind of input may use the space that is reserved for control requests.
pub(crate) fn input_priority(input: &Input) -> Priority {
    match input {
        Input::Cancel(_) | Input::Pause { .. } => Priority::Control,
        _ => Priority::Normal,
    }
}

/// Why an input failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] Error),
}

/// A claim request of a worker, with the channel for its reply.
pub(crate) struct PendingClaim {
    pub(crate) request: wire::api::ClaimRequest,
    pub(crate) reply: oneshot::Sender<Result<Vec<ClaimedCommand>, Error>>,
}

/// A request to the driver.
pub(crate) enum DriverRequest {
    /// Start an execution.
    Submit {
        submit: Box<ExecutionRequest>,
        net: Arc<PlaybookNet>,
        consumed_message: Option<MessageKey>,
        reply: oneshot::Sender<Result<InputReply, InputError>>,
    },
    /// Apply an input to an execution.
    Apply {
        execution: ExecutionId,
        input: Input,
        attachments: InputAttachments,
        reply: oneshot::Sender<Result<InputReply, InputError>>,
    },
    /// Claim commands for a worker; the reply is sent when there are some.
    Claim(PendingClaim),
    /// Wait for notices to a worker.
    Listen {
        worker: WorkerId,
        reply: oneshot::Sender<Vec<CommandNotice>>,
    },
    /// The store may have offered commands that this driver did not issue.
    RecheckOffers,
    /// Build commands of executions owned here for a worker of another server that holds them.
    BuildCommands {
        worker: WorkerId,
        claims: Vec<ClaimId>,
        reply: oneshot::Sender<Vec<ClaimedCommand>>,
    },
    /// Return the commands of executions owned elsewhere that a worker of this server holds.
    ListRemoteClaims {
        worker: WorkerId,
        reply: oneshot::Sender<Vec<CommandId>>,
    },
    /// A worker of this server holds these commands of executions owned elsewhere.
    RecordRemoteClaims { worker: WorkerId, commands: Vec<CommandId> },
    /// Remove the holder of a command.
    ForgetHolder(CommandId),
    /// Return the commands that are assigned to workers.
    ListAssignments(oneshot::Sender<Assignments>),
    /// Return the state of an execution in memory; `None` if it is not in memory.
    ReadState {
        execution: ExecutionId,
        reply: oneshot::Sender<Option<Box<ExecutionState>>>,
    },
    /// Reply when everything accepted so far is durable.
    Drain(oneshot::Sender<()>),
}

/// Sends requests to the driver.
#[derive(Clone)]
pub(crate) struct DriverHandle {
    requests: mpsc::Sender<DriverRequest>,
}

/// Creates the request queue of a driver.
pub(crate) fn driver_channel() -> (DriverHandle, mpsc::Receiver<DriverRequest>) {
    let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
    (DriverHandle { requests: sender }, receiver)
}

impl DriverHandle {
    pub(crate) async fn send(&self, request: DriverRequest) -> Result<(), Error> {
        self.requests.send(request).await.map_err(|_| Error::Stopping)
    }

    /// Applies an input to an execution and waits until it is durable.
    pub(crate) async fn apply(
        &self,
        execution: ExecutionId,
        input: Input,
        attachments: InputAttachments,
    ) -> Result<InputReply, InputError> {
        let (reply, receiver) = oneshot::channel();
        let request = DriverRequest::Apply {
            execution,
            input,
            attachments,
            reply,
        };
        self.send(request).await?;
        receiver.await.unwrap_or(Err(InputError::Failed(Error::Stopping)))
    }

    /// Like `apply`, but a refusal is not an error: the input then has no effect.
    pub(crate) async fn apply_if_valid(
        &self,
        execution: ExecutionId,
        input: Input,
        attachments: InputAttachments,
    ) -> Result<(), Error> {
        match self.apply(execution, input, attachments).await {
            Ok(_) | Err(InputError::Refused(_)) => Ok(()),
            Err(InputError::Failed(error)) => Err(error),
        }
    }

    /// Lets an execution continue with the work that its log leaves undone; does not wait for it.
    pub(crate) async fn continue_execution(&self, execution: ExecutionId) -> Result<(), Error> {
        let (reply, _) = oneshot::channel();
        let attachments = InputAttachments::default();
        let input = Input::Continue;
        self.send(DriverRequest::Apply {
            execution,
            input,
            attachments,
            reply,
        })
        .await
    }

    /// Returns the commands that are assigned to workers; empty if the driver has stopped.
    pub(crate) async fn assignments(&self) -> Assignments {
        let (reply, receiver) = oneshot::channel();
        if self.send(DriverRequest::ListAssignments(reply)).await.is_err() {
            return Assignments::default();
        }
        receiver.await.unwrap_or_default()
    }

    /// Returns the state of an execution in memory, including decisions that are not durable yet; `None` if it is not in
    /// memory.
    pub(crate) async fn state(&self, execution: ExecutionId) -> Result<Option<Box<ExecutionState>>, Error> {
        let (reply, receiver) = oneshot::channel();
        self.send(DriverRequest::ReadState { execution, reply }).await?;
        receiver.await.map_err(|_| Error::Stopping)
    }

    /// Returns the commands of executions owned elsewhere that a worker of this server holds.
    pub(crate) async fn remote_claims(&self, worker: &WorkerId) -> Result<Vec<CommandId>, Error> {
        let (reply, receiver) = oneshot::channel();
        let worker = worker.clone();
        self.send(DriverRequest::ListRemoteClaims { worker, reply }).await?;
        receiver.await.map_err(|_| Error::Stopping)
    }

    /// Waits until everything accepted so far is durable.
    pub(crate) async fn drain(&self) {
        let (reply, receiver) = oneshot::channel();
        if self.send(DriverRequest::Drain(reply)).await.is_ok() {
            // If the driver has stopped, there is nothing to wait for.
            let _ = receiver.await;
        }
    }
}
