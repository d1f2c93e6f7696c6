//! Credentials of a call: `auth` maps aliases to them. A database is attached under its alias, the keys of a bucket
//! become a secret; both are removed when the call ends, with or without an error.

use std::path::Path;

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};

use super::ffi::Connection;
use super::guard::{Guard, rows};
use super::{Fault, failed};
use crate::call::Call;

/// Statements to run before and after the statements of a call.
#[derive(Default)]
pub(super) struct Aliases {
    steps: Vec<Step>,
}

/// Attached databases and secrets of a call. Dropping it removes them in reverse order.
pub(super) struct Held<'a> {
    connection: &'a Connection,
    /// Initial database of the connection.
    home: String,
    undo: Vec<&'a str>,
}

struct Step {
    sql: String,
    /// Statement that undoes it.
    undo: Option<String>,
    alias: String,
    /// Whether the SQL contains a secret, which an error must not show.
    is_secret: bool,
}

impl Aliases {
    /// Reads the credentials of a call.
    pub(super) fn of(call: &Call, guard: &Guard) -> Result<Self, TaskError> {
        let auth = match call.field("auth") {
            None => return Ok(Self::default()),
            Some(Value::Object(auth)) => auth,
            Some(Value::String(name)) => return Err(unresolved(name)),
            Some(other) => return Err(call.wrong_type("auth", "a map of aliases", other)),
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
                Value::String(name) => return Err(unresolved(name)),
                other => return Err(call.wrong_type(&format!("auth.{alias}"), "a map", other)),
            }
        }
        Ok(aliases)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Attaches the databases and creates the secrets; they exist until the returned value is dropped.
    pub(super) fn hold<'a>(
        &'a self,
        connection: &'a Connection,
        guard: &Guard,
    ) -> Result<Held<'a>, TaskError> {
        let mut held = Held {
            connection,
            home: String::new(),
            undo: Vec::new(),
        };
        if self.steps.is_empty() {
            return Ok(held);
        }
        held.home = home(connection).map_err(|fault| failed(&fault))?;
        for step in &self.steps {
            connection.execute(&step.sql).map_err(|fault| {
                let mut error = failed(&fault);
                if step.is_secret && error.code != "DUCKDB_EXTENSION" {
                    // The library's message may repeat the secret.
                    error.message = format!("credential `{}` was rejected", step.alias);
                }
                error.with("alias", step.alias.as_str())
            })?;
            held.undo.extend(step.undo.as_deref());
        }
        guard.attached(connection)?;
        Ok(held)
    }

    fn add(
        &mut self,
        call: &Call,
        alias: &str,
        credential: &Map<String, Value>,
        guard: &Guard,
    ) -> Result<(), TaskError> {
        let kind = credential.get("type").or_else(|| credential.get("kind"));
        match kind.and_then(Value::as_str).unwrap_or_default() {
            "postgres" | "postgresql" | "pg" => self.postgres(alias, credential),
            "s3" | "aws" | "minio" => self.bucket(alias, "s3", credential),
            "gcs" | "gs" | "gcs_hmac" => self.bucket(alias, "gcs", credential),
            kind @ ("duckdb" | "sqlite") => {
                let file = text(credential, &["database", "path", "file"]);
                let file = file.ok_or_else(|| invalid(alias, "`database` is missing"))?;
                let file = call.resolve(&file);
                guard.file(&file)?;
                self.file(alias, kind, &file);
                Ok(())
            }
            other => Err(invalid(
                alias,
                &format!("unknown type `{other}`; use postgres, s3, gcs, duckdb or sqlite"),
            )),
        }
    }

    fn postgres(&mut self, alias: &str, credential: &Map<String, Value>) -> Result<(), TaskError> {
        self.load(alias, "postgres");
        let fields = [
            ("HOST", &["db_host", "host"][..]),
            ("PORT", &["db_port", "port"]),
            ("DATABASE", &["db_name", "database", "dbname"]),
            ("USER", &["db_user", "user", "username"]),
            ("PASSWORD", &["db_password", "password"]),
        ];
        if text(credential, fields[0].1).is_none() {
            return Err(invalid(alias, "`db_host` is missing"));
        }
        self.secret(alias, "postgres", &fields, credential);
        let name = quoted(alias);
        let secret = quoted(&secret_name(alias));
        self.step(
            alias,
            format!("ATTACH '' AS {name} (TYPE postgres, SECRET {secret})"),
            Some(format!("DETACH {name}")),
        );
        Ok(())
    }

    fn bucket(
        &mut self,
        alias: &str,
        kind: &str,
        credential: &Map<String, Value>,
    ) -> Result<(), TaskError> {
        self.load(alias, "httpfs");
        let fields = [
            ("KEY_ID", &["access_key_id", "key_id", "hmac_key_id"][..]),
            (
                "SECRET",
                &["secret_access_key", "secret_key", "secret", "hmac_secret"],
            ),
            ("SESSION_TOKEN", &["session_token"]),
            ("REGION", &["region"]),
        ];
        for (_, keys) in &fields[..2] {
            if text(credential, keys).is_none() {
                return Err(invalid(alias, &format!("`{}` is missing", keys[0])));
            }
        }
        let mut own = credential.clone();
        let mut fields = fields.to_vec();
        if let Some(endpoint) = text(credential, &["endpoint", "endpoint_url"]) {
            let is_clear = endpoint.starts_with("http://");
            let host = endpoint
                .split_once("://")
                .map_or(endpoint.as_str(), |(_, host)| host);
            own.insert("endpoint".to_owned(), host.trim_end_matches('/').into());
            own.insert("use_ssl".to_owned(), (!is_clear).to_string().into());
            own.insert("url_style".to_owned(), "path".into());
            fields.push(("ENDPOINT", &["endpoint"]));
            fields.push(("USE_SSL", &["use_ssl"]));
            fields.push(("URL_STYLE", &["url_style"]));
        }
        self.secret(alias, kind, &fields, &own);
        Ok(())
    }

    fn file(&mut self, alias: &str, kind: &str, file: &Path) {
        if kind == "sqlite" {
            self.load(alias, "sqlite");
        }
        let name = quoted(alias);
        let path = literal(&file.display().to_string());
        self.step(
            alias,
            format!("ATTACH {path} AS {name} (TYPE {kind})"),
            Some(format!("DETACH {name}")),
        );
    }

    fn load(&mut self, alias: &str, extension: &str) {
        self.step(alias, format!("LOAD {extension}"), None);
    }

    fn secret(
        &mut self,
        alias: &str,
        kind: &str,
        fields: &[(&str, &[&str])],
        credential: &Map<String, Value>,
    ) {
        let name = quoted(&secret_name(alias));
        let mut sql = format!("CREATE OR REPLACE TEMPORARY SECRET {name} (TYPE {kind}");
        for (key, names) in fields {
            if let Some(value) = text(credential, names) {
                sql.push_str(&format!(", {key} {}", literal(&value)));
            }
        }
        sql.push(')');
        self.steps.push(Step {
            sql,
            undo: Some(format!("DROP SECRET IF EXISTS {name}")),
            alias: alias.to_owned(),
            is_secret: true,
        });
    }

    fn step(&mut self, alias: &str, sql: String, undo: Option<String>) {
        self.steps.push(Step {
            sql,
            undo,
            alias: alias.to_owned(),
            is_secret: false,
        });
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.undo.is_empty() {
            return;
        }
        // An open transaction would restore what is removed, and the database in use cannot be detached.
        let home = format!("USE {}", quoted(&self.home));
        for sql in ["ROLLBACK", &home]
            .into_iter()
            .chain(self.undo.iter().rev().copied())
        {
            if let Err(fault) = self.connection.insist(sql) {
                tracing::debug!(%fault, "failed to remove credential of call");
            }
        }
    }
}

/// Database that a new connection uses.
fn home(connection: &Connection) -> Result<String, Fault> {
    let found = rows(connection, "SELECT current_database()")?;
    let name = found.first().and_then(|row| row.first()?.as_str());
    Ok(name.unwrap_or_default().to_owned())
}

fn secret_name(alias: &str) -> String {
    format!("noetl_{alias}")
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn text(credential: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let found = keys.iter().find_map(|key| credential.get(*key));
    match found? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn unresolved(name: &str) -> TaskError {
    let message = format!(
        "credential `{name}` is not available to this task; create it with `noetl secret set {name}`, or list it in the `keychain` of the playbook"
    );
    TaskError::new(ErrorKind::Auth, "AUTH_UNRESOLVED", message)
}

fn invalid(alias: &str, problem: &str) -> TaskError {
    let message = format!("invalid credential `{alias}`: {problem}");
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", message)
}
