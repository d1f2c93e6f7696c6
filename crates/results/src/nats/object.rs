//! Bodies of any size in NATS, in chunks of a stream. The name is written last, so that a partial body is never found.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_nats::jetstream::object_store::{Config, DeleteErrorKind, GetErrorKind, ObjectStore};
use async_nats::jetstream::stream::StorageType;
use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::connection::{Connection, Tries};
use crate::bodies::address;
use crate::space::WhenFull;
use crate::stage::{Staged, stage};
use crate::wish::Kind;
use crate::{Bodies, Error, Reading, Source, Stored};

/// Bodies in an object bucket.
pub(crate) struct NatsObjects {
    connection: Arc<Connection>,
    scratch: PathBuf,
    bucket: Mutex<Option<ObjectStore>>,
}

impl NatsObjects {
    pub(crate) fn new(connection: Arc<Connection>, scratch: PathBuf) -> Self {
        Self {
            connection,
            scratch,
            bucket: Mutex::new(None),
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<ObjectStore>> {
        self.bucket.lock().expect("the lock is not poisoned")
    }

    /// Returns the bucket; creates it if it does not exist.
    async fn bucket(&self) -> Result<ObjectStore, Error> {
        if let Some(bucket) = self.held().clone() {
            return Ok(bucket);
        }
        let context = self.connection.context().await?;
        let name = self.connection.bucket();
        let found = context.get_object_store(name).await;
        let bucket = if let Ok(bucket) = found {
            bucket
        } else {
            let made = context.create_object_store(Config {
                bucket: name.to_owned(),
                description: Some("bodies of NoETL's results".to_owned()),
                storage: StorageType::File,
                ..Config::default()
            });
            made.await.map_err(|error| self.connection.away(error))?
        };
        *self.held() = Some(bucket.clone());
        Ok(bucket)
    }

    async fn put_once(&self, name: &str, staged: &Staged) -> Result<(), Error> {
        let bucket = self.bucket().await?;
        let mut reader = staged.reader()?;
        let put = bucket.put(name, &mut reader).await;
        put.map(drop).map_err(|error| self.connection.away(error))
    }

    async fn fetch_once(&self, name: &str, reference: &ResultRef) -> Result<Staged, Error> {
        let bucket = self.bucket().await?;
        let found = bucket.get(name).await;
        let mut object = found.map_err(|error| match error.kind() {
            GetErrorKind::NotFound => Error::NotAvailable {
                uri: reference.uri.clone(),
            },
            _ => self.connection.away(error),
        })?;
        if object.info().size as u64 != reference.meta.bytes {
            return Err(self.corrupt(reference));
        }
        // Without a timeout, reading would wait forever for a lost chunk.
        let patience = self.connection.silence_max * patience(reference.meta.bytes);
        let staged = timeout(
            patience,
            stage(&self.scratch, &mut object, WhenFull::Refuse),
        )
        .await;
        let staged = staged.map_err(|elapsed| self.connection.away(elapsed))?;
        staged.map_err(|error| match error {
            Error::Interrupted(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.corrupt(reference)
            }
            Error::Interrupted(error) => self.connection.away(error),
            error => error,
        })
    }

    async fn fetch(&self, reference: &ResultRef) -> Result<Staged, Error> {
        let address = address(reference)?;
        let name = name(&address);
        let mut tries = Tries::new();
        let staged = loop {
            match self.fetch_once(&name, reference).await {
                Ok(staged) => break staged,
                Err(error) => self.again(&mut tries, error).await?,
            }
        };
        if staged.sha256 == address {
            return Ok(staged);
        }
        Err(self.corrupt(reference))
    }

    async fn delete_once(&self, name: &str) -> Result<(), Error> {
        match self.bucket().await?.delete(name).await {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == DeleteErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.connection.away(error)),
        }
    }

    /// Prepares another attempt, which looks up the bucket again: NATS may have been wiped.
    async fn again(&self, tries: &mut Tries, error: Error) -> Result<(), Error> {
        self.held().take();
        tries.again(error).await
    }

    fn corrupt(&self, reference: &ResultRef) -> Error {
        Error::Corrupt {
            uri: reference.uri.clone(),
            file: self.connection.place().into(),
        }
    }
}

/// Factor for the timeout: 1, plus 1 for every 16 MiB.
fn patience(bytes: u64) -> u32 {
    u32::try_from(bytes / (16 * 1024 * 1024)).unwrap_or(u32::MAX - 1) + 1
}

fn name(sha256: &str) -> String {
    format!("bodies/{sha256}")
}

#[async_trait]
impl Bodies for NatsObjects {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        let staged = match body {
            Source::Bytes(bytes) => Staged::memory(bytes),
            Source::Stream(reader) => stage(&self.scratch, reader, WhenFull::Wait).await?,
        };
        let name = name(&staged.sha256);
        let mut tries = Tries::new();
        while let Err(error) = self.put_once(&name, &staged).await {
            self.again(&mut tries, error).await?;
        }
        let place = [("bucket", self.connection.bucket()), ("key", &name)];
        let place = place.map(|(name, value)| (name.to_owned(), Value::from(value)));
        Ok(Stored {
            sha256: staged.sha256,
            bytes: staged.bytes,
            store: Kind::NatsObject.name(),
            compression: None,
            location: Map::from_iter(place),
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        self.fetch(reference).await?.whole().await
    }

    async fn read(
        &self,
        reference: &ResultRef,
        range: Option<Range<u64>>,
    ) -> Result<Reading, Error> {
        self.fetch(reference).await?.read(range)
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Ok(address) = address(reference) else {
            return Ok(());
        };
        let name = name(&address);
        let mut tries = Tries::new();
        while let Err(error) = self.delete_once(&name).await {
            self.again(&mut tries, error).await?;
        }
        Ok(())
    }
}
