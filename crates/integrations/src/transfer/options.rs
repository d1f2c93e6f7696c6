//! Reads the source, the target and the options of a transfer from a call.

use language::template::Piece;
use model::outcome::{ErrorKind, TaskError};
use postgres::ConnectTarget;
use serde_json::{Map, Value};

use model::raw::json_type_name;
use tools::objects::{ObjectAccess, ObjectAddress, ObjectLocation};
use tools::postgres::target_from_auth;
use tools::sql::{CommandTexts, SqlDialect, SqlStatement, bind_commands};
use tools::{Call, unresolved_auth_error};

/// Default number of rows in a chunk.
const CHUNK_SIZE: u64 = 5_000;
const CHUNK_SIZE_MAX: u64 = 1_000_000;

/// One side of a transfer, as written in the task.
pub(super) struct TransferEnd<'c> {
    call: &'c Call,
    /// `source` or `target`.
    side: &'static str,
    pub(super) fields: &'c Map<String, Value>,
    pub(super) kind: &'c str,
}

/// Write mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WriteMode {
    Append,
    Replace,
    /// Insert or update by these key columns.
    Upsert(Vec<String>),
}

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    Csv,
    Ndjson,
    Json,
    Parquet,
}

/// Options of a transfer.
pub(super) struct TransferOptions {
    pub(super) mode: Option<WriteMode>,
    pub(super) chunk_size: usize,
    pub(super) mapping: Option<Map<String, Value>>,
}

impl TransferOptions {
    pub(super) fn from_call(call: &Call, target: &TransferEnd<'_>) -> Result<Self, TaskError> {
        let chunk_size = match call.field("chunk_size") {
            None => CHUNK_SIZE,
            Some(value) => {
                let size = value.as_u64().filter(|size| (1..=CHUNK_SIZE_MAX).contains(size));
                size.ok_or_else(|| call.wrong_type_error("chunk_size", "a number from 1 to 1000000", value))?
            }
        };
        let key = call.field("key").or_else(|| target.fields.get("key"));
        let mode = call.text_field("mode")?.or_else(|| target.text("mode"));
        let mode = match mode {
            None => None,
            Some("append" | "insert") => Some(WriteMode::Append),
            Some("replace" | "overwrite" | "truncate") => Some(WriteMode::Replace),
            Some("upsert" | "merge") => Some(WriteMode::Upsert(column_names(call, key)?)),
            Some(other) => {
                let expected = "append, replace or upsert";
                return Err(call.wrong_type_error("mode", expected, &Value::from(other)));
            }
        };
        let mapping = match target.fields.get("mapping").filter(|value| !value.is_null()) {
            None => None,
            Some(Value::Object(map)) if map.values().all(Value::is_string) => Some(map.clone()),
            Some(other) => {
                let expected = "a map of the target's columns to the source's";
                return Err(call.wrong_type_error("target.mapping", expected, other));
            }
        };
        Ok(Self {
            mode,
            chunk_size: usize::try_from(chunk_size).unwrap_or(usize::MAX),
            mapping,
        })
    }

    /// Write mode for a table.
    pub(super) fn table_mode(&self) -> WriteMode {
        self.mode.clone().unwrap_or(WriteMode::Append)
    }

    /// Rejects write modes that files do not support.
    pub(super) fn check_file(&self) -> Result<(), TaskError> {
        match self.mode {
            None | Some(WriteMode::Replace) => Ok(()),
            Some(_) => {
                let message = "a file can only be replaced; use `mode: replace`, or remove `mode`";
                Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "mode"))
            }
        }
    }
}

