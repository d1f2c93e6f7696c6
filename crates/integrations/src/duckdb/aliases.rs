//! Credentials of a call: `auth` maps aliases to them. A database is attached under its alias, the keys of a bucket
//! become a secret; both are removed when the call ends, with or without an error.

use std::path::Path;

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use tools::{Call, unresolved_auth_error};

use super::DuckdbError;
use super::ffi::DuckdbConnection;
use super::guard::{StoreGuard, query_rows};

/// Statements to run before and after the statements of a call.
#[derive(Default)]
pub(super) struct Aliases {
    statements: Vec<AliasStatement>,
}

/// Attached databases and secrets of a call. Dropping it removes them in reverse order.
pub(super) struct AttachedAliases<'a> {
    connection: &'a DuckdbConnection,
    /// Initial database of the connection.
    default_database: String,
    undo: Vec<&'a str>,
}

struct AliasStatement {
    sql: String,
    /// Statement that undoes it.
    undo: Option<String>,
    alias: String,
    /// Whether the SQL contains a secret, which an error must not show.
    is_secret: bool,
}

impl Aliases {
    /// Reads the credentials of a call.
    pub(super) fn from_call(call: &Call, guard: &StoreGuard) -> Result<Self, TaskError> {
        let auth = match call.field("auth") {
            None => return Ok(Self::default()),
            Some(Value::Object(auth)) => auth,
            Some(Value::String(name)) => return Err(unresolved_auth_error(name)),
            Some(other) => return Err(call.wrong_type_error("auth", "a map of aliases", other)),
        };
        let mut aliases = Self::default();
        if let Some(kind) = auth.get("type").and_then(Value::as_str) {
            // The alias of a single credential is its type.
            aliases.add(call, kind, auth, guard)?;
            return Ok(aliases);
        }
        for (alias, credential) in auth {
            match credential {
                Value::Object(credential) => aliases.add(call, alias, credential, guard)?,
                Value::String(name) => return Err(unresolved_auth_error(name)),
                other => {
                    return Err(call.wrong_type_error(&format!("auth.{alias}"), "a map", other));
                }
            }
        }
        Ok(aliases)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Attaches the databases and creates the secrets; they exist until the returned value is dropped.
    pub(super) fn attach<'a>(
        &'a self,
        connection: &'a DuckdbConnection,
        guard: &StoreGuard,
    ) -> Result<AttachedAliases<'a>, TaskError> {
        let mut aliases = AttachedAliases {
            connection,
            default_database: String::new(),
            undo: Vec::new(),
        };
        if self.statements.is_empty() {
            return Ok(aliases);
        }
        aliases.default_database = default_database(connection)?;
        for statement in &self.statements {
            connection.execute(&statement.sql).map_err(|error| {
                let mut error = TaskError::from(error);
                if statement.is_secret && error.code != "DUCKDB_EXTENSION" {
                    // The library's message may repeat the secret.
                    error.message = format!("credential `{}` was rejected", statement.alias);
                }
                error.with_detail("alias", statement.alias.as_str())
            })?;
            aliases.undo.extend(statement.undo.as_deref());
        }
        guard.check_attached(connection)?;
        Ok(aliases)
    }

    fn add(
        &mut self,
        call: &Call,
        alias: &str,
        credential: &Map<String, Value>,
        guard: &StoreGuard,
    ) -> Result<(), TaskError> {
        let kind = credential.get("type").or_else(|| credential.get("kind"));
        match kind.and_then(Value::as_str).unwrap_or_default() {
            "postgres" | "postgresql" | "pg" => self.add_postgres(alias, credential),
            "s3" | "aws" | "minio" => self.add_bucket(alias, "s3", credential),
            "gcs" | "gs" | "gcs_hmac" => self.add_bucket(alias, "gcs", credential),
            kind @ ("duckdb" | "sqlite") => {
                let file = credential_text(credential, &["database", "path", "file"]);
                let file = file.ok_or_else(|| invalid_credential_error(alias, "`database` is missing"))?;
                let file = call.resolve_path(&file);
                guard.check_file(&file)?;
                self.add_file(alias, kind, &file);
                Ok(())
            }
            other => Err(invalid_credential_error(
                alias,
                &format!("unknown type `{other}`; use postgres, s3, gcs, duckdb or sqlite"),
            )),
        }
    }

    fn add_postgres(&mut self, alias: &str, credential: &Map<String, Value>) -> Result<(), TaskError> {
        self.add_extension(alias, "postgres");
        let fields = [
            ("HOST", &["db_host", "host"][..]),
            ("PORT", &["db_port", "port"]),
            ("DATABASE", &["db_name", "database", "dbname"]),
            ("USER", &["db_user", "user", "username"]),
            ("PASSWORD", &["db_password", "password"]),
        ];
        if credential_text(credential, fields[0].1).is_none() {
            return Err(invalid_credential_error(alias, "`db_host` is missing"));
        }
        self.add_secret(alias, "postgres", &fields, credential);
        let name = quote_name(alias);
        let secret = quote_name(&secret_name(alias));
        self.add_statement(
            alias,
            format!("ATTACH '' AS {name} (TYPE postgres, SECRET {secret})"),
            Some(format!("DETACH {name}")),
        );
        Ok(())
    }

    fn add_bucket(&mut self, alias: &str, kind: &str, credential: &Map<String, Value>) -> Result<(), TaskError> {
        self.add_extension(alias, "httpfs");
        let fields = [
            ("KEY_ID", &["access_key_id", "key_id", "hmac_key_id"][..]),
            ("SECRET", &["secret_access_key", "secret_key", "secret", "hmac_secret"]),
            ("SESSION_TOKEN", &["session_token"]),
            ("REGION", &["region"]),
        ];
        for (_, keys) in &fields[..2] {
            if credential_text(credential, keys).is_none() {
                return Err(invalid_credential_error(alias, &format!("`{}` is missing", keys[0])));
            }
        }
        let mut s3_fields = credential.clone();
        let mut fields = fields.to_vec();
        if let Some(endpoint) = credential_text(credential, &["endpoint", "endpoint_url"]) {
            let is_unencrypted = endpoint.starts_with("http://");
            let host = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, host)| host);
            s3_fields.insert("endpoint".to_owned(), host.trim_end_matches('/').into());
            s3_fields.insert("use_ssl".to_owned(), (!is_unencrypted).to_string().into());
            s3_fields.insert("url_style".to_owned(), "path".into());
            fields.push(("ENDPOINT", &["endpoint"]));
            fields.push(("USE_SSL", &["use_ssl"]));
            fields.push(("URL_STYLE", &["url_style"]));
        }
        self.add_secret(alias, kind, &fields, &s3_fields);
        Ok(())
    }

    fn add_file(&mut self, alias: &str, kind: &str, file: &Path) {
        if kind == "sqlite" {
            self.add_extension(alias, "sqlite");
        }
        let name = quote_name(alias);
        let path = quote_literal(&file.display().to_string());
        self.add_statement(
            alias,
            format!("ATTACH {path} AS {name} (TYPE {kind})"),
            Some(format!("DETACH {name}")),
        );
    }

    fn add_extension(&mut self, alias: &str, extension: &str) {
        self.add_statement(alias, format!("LOAD {extension}"), None);
    }

    fn add_secret(&mut self, alias: &str, kind: &str, fields: &[(&str, &[&str])], credential: &Map<String, Value>) {
        let name = quote_name(&secret_name(alias));
        let mut sql = format!("CREATE OR REPLACE TEMPORARY SECRET {name} (TYPE {kind}");
        for (key, names) in fields {
            if let Some(value) = credential_text(credential, names) {
                sql.push_str(&format!(", {key} {}", quote_literal(&value)));
            }
        }
        sql.push(')');
        self.statements.push(AliasStatement {
            sql,
            undo: Some(format!("DROP SECRET IF EXISTS {name}")),
            alias: alias.to_owned(),
            is_secret: true,
        });
    }

    fn add_statement(&mut self, alias: &str, sql: String, undo: Option<String>) {
        self.statements.push(AliasStatement {
            sql,
            undo,
            alias: alias.to_owned(),
            is_secret: false,
        });
    }
}

impl Drop for AttachedAliases<'_> {
    fn drop(&mut self) {
        if self.undo.is_empty() {
            return;
        }
        // An open transaction would restore what is removed, and the database in use cannot be detached.
        let use_default = format!("USE {}", quote_name(&self.default_database));
        for sql in ["ROLLBACK", &use_default]
            .into_iter()
            .chain(self.undo.iter().rev().copied())
        {
            if let Err(error) = self.connection.execute_despite_interrupt(sql) {
                tracing::debug!(%error, "failed to remove credential of call");
            }
        }
    }
}

/// Database that a new connection uses.
fn default_database(connection: &DuckdbConnection) -> Result<String, DuckdbError> {
    let rows = query_rows(connection, "SELECT current_database()")?;
    let name = rows.first().and_then(|row| row.first()?.as_str());
    Ok(name.unwrap_or_default().to_owned())
}

fn secret_name(alias: &str) -> String {
    format!("noetl_{alias}")
}

pub(super) fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(super) fn quote_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn credential_text(credential: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let value = keys.iter().find_map(|key| credential.get(*key));
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn invalid_credential_error(alias: &str, problem: &str) -> TaskError {
    let message = format!("invalid credential `{alias}`: {problem}");
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}
