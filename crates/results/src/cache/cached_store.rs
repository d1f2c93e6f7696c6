//! A store with a write-through cache.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use model::result_ref::ResultRef;
use tokio_util::io::StreamReader;

use super::body_cache::{BodyCache, CacheHit};
use crate::bodies::{body_name, clamp_range};
use crate::disk_space::FullDiskPolicy;
use crate::files::file_chunks;
use crate::objects::BucketBodyStore;
use crate::staged_body::{StagedBody, stage_body};
use crate::{BodySource, BodyStore, BodyStream, Error, StoredBody};

/// The permanent store.
pub(crate) enum BackingStore {
    /// A bucket, which stores and returns staged bodies.
    Bucket(BucketBodyStore),
    /// Any other store.
    Store(Arc<dyn BodyStore>),
}

/// A store with a cache.
pub(crate) struct CachedBodyStore {
    pub(crate) backing_store: BackingStore,
    pub(crate) cache: BodyCache,
}

impl BackingStore {
    fn store(&self) -> &dyn BodyStore {
        match self {
            Self::Bucket(objects) => objects,
            Self::Store(store) => &**store,
        }
    }

    async fn put_staged(&self, staged: &StagedBody) -> Result<StoredBody, Error> {
        match self {
            Self::Bucket(objects) => objects.put_staged(staged).await,
            Self::Store(store) => store.put(BodySource::Stream(&mut staged.reader()?)).await,
        }
    }
}

impl CachedBodyStore {
    /// Downloads a body and checks it.
    async fn fetch(&self, reference: &ResultRef) -> Result<StagedBody, Error> {
        if let BackingStore::Bucket(objects) = &self.backing_store {
            return objects.fetch(reference).await;
        }
        let stream = self.backing_store.store().read(reference, None).await?;
        let mut reader = StreamReader::new(stream.chunks);
        let staged = stage_body(&self.cache.staging_dir(), &mut reader, FullDiskPolicy::Refuse).await;
        let staged = staged.map_err(|error| match error {
            // Errors of the store arrive as I/O errors of its chunks.
            Error::Interrupted(error) => match error.downcast() {
                Ok(stored) => stored,
                Err(error) => Error::Interrupted(error),
            },
            error => error,
        })?;
        if staged.sha256 == body_name(reference)? {
            return Ok(staged);
        }
        Err(Error::Corrupt {
            uri: reference.uri.clone(),
            file: reference.store.clone().into(),
        })
    }
}

#[async_trait]
impl BodyStore for CachedBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        let staged = match body {
            BodySource::Bytes(bytes) => {
                let source = BodySource::Bytes(bytes.clone());
                let stored = self.backing_store.store().put(source).await?;
                self.cache.insert_bytes(&stored.sha256, bytes).await;
                return Ok(stored);
            }
            BodySource::Stream(reader) => stage_body(&self.cache.staging_dir(), reader, FullDiskPolicy::Wait).await?,
        };
        let stored = self.backing_store.put_staged(&staged).await?;
        self.cache.insert_staged(staged).await;
        Ok(stored)
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let name = body_name(reference)?;
        let bytes = reference.meta.bytes;
        match self.cache.find(&name, bytes).await {
            Some(CacheHit::Memory(body)) => Ok(body),
            Some(CacheHit::File(file, _)) => {
                let body = collect_chunks(file_chunks(file, 0..bytes)).await;
                body.map_err(Error::Interrupted)
            }
            None => {
                let body = self.backing_store.store().get(reference).await?;
                self.cache.insert_bytes(&name, body.clone()).await;
                Ok(body)
            }
        }
    }

    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        let name = body_name(reference)?;
        let bytes = reference.meta.bytes;
        match self.cache.find(&name, bytes).await {
            Some(CacheHit::Memory(body)) => StagedBody::from_bytes(body).read(range),
            Some(CacheHit::File(file, bytes)) => {
                let range = clamp_range(range, bytes);
                Ok(BodyStream {
                    bytes,
                    range: range.clone(),
                    chunks: file_chunks(file, range),
                })
            }
            None if !self.cache.has_room_for(bytes) => self.backing_store.store().read(reference, range).await,
            None => {
                let staged = self.fetch(reference).await?;
                let stream = staged.read(range)?;
                self.cache.insert_staged(staged).await;
                Ok(stream)
            }
        }
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        if let Ok(name) = body_name(reference) {
            self.cache.remove(&name, reference.meta.bytes);
        }
        self.backing_store.store().delete(reference).await
    }
}

async fn collect_chunks(chunks: crate::ByteStream) -> std::io::Result<Bytes> {
    let body: bytes::BytesMut = chunks.try_collect().await?;
    Ok(body.freeze())
}
