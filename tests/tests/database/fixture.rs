//! A database of a test's own, the tool, and calls of it.

use std::sync::Arc;
use std::time::Duration;

use language::template::Piece;
use model::outcome::{Outcome, TaskError};
use serde_json::{Value, json};
use tests::peers::{PostgresServer, TestDatabase};
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;
use tools::postgres::PostgresConfig;
use tools::{Call, Config, DiscardingLogSink, Registry, Tool};

/// A fresh database, and a tool that has not connected to it yet.
pub(crate) struct DatabaseFixture {
    pub(crate) database: TestDatabase,
    pub(crate) tool: Arc<dyn Tool>,
}

impl DatabaseFixture {
    pub(crate) fn new() -> Self {
        Self::with_config(PostgresConfig::default())
    }

    pub(crate) fn with_config(postgres: PostgresConfig) -> Self {
        Self {
            database: PostgresServer::shared().fresh_database(),
            tool: postgres_tool(postgres),
        }
    }

    /// A call of author text alone.
    pub(crate) fn sql_call(&self, text: &str) -> Call {
        self.template_call(vec![Piece::Text(text.to_owned())])
    }

    /// A call of text and values.
    pub(crate) fn template_call(&self, pieces: Vec<Piece>) -> Call {
        new_call(&self.database.url(), pieces)
    }

    pub(crate) async fn run_call(&self, call: Call) -> Outcome {
        self.tool.call(call, CancellationToken::new(), &DiscardingLogSink).await
    }

    pub(crate) async fn call_result(&self, call: Call) -> Value {
        success_value(self.run_call(call).await)
    }

    /// The result of author text alone.
    pub(crate) async fn query(&self, text: &str) -> Value {
        self.call_result(self.sql_call(text)).await
    }

    /// The first value of the first row.
    pub(crate) async fn query_value(&self, text: &str) -> Value {
        let result = self.query(text).await;
        first_row(&result)
    }

    /// The error of author text alone.
    pub(crate) async fn query_error(&self, text: &str) -> TaskError {
        failure_error(&self.run_call(self.sql_call(text)).await)
    }

    /// A connection of the test, separate from those of the tool.
    pub(crate) async fn raw_client(&self) -> Client {
        let connected = tokio_postgres::connect(&self.database.url(), NoTls).await;
        let (client, connection) = connected.expect("the database runs");
        tokio::spawn(connection);
        client
    }
}

pub(crate) fn postgres_tool(postgres: PostgresConfig) -> Arc<dyn Tool> {
    let config = Config {
        postgres,
        ..Config::default()
    };
    let registry = Registry::builtin(config);
    registry.get("postgres").expect("the kind is built in")
}

/// A call of text and values against a database.
pub(crate) fn new_call(url: &str, pieces: Vec<Piece>) -> Call {
    let mut call = Call::new("postgres");
    call.fields
        .insert("auth".to_owned(), json!({"type": "postgres", "dsn": url}));
    call.pieces.insert("command".to_owned(), vec![pieces]);
    call.idempotency_key = "run/1".into();
    call
}

pub(crate) fn with_params(mut call: Call, params: Value) -> Call {
    call.fields.insert("params".to_owned(), params);
    call
}

pub(crate) fn with_timeout(mut call: Call, limit: Duration) -> Call {
    call.timeout.total = Some(limit);
    call
}

pub(crate) fn first_row(result: &Value) -> Value {
    let row = result["rows"][0].as_object();
    let value = row.and_then(|row| row.values().next());
    value.unwrap_or_else(|| panic!("no row in {result}")).clone()
}

pub(crate) fn success_value(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Ok(success) => success.result,
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    }
}

pub(crate) fn failure_error(outcome: &Outcome) -> TaskError {
    let failure = outcome.failure();
    failure.unwrap_or_else(|| panic!("{outcome:?}")).clone()
}

/// Waits until a query that returns a boolean returns true.
pub(crate) async fn wait_until(client: &Client, condition: &str) {
    let started = tokio::time::Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        let row = client.query_one(condition, &[]).await.expect("the database responds");
        if row.get::<_, bool>(0) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("still false: {condition}");
}
