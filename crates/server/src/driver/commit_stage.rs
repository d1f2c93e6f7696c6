//! The commits of one execution: the one that is written, and the one that is collected meanwhile.

use crate::driver::pending_commit::PendingCommit;
use crate::driver::queued_input::DecidedInput;

/// How far the decisions of an execution are from being durable.
#[derive(Default)]
pub(super) enum CommitStage {
    /// All decisions are durable.
    #[default]
    Clean,
    /// Decisions are collected and not passed to the store yet.
    Collecting(Box<PendingCommit>),
    /// The store writes a commit with these inputs; they are queued again if it fails.
    Writing(Vec<DecidedInput>),
    /// The store writes a commit, and the next one is collected.
    WritingAndCollecting(Vec<DecidedInput>, Box<PendingCommit>),
}

impl CommitStage {
    /// Whether all decisions are durable.
    pub(super) fn is_clean(&self) -> bool {
        matches!(self, Self::Clean)
    }

    /// Whether the store is writing a commit.
    pub(super) fn is_writing(&self) -> bool {
        matches!(self, Self::Writing(_) | Self::WritingAndCollecting(..))
    }

    /// The commit that is collected.
    pub(super) fn collected(&self) -> Option<&PendingCommit> {
        match self {
            Self::Collecting(next) | Self::WritingAndCollecting(_, next) => Some(next),
            Self::Clean | Self::Writing(_) => None,
        }
    }

    pub(super) fn collected_mut(&mut self) -> Option<&mut PendingCommit> {
        match self {
            Self::Collecting(next) | Self::WritingAndCollecting(_, next) => Some(next),
            Self::Clean | Self::Writing(_) => None,
        }
    }

    /// The commit that is collected; a new one if there is none.
    pub(super) fn collect(&mut self, new: impl FnOnce() -> PendingCommit) -> &mut PendingCommit {
        match self {
            Self::Clean => *self = Self::Collecting(Box::new(new())),
            Self::Writing(writing) => {
                *self = Self::WritingAndCollecting(std::mem::take(writing), Box::new(new()));
            }
            Self::Collecting(_) | Self::WritingAndCollecting(..) => {}
        }
        self.collected_mut().expect("a commit is collected now")
    }

    /// Takes the collected commit for the store, without its inputs, unless the store still writes the one before it.
    pub(super) fn start_writing(&mut self) -> Option<PendingCommit> {
        match std::mem::take(self) {
            Self::Collecting(mut next) => {
                *self = Self::Writing(std::mem::take(&mut next.decided_inputs));
                Some(*next)
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// The store has ended its write. Returns the inputs of that commit.
    pub(super) fn finish_writing(&mut self) -> Vec<DecidedInput> {
        match std::mem::take(self) {
            Self::Writing(writing) => writing,
            Self::WritingAndCollecting(writing, next) => {
                *self = Self::Collecting(next);
                writing
            }
            other => {
                *self = other;
                Vec::new()
            }
        }
    }

    /// Takes the collected commit of an execution whose write has ended.
    pub(super) fn take_collected(&mut self) -> Option<PendingCommit> {
        match std::mem::take(self) {
            Self::Collecting(next) => Some(*next),
            Self::WritingAndCollecting(writing, next) => {
                *self = Self::Writing(writing);
                Some(*next)
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// Adds an input to the latest commit that is not durable. Returns the input if there is none.
    pub(super) fn join_latest(&mut self, decided: DecidedInput) -> Option<DecidedInput> {
        match self {
            Self::Clean => return Some(decided),
            Self::Collecting(next) | Self::WritingAndCollecting(_, next) => {
                next.decided_inputs.push(decided);
            }
            Self::Writing(writing) => writing.push(decided),
        }
        None
    }
}
