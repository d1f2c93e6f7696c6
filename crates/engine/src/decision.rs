//! Decisions: plain data that the caller commits in one transaction.

use std::time::Duration;

use model::command::{Command, Fence, TimerChange};
use model::event::{Event, ParentTask, UniqueKey};
use model::id::{ExecutionId, Name, Seq};
use model::outcome::Outcome;
use model::raw::RawJson;
use model::result_ref::ResultRef;
use serde::{Deserialize, Serialize};

use crate::input::ControlRequest;

use crate::state::ExecutionState;

/// The result of deciding an input.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The state after the decision.
    pub state: ExecutionState,
    /// The events of the input and of the decision, in order, with their sequence numbers.
    pub events: Vec<Event>,
    /// Commands to withdraw, by their `command.issued` events: they ended, or their runs did.
    pub closed: Vec<Seq>,
    /// Commands to offer, after `closed` is applied.
    pub issued: Vec<CommandOffer>,
    /// Timers to set and to clear.
    pub timers: Vec<TimerChange>,
    /// Messages to other executions.
    pub messages: Vec<OutgoingMessage>,
    /// Bodies that must be durable before the events are committed.
    pub bodies: Vec<BodyToStore>,
    /// Keys that must be unique in the store.
    pub unique_keys: Vec<UniqueKey>,
    /// The claims that the reports of the input depend on.
    pub fences: Vec<Fence>,
    /// Whether more decisions follow from this input: decide `Input::Continue` next.
    pub has_more: bool,
    /// Commands that workers should stop.
    pub commands_to_stop: Vec<Seq>,
}

impl Decision {
    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.closed.is_empty()
            && self.issued.is_empty()
            && self.timers.is_empty()
            && self.messages.is_empty()
    }
}

/// A body that one of the events refers to.
#[derive(Debug, Clone)]
pub struct BodyToStore {
    /// The reference to it.
    pub reference: ResultRef,
    /// Its text.
    pub text: RawJson,
}

/// A command to offer to workers.
#[derive(Debug, Clone)]
pub struct CommandOffer {
    /// What to run.
    pub command: Command,
    /// Maximum time that it waits for a worker.
    pub schedule_to_start: Duration,
}

/// A message to another execution, unique by its event and number.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingMessage {
    /// The event that sends it.
    pub seq: Seq,
    /// Number of the message within that event.
    pub n: u32,
    /// The receiving execution.
    pub to: ExecutionId,
    /// The content.
    pub body: ExecutionMessage,
}

/// Messages between executions, and control requests of users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMessage {
    /// Starts a child execution.
    Start {
        /// The playbook's path, or a file relative to the parent's.
        path: String,
        /// The catalog version; `None` means the latest.
        version: Option<u32>,
        /// The payload.
        input: RawJson,
        /// The sender.
        parent: ParentTask,
        /// The nesting depth of the receiver.
        depth: u32,
        /// The sender's path, which a relative path is resolved against.
        base: Name,
        /// The sender's trace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<Name>,
    },
    /// The sender, a child execution, ended.
    ChildEnded {
        /// The parent's event that waits for it.
        seq: Seq,
        /// The child's outcome.
        outcome: Box<Outcome>,
    },
    /// A control request of a client that another process received, or of a parent.
    Control(ControlRequest),
}
