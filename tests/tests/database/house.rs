//! A database of a test's own, the tool, and calls of it.

use std::sync::Arc;
use std::time::Duration;

use model::outcome::{Outcome, TaskError};
use model::template::Piece;
use serde_json::{Value, json};
use tests::peers::{Database, Postgres};
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;
use tools::{Call, Config, NoLog, PostgresConfig, Registry, Tool};

/// A fresh database and a tool that knows nothing yet.
pub(crate) struct House {
    pub(crate) db: Database,
    pub(crate) tool: Arc<dyn Tool>,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::with(PostgresConfig::default())
    }

    pub(crate) fn with(postgres: PostgresConfig) -> Self {
        Self {
            db: Postgres::shared().fresh_database(),
            tool: tool(postgres),
        }
    }

    /// A call of author text alone.
    pub(crate) fn sql(&self, text: &str) -> Call {
        self.pieces(vec![Piece::Text(text.to_owned())])
    }

    /// A call of text and values.
    pub(crate) fn pieces(&self, pieces: Vec<Piece>) -> Call {
        call(&self.db.url(), pieces)
    }

    pub(crate) async fn outcome(&self, call: Call) -> Outcome {
        self.tool.call(call, CancellationToken::new(), &NoLog).await
    }

    pub(crate) async fn result(&self, call: Call) -> Value {
        result(self.outcome(call).await)
    }

    /// The result of author text alone.
    pub(crate) async fn ask(&self, text: &str) -> Value {
        self.result(self.sql(text)).await
    }

    /// The first value of the first row.
    pub(crate) async fn value(&self, text: &str) -> Value {
        let result = self.ask(text).await;
        first(&result)
    }

    /// The error of author text alone.
    pub(crate) async fn error(&self, text: &str) -> TaskError {
        error(&self.outcome(self.sql(text)).await)
    }

    /// A connection beside the tool.
    pub(crate) async fn raw(&self) -> Client {
        let connected = tokio_postgres::connect(&self.db.url(), NoTls).await;
        let (client, connection) = connected.expect("the database runs");
        tokio::spawn(connection);
        client
    }
}

pub(crate) fn tool(postgres: PostgresConfig) -> Arc<dyn Tool> {
    let config = Config {
        postgres,
        ..Config::default()
    };
    let registry = Registry::builtin(config);
    registry.get("postgres").expect("the kind is built in")
}

/// A call of text and values against a database.
pub(crate) fn call(url: &str, pieces: Vec<Piece>) -> Call {
    let mut call = Call::new("postgres");
    call.fields
        .insert("auth".to_owned(), json!({"type": "postgres", "dsn": url}));
    call.pieces.insert("command".to_owned(), vec![pieces]);
    call.idempotency_key = "run/1".into();
    call
}

pub(crate) fn params(mut call: Call, params: Value) -> Call {
    call.fields.insert("params".to_owned(), params);
    call
}

pub(crate) fn within(mut call: Call, limit: Duration) -> Call {
    call.timeout.total = Some(limit);
    call
}

pub(crate) fn first(result: &Value) -> Value {
    let row = result["rows"][0].as_object();
    let value = row.and_then(|row| row.values().next());
    value
        .unwrap_or_else(|| panic!("no row in {result}"))
        .clone()
}

pub(crate) fn result(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Ok(success) => success.result,
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    }
}

pub(crate) fn error(outcome: &Outcome) -> TaskError {
    let failure = outcome.failure();
    failure.unwrap_or_else(|| panic!("{outcome:?}")).clone()
}

/// Waits until a question about the database is answered with yes.
pub(crate) async fn until(client: &Client, question: &str) {
    let started = tokio::time::Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        let row = client.query_one(question, &[]).await.expect("an answer");
        if row.get::<_, bool>(0) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never: {question}");
}
