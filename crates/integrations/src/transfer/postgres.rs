//! Postgres as source and target: `COPY … TO STDOUT` and `COPY … FROM STDIN`, in one transaction.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt as _, TryStreamExt as _};
use model::outcome::{ErrorKind, TaskError};
use serde_json::{Number, Value};
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Client, CopyInSink};
use tools::postgres::task_error;
use tools::sql::{SqlStatement, unique_names};

use super::encode::{parse_copy_line, write_copy_field};
use super::flow::{RowBatch, RowReceiver, RowSender, TransferTotals, row_error};
use super::options::{WriteMode, conflict_clause, quote_column_list, quote_table_name};

/// Sets text formats that every other source and target can read.
const TRANSFER_SETTINGS: &str =
    "SET datestyle TO ISO; SET timezone TO 'UTC'; SET intervalstyle TO postgres; SET bytea_output TO hex";
/// Bytes to send at a time.
const SEND_BYTES: usize = 64 * 1024;
/// Maximum number of digits that a decimal keeps as a double.
const DOUBLE_DIGITS: usize = 15;

/// Reads the rows of a query.
pub(super) async fn read_query(client: &Client, query: &SqlStatement, sender: &mut RowSender) -> Result<(), TaskError> {
    client.batch_execute(TRANSFER_SETTINGS).await.map_err(task_error)?;
    let text = query.text_with_literals().text;
    let prepared = client.prepare(&text).await.map_err(task_error)?;
    let names = unique_names(prepared.columns().iter().map(|column| column.name().to_owned()));
    let types: Vec<Type> = prepared.columns().iter().map(|column| column.type_().clone()).collect();
    // The server converts arrays and rows to JSON.
    let aliases: Vec<String> = (0..names.len()).map(|index| format!("c{index}")).collect();
    let picked = aliases
        .iter()
        .zip(&types)
        .map(|(name, column_type)| match column_type.kind() {
            Kind::Array(_) | Kind::Composite(_) => format!("to_jsonb({name})"),
            _ => name.clone(),
        });
    let copy = format!(
        "COPY (SELECT {} FROM ({text}\n) AS q({})) TO STDOUT",
        picked.collect::<Vec<_>>().join(", "),
        aliases.join(", ")
    );
    sender.set_columns(names);
    let is_text = |column_type: &Type| sender.may_keep_json_text() && is_json(column_type);
    let json_texts: Vec<bool> = types.iter().map(is_text).collect();
    sender.set_json_texts(json_texts.clone());
    let stream = client.copy_out(&copy).await.map_err(task_error)?;
    tokio::pin!(stream);
    let mut buffer = BytesMut::new();
    while let Some(chunk) = stream.try_next().await.map_err(task_error)? {
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1);
            let kinds = types.iter().zip(&json_texts);
            let fields = parse_copy_line(&line[..end]).into_iter().zip(kinds);
            let row = fields.map(|(text, (column_type, is_text))| match text {
                None => Value::Null,
                Some(text) if *is_text => text.into(),
                Some(text) => field_value(text, column_type),
            });
            if sender.push(row.collect()) {
                sender.send().await?;
            }
        }
    }
    Ok(())
}

