//! What enters and what leaves the state machine of the driver: inputs that arrived, and effects for the shell.

use std::sync::Arc;
use std::time::Duration;

use engine::{ExecutionState, Input, PlaybookNet, Stamp};
use language::template::{LoadedValues, Need};
use model::command::ClaimId;
use model::id::{CommandId, EventId, ExecutionId, Name, WorkerId};
use model::time::Time;
use tokio::sync::oneshot;
use wire::{ClaimedCommand, CommandNotice};

use crate::driver::decide::TimedDecision;
use crate::driver::handle::{Assignments, CommitNotice, DriverRequest, InputError, InputReply, PendingClaim};
use crate::driver::hooks::Hooks;
use crate::driver::remote_commands::RemoteCommands;
use crate::driver::write_batch::{BatchEntry, FinishedCommit};
use crate::error::Error;
use crate::loading::{LoadResult, ReloadChecks};

/// Identifies one load or one decision of an execution. The result is ignored if the execution no longer waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) execution: ExecutionId,
    pub(super) number: u64,
}

/// Something that arrived at the machine.
pub(super) enum DriverInput {
    /// A request from another part of the server.
    Request(DriverRequest),
    /// The log of an execution was loaded.
    ExecutionLoaded(Ticket, Result<LoadResult, Error>),
    /// The data for a decision was loaded.
    NeedsLoaded(Ticket, Result<LoadedValues, Error>),
    /// The store has written a batch, or failed to.
    BatchWritten(Vec<(ExecutionId, FinishedCommit)>),
    /// A decision on a thread of its own has ended.
    Decided(Ticket, Box<TimedDecision>),
    /// The store has claimed commands for a worker.
    CommandsClaimed(PendingClaim, Result<Vec<store::CommandClaim>, Error>),
    /// Other servers returned the data of claimed commands.
    CommandsFetched(PendingClaim, RemoteCommands),
    /// A claim was released, and its command may be offered again.
    ClaimReleased,
    /// A timer is due.
    TimerDue(DriverTimer),
    /// A reply with commands did not reach its worker.
    CommandsUndelivered(Vec<ClaimedCommand>),
    /// Notices did not reach their worker.
    NoticesUndelivered(WorkerId, Vec<CommandNotice>),
}

/// What happens when a timer is due.
#[derive(Debug, Clone, Copy)]
pub(super) enum DriverTimer {
    /// Load the log of an execution again.
    Reload(Ticket),
    /// Decide the first input again, whose data could not be loaded.
    RetryNeeds(Ticket),
}

/// Something that the shell does for the machine.
pub(super) enum Effect {
    /// Load the log of an execution. Leads to `ExecutionLoaded`.
    LoadExecution(Ticket, ReloadChecks),
    /// Load data for a decision. Leads to `NeedsLoaded`.
    LoadNeeds(Ticket, Vec<Need>, LoadedValues),
    /// Commit a batch. Leads to `BatchWritten`.
    WriteBatch(Vec<BatchEntry>),
    /// Decide on a thread of its own. Leads to `Decided`.
    DecideOnThread(Ticket, Box<DecisionTask>),
    /// Claim commands from the store. Leads to `CommandsClaimed`.
    ClaimCommands(PendingClaim),
    /// Fetch the data of claimed commands from other servers. Leads to `CommandsFetched`.
    FetchCommands {
        claim: PendingClaim,
        ready: Vec<ClaimedCommand>,
        missing: Vec<ClaimId>,
    },
    /// Release a claim. Leads to `ClaimReleased`.
    ReleaseClaim(ClaimId),
    /// Wait. Leads to `TimerDue`.
    ArmTimer(Duration, DriverTimer),
    /// Send a reply.
    Reply(Reply),
    /// Wake a background sweep.
    Wake(Sweep),
    /// Notify the bus that a pool has work.
    NotifyPool(Name),
    /// Send a durable commit to its subscribers.
    PublishCommit(CommitNotice),
}

/// A reply, with the channel that it is sent on.
pub(super) enum Reply {
    Input(
        oneshot::Sender<Result<InputReply, InputError>>,
        Result<InputReply, InputError>,
    ),
    Claim(
        oneshot::Sender<Result<Vec<ClaimedCommand>, Error>>,
        Result<Vec<ClaimedCommand>, Error>,
    ),
    Notices(WorkerId, oneshot::Sender<Vec<CommandNotice>>, Vec<CommandNotice>),
    BuiltCommands(oneshot::Sender<Vec<ClaimedCommand>>, Vec<ClaimedCommand>),
    RemoteClaims(oneshot::Sender<Vec<CommandId>>, Vec<CommandId>),
    Assignments(oneshot::Sender<Assignments>, Assignments),
    State(
        oneshot::Sender<Option<Box<ExecutionState>>>,
        Option<Box<ExecutionState>>,
    ),
    Drained(oneshot::Sender<()>),
}

/// A background sweep that a commit can wake.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sweep {
    Messages,
    Timers,
    Outbox,
}

/// Everything that a decision on another thread needs.
pub(super) struct DecisionTask {
    pub(super) net: Arc<PlaybookNet>,
    pub(super) state: Option<ExecutionState>,
    pub(super) input: Input,
    pub(super) stamp: Stamp,
    pub(super) loaded: LoadedValues,
    pub(super) hooks: Hooks,
}

/// Source of time and of event IDs.
pub(super) trait StampSource: Send {
    /// Current time of the store.
    fn now(&self) -> Time;
    /// First of `count` consecutive new IDs.
    fn ids(&self, count: u32) -> EventId;
    /// Time since the driver started, for measuring how long a decision takes.
    fn elapsed(&self) -> Duration;
}
