//! Tools that call external services, each with a real one: NATS, and a server of the Model Context Protocol.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod mcp;
mod nats;
mod playbook;

use std::sync::{Arc, Mutex};

use model::outcome::{Outcome, TaskError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tools::{Call, LogSink, NoLog, Registry, Stream, Tool};

/// A log sink that records every line.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, _stream: Stream, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

fn tool(kind: &str) -> Arc<dyn Tool> {
    let registry = Registry::builtin(tools::Config::default());
    registry.get(kind).expect("the kind is built in")
}

fn call(kind: &str, fields: Value) -> Call {
    let mut call = Call::new(kind);
    call.fields = match fields {
        Value::Object(fields) => fields,
        other => panic!("{other} is no map"),
    };
    call.place.base_dir = std::env::temp_dir();
    call
}

async fn run(tool: &Arc<dyn Tool>, call: Call) -> Outcome {
    tool.call(call, CancellationToken::new(), &NoLog).await
}

fn result(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Ok(success) => success.result,
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    }
}

fn error(outcome: &Outcome) -> &TaskError {
    outcome.failure().unwrap_or_else(|| panic!("{outcome:?}"))
}
