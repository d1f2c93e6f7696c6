//! Decisions: plain data that the caller commits in one transaction.

use std::time::Duration;

use model::command::{Command, TimerChange};
use model::event::{Event, Parent, StopRequested};
use model::id::{ExecutionId, LeaseEpoch, Name, Seq, StepRunId, WorkerId};
use model::outcome::Outcome;
use model::raw::Raw;
use model::result_ref::ResultRef;
use serde::{Deserialize, Serialize};

use crate::state::State;

/// What follows from an input.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The state after it.
    pub state: State,
    /// The input's own events and what was decided, in order, with their seqs.
    pub events: Vec<Event>,
    /// Commands to offer and to withdraw.
    pub commands: Vec<CommandChange>,
    /// Timers to set and to clear.
    pub timers: Vec<TimerChange>,
    /// Messages to other executions.
    pub messages: Vec<OutMessage>,
    /// Bodies that must be durable before the events are.
    pub bodies: Vec<BodyToKeep>,
    /// What must be unique in the store.
    pub keys: Vec<Key>,
    /// The claims the input's reports rest on.
    pub fences: Vec<(Seq, LeaseEpoch)>,
    /// Whether more follows from this input: decide `Input::GoOn` next.
    pub more: bool,
    /// Commands whose holders should stop.
    pub stops: Vec<(Seq, WorkerId)>,
}

impl Decision {
    /// Whether there is nothing to write.
    pub fn is_nothing(&self) -> bool {
        self.events.is_empty()
            && self.commands.is_empty()
            && self.timers.is_empty()
            && self.messages.is_empty()
    }
}

/// A body referenced by one of the events.
#[derive(Debug, Clone)]
pub struct BodyToKeep {
    /// Where it will live.
    pub reference: ResultRef,
    /// Its text.
    pub text: Raw,
}

/// A change to the commands on offer.
#[derive(Debug, Clone)]
pub enum CommandChange {
    /// Offer it.
    Issue {
        /// What to run.
        command: Box<Command>,
        /// How long it may wait for a worker.
        schedule_to_start: Duration,
    },
    /// Withdraw it: it ended, or its run did.
    Close {
        /// The `command.issued` event.
        seq: Seq,
    },
}

/// A message to another execution, unique by its place in this decision's events.
#[derive(Debug, Clone, PartialEq)]
pub struct OutMessage {
    /// The event it follows from.
    pub seq: Seq,
    /// Counts the messages of that event.
    pub n: u32,
    /// The receiver.
    pub to: ExecutionId,
    /// What it says.
    pub body: MessageBody,
}

/// What executions say to each other, and what people say to an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageBody {
    /// Begin.
    Start {
        /// The playbook's path, or a file beside the parent's.
        path: String,
        /// The catalog version; the latest if none.
        version: Option<u32>,
        /// The payload.
        input: Raw,
        /// The sender.
        parent: Parent,
        /// The receiver's depth.
        depth: u32,
        /// The sender's own path, which a relative path starts from.
        base: Name,
        /// The trace that the sender belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<Name>,
    },
    /// The sender, a child, ended.
    ChildEnded {
        /// The parent's event that waits.
        seq: Seq,
        /// How.
        outcome: Box<Outcome>,
    },
    /// Stop.
    Cancel(StopRequested),
    /// Redo what failed.
    Retry {
        /// Another version of the playbook to go on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
    },
    /// Offer nothing more for now.
    Pause {
        /// Why.
        reason: Option<String>,
    },
    /// Go on.
    Resume,
    /// Write to `ctx`.
    Patch {
        /// The keys written, with values or reducers.
        patch: Raw,
    },
    /// Something from outside.
    Signal {
        /// Its name.
        name: Name,
        /// What it carries.
        payload: Option<Raw>,
    },
}

/// What must be unique in the store, beyond event ids and seqs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// One terminal event per generation.
    Terminal {
        /// The generation.
        generation: u32,
    },
    /// One boundary per step run and generation.
    Boundary {
        /// The step run.
        run: StepRunId,
        /// The generation.
        generation: u32,
    },
}
