//! Small bodies in NATS, one value each.

use std::sync::{Arc, Mutex};

use async_nats::jetstream::kv::{Config, Store};
use async_nats::jetstream::stream::StorageType;
use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt as _;

use super::connection::{Connection, Tries};
use crate::bodies::address;
use crate::wish::Kind;
use crate::{Bodies, Error, Source, Stored, sha256};

/// Maximum size of a body.
pub(crate) const KV_BYTES_MAX: usize = 1024 * 1024;

/// Bodies in a key-value bucket.
pub(crate) struct Kv {
    connection: Arc<Connection>,
    bucket: Mutex<Option<Store>>,
}

impl Kv {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self {
            connection,
            bucket: Mutex::new(None),
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Store>> {
        self.bucket.lock().expect("the lock is not poisoned")
    }

    /// Returns the bucket; creates it if it does not exist.
    async fn bucket(&self) -> Result<Store, Error> {
        if let Some(bucket) = self.held().clone() {
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
            made.await.map_err(|error| self.connection.away(error))?
        };
        *self.held() = Some(bucket.clone());
        Ok(bucket)
    }

    async fn put_once(&self, key: &str, value: Bytes) -> Result<(), Error> {
        let put = self.bucket().await?.put(key, value).await;
        put.map(drop).map_err(|error| self.connection.away(error))
    }

    async fn get_once(&self, key: &str) -> Result<Option<Bytes>, Error> {
        let found = self.bucket().await?.get(key).await;
        found.map_err(|error| self.connection.away(error))
    }

    async fn delete_once(&self, key: &str) -> Result<(), Error> {
        let gone = self.bucket().await?.purge(key).await;
        gone.map_err(|error| self.connection.away(error))
    }

    /// Prepares another attempt, which looks up the bucket again: NATS may have been wiped.
    async fn again(&self, tries: &mut Tries, error: Error) -> Result<(), Error> {
        self.held().take();
        tries.again(error).await
    }
}

fn key(sha256: &str) -> String {
    format!("bodies/{sha256}")
}

/// Reads a body; returns an error if it is too large.
async fn whole(body: Source<'_>) -> Result<Bytes, Error> {
    let bytes = match body {
        Source::Bytes(bytes) => bytes,
        Source::Stream(reader) => {
            let mut bytes = Vec::new();
            let mut begin = reader.take(KV_BYTES_MAX as u64 + 1);
            let read = begin.read_to_end(&mut bytes).await;
            read.map_err(Error::Interrupted)?;
            bytes.into()
        }
    };
    if bytes.len() > KV_BYTES_MAX {
        return Err(Error::TooLargeForStore {
            store: Kind::NatsKv.name(),
            bytes_max: KV_BYTES_MAX as u64,
        });
    }
    Ok(bytes)
}

#[async_trait]
impl Bodies for Kv {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        let bytes = whole(body).await?;
        let sha256 = sha256(&bytes);
        let key = key(&sha256);
        let mut tries = Tries::new();
        while let Err(error) = self.put_once(&key, bytes.clone()).await {
            self.again(&mut tries, error).await?;
        }
        let place = [("bucket", self.connection.bucket()), ("key", &key)];
        let place = place.map(|(name, value)| (name.to_owned(), Value::from(value)));
        Ok(Stored {
            sha256,
            bytes: bytes.len() as u64,
            store: Kind::NatsKv.name(),
            compression: None,
            location: Map::from_iter(place),
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let address = address(reference)?;
        let key = key(&address);
        let mut tries = Tries::new();
        let found = loop {
            match self.get_once(&key).await {
                Ok(found) => break found,
                Err(error) => self.again(&mut tries, error).await?,
            }
        };
        let uri = || reference.uri.clone();
        let bytes = found.ok_or_else(|| Error::NotAvailable { uri: uri() })?;
        if sha256(&bytes) == address {
            return Ok(bytes);
        }
        Err(Error::Corrupt {
            uri: uri(),
            file: self.connection.place().into(),
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Ok(address) = address(reference) else {
            return Ok(());
        };
        let key = key(&address);
        let mut tries = Tries::new();
        while let Err(error) = self.delete_once(&key).await {
            self.again(&mut tries, error).await?;
        }
        Ok(())
    }
}
