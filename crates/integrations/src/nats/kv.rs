//! Keys and values of a bucket.

use async_nats::jetstream::kv::{
    Config, CreateErrorKind, Entry, EntryErrorKind, Operation, PutErrorKind, Store, UpdateError, UpdateErrorKind,
};
use futures_util::TryStreamExt as _;
use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value, json};

use crate::nats::failure::{no_response_error, not_found_error, peer_error, stream_error, wrong_revision_error};
use crate::nats::tool::NatsCall;
use crate::nats::value::time_value;

/// Maximum length of a listing.
const KEYS_MAX: usize = 100_000;

/// How a key is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyRemoval {
    /// Keeps its history.
    Delete,
    /// Removes its history as well.
    Purge,
}

pub(crate) async fn get(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let (key, revision) = (nats_call.required_text("key")?, nats_call.number_field("revision")?);
    let bucket = open_bucket(nats_call).await?;
    let entry = match revision {
        None => bucket.entry(key).await,
        Some(revision) => bucket.entry_for_revision(key, revision).await,
    };
    let entry = entry.map_err(|error| match error.kind() {
        EntryErrorKind::InvalidKey => bad_key_error(key),
        EntryErrorKind::TimedOut => no_response_error(),
        EntryErrorKind::Other => peer_error(&error),
    })?;
    match entry.filter(|entry| entry.operation == Operation::Put) {
        Some(entry) => to_json(nats_call, &entry),
        None => Err(not_found_error("NATS_KEY_NOT_FOUND", "key", key)),
    }
}

pub(crate) async fn put(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let key = nats_call.required_text("key")?;
    let payload = nats_call.payload()?;
    let expected = nats_call.number_field("expected_last_revision")?;
    let bucket = match nats_call.call.flag_field("create")? {
        Some(true) => ensure_bucket(nats_call).await?,
        _ => open_bucket(nats_call).await?,
    };
    let size = payload.len();
    let revision = match expected {
        None => bucket.put(key, payload).await.map_err(|error| match error.kind() {
            PutErrorKind::InvalidKey => bad_key_error(key),
            _ => peer_error(&error),
        })?,
        // A deleted key counts as missing.
        Some(0) => bucket.create(key, payload).await.map_err(|error| match error.kind() {
            CreateErrorKind::AlreadyExists => wrong_revision_error(0),
            CreateErrorKind::InvalidKey => bad_key_error(key),
            _ => peer_error(&error),
        })?,
        Some(expected) => bucket
            .update(key, payload, expected)
            .await
            .map_err(|error| update_error(&error, key, expected))?,
    };
    Ok(json!({"bucket": bucket.name, "key": key, "revision": revision, "size_bytes": size}))
}

pub(crate) async fn remove(nats_call: &NatsCall<'_>, removal: KeyRemoval) -> Result<Value, TaskError> {
    let key = nats_call.required_text("key")?;
    let expected = nats_call.number_field("expected_last_revision")?;
    let bucket = open_bucket(nats_call).await?;
    let removed = match removal {
        KeyRemoval::Delete => bucket.delete_expect_revision(key, expected).await,
        KeyRemoval::Purge => bucket.purge_expect_revision(key, expected).await,
    };
    removed.map_err(|error| update_error(&error, key, expected.unwrap_or_default()))?;
    Ok(json!({"bucket": bucket.name, "key": key, "deleted": true}))
}

pub(crate) async fn list_keys(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let bucket = open_bucket(nats_call).await?;
    let filter = nats_call.call.text_field("filter")?;
    let listing = bucket.keys().await.map_err(|error| peer_error(&error))?;
    let fits = |key: &String| filter.is_none_or(|filter| is_match(filter, key));
    let mut keys: Vec<String> = Vec::new();
    let mut is_truncated = false;
    tokio::pin!(listing);
    while let Some(key) = listing.try_next().await.map_err(|error| peer_error(&error))? {
        if keys.len() == KEYS_MAX {
            is_truncated = true;
            break;
        }
        keys.extend(Some(key).filter(&fits));
    }
    keys.sort_unstable();
    let count = keys.len();
    Ok(json!({"bucket": bucket.name, "keys": keys, "count": count, "truncated": is_truncated}))
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

async fn open_bucket(nats_call: &NatsCall<'_>) -> Result<Store, TaskError> {
    let name = nats_call.required_text("bucket")?;
    let opened = nats_call.context.get_key_value(name).await;
    opened.map_err(|error| {
        stream_error(
            &error,
            not_found_error("NATS_BUCKET_NOT_FOUND", "key-value bucket", name),
        )
    })
}

/// Returns the bucket; creates it if it does not exist.
async fn ensure_bucket(nats_call: &NatsCall<'_>) -> Result<Store, TaskError> {
    let name = nats_call.required_text("bucket")?;
    match open_bucket(nats_call).await {
        Err(error) if error.code == "NATS_BUCKET_NOT_FOUND" => {
            let config = Config {
                bucket: name.to_owned(),
                history: 1,
                ..Config::default()
            };
            let created = nats_call.context.create_key_value(config).await;
            created.map_err(|error| peer_error(&error))
        }
        opened => opened,
    }
}

fn to_json(nats_call: &NatsCall<'_>, entry: &Entry) -> Result<Value, TaskError> {
    let mut map = Map::new();
    map.insert("bucket".to_owned(), entry.bucket.as_str().into());
    map.insert("key".to_owned(), entry.key.as_str().into());
    nats_call.encoding.decode_into(&mut map, "value", &entry.value)?;
    map.insert("revision".to_owned(), entry.revision.into());
    let created = time_value(entry.created.unix_timestamp_nanos());
    map.insert("created".to_owned(), created);
    map.insert("size_bytes".to_owned(), entry.value.len().into());
    Ok(Value::Object(map))
}

fn update_error(error: &UpdateError, key: &str, expected: u64) -> TaskError {
    match error.kind() {
        UpdateErrorKind::WrongLastRevision => wrong_revision_error(expected),
        UpdateErrorKind::InvalidKey => bad_key_error(key),
        UpdateErrorKind::TimedOut => no_response_error(),
        UpdateErrorKind::Other => peer_error(error),
    }
}

fn bad_key_error(key: &str) -> TaskError {
    let message = format!("invalid key `{key}`; use letters, digits and -/_=., without a dot at either end");
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "key")
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
