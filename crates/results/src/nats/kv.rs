//! Small bodies in NATS, one value each.

use std::sync::{Arc, Mutex};

use async_nats::jetstream::kv::{Config, Store};
use async_nats::jetstream::stream::StorageType;
use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt as _;

use super::connection::{NatsConnection, RetryDelays};
use crate::bodies::body_name;
use crate::storage_options::StoreKind;
use crate::{BodySource, BodyStore, Error, StoredBody, sha256};

/// Maximum size of a body.
pub(crate) const KV_BYTES_MAX: usize = 1024 * 1024;

/// Bodies in a key-value bucket.
pub(crate) struct NatsKvBodyStore {
    connection: Arc<NatsConnection>,
    bucket: Mutex<Option<Store>>,
}

impl NatsKvBodyStore {
    pub(crate) fn new(connection: Arc<NatsConnection>) -> Self {
        Self {
            connection,
            bucket: Mutex::new(None),
        }
    }

    fn lock_bucket(&self) -> std::sync::MutexGuard<'_, Option<Store>> {
        self.bucket.lock().expect("the lock is not poisoned")
    }

    /// Returns the bucket; creates it if it does not exist.
    async fn bucket(&self) -> Result<Store, Error> {
        if let Some(bucket) = self.lock_bucket().clone() {
            return Ok(bucket);
        }
        let context = self.connection.context().await?;
        let name = self.connection.bucket();
        let found = context.get_key_value(name).await;
        let bucket = if let Ok(bucket) = found {
            bucket
        } else {
            let made = context.create_key_value(Config {
                bucket: name.to_owned(),
                description: "bodies of NoETL's results".to_owned(),
                history: 1,
                storage: StorageType::File,
                ..Config::default()
            });
            made.await
                .map_err(|error| self.connection.unavailable_error(error))?
        };
        *self.lock_bucket() = Some(bucket.clone());
        Ok(bucket)
    }

    async fn put_once(&self, key: &str, value: Bytes) -> Result<(), Error> {
        let put = self.bucket().await?.put(key, value).await;
        put.map(drop)
            .map_err(|error| self.connection.unavailable_error(error))
    }

    async fn get_once(&self, key: &str) -> Result<Option<Bytes>, Error> {
        let found = self.bucket().await?.get(key).await;
        found.map_err(|error| self.connection.unavailable_error(error))
    }

    async fn delete_once(&self, key: &str) -> Result<(), Error> {
        let gone = self.bucket().await?.purge(key).await;
        gone.map_err(|error| self.connection.unavailable_error(error))
    }

    /// Prepares another attempt, which looks up the bucket again: NATS may have been wiped.
    async fn retry_with_fresh_bucket(
        &self,
        tries: &mut RetryDelays,
        error: Error,
    ) -> Result<(), Error> {
        self.lock_bucket().take();
        tries.wait_for_retry(error).await
    }
}

fn body_key(sha256: &str) -> String {
    format!("bodies/{sha256}")
}

/// Reads a body; returns an error if it is too large.
async fn read_whole(body: BodySource<'_>) -> Result<Bytes, Error> {
    let bytes = match body {
        BodySource::Bytes(bytes) => bytes,
        BodySource::Stream(reader) => {
            let mut bytes = Vec::new();
            let mut begin = reader.take(KV_BYTES_MAX as u64 + 1);
            let read = begin.read_to_end(&mut bytes).await;
            read.map_err(Error::Interrupted)?;
            bytes.into()
        }
    };
    if bytes.len() > KV_BYTES_MAX {
        return Err(Error::TooLargeForStore {
            store: StoreKind::NatsKv.name(),
            bytes_max: KV_BYTES_MAX as u64,
        });
    }
    Ok(bytes)
}

#[async_trait]
impl BodyStore for NatsKvBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        let bytes = read_whole(body).await?;
        let sha256 = sha256(&bytes);
        let key = body_key(&sha256);
        let mut tries = RetryDelays::new();
        while let Err(error) = self.put_once(&key, bytes.clone()).await {
            self.retry_with_fresh_bucket(&mut tries, error).await?;
        }
        let place = [("bucket", self.connection.bucket()), ("key", &key)];
        let place = place.map(|(name, value)| (name.to_owned(), Value::from(value)));
        Ok(StoredBody {
            sha256,
            bytes: bytes.len() as u64,
            store: StoreKind::NatsKv.name(),
            compression: None,
            location: Map::from_iter(place),
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let address = body_name(reference)?;
        let key = body_key(&address);
        let mut tries = RetryDelays::new();
        let found = loop {
            match self.get_once(&key).await {
                Ok(found) => break found,
                Err(error) => self.retry_with_fresh_bucket(&mut tries, error).await?,
            }
        };
        let uri = || reference.uri.clone();
        let bytes = found.ok_or_else(|| Error::NotAvailable { uri: uri() })?;
        if sha256(&bytes) == address {
            return Ok(bytes);
        }
        Err(Error::Corrupt {
            uri: uri(),
            file: self.connection.location().into(),
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Ok(address) = body_name(reference) else {
            return Ok(());
        };
        let key = body_key(&address);
        let mut tries = RetryDelays::new();
        while let Err(error) = self.delete_once(&key).await {
            self.retry_with_fresh_bucket(&mut tries, error).await?;
        }
        Ok(())
    }
}
