//! Tools that call external services, each with a real one: NATS, and a server of the Model Context Protocol.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod mcp;
mod nats;
mod playbook;

use std::sync::{Arc, Mutex};

use integrations::build_registry;
use model::outcome::{Outcome, TaskError};
use model::task_log::LogStream;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tools::{Call, DiscardingLogSink, LogSink, Tool};

/// A log sink that records every line.
#[derive(Default)]
struct CapturedLines(Mutex<Vec<String>>);

impl LogSink for CapturedLines {
    fn write_line(&self, _stream: LogStream, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

fn find_tool(kind: &str) -> Arc<dyn Tool> {
    let registry = build_registry(tools::Config::default(), integrations::Config::default());
    registry.get(kind).expect("the kind is built in")
}

fn new_call(kind: &str, fields: Value) -> Call {
    let mut call = Call::new(kind);
    call.fields = match fields {
        Value::Object(fields) => fields,
        other => panic!("{other} is no map"),
    };
    call.site.base_dir = std::env::temp_dir();
    call
}

async fn run_call(tool: &Arc<dyn Tool>, call: Call) -> Outcome {
    tool.call(call, CancellationToken::new(), &DiscardingLogSink).await
}

fn success_value(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Ok(success) => success.result,
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    }
}

fn failure_error(outcome: &Outcome) -> &TaskError {
    outcome.failure().unwrap_or_else(|| panic!("{outcome:?}"))
}
