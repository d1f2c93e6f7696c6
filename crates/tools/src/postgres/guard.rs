//! Prevents tasks from using NoETL's own database, whatever name or address they use.
//!
//! The database is recognized by its tables in the schema `noetl`, so a worker that does not have the store's URL
//! rejects it as well.

use model::outcome::{ErrorKind, TaskError};
use postgres::ConnectTarget;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Counts the tables that every NoETL store has, and returns the database name.
pub const COUNT_STORE_TABLES: &str = "SELECT count(*)::int AS n, current_database()::text AS name FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = 'noetl' AND c.relname IN ('execution', 'event_key', 'command')";

/// Number of those tables in a store.
pub const STORE_TABLES: i64 = 3;

/// Rejects the database of a NoETL store unless it is allowed by name, or as `host:port/name`.
pub(super) async fn check_target(
    client: &Client,
    target: &ConnectTarget,
    allowed: &[String],
) -> Result<Result<(), TaskError>, tokio_postgres::Error> {
    let location = target.location();
    let is_allowed = |name: &String| *name == location || name == target.database();
    if allowed.iter().any(is_allowed) {
        return Ok(Ok(()));
    }
    let messages = client.simple_query(COUNT_STORE_TABLES).await?;
    let is_store = messages.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let count = row.get(0).and_then(|count| count.parse().ok());
            count == Some(STORE_TABLES)
        }
        _ => false,
    });
    if !is_store {
        return Ok(Ok(()));
    }
    let message = format!(
        "`{location}` is the database of a NoETL store and cannot be used by tasks; use a separate database for your \
         data, or allow it with NOETL_POSTGRES_ALLOW"
    );
    Ok(Err(
        TaskError::new(ErrorKind::Auth, "DATABASE_FORBIDDEN", message).with_detail("sent", false)
    ))
}
