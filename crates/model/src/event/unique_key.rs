//! Keys that make an event unique in its log, besides its ID and its sequence number.

use std::fmt;

use crate::id::{CommandId, EventId, StepRunId};

/// A key that may be in a log only once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UniqueKey {
    /// The end of a generation.
    Terminal {
        /// The generation.
        generation: u32,
    },
    /// The end of a step run.
    Boundary {
        /// The step run.
        run: StepRunId,
        /// The generation.
        generation: u32,
    },
    /// An event whose ID came from a client.
    Event(EventId),
    /// A unit of work, which two open commands must not share.
    Work(CommandId),
}

impl fmt::Display for UniqueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal { generation } => write!(f, "terminal:{generation}"),
            Self::Boundary { run, generation } => write!(f, "boundary:{generation}:{run}"),
            Self::Event(id) => write!(f, "event:{id}"),
            Self::Work(id) => write!(f, "work:{id}"),
        }
    }
}
