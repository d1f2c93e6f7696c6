//! Seeded bugs: the simulator builds them into the driver to show that its checks find them.
//!
//! Without the feature `simulation` no bug can be selected, and the compiler removes the branches.

/// A bug in the bookkeeping of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverBug {
    /// A second submission of an execution replaces what the driver has of it.
    OverwriteExecution,
    /// Replies are sent before the commit is durable.
    ReplyBeforeCommit,
    /// The inputs of a failed commit are dropped.
    DropFailedInputs,
    /// Assignments of a failed commit stay with their workers.
    KeepFailedAssignments,
    /// An input is decided again although the log has it.
    DecideConfirmedInputs,
    /// A commit whose response was lost counts as written.
    TrustUnknownCommit,
    /// A commit is passed to the store while the one before it is still being written.
    CommitTwiceAtOnce,
    /// Subscribers get the events of a commit that was refused.
    PublishRefusedCommit,
}

#[cfg(feature = "simulation")]
mod hooks {
    use engine::{Decision, ExecutionState, Input};
    use model::time::Time;

    use super::DriverBug;

    /// What a simulation changes in a driver.
    pub trait DriverTamper: Send + Sync {
        /// Whether this bug is built in.
        fn has_bug(&self, bug: DriverBug) -> bool;
        /// Changes what the engine decides on.
        fn before_decision(&self, state: Option<&mut ExecutionState>, input: &mut Input, now: &mut Time);
        /// Changes a decision; `before` is the true state that it was made on.
        fn after_decision(&self, before: Option<&ExecutionState>, decision: &mut Decision);
    }
}

#[cfg(feature = "simulation")]
pub use hooks::DriverTamper;
