//! The table of event names: stored name, allowed source and aliases of each kind.
//!
//! It has two users: ingestion, which translates every accepted name to the stored one, and conditions, where
//! `event.name` equals each alias of its event.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The emitter of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventSource {
    /// The control plane.
    Server,
    /// The data plane.
    Worker,
}

/// The type of entity that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the variants are self-explanatory")]
pub enum EntityType {
    Playbook,
    Workflow,
    Step,
    Task,
    Loop,
    Next,
    Policy,
    Result,
    Command,
    Timer,
    Signal,
    Ctx,
    Execution,
    Batch,
}

/// The allowed emitters of a kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedSource {
    /// Only the control plane.
    Server,
    /// The data plane.
    Worker,
    /// The data plane, or the control plane for failures that only it detects.
    Both,
}

macro_rules! kinds {
    ($($kind:ident $name:literal $entity:ident $emitter:ident [$($alias:literal),*];)*) => {
        /// The kind of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the table lists the name of each kind")]
        pub enum EventKind { $($kind),* }

        impl EventKind {
            /// Every kind, in the order of the table.
            pub const ALL: &[EventKind] = &[$(EventKind::$kind),*];

            /// The stored name.
            pub fn name(self) -> &'static str {
                match self { $(EventKind::$kind => $name),* }
            }

            /// Other accepted names.
            pub fn aliases(self) -> &'static [&'static str] {
                match self { $(EventKind::$kind => &[$($alias),*]),* }
            }

            /// The type of entity that it is about.
            pub fn entity(self) -> EntityType {
                match self { $(EventKind::$kind => EntityType::$entity),* }
            }

            /// The allowed emitters.
            pub fn allowed_source(self) -> AllowedSource {
                match self { $(EventKind::$kind => AllowedSource::$emitter),* }
            }

            /// Finds the kind with exactly this stored name.
            pub fn from_stored_name(name: &str) -> Option<EventKind> {
                match name { $($name => Some(EventKind::$kind),)* _ => None }
            }
        }
    };
}

kinds! {
    ExecutionRequested "playbook.execution.requested" Playbook Server [];
    RequestEvaluated "playbook.request.evaluated" Playbook Server [];
    PlaybookStarted "playbook.started" Playbook Server ["playbook.initialized"];
    PlaybookPaused "playbook.paused" Playbook Server [];
    PlaybookResumed "playbook.resumed" Playbook Server [];
    PlaybookSwitched "playbook.switched" Playbook Server [];
    PlaybookFinished "playbook.finished" Playbook Server ["playbook.completed", "playbook.failed", "execution.cancelled"];
    PlaybookProcessed "playbook.processed" Playbook Server [];
    WorkflowStarted "workflow.started" Workflow Server ["workflow.initialized"];
    WorkflowFinished "workflow.finished" Workflow Server ["workflow.completed", "workflow.failed"];
    CancelRequested "execution.cancel.requested" Execution Server [];
    ExecutionRetried "execution.retried" Execution Server [];
    StepReused "step.reused" Step Server [];
    SignalReceived "signal.received" Signal Server [];
    TimerSet "timer.set" Timer Server [];
    TimerFired "timer.fired" Timer Server [];
    AdmitEvaluated "policy.admit.evaluated" Policy Server [];
    StepScheduled "step.scheduled" Step Server ["token.created", "token.enqueued", "token.claimed"];
    NextEvaluated "next.evaluated" Next Server ["next.selected", "next.enqueued", "case.evaluated"];
    CtxPatched "ctx.patched" Ctx Server ["ctx.updated"];
    CommandIssued "command.issued" Command Server [];
    CommandClaimed "command.claimed" Command Server ["command.started"];
    CommandExpired "command.expired" Command Server [];
    CommandFailed "command.failed" Command Server [];
    StepStarted "step.started" Step Worker ["step.enter"];
    StepDone "step.done" Step Worker ["step.exit", "call.done", "command.completed"];
    StepFailed "step.failed" Step Both ["call.error"];
    TaskStarted "task.started" Task Worker ["tool.started", "sink.started"];
    AttemptStarted "task.attempt.started" Task Worker ["retry.started"];
    AttemptDone "task.attempt.done" Task Worker ["retry.done", "retry.processed"];
    AttemptFailed "task.attempt.failed" Task Worker ["retry.failed"];
    TaskDone "task.done" Task Worker ["tool.done", "tool.completed", "tool.processed", "sink.done", "sink.processed"];
    TaskFailed "task.failed" Task Worker ["tool.failed", "tool.error", "sink.failed"];
    PolicyEvaluated "policy.task.evaluated" Policy Worker ["case.started", "case.processed"];
    LoopStarted "loop.started" Loop Server [];
    FrameClaimed "loop.frame.claimed" Loop Server [];
    IterationScheduled "loop.iteration.scheduled" Loop Server [];
    IterationStarted "loop.iteration.started" Loop Worker ["loop.item"];
    IterationDone "loop.iteration.done" Loop Worker [];
    IterationFailed "loop.iteration.failed" Loop Both [];
    LoopDone "loop.done" Loop Server ["step.done"];
    ResultStored "result.stored" Result Worker [];
    ManifestUpdated "result.manifest.updated" Result Both [];
    BatchAccepted "batch.accepted" Batch Server [];
    BatchProcessing "batch.processing" Batch Server [];
    BatchCompleted "batch.completed" Batch Server [];
    BatchFailed "batch.failed" Batch Server [];
}

