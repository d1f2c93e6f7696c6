//! Keys and values of a bucket.

use async_nats::jetstream::kv::{
    Config, CreateErrorKind, Entry, EntryErrorKind, Operation, PutErrorKind, Store, UpdateError,
    UpdateErrorKind,
};
use futures_util::TryStreamExt as _;
use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value, json};

use crate::nats::failure::{failed, no_stream, not_found, other, silent, wrong_revision};
use crate::nats::tool::Session;
use crate::nats::value::moment;

/// Maximum length of a listing.
const KEYS_MAX: usize = 100_000;

/// How a key is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Keeps its history.
    Delete,
    /// Removes its history as well.
    Purge,
}

pub(crate) async fn get(session: &Session<'_>) -> Result<Value, TaskError> {
    let (key, revision) = (session.need("key")?, session.number("revision")?);
    let bucket = bucket(session).await?;
    let entry = match revision {
        None => bucket.entry(key).await,
        Some(revision) => bucket.entry_for_revision(key, revision).await,
    };
    let entry = entry.map_err(|error| match error.kind() {
        EntryErrorKind::InvalidKey => bad_key(key),
        EntryErrorKind::TimedOut => silent(),
        EntryErrorKind::Other => other(&error),
    })?;
    match entry.filter(|entry| entry.operation == Operation::Put) {
        Some(entry) => shown(session, &entry),
        None => Err(not_found("NATS_KEY_NOT_FOUND", "key", key)),
    }
}

pub(crate) async fn put(session: &Session<'_>) -> Result<Value, TaskError> {
    let key = session.need("key")?;
    let payload = session.payload()?;
    let expected = session.number("expected_last_revision")?;
    let bucket = match session.call.flag("create")? {
        Some(true) => made(session).await?,
        _ => bucket(session).await?,
    };
    let size = payload.len();
    let revision = match expected {
        None => bucket
            .put(key, payload)
            .await
            .map_err(|error| match error.kind() {
                PutErrorKind::InvalidKey => bad_key(key),
                _ => other(&error),
            })?,
        // A deleted key counts as missing.
        Some(0) => bucket
            .create(key, payload)
            .await
            .map_err(|error| match error.kind() {
                CreateErrorKind::AlreadyExists => wrong_revision(0),
                CreateErrorKind::InvalidKey => bad_key(key),
                _ => other(&error),
            })?,
        Some(expected) => bucket
            .update(key, payload, expected)
            .await
            .map_err(|error| not_updated(&error, key, expected))?,
    };
    Ok(json!({"bucket": bucket.name, "key": key, "revision": revision, "size_bytes": size}))
}

pub(crate) async fn remove(session: &Session<'_>, removal: Removal) -> Result<Value, TaskError> {
    let key = session.need("key")?;
    let expected = session.number("expected_last_revision")?;
    let bucket = bucket(session).await?;
    let removed = match removal {
        Removal::Delete => bucket.delete_expect_revision(key, expected).await,
        Removal::Purge => bucket.purge_expect_revision(key, expected).await,
    };
    removed.map_err(|error| not_updated(&error, key, expected.unwrap_or_default()))?;
    Ok(json!({"bucket": bucket.name, "key": key, "deleted": true}))
}

pub(crate) async fn keys(session: &Session<'_>) -> Result<Value, TaskError> {
    let bucket = bucket(session).await?;
    let filter = session.call.text("filter")?;
    let listing = bucket.keys().await.map_err(|error| other(&error))?;
    let fits = |key: &String| filter.is_none_or(|filter| is_match(filter, key));
    let mut keys: Vec<String> = Vec::new();
    let mut is_cut = false;
    tokio::pin!(listing);
    while let Some(key) = listing.try_next().await.map_err(|error| other(&error))? {
        if keys.len() == KEYS_MAX {
            is_cut = true;
            break;
        }
        keys.extend(Some(key).filter(&fits));
    }
    keys.sort_unstable();
    let count = keys.len();
    Ok(json!({"bucket": bucket.name, "keys": keys, "count": count, "truncated": is_cut}))
}

/// Whether a key matches a subject filter: `*` for one part, `>` for the remaining parts.
fn is_match(filter: &str, key: &str) -> bool {
    let mut parts = key.split('.');
    for wanted in filter.split('.') {
        match (wanted, parts.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

async fn bucket(session: &Session<'_>) -> Result<Store, TaskError> {
    let name = session.need("bucket")?;
    let found = session.context.get_key_value(name).await;
    found.map_err(|error| {
        no_stream(
            &error,
            not_found("NATS_BUCKET_NOT_FOUND", "key-value bucket", name),
        )
    })
}

/// Returns the bucket; creates it if it does not exist.
async fn made(session: &Session<'_>) -> Result<Store, TaskError> {
    let name = session.need("bucket")?;
    match bucket(session).await {
        Err(error) if error.code == "NATS_BUCKET_NOT_FOUND" => {
            let config = Config {
                bucket: name.to_owned(),
                history: 1,
                ..Config::default()
            };
            let made = session.context.create_key_value(config).await;
            made.map_err(|error| other(&error))
        }
        found => found,
    }
}

fn shown(session: &Session<'_>, entry: &Entry) -> Result<Value, TaskError> {
    let mut map = Map::new();
    map.insert("bucket".to_owned(), entry.bucket.as_str().into());
    map.insert("key".to_owned(), entry.key.as_str().into());
    session
        .encoding
        .read_into(&mut map, "value", &entry.value)?;
    map.insert("revision".to_owned(), entry.revision.into());
    let created = moment(entry.created.unix_timestamp_nanos());
    map.insert("created".to_owned(), created);
    map.insert("size_bytes".to_owned(), entry.value.len().into());
    Ok(Value::Object(map))
}

fn not_updated(error: &UpdateError, key: &str, expected: u64) -> TaskError {
    match error.kind() {
        UpdateErrorKind::WrongLastRevision => wrong_revision(expected),
        UpdateErrorKind::InvalidKey => bad_key(key),
        UpdateErrorKind::TimedOut => silent(),
        UpdateErrorKind::Other => other(error),
    }
}

fn bad_key(key: &str) -> TaskError {
    let message =
        format!("invalid key `{key}`; use letters, digits and -/_=., without a dot at either end");
    failed(ErrorKind::Schema, "TOOL_INPUT", message).with("key", "key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_subject() {
        assert!(is_match("a.*", "a.b") && !is_match("a.*", "a.b.c") && !is_match("a.*", "a"));
        assert!(is_match("a.>", "a.b.c") && !is_match("a.>", "a"));
        assert!(is_match(">", "x") && is_match("a.b", "a.b") && !is_match("a", "a.b"));
    }
}
