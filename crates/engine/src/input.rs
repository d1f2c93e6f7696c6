//! Inputs: everything that can move an execution. Time and fresh ids enter here, never inside a decision.

use std::sync::Arc;

use model::command::ReportEnd;
use model::event::{Body, Event, Parent, StopRequested};
use model::id::{ExecutionId, IdBlock, LeaseEpoch, Name, PlaybookHash, Seq, WorkerId};
use model::outcome::Outcome;
use model::playbook::Playbook;
use model::raw::Raw;
use model::template::Data;
use model::time::Time;

use crate::reuse::Reuse;

/// When an input arrived, and the ids its events may use.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// The store's clock.
    pub now: Time,
    /// Fresh ids.
    pub ids: IdBlock,
}

/// Something that moves an execution.
#[derive(Debug, Clone)]
pub enum Input {
    /// A run is asked for.
    Submit(Box<Submit>),
    /// A worker reports on a command.
    Report(Report),
    /// A timer is due.
    Timer(Seq),
    /// A signal came.
    Signal {
        /// Its name.
        name: Name,
        /// What it carries.
        payload: Option<Raw>,
    },
    /// A child execution ended.
    ChildEnded {
        /// The child.
        child: ExecutionId,
        /// The parent's `task.started` event that waits for it.
        seq: Seq,
        /// How it ended.
        outcome: Box<Outcome>,
    },
    /// Stop it, as cancelled unless it says otherwise.
    Cancel(StopRequested),
    /// Offer nothing more for now.
    Pause {
        /// Why.
        reason: Option<String>,
    },
    /// Go on after a pause.
    Resume,
    /// Redo what failed, in a new generation.
    Retry {
        /// The text to go on with, which is the one that is decided with; none: the same as before.
        switch: Option<Box<Switch>>,
    },
    /// Write to `ctx` from outside.
    Patch(Raw),
    /// The holder of a command is gone.
    Lost {
        /// The command.
        command: Seq,
        /// Who held it.
        worker: WorkerId,
        /// The claim that ended.
        lease_epoch: LeaseEpoch,
        /// Whether it counts against the command.
        is_strike: bool,
    },
    /// Something of the server's own to write down, from which nothing follows.
    Record(Box<Body>),
    /// The decision before this one stopped short of its end.
    GoOn,
    /// No worker took a command in time.
    Unclaimed(Seq),
}

/// A run goes on with another text of its playbook.
#[derive(Debug, Clone)]
pub struct Switch {
    /// The catalog version of the new text.
    pub version: u32,
    /// The new text.
    pub hash: PlaybookHash,
    /// The playbook it was decided with so far.
    pub was: Arc<Playbook>,
}

/// A run to start.
#[derive(Debug, Clone)]
pub struct Submit {
    /// Its id.
    pub execution: ExecutionId,
    /// Where the playbook is known.
    pub path: Name,
    /// Its catalog version.
    pub version: u32,
    /// Its text.
    pub hash: PlaybookHash,
    /// The request's payload, merged over the playbook's workload.
    pub payload: Option<Raw>,
    /// Who asked, if an execution did.
    pub parent: Option<Parent>,
    /// How deep in a tree of sub-playbooks.
    pub depth: u32,
    /// The trace it belongs to; none: one made of its id.
    pub trace_id: Option<Name>,
    /// What it takes over from the run it does again.
    pub reuse: Option<Box<Reuse>>,
    /// Variables that defaults may read as `env`; none on a server.
    pub env: Option<Data>,
}

/// What a worker says of a command it holds.
#[derive(Debug, Clone)]
pub struct Report {
    /// The `command.issued` event.
    pub command: Seq,
    /// Who reports.
    pub worker: WorkerId,
    /// The claim it reports under.
    pub lease_epoch: LeaseEpoch,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Whether the worker is done with the command.
    pub end: ReportEnd,
}
