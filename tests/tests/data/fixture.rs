//! The workbench: calls made of JSON, and tools that find the library.

use std::path::Path;
use std::sync::Arc;

use integrations::DuckdbConfig;
use language::template::Piece;
use model::outcome::{Outcome, TaskError};
use model::playbook::ResultControl;
use results::{DirBodyStore, ResultWriter};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tools::{Call, DiscardingLogSink, Registry};

/// Tools that find the library, work in a folder and must not touch its `noetl.db`.
pub(crate) fn tool_registry(dir: &Path) -> Registry {
    let config = tools::Config {
        scratch_dir: dir.to_owned(),
        forbidden_files: vec![dir.join("noetl.db")],
        ..tools::Config::default()
    };
    let duckdb = DuckdbConfig {
        library: Some(tests::peers::duckdb()),
        memory_bytes_max: 256 * 1024 * 1024,
        threads_max: 2,
        ..DuckdbConfig::default()
    };
    integrations::build_registry(
        config,
        integrations::Config {
            duckdb,
            ..integrations::Config::default()
        },
    )
}

/// A call in a folder.
pub(crate) fn new_call(kind: &str, dir: &Path, fields: Value) -> Call {
    let mut call = Call::new(kind);
    dir.clone_into(&mut call.site.base_dir);
    call.fields.clone_from(fields.as_object().unwrap());
    call
}

/// A call whose command is these pieces.
pub(crate) fn command_call(dir: &Path, pieces: Vec<Piece>, fields: Value) -> Call {
    let mut call = new_call("duckdb", dir, fields);
    call.pieces.insert("command".to_owned(), vec![pieces]);
    call
}

/// A call whose command is a text.
pub(crate) fn sql_call(dir: &Path, text: &str, fields: Value) -> Call {
    command_call(dir, vec![Piece::Text(text.to_owned())], fields)
}

/// A result writer with a store in a directory.
pub(crate) fn result_writer(dir: &Path) -> ResultWriter {
    ResultWriter {
        store: Arc::new(DirBodyStore::open(dir).unwrap()),
        control: ResultControl::default(),
        uri: "noetl://execution/7/step/s/task/t/run/1.1/attempt/1".to_owned(),
        bytes_max: u64::MAX,
        missing_paths: results::MissingPaths::default(),
    }
}

/// Makes a call.
pub(crate) async fn run_call(tools: &Registry, call: Call) -> Outcome {
    let tool = tools.get(call.kind.as_str()).unwrap();
    tool.call(call, CancellationToken::new(), &DiscardingLogSink).await
}

/// The value of a success.
pub(crate) fn success_value(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Ok(success) => success.result,
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    }
}

/// The error of a failure.
pub(crate) fn failure_error(outcome: Outcome) -> TaskError {
    match outcome {
        Outcome::Ok(success) => panic!("{:?}", success.result),
        Outcome::Error(failure) => failure.error,
    }
}
