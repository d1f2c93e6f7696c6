//! Runs statements in order on one connection. Each is prepared, so that the server reports its types and columns.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement as Prepared};

use crate::postgres::decode::{RawBytes, write_json};
use crate::postgres::failure::{FailedStatement, PostgresError};
use crate::postgres::param::{SqlParam, own_type};
use crate::postgres::rows::{RowSpool, StatementAnswer};
use crate::sql::{SqlStatement, StatementText, unique_names};

/// Statements that accept parameters; all others get literals.
const PARAM_VERBS: [&str; 8] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE",
];
/// Statements whose row count is the number of affected rows.
const CHANGING_VERBS: [&str; 4] = ["INSERT", "UPDATE", "DELETE", "MERGE"];
/// SQLSTATEs of type errors: unknown operator or function, wrong type, ambiguous type.
const TYPE_ERRORS: [&str; 3] = ["42883", "42804", "42P08"];
/// SQLSTATE of a parameter whose type the server cannot infer.
const INDETERMINATE_TYPE: &str = "42P18";

/// Whether the command has an open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthorTransaction {
    None,
    Open,
}

/// Rejects unsupported statements before any of them runs.
pub(super) fn check_statements(statements: &[SqlStatement]) -> Result<(), TaskError> {
    for statement in statements {
        let text = statement.text().text.to_ascii_uppercase();
        let is_copy = statement.first_word() == "COPY";
        if is_copy && (text.contains("STDIN") || text.contains("STDOUT")) {
            return Err(TaskError::new(
                ErrorKind::Schema,
                "PG_COPY",
                "`COPY` with STDIN or STDOUT is not supported; use INSERT and SELECT, or a `transfer` task",
            ));
        }
    }
    Ok(())
}

/// How a statement changes the transaction of the command.
pub(super) fn transaction_change(statement: &SqlStatement) -> Option<AuthorTransaction> {
    let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
    match words[..] {
        ["BEGIN", ..] | ["START", "TRANSACTION", ..] => Some(AuthorTransaction::Open),
        ["ROLLBACK" | "ABORT", "TO", ..]
        | ["ROLLBACK", "WORK" | "TRANSACTION", "TO", ..]
        | ["COMMIT" | "ROLLBACK", "PREPARED", ..] => None,
        ["COMMIT" | "END" | "ROLLBACK" | "ABORT", .., "CHAIN"] if !words.contains(&"NO") => {
            Some(AuthorTransaction::Open)
        }
        ["PREPARE", "TRANSACTION", ..] | ["COMMIT" | "END" | "ROLLBACK" | "ABORT", ..] => Some(AuthorTransaction::None),
        _ => None,
    }
}

/// Runs all statements. A transaction that the command leaves open is rolled back and is an error.
pub(super) async fn run_statements(
    client: &Client,
    statements: &[SqlStatement],
    spool: &mut RowSpool,
) -> Result<Vec<StatementAnswer>, PostgresError> {
    let mut answers = Vec::new();
    let mut open = AuthorTransaction::None;
    for (index, statement) in statements.iter().enumerate() {
        let answer = run_statement(client, index, statement, spool).await?;
        answers.push(answer);
        open = transaction_change(statement).unwrap_or(open);
    }
    if open == AuthorTransaction::Open {
        return Err(TaskError::new(
            ErrorKind::Schema,
            "PG_TRANSACTION_OPEN",
            "the command left a transaction open; it was rolled back. End it with COMMIT",
        )
        .into());
    }
    Ok(answers)
}