fn column_names(call: &Call, key: Option<&Value>) -> Result<Vec<String>, TaskError> {
    let names: Option<Vec<String>> = match key {
        Some(Value::String(one)) => Some(one.split(',').map(|name| name.trim().to_owned()).collect()),
        Some(Value::Array(all)) => all.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    let names = names.filter(|names| !names.is_empty() && names.iter().all(|name| !name.is_empty()));
    names.ok_or_else(|| call.missing_key_error("key", "`mode: upsert` finds existing rows by these columns"))
}

impl<'c> TransferEnd<'c> {
    pub(super) fn from_call(call: &'c Call, side: &'static str) -> Result<Self, TaskError> {
        let fields = call.map_field(side)?;
        let fields = fields.ok_or_else(|| call.missing_key_error(side, "set it to a map {kind, …}"))?;
        let kind = fields
            .get("kind")
            .or_else(|| fields.get("type"))
            .and_then(Value::as_str);
        // A `uri` or `path` implies the kind `file`.
        let is_file = fields.get("uri").or_else(|| fields.get("path")).is_some();
        let kind = kind.or(is_file.then_some("file"));
        let kind = kind.ok_or_else(|| {
            call.missing_key_error(
                &format!("{side}.kind"),
                "set it to http, postgres, sqlite, duckdb, file, s3 or gcs",
            )
        })?;
        Ok(Self {
            call,
            side,
            fields,
            kind,
        })
    }

    pub(super) fn text(&self, key: &str) -> Option<&'c str> {
        self.fields.get(key).and_then(Value::as_str)
    }

    /// A required text field.
    pub(super) fn required_text(&self, key: &str, remedy: &str) -> Result<&'c str, TaskError> {
        let missing = || self.call.missing_key_error(&format!("{}.{key}", self.side), remedy);
        self.text(key).ok_or_else(missing)
    }

    /// The single statement that reads: `query`, or all rows of a `table`.
    pub(super) fn read_statement(&self, dialect: SqlDialect) -> Result<SqlStatement, TaskError> {
        let keys = ["query", "command"].map(|key| format!("{}.{key}", self.side));
        let pieces = keys.iter().find_map(|key| self.call.pieces.get(key));
        let origins = keys.iter().find_map(|key| self.call.origins.get(key));
        let table;
        let pieces = match (pieces, self.text("table")) {
            (Some(pieces), _) => pieces,
            (None, Some(name)) => {
                let select = Piece::Text("SELECT * FROM ".to_owned());
                table = vec![vec![select, Piece::Ident(Value::from(name))]];
                &table
            }
            (None, None) if self.fields.contains_key("query") => {
                let message = format!(
                    "`{}.query` must be written in the task itself, so that its values can be bound",
                    self.side
                );
                return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
            }
            (None, None) => {
                let key = format!("{}.query", self.side);
                return Err(self
                    .call
                    .missing_key_error(&key, "set it to a SELECT statement, or set `table`"));
            }
        };
        let commands = CommandTexts {
            pieces,
            origins: origins.map_or(&[], Vec::as_slice),
        };
        let mut statements = bind_commands(self.call, commands, self.fields.get("params"), dialect)?;
        if let (Some(one), true) = (statements.pop(), statements.is_empty()) {
            Ok(one)
        } else {
            let message = format!("`{}.query` must be a single statement", self.side);
            Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message))
        }
    }

    /// Table to write to.
    pub(super) fn table(&self) -> Result<&'c str, TaskError> {
        self.required_text("table", "set it to the table to write to")
    }

    /// Credential, if there is one.
    pub(super) fn auth(&self) -> Option<&'c Value> {
        let auth = self.fields.get("auth").or_else(|| self.fields.get("credential"));
        auth.filter(|auth| !auth.is_null())
    }

    /// Postgres target of the credential.
    pub(super) fn postgres_target(&self) -> Result<ConnectTarget, TaskError> {
        match self.auth() {
            Some(Value::Object(auth)) => target_from_auth(auth),
            Some(Value::String(name)) => Err(unresolved_auth_error(name)),
            Some(other) => {
                let message = format!("`{}.auth` must be a map, not {}", self.side, json_type_name(other));
                Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message))
            }
            None => {
                let key = format!("{}.auth", self.side);
                Err(self
                    .call
                    .missing_key_error(&key, "set it to the credential of the database"))
            }
        }
    }

    /// File or object.
    pub(super) async fn location(&self, access: &ObjectAccess) -> Result<ObjectLocation, TaskError> {
        let uri = match (self.text("uri"), self.text("path")) {
            (Some(uri), _) => uri.to_owned(),
            (None, Some(path)) => format!("file://{path}"),
            (None, None) => self
                .required_text("uri", "set it to `file://…`, `s3://…` or `gs://…`")?
                .to_owned(),
        };
        if let Some(address) = ObjectAddress::parse(self.call, &uri) {
            address.open(self.auth(), access).await
        } else {
            let message = format!("unsupported URI `{uri}`; use file://, s3:// or gs://");
            Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message))
        }
    }

    /// File format: `format`, else by file extension.
    pub(super) fn format(&self, name: &str) -> Result<Option<FileFormat>, TaskError> {
        let format = self.text("format");
        let name = name.split(['?', '#']).next().unwrap_or(name);
        let ending = name.rsplit('/').next().unwrap_or(name).rsplit_once('.');
        let name = format.or(ending.map(|(_, ending)| ending)).unwrap_or_default();
        Ok(Some(match name.to_ascii_lowercase().as_str() {
            "csv" => FileFormat::Csv,
            "ndjson" | "jsonl" => FileFormat::Ndjson,
            "json" => FileFormat::Json,
            "parquet" => FileFormat::Parquet,
            other if format.is_some() => {
                let message = format!(
                    "invalid `{}.format`: `{other}`; use csv, ndjson, json or parquet",
                    self.side
                );
                return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message));
            }
            _ => return Ok(None),
        }))
    }

    /// Like [`format`](Self::format), but required.
    pub(super) fn required_format(&self, name: &str) -> Result<FileFormat, TaskError> {
        let format = self.format(name)?;
        format.ok_or_else(|| {
            let key = format!("{}.format", self.side);
            self.call
                .missing_key_error(&key, "set it to csv, ndjson, json or parquet")
        })
    }
}

/// Quotes a table name, with or without a schema.
pub(super) fn quote_table_name(name: &str) -> String {
    let parts = name.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\"")));
    parts.collect::<Vec<_>>().join(".")
}

/// Quoted column names, comma-separated.
pub(super) fn quote_column_list(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
    names.collect::<Vec<_>>().join(", ")
}

/// `ON CONFLICT` clause of an upsert.
pub(super) fn conflict_clause(columns: &[String], key: &[String]) -> Result<String, TaskError> {
    if let Some(missing) = key.iter().find(|name| !columns.contains(name)) {
        let message = format!("the `key` column `{missing}` is not among the transferred columns");
        return Err(TaskError::new(ErrorKind::Schema, "TRANSFER_COLUMN", message));
    }
    let others = columns.iter().filter(|name| !key.contains(name));
    let sets: Vec<String> = others
        .map(|name| {
            let name = quote_column_list(std::slice::from_ref(name));
            format!("{name} = excluded.{name}")
        })
        .collect();
    let key = quote_column_list(key);
    Ok(if sets.is_empty() {
        format!("ON CONFLICT ({key}) DO NOTHING")
    } else {
        format!("ON CONFLICT ({key}) DO UPDATE SET {}", sets.join(", "))
    })
}
