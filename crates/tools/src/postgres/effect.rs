//! `effect: transactional`: commits a marker row with the statements, so that a retry finds the earlier result.
//!
//! The marker is a row of `noetl_effect` in the target database, keyed by the task run. An attempt that finds it
//! returns the recorded result and runs nothing; concurrent attempts wait for each other at the key.

use model::outcome::{ErrorKind, Outcome, Success, TaskError};
use model::result_ref::ResultRef;
use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::call::Call;
use crate::postgres::failure::PostgresError;
use crate::postgres::rows::RowSpool;
use crate::postgres::run;
use crate::sql::SqlStatement;

/// Finds the table through the session's search path.
const FIND_TABLE: &str = "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.oid = pg_catalog.to_regclass('noetl_effect')";

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS noetl_effect (\
    idempotency_key text PRIMARY KEY, result json, created_at timestamptz NOT NULL DEFAULT now())";

/// SQLSTATEs of a concurrent creation of the table.
const CREATED_BY_ANOTHER: [&str; 3] = ["23505", "42P07", "42710"];

/// Rejects statements that begin or end a transaction.
pub(super) fn check_transactional(statements: &[SqlStatement]) -> Result<(), TaskError> {
    let ends = |statement: &&SqlStatement| run::transaction_change(statement).is_some();
    match statements.iter().find(ends) {
        None => Ok(()),
        Some(statement) => Err(TaskError::new(
            ErrorKind::Schema,
            "PG_TRANSACTION",
            format!(
                "`{}` is not allowed with `effect: transactional`, which runs the task in one transaction",
                statement.first_word()
            ),
        )),
    }
}

/// Runs the statements once, however many attempts there are.
pub(super) async fn run_once(
    client: &Client,
    call: &Call,
    statements: &[SqlStatement],
    mut spool: RowSpool,
) -> Result<Outcome, PostgresError> {
    let table = ensure_table(client).await?;
    let key: &str = &call.idempotency_key;
    client.batch_execute("BEGIN").await?;
    let insert = format!("INSERT INTO {table} (idempotency_key) VALUES ($1) ON CONFLICT (idempotency_key) DO NOTHING");
    if client.execute(&insert, &[&key]).await? == 0 {
        let recorded = load_recorded_outcome(client, &table, key).await?;
        client.batch_execute("ROLLBACK").await?;
        return Ok(recorded);
    }
    let answers = run::run_statements(client, statements, &mut spool).await?;
    // Store a large result before the marker refers to it.
    let outcome = spool.into_outcome(&answers, call.result_writer.as_ref()).await?;
    let update = format!("UPDATE {table} SET result = $2::text::json WHERE idempotency_key = $1");
    let record = outcome_record(&outcome).to_string();
    client.execute(&update, &[&key, &record]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(outcome)
}

/// Returns the name of the table; creates it if it does not exist.
async fn ensure_table(client: &Client) -> Result<String, PostgresError> {
    for _ in 0..3 {
        if let Some(row) = client.query_opt(FIND_TABLE, &[]).await? {
            return Ok(row.get(0));
        }
        let is_created_by_another = |state: &SqlState| CREATED_BY_ANOTHER.contains(&state.code());
        if let Err(error) = client.batch_execute(CREATE_TABLE).await
            && !error.code().is_some_and(is_created_by_another)
        {
            return Err(error.into());
        }
    }
    Err(TaskError::new(
        ErrorKind::Schema,
        "PG_EFFECT_TABLE",
        "the table `noetl_effect` was created but is not on the search path; set `schema`",
    )
    .into())
}

/// Loads the result of an earlier attempt.
async fn load_recorded_outcome(client: &Client, table: &str, key: &str) -> Result<Outcome, PostgresError> {
    let select = format!("SELECT result::text FROM {table} WHERE idempotency_key = $1");
    let row = client.query_one(&select, &[&key]).await?;
    let text: Option<String> = row.get(0);
    let record: Value = text
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let reference = record.get("reference").cloned();
    let reference = reference.and_then(|value| serde_json::from_value::<ResultRef>(value).ok());
    let mut outcome = Outcome::Ok(Success {
        result: record.get("result").cloned().unwrap_or_default(),
        reference: reference.map(Box::new),
        ..Success::default()
    });
    outcome.meta_mut().insert("recorded".to_owned(), Value::Bool(true));
    Ok(outcome)
}

fn outcome_record(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Ok(success) => match &success.reference {
            Some(reference) => json!({"reference": reference}),
            None => json!({"result": success.result}),
        },
        Outcome::Error(_) => Value::Null,
    }
}
