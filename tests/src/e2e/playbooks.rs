//! The playbooks of the load: one recipe for each playbook of `tests/e2e`, with its expected end.

use model::status::RunStatus;
use serde_json::{Value, json};

/// A playbook and the control requests that its runs get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each variant is the playbook of the same name")]
pub enum Recipe {
    Chain,
    Parallel,
    Sequential,
    Flaky,
    Exhausted,
    Jump,
    Parent,
    Timer,
    Signal,
    Pause,
    Cancel,
    CancelBusy,
    Once,
    Routed,
    Unrouted,
    Join,
    Processes,
    Tally,
    Cursor,
}

/// Only started by other playbooks.
const CHILD: (&str, &str) = ("e2e/child", include_str!("../../e2e/child.yaml"));

impl Recipe {
    /// All recipes, used in turn.
    pub const ALL: [Self; 19] = [
        Self::Chain,
        Self::Parallel,
        Self::Sequential,
        Self::Flaky,
        Self::Exhausted,
        Self::Jump,
        Self::Parent,
        Self::Timer,
        Self::Signal,
        Self::Pause,
        Self::Cancel,
        Self::CancelBusy,
        Self::Once,
        Self::Routed,
        Self::Unrouted,
        Self::Join,
        Self::Processes,
        Self::Tally,
        Self::Cursor,
    ];

    /// Path and text of every playbook that the catalog needs.
    pub fn catalog() -> Vec<(&'static str, &'static str)> {
        let own = Self::ALL.iter().map(|recipe| recipe.playbook_source());
        own.chain([CHILD]).collect()
    }

    /// Catalog path of the playbook.
    pub fn path(self) -> &'static str {
        self.playbook_source().0
    }

    fn playbook_source(self) -> (&'static str, &'static str) {
        match self {
            Self::Chain => ("e2e/chain", include_str!("../../e2e/chain.yaml")),
            Self::Parallel => ("e2e/parallel", include_str!("../../e2e/parallel.yaml")),
            Self::Sequential => ("e2e/sequential", include_str!("../../e2e/sequential.yaml")),
            Self::Flaky => ("e2e/flaky", include_str!("../../e2e/flaky.yaml")),
            Self::Exhausted => ("e2e/exhausted", include_str!("../../e2e/exhausted.yaml")),
            Self::Jump => ("e2e/jump", include_str!("../../e2e/jump.yaml")),
            Self::Parent => ("e2e/parent", include_str!("../../e2e/parent.yaml")),
            Self::Timer => ("e2e/timer", include_str!("../../e2e/timer.yaml")),
            Self::Signal => ("e2e/signal", include_str!("../../e2e/signal.yaml")),
            Self::Pause => ("e2e/pause", include_str!("../../e2e/pause.yaml")),
            Self::Cancel => ("e2e/cancel", include_str!("../../e2e/cancel.yaml")),
            Self::CancelBusy => ("e2e/cancel_busy", include_str!("../../e2e/cancel_busy.yaml")),
            Self::Once => ("e2e/once", include_str!("../../e2e/once.yaml")),
            Self::Routed => ("e2e/routed", include_str!("../../e2e/routed.yaml")),
            Self::Unrouted => ("e2e/unrouted", include_str!("../../e2e/unrouted.yaml")),
            Self::Join => ("e2e/join", include_str!("../../e2e/join.yaml")),
            Self::Processes => ("e2e/processes", include_str!("../../e2e/processes.yaml")),
            Self::Tally => ("e2e/tally", include_str!("../../e2e/tally.yaml")),
            Self::Cursor => ("e2e/cursor", include_str!("../../e2e/cursor.yaml")),
        }
    }

    /// Expected status of its runs.
    pub fn end_status(self) -> RunStatus {
        match self {
            Self::Exhausted | Self::Unrouted => RunStatus::Failed,
            Self::Cancel | Self::CancelBusy => RunStatus::Cancelled,
            _ => RunStatus::Completed,
        }
    }

    /// Results that run number `n` may have; empty if the status is enough.
    pub fn results(self, n: u64) -> Vec<Value> {
        match self {
            Self::Chain
            | Self::Flaky
            | Self::Timer
            | Self::Signal
            | Self::Pause
            | Self::Routed
            | Self::Processes
            | Self::Tally => vec![json!(n)],
            Self::Parallel => vec![json!({"sum": 28, "count": 8})],
            Self::Sequential => vec![json!([1, 2, 3, 4])],
            Self::Cursor => vec![json!([1, 2, 3, 4, 5, 6, 7])],
            Self::Jump => vec![json!(3)],
            Self::Parent => vec![json!([10, 20, 30])],
            Self::Once => vec![json!(n), json!("unknown")],
            Self::Join => vec![json!(2 * n)],
            Self::Exhausted | Self::Unrouted | Self::Cancel | Self::CancelBusy => Vec::new(),
        }
    }
}
