//! The engine's own database is no target of tasks, by whatever name or address it is reached.
//!
//! A database is known by what is in it: the tables of a store in the schema `noetl`. So a worker that has never heard
//! of the store's URL refuses it as well.

use model::outcome::{ErrorKind, TaskError};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::postgres::target::Target;

/// How many tables of a store there are, and in which database: the tables that every store has.
pub(crate) const STORE: &str = "SELECT count(*)::int AS n, current_database()::text AS name FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = 'noetl' AND c.relname IN ('execution', 'event_key', 'command')";

/// How many of them a store has.
pub(crate) const STORE_TABLES: i64 = 3;

/// Refuses the database of an engine unless it is allowed by its name, or as `host:port/name`.
pub(super) async fn check(
    client: &Client,
    target: &Target,
    allowed: &[String],
) -> Result<Result<(), TaskError>, tokio_postgres::Error> {
    let place = target.place();
    let is_allowed = |name: &String| *name == place || name == target.database();
    if allowed.iter().any(is_allowed) {
        return Ok(Ok(()));
    }
    let answer = client.simple_query(STORE).await?;
    let is_store = answer.iter().any(|message| match message {
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
        "`{place}` is the database of an engine and cannot be a target; keep your data in a database of its own, \
         or allow it by name with NOETL_POSTGRES_ALLOW"
    );
    Ok(Err(TaskError::new(
        ErrorKind::Auth,
        "DATABASE_FORBIDDEN",
        message,
    )
    .with("sent", false)))
}
