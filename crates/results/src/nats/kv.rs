//! Small bodies in NATS, one value each.

use std::sync::Arc;

use async_nats::jetstream::kv::{Config, Store};
use async_nats::jetstream::stream::StorageType;
use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use tokio::io::AsyncReadExt as _;

use super::connection::{BucketHandle, NatsConnection, body_key};
use crate::bodies::body_name;
use crate::storage_options::StoreKind;
use crate::{BodySource, BodyStore, Error, StoredBody, sha256};

/// Maximum size of a body.
pub(crate) const KV_BYTES_MAX: usize = 1024 * 1024;

/// Bodies in a key-value bucket.
pub(crate) struct NatsKvBodyStore {
    connection: Arc<NatsConnection>,
    bucket: BucketHandle<Store>,
}

impl NatsKvBodyStore {
    pub(crate) fn new(connection: Arc<NatsConnection>) -> Self {
        Self {
            connection,
            bucket: BucketHandle::new(),
        }
    }

    /// Returns the bucket; creates it if it does not exist.
    async fn bucket(&self) -> Result<Store, Error> {
        self.bucket.get(async || self.open_bucket().await).await
    }

    async fn open_bucket(&self) -> Result<Store, Error> {
        let context = self.connection.context().await?;
        let name = self.connection.bucket();
        if let Ok(bucket) = context.get_key_value(name).await {
            return Ok(bucket);
        }
        let created = context.create_key_value(Config {
            bucket: name.to_owned(),
            description: "bodies of NoETL's results".to_owned(),
            history: 1,
            storage: StorageType::File,
            ..Config::default()
        });
        created.await.map_err(|error| self.connection.unavailable_error(error))
    }

    async fn put_once(&self, key: &str, value: Bytes) -> Result<(), Error> {
        let put = self.bucket().await?.put(key, value).await;
        put.map(drop).map_err(|error| self.connection.unavailable_error(error))
    }

    async fn get_once(&self, key: &str) -> Result<Option<Bytes>, Error> {
        let entry = self.bucket().await?.get(key).await;
        entry.map_err(|error| self.connection.unavailable_error(error))
    }

    async fn delete_once(&self, key: &str) -> Result<(), Error> {
        let purged = self.bucket().await?.purge(key).await;
        purged.map_err(|error| self.connection.unavailable_error(error))
    }
}

/// Reads a body; returns an error if it is too large.
async fn read_whole(body: BodySource<'_>) -> Result<Bytes, Error> {
    let bytes = match body {
        BodySource::Bytes(bytes) => bytes,
        BodySource::Stream(reader) => {
            let mut bytes = Vec::new();
            let mut limited = reader.take(KV_BYTES_MAX as u64 + 1);
            let read = limited.read_to_end(&mut bytes).await;
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
        self.bucket.retry(|| self.put_once(&key, bytes.clone())).await?;
        Ok(StoredBody {
            sha256,
            bytes: bytes.len() as u64,
            store: StoreKind::NatsKv.name(),
            compression: None,
            location: self.connection.body_location(&key),
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let address = body_name(reference)?;
        let key = body_key(&address);
        let entry = self.bucket.retry(|| self.get_once(&key)).await?;
        let bytes = entry.ok_or_else(|| Error::NotAvailable {
            uri: reference.uri.clone(),
        })?;
        if sha256(&bytes) == address {
            return Ok(bytes);
        }
        Err(self.connection.corrupt_error(reference))
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Ok(address) = body_name(reference) else {
            return Ok(());
        };
        let key = body_key(&address);
        self.bucket.retry(|| self.delete_once(&key)).await
    }
}