async fn run_statement(
    client: &Client,
    index: usize,
    statement: &SqlStatement,
    spool: &mut RowSpool,
) -> Result<StatementAnswer, PostgresError> {
    let binds = PARAM_VERBS.contains(&statement.first_word()) || statement.is_in_parentheses();
    let sent = if binds {
        statement.text()
    } else {
        statement.text_with_literals()
    };
    let failed = FailedStatement {
        statement: index,
        sent,
        has_values: statement.has_values(),
    };
    let to_error = |error| PostgresError::Server {
        error,
        statement: Some(failed.clone()),
    };
    if index > 0 && failed.sent.text.contains('\\') {
        // An earlier statement may have changed `standard_conforming_strings`; escaped values depend on it.
        client.batch_execute(crate::postgres::session::SESSION_SETTINGS).await?;
    }
    let separate = binds.then(|| statement.text_with_separate_params());
    let prepared = prepare_with_fallback(client, &failed.sent, separate.flatten()).await;
    let (prepared, params) = prepared.map_err(to_error)?;
    let param_count = prepared.params().len();
    if param_count != params.len() {
        return Err(unbound_error(param_count, params.len()).into());
    }
    let columns = unique_names(prepared.columns().iter().map(|column| column.name().to_owned()));
    let start = spool.position();
    let mut row_count = 0;
    let stream = client.query_raw(&prepared, params.iter().map(SqlParam));
    let stream = stream.await;
    let mut stream = pin!(stream.map_err(to_error)?);
    while let Some(row) = stream.try_next().await.map_err(to_error)? {
        if row_count > 0 {
            spool.buffer().push(b',');
        }
        write_row(&row, &columns, spool.buffer())?;
        spool.flush_if_full().await?;
        row_count += 1;
    }
    let counted = stream.rows_affected().unwrap_or(0);
    let changes = CHANGING_VERBS.contains(&statement.verb.as_str());
    Ok(StatementAnswer {
        columns,
        row_count,
        affected_rows: if changes { counted } else { 0 },
        start,
        end: spool.position(),
    })
}

/// Prepares a statement and returns its parameters. On a type error, every value becomes a separate parameter, whose
/// type the server infers from its position.
async fn prepare_with_fallback(
    client: &Client,
    sent: &StatementText,
    separate: Option<StatementText>,
) -> Result<(Prepared, Vec<Value>), tokio_postgres::Error> {
    let error = match prepare(client, &sent.text, &sent.params).await {
        Ok(prepared) => return Ok((prepared, sent.params.clone())),
        Err(error) => error,
    };
    let state = error.code().map_or("", SqlState::code);
    let Some(separate) = separate.filter(|_| TYPE_ERRORS.contains(&state)) else {
        return Err(error);
    };
    match prepare(client, &separate.text, &separate.params).await {
        Ok(prepared) => Ok((prepared, separate.params)),
        // Return the first error, because its position refers to the text that was sent.
        Err(_) => Err(error),
    }
}

/// Prepares a statement. If the server cannot infer the type of a value, the value's own type is used.
async fn prepare(client: &Client, text: &str, params: &[Value]) -> Result<Prepared, tokio_postgres::Error> {
    let mut types: Vec<Type> = Vec::new();
    for _ in 0..=params.len() {
        let error = match client.prepare_typed(text, &types).await {
            Ok(prepared) => return Ok(prepared),
            Err(error) => error,
        };
        let Some(index) = indeterminate_param(&error).filter(|index| *index < params.len()) else {
            return Err(error);
        };
        // Leave the other types to the server.
        if types.len() <= index {
            types.resize(index + 1, Type::UNKNOWN);
        }
        types[index] = own_type(&params[index]);
    }
    client.prepare_typed(text, &types).await
}

/// Index of the value whose type the server could not infer.
fn indeterminate_param(error: &tokio_postgres::Error) -> Option<usize> {
    let db = error.as_db_error()?;
    if db.code().code() != INDETERMINATE_TYPE {
        return None;
    }
    let number = db.message().rsplit_once('$')?.1;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<usize>().ok()?.checked_sub(1)
}

fn write_row(row: &Row, columns: &[String], out: &mut Vec<u8>) -> Result<(), PostgresError> {
    out.push(b'{');
    for (index, (column, name)) in row.columns().iter().zip(columns).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
        out.push(b':');
        let raw = row.try_get::<_, Option<RawBytes<'_>>>(index)?;
        write_json(column.type_(), raw.map(|raw| raw.0), out).map_err(|broken| {
            let message = format!("column `{name}`: {broken}; cast it to text");
            TaskError::new(ErrorKind::Schema, "PG_RESULT", message)
        })?;
    }
    out.push(b'}');
    Ok(())
}

fn unbound_error(wanted: usize, bound: usize) -> TaskError {
    let message = format!("the statement has {wanted} placeholders, but {bound} values were passed");
    TaskError::new(ErrorKind::Schema, "SQL_BIND", message)
}
