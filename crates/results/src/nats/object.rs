//! Bodies of any size in NATS, in chunks of a stream. The name is written last, so that a partial body is never found.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_nats::jetstream::object_store::{Config, DeleteErrorKind, GetErrorKind, ObjectStore};
use async_nats::jetstream::stream::StorageType;
use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use tokio::time::timeout;

use super::connection::{BucketHandle, NatsConnection, body_key};
use crate::bodies::body_name;
use crate::disk_space::FullDiskPolicy;
use crate::staged_body::{StagedBody, stage_body};
use crate::storage_options::StoreKind;
use crate::{BodySource, BodyStore, BodyStream, Error, StoredBody};

/// Bodies in an object bucket.
pub(crate) struct NatsObjectBodyStore {
    connection: Arc<NatsConnection>,
    scratch: PathBuf,
    bucket: BucketHandle<ObjectStore>,
}

impl NatsObjectBodyStore {
    pub(crate) fn new(connection: Arc<NatsConnection>, scratch: PathBuf) -> Self {
        Self {
            connection,
            scratch,
            bucket: BucketHandle::new(),
        }
    }

    /// Returns the bucket; creates it if it does not exist.
    async fn bucket(&self) -> Result<ObjectStore, Error> {
        self.bucket.get(async || self.open_bucket().await).await
    }

    async fn open_bucket(&self) -> Result<ObjectStore, Error> {
        let context = self.connection.context().await?;
        let name = self.connection.bucket();
        if let Ok(bucket) = context.get_object_store(name).await {
            return Ok(bucket);
        }
        let created = context.create_object_store(Config {
            bucket: name.to_owned(),
            description: Some("bodies of NoETL's results".to_owned()),
            storage: StorageType::File,
            ..Config::default()
        });
        created.await.map_err(|error| self.connection.unavailable_error(error))
    }

    async fn put_once(&self, name: &str, staged: &StagedBody) -> Result<(), Error> {
        let bucket = self.bucket().await?;
        let mut reader = staged.reader()?;
        let put = bucket.put(name, &mut reader).await;
        put.map(drop).map_err(|error| self.connection.unavailable_error(error))
    }

    async fn fetch_once(&self, name: &str, reference: &ResultRef) -> Result<StagedBody, Error> {
        let bucket = self.bucket().await?;
        let opened = bucket.get(name).await;
        let mut object = opened.map_err(|error| match error.kind() {
            GetErrorKind::NotFound => Error::NotAvailable {
                uri: reference.uri.clone(),
            },
            _ => self.connection.unavailable_error(error),
        })?;
        if object.info().size as u64 != reference.meta.bytes {
            return Err(self.connection.corrupt_error(reference));
        }
        // Without a timeout, reading would wait forever for a lost chunk.
        let patience = self.connection.silence_max * timeout_factor(reference.meta.bytes);
        let staged = timeout(patience, stage_body(&self.scratch, &mut object, FullDiskPolicy::Refuse)).await;
        let staged = staged.map_err(|elapsed| self.connection.unavailable_error(elapsed))?;
        staged.map_err(|error| match error {
            Error::Interrupted(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.connection.corrupt_error(reference)
            }
            Error::Interrupted(error) => self.connection.unavailable_error(error),
            error => error,
        })
    }

    async fn fetch(&self, reference: &ResultRef) -> Result<StagedBody, Error> {
        let address = body_name(reference)?;
        let name = body_key(&address);
        let staged = self.bucket.retry(|| self.fetch_once(&name, reference)).await?;
        if staged.sha256 == address {
            return Ok(staged);
        }
        Err(self.connection.corrupt_error(reference))
    }

    async fn delete_once(&self, name: &str) -> Result<(), Error> {
        match self.bucket().await?.delete(name).await {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == DeleteErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.connection.unavailable_error(error)),
        }
    }
}

/// Factor for the timeout: 1, plus 1 for every 16 MiB.
fn timeout_factor(bytes: u64) -> u32 {
    u32::try_from(bytes / (16 * 1024 * 1024)).unwrap_or(u32::MAX - 1) + 1
}

#[async_trait]
impl BodyStore for NatsObjectBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        let staged = match body {
            BodySource::Bytes(bytes) => StagedBody::from_bytes(bytes),
            BodySource::Stream(reader) => stage_body(&self.scratch, reader, FullDiskPolicy::Wait).await?,
        };
        let name = body_key(&staged.sha256);
        self.bucket.retry(|| self.put_once(&name, &staged)).await?;
        Ok(StoredBody {
            sha256: staged.sha256,
            bytes: staged.bytes,
            store: StoreKind::NatsObject.name(),
            compression: None,
            location: self.connection.body_location(&name),
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        self.fetch(reference).await?.into_bytes().await
    }

    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        self.fetch(reference).await?.read(range)
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Ok(address) = body_name(reference) else {
            return Ok(());
        };
        let name = body_key(&address);
        self.bucket.retry(|| self.delete_once(&name)).await
    }
}