/// Converts a field to JSON by its type.
fn field_value(text: String, column_type: &Type) -> Value {
    match *column_type {
        Type::BOOL => Value::Bool(text == "t"),
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => {
            text.parse::<i64>().map_or(Value::String(text), Value::from)
        }
        Type::FLOAT4 | Type::FLOAT8 => number_value(text),
        Type::NUMERIC if text.bytes().filter(u8::is_ascii_digit).count() <= DOUBLE_DIGITS => {
            match text.parse::<i64>() {
                Ok(whole) => whole.into(),
                Err(_) => number_value(text),
            }
        }
        Type::JSON | Type::JSONB => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Type::BYTEA => {
            let bytes = text.strip_prefix("\\x").and_then(|digits| hex::decode(digits).ok());
            bytes.map_or(Value::String(text), |bytes| STANDARD.encode(bytes).into())
        }
        Type::TIMESTAMP => text.replacen(' ', "T", 1).into(),
        Type::TIMESTAMPTZ => match text.strip_suffix("+00") {
            Some(time) => format!("{}Z", time.replacen(' ', "T", 1)).into(),
            None => text.into(),
        },
        _ if matches!(column_type.kind(), Kind::Array(_) | Kind::Composite(_)) => {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
        _ => text.into(),
    }
}

fn number_value(text: String) -> Value {
    let number = text.parse::<f64>().ok().and_then(Number::from_f64);
    number.map_or(Value::String(text), Value::Number)
}

/// Writes all chunks to a table in one transaction.
pub(super) async fn write_table(
    client: &Client,
    table: &str,
    mode: WriteMode,
    mut receiver: RowReceiver,
) -> Result<TransferTotals, TaskError> {
    let table = quote_table_name(table);
    client.batch_execute(TRANSFER_SETTINGS).await.map_err(task_error)?;
    client.batch_execute("BEGIN").await.map_err(task_error)?;
    // A connection that is not returned to the pool is closed, which rolls back.
    let first = client.prepare(&format!("SELECT * FROM {table}")).await;
    let existing = first.map_err(task_error)?;
    if mode == WriteMode::Replace {
        client
            .batch_execute(&format!("DELETE FROM {table}"))
            .await
            .map_err(task_error)?;
    }
    let mut copy_writer: Option<CopyWriter> = None;
    while let Some(batch) = receiver.next().await? {
        if batch.rows.is_empty() {
            continue;
        }
        if copy_writer.is_none() {
            let types = column_types(&batch.columns, existing.columns(), &table)?;
            copy_writer = Some(CopyWriter::start(client, &table, &mode, &batch.columns, types).await?);
        }
        if let Some(copy_writer) = &mut copy_writer {
            copy_writer.write(&batch).await?;
        }
    }
    if let Some(copy_writer) = copy_writer {
        copy_writer.finish(client, &table, &mode).await?;
    }
    client.batch_execute("COMMIT").await.map_err(task_error)?;
    Ok(receiver.totals)
}

/// Types of the columns to write.
fn column_types(columns: &[String], existing: &[tokio_postgres::Column], table: &str) -> Result<Vec<Type>, TaskError> {
    let type_of = |name: &String| {
        let column = existing.iter().find(|column| column.name() == name);
        column.map(|column| column.type_().clone()).ok_or_else(|| {
            let message = format!("{table} has no column `{name}`; map it to another column with `target.mapping`");
            TaskError::new(ErrorKind::Schema, "TRANSFER_COLUMN", message)
        })
    };
    columns.iter().map(type_of).collect()
}

/// A `COPY` in progress.
struct CopyWriter {
    sink: std::pin::Pin<Box<CopyInSink<Bytes>>>,
    columns: Vec<String>,
    types: Vec<Type>,
    count: u64,
}

/// Temporary table for the rows of an upsert.
const STAGING_TABLE: &str = "pg_temp.noetl_transfer";

impl CopyWriter {
    async fn start(
        client: &Client,
        table: &str,
        mode: &WriteMode,
        columns: &[String],
        types: Vec<Type>,
    ) -> Result<Self, TaskError> {
        let names = quote_column_list(columns);
        let into = if let WriteMode::Upsert(key) = mode {
            conflict_clause(columns, key)?;
            let stage = format!(
                "CREATE TEMP TABLE noetl_transfer ON COMMIT DROP AS SELECT {names} FROM {table} WITH NO DATA; \
                 ALTER TABLE {STAGING_TABLE} ADD COLUMN noetl_number bigserial"
            );
            client.batch_execute(&stage).await.map_err(task_error)?;
            STAGING_TABLE
        } else {
            table
        };
        let sink = client.copy_in(&format!("COPY {into} ({names}) FROM STDIN")).await;
        Ok(Self {
            sink: Box::pin(sink.map_err(task_error)?),
            columns: columns.to_vec(),
            types,
            count: 0,
        })
    }

    async fn write(&mut self, batch: &RowBatch) -> Result<(), TaskError> {
        let mut out = Vec::with_capacity(SEND_BYTES * 2);
        for row in &batch.rows {
            self.count += 1;
            for (index, (value, column_type)) in row.iter().zip(&self.types).enumerate() {
                if index > 0 {
                    out.push(b'\t');
                }
                let text = match value {
                    Value::String(text) if batch.is_json_text(index) => json_field(text, column_type),
                    _ => copy_text(value, column_type),
                };
                let text = text.map_err(|problem| row_error(self.count, &problem))?;
                write_copy_field(text.as_deref(), &mut out);
            }
            out.push(b'\n');
            if out.len() >= SEND_BYTES {
                let full = std::mem::replace(&mut out, Vec::with_capacity(SEND_BYTES * 2));
                self.sink.send(full.into()).await.map_err(task_error)?;
            }
        }
        self.sink.send(out.into()).await.map_err(task_error)
    }

    async fn finish(mut self, client: &Client, table: &str, mode: &WriteMode) -> Result<(), TaskError> {
        self.sink.as_mut().finish().await.map_err(task_error)?;
        let WriteMode::Upsert(key) = mode else {
            return Ok(());
        };
        let (names, keys) = (quote_column_list(&self.columns), quote_column_list(key));
        let conflict = conflict_clause(&self.columns, key)?;
        // The last row with a key wins.
        let insert = format!(
            "INSERT INTO {table} ({names}) SELECT DISTINCT ON ({keys}) {names} FROM {STAGING_TABLE} \
             ORDER BY {keys}, noetl_number DESC {conflict}"
        );
        client.batch_execute(&insert).await.map_err(task_error)
    }
}

fn is_json(column_type: &Type) -> bool {
    *column_type == Type::JSON || *column_type == Type::JSONB
}

/// Text of a JSON value for a column of this type; a JSON column gets it unchanged.
fn json_field(text: &str, column_type: &Type) -> Result<Option<String>, String> {
    if is_json(column_type) {
        return Ok(Some(text.to_owned()));
    }
    match serde_json::from_str(text) {
        Ok(value) => copy_text(&value, column_type),
        Err(_) => copy_text(&text.into(), column_type),
    }
}

/// Text of a value for a column of this type.
fn copy_text(value: &Value, column_type: &Type) -> Result<Option<String>, String> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::String(text) if text.contains('\0') => {
            return Err("a text contains a NUL character".to_owned());
        }
        Value::String(text) if *column_type == Type::BYTEA => {
            let bytes = STANDARD
                .decode(text)
                .map_err(|_| "a binary value is not valid base64".to_owned())?;
            format!("\\x{}", hex::encode(bytes))
        }
        Value::String(text) if is_json(column_type) => {
            // Text that is already a JSON object or list, from a CSV or text column, stays as it is.
            match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(_) | Value::Array(_)) => text.clone(),
                _ => value.to_string(),
            }
        }
        Value::String(text) => text.clone(),
        Value::Array(items) => match column_type.kind() {
            Kind::Array(inner) => list_text(items, inner)?,
            _ => value.to_string(),
        },
        other => other.to_string(),
    }))
}

/// Array literal.
fn list_text(items: &[Value], inner: &Type) -> Result<String, String> {
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        parts.push(match (item, copy_text(item, inner)?) {
            (Value::Array(nested), _) => list_text(nested, inner)?,
            (_, None) => "NULL".to_owned(),
            (_, Some(text)) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        });
    }
    Ok(format!("{{{}}}", parts.join(",")))
}