impl EventKind {
    /// Finds a kind by stored name or alias. A stored name always has precedence.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_stored_name(name).or_else(|| Self::ALL.iter().copied().find(|kind| kind.aliases().contains(&name)))
    }

    /// Finds the kind for an older name: `sink.*` is a task that stores, `case.*` an evaluation of arcs.
    pub fn from_legacy_name(name: &str) -> Option<Self> {
        let (family, verb) = name.split_once('.')?;
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
        if !verb.split('.').all(is_word) {
            return None;
        }
        match (family, verb) {
            ("sink", "requested" | "evaluated" | "scheduled" | "started" | "paused") => Some(Self::TaskStarted),
            ("sink", "failed" | "error") => Some(Self::TaskFailed),
            ("sink", _) => Some(Self::TaskDone),
            ("case", _) => Some(Self::NextEvaluated),
            _ => None,
        }
    }

    /// Returns the failure kind that corresponds to this end.
    #[must_use]
    pub fn to_failed(self) -> Self {
        match self {
            Self::StepDone => Self::StepFailed,
            Self::TaskDone => Self::TaskFailed,
            Self::AttemptDone => Self::AttemptFailed,
            Self::IterationDone => Self::IterationFailed,
            other => other,
        }
    }

    /// Whether it ends a step run.
    pub fn is_boundary(self) -> bool {
        matches!(self, Self::StepDone | Self::StepFailed | Self::LoopDone)
    }

    /// The display name: `TaskAttemptFailed` for `task.attempt.failed`.
    pub fn alias(self) -> String {
        self.name()
            .split('.')
            .flat_map(|word| {
                let (head, tail) = word.split_at(1);
                [head.to_ascii_uppercase(), tail.to_owned()]
            })
            .collect()
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of an event that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown event type `{0}`")]
pub struct UnknownKindError(pub String);

impl FromStr for EventKind {
    type Err = UnknownKindError;
    fn from_str(name: &str) -> Result<Self, UnknownKindError> {
        Self::from_name(name).ok_or_else(|| UnknownKindError(name.to_owned()))
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        name.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_are_two_or_three_lower_case_words() {
        for kind in EventKind::ALL {
            let words: Vec<_> = kind.name().split('.').collect();
            assert!((2..=3).contains(&words.len()), "{kind}");
            assert!(
                words.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase())),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_name_means_one_kind() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_name(kind.name()), Some(*kind));
        }
        assert_eq!(EventKind::from_name("call.done"), Some(EventKind::StepDone));
        assert_eq!(EventKind::from_name("step.done"), Some(EventKind::StepDone));
        assert_eq!(EventKind::from_name("step.nonsense"), None);
    }

    #[test]
    fn every_name_of_an_older_family_has_a_kind() {
        assert_eq!(EventKind::from_legacy_name("sink.finished"), Some(EventKind::TaskDone));
        assert_eq!(
            EventKind::from_legacy_name("sink.scheduled"),
            Some(EventKind::TaskStarted)
        );
        assert_eq!(EventKind::from_legacy_name("sink.error"), Some(EventKind::TaskFailed));
        assert_eq!(
            EventKind::from_legacy_name("case.matched"),
            Some(EventKind::NextEvaluated)
        );
        assert_eq!(EventKind::from_legacy_name("sink."), None);
        assert_eq!(EventKind::from_legacy_name("tool.dances"), None);
        assert_eq!(
            EventKind::from_name("retry.processed").map(EventKind::to_failed),
            Some(EventKind::AttemptFailed)
        );
    }

    #[test]
    fn display_aliases_follow_the_name() {
        assert_eq!(EventKind::AttemptFailed.alias(), "TaskAttemptFailed");
    }
}
