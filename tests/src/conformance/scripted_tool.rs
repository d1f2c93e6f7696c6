//! The scripted tool: every kind returns the outcomes of the case's script.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tools::{Call, LogSink, Registry, Tool, ToolResult};

use crate::conformance::outcome_source::{AttemptQuery, OutcomeSource as _, TimedOutcome};
use crate::conformance::script::Script;
use crate::stack::CallLocation;

/// Kinds that a case may use. `wait` and `playbook` are not run by tools.
const KINDS: [&str; 9] = [
    "artifact",
    "noop",
    "http",
    "python",
    "shell",
    "rhai",
    "transform",
    "sqlite",
    "postgres",
];

struct ScriptedTool {
    script: Arc<Mutex<Script>>,
    is_pure: bool,
}

/// A registry in which every kind returns the outcomes of the script.
pub(crate) fn registry(script: &Arc<Mutex<Script>>) -> Registry {
    let mut registry = Registry::empty();
    // The worker does not let time pass during a pure call, so a kind is pure only if no outcome has a delay.
    let is_quick = script.lock().expect("answering does not panic").is_immediate();
    for kind in KINDS {
        let tool = ScriptedTool {
            script: script.clone(),
            is_pure: is_quick && matches!(kind, "noop" | "rhai" | "transform"),
        };
        registry.insert(kind, Arc::new(tool));
    }
    registry
}

#[async_trait]
impl Tool for ScriptedTool {
    fn is_pure(&self) -> bool {
        self.is_pure
    }

    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        let timed = self.scripted_outcome(&call);
        tokio::select! {
            () = tokio::time::sleep(timed.duration) => Ok(timed.outcome),
            () = stop.cancelled() => Err(TaskError::new(
                ErrorKind::Cancelled,
                "CANCELLED",
                "the call was stopped before it ended",
            )),
        }
    }
}

impl ScriptedTool {
    fn scripted_outcome(&self, call: &Call) -> TimedOutcome {
        let location = CallLocation::parse(&call.idempotency_key).expect("the key names the task run");
        let input = Value::Object(call.input.clone());
        let input = if call.input.is_empty() { Value::Null } else { input };
        let query = AttemptQuery {
            input: &input,
            timeout: &timeout_json(&call.timeout),
            ..AttemptQuery::new(call, &location)
        };
        let mut script = self.script.lock().expect("answering does not panic");
        script.next_outcome(&query).unwrap_or_else(|| {
            let result = call.fields.get("result").cloned().unwrap_or_default();
            TimedOutcome::immediate(Outcome::ok(result))
        })
    }
}

/// The parts of a timeout that are given, in seconds.
fn timeout_json(timeout: &tools::Timeout) -> Value {
    let parts = [
        ("total", timeout.total),
        ("connect", timeout.connect),
        ("read", timeout.read),
    ];
    let given = parts.iter().filter_map(|(name, span)| {
        let seconds = span.as_ref()?.as_secs_f64();
        Some(((*name).to_owned(), seconds.into()))
    });
    Value::Object(given.collect())
}
