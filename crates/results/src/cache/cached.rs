//! A store with a write-through cache.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use model::result_ref::ResultRef;
use tokio_util::io::StreamReader;

use super::hold::{Cache, Found};
use crate::bodies::{address, within};
use crate::files::pieces;
use crate::objects::Objects;
use crate::space::WhenFull;
use crate::stage::{Staged, stage};
use crate::{Bodies, Error, Reading, Source, Stored};

/// The permanent store.
pub(crate) enum Tier {
    /// A bucket, which stores and returns staged bodies.
    Bucket(Objects),
    /// Any other store.
    Store(Arc<dyn Bodies>),
}

/// A store with a cache.
pub(crate) struct Cached {
    pub(crate) tier: Tier,
    pub(crate) cache: Cache,
}

impl Tier {
    fn bodies(&self) -> &dyn Bodies {
        match self {
            Self::Bucket(objects) => objects,
            Self::Store(store) => &**store,
        }
    }

    async fn put_staged(&self, staged: &Staged) -> Result<Stored, Error> {
        match self {
            Self::Bucket(objects) => objects.put_staged(staged).await,
            Self::Store(store) => store.put(Source::Stream(&mut staged.reader()?)).await,
        }
    }
}

impl Cached {
    /// Downloads a body and checks it.
    async fn fetch(&self, reference: &ResultRef) -> Result<Staged, Error> {
        if let Tier::Bucket(objects) = &self.tier {
            return objects.fetch(reference).await;
        }
        let reading = self.tier.bodies().read(reference, None).await?;
        let mut reader = StreamReader::new(reading.pieces);
        let staged = stage(&self.cache.fresh(), &mut reader, WhenFull::Refuse).await;
        let staged = staged.map_err(|error| match error {
            // Errors of the store arrive as I/O errors of its chunks.
            Error::Interrupted(error) => match error.downcast() {
                Ok(told) => told,
                Err(error) => Error::Interrupted(error),
            },
            error => error,
        })?;
        if staged.sha256 == address(reference)? {
            return Ok(staged);
        }
        Err(Error::Corrupt {
            uri: reference.uri.clone(),
            file: reference.store.clone().into(),
        })
    }
}

#[async_trait]
impl Bodies for Cached {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        let staged = match body {
            Source::Bytes(bytes) => {
                let source = Source::Bytes(bytes.clone());
                let stored = self.tier.bodies().put(source).await?;
                self.cache.admit(&stored.sha256, bytes).await;
                return Ok(stored);
            }
            Source::Stream(reader) => stage(&self.cache.fresh(), reader, WhenFull::Wait).await?,
        };
        let stored = self.tier.put_staged(&staged).await?;
        self.cache.adopt(staged).await;
        Ok(stored)
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let name = address(reference)?;
        let bytes = reference.meta.bytes;
        match self.cache.find(&name, bytes).await {
            Some(Found::Memory(body)) => Ok(body),
            Some(Found::File(file, _)) => {
                let body = collect(pieces(file, 0..bytes)).await;
                body.map_err(Error::Interrupted)
            }
            None => {
                let body = self.tier.bodies().get(reference).await?;
                self.cache.admit(&name, body.clone()).await;
                Ok(body)
            }
        }
    }

    async fn read(
        &self,
        reference: &ResultRef,
        range: Option<Range<u64>>,
    ) -> Result<Reading, Error> {
        let name = address(reference)?;
        let bytes = reference.meta.bytes;
        match self.cache.find(&name, bytes).await {
            Some(Found::Memory(body)) => Staged::memory(body).read(range),
            Some(Found::File(file, bytes)) => {
                let range = within(range, bytes);
                Ok(Reading {
                    bytes,
                    range: range.clone(),
                    pieces: pieces(file, range),
                })
            }
            None if !self.cache.fits(bytes) => self.tier.bodies().read(reference, range).await,
            None => {
                let staged = self.fetch(reference).await?;
                let reading = staged.read(range)?;
                self.cache.adopt(staged).await;
                Ok(reading)
            }
        }
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        if let Ok(name) = address(reference) {
            self.cache.remove(&name, reference.meta.bytes);
        }
        self.tier.bodies().delete(reference).await
    }
}

async fn collect(pieces: crate::Pieces) -> std::io::Result<Bytes> {
    let body: bytes::BytesMut = pieces.try_collect().await?;
    Ok(body.freeze())
}
