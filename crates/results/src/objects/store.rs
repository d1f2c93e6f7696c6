//! Bodies in a bucket.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use model::result_ref::ResultRef;
use object_store::path::Path;
use object_store::{Attributes, ObjectStore, ObjectStoreExt as _};
use serde_json::{Map, Value};
use tokio_util::io::StreamReader;

use super::fault::named;
use super::open;
use super::upload::{Unsent, parts, whole};
use crate::bodies::address;
use crate::config::{GcsConfig, S3Config};
use crate::hashing::Hashing;
use crate::space::WhenFull;
use crate::stage::{Held, Staged, stage};
use crate::wish::Kind;
use crate::{Bodies, Error, Reading, Source, Stored, sha256};

/// Prefix of all keys.
const PREFIX: &str = "bodies";

/// Bodies in a bucket.
#[derive(Clone)]
pub(crate) struct Objects {
    client: Arc<dyn ObjectStore>,
    kind: Kind,
    bucket: String,
    scratch: PathBuf,
}

impl Objects {
    /// Opens bodies in an S3 bucket; sends no request yet.
    pub(crate) fn s3(
        config: &S3Config,
        silence_max: Duration,
        scratch: PathBuf,
    ) -> Result<Self, Error> {
        Ok(Self {
            client: Arc::new(open::s3(config, silence_max, None)?),
            kind: Kind::S3,
            bucket: config.bucket.clone(),
            scratch,
        })
    }

    /// Opens bodies in a Google Cloud Storage bucket; sends no request yet.
    pub(crate) fn gcs(
        config: &GcsConfig,
        silence_max: Duration,
        scratch: PathBuf,
    ) -> Result<Self, Error> {
        Ok(Self {
            client: Arc::new(open::gcs(config, silence_max)?),
            kind: Kind::Gcs,
            bucket: config.bucket.clone(),
            scratch,
        })
    }

    /// Location for display.
    pub(crate) fn place(&self) -> String {
        let scheme = if self.kind == Kind::Gcs { "gs" } else { "s3" };
        format!("{scheme}://{}/{PREFIX}", self.bucket)
    }

    /// Stores a body whose hash is known.
    pub(crate) async fn put_staged(&self, staged: &Staged) -> Result<Stored, Error> {
        let key = key(&staged.sha256);
        let sent = match &staged.held {
            Held::Memory(bytes) => {
                whole(&*self.client, &key, bytes.clone(), Attributes::new()).await
            }
            Held::File(_) => {
                let pieces = staged.pieces(0..staged.bytes)?;
                parts(&*self.client, &key, pieces, Attributes::new()).await
            }
        };
        sent.map_err(|unsent| self.unsent(unsent))?;
        Ok(self.stored(&staged.sha256, staged.bytes))
    }

    /// Downloads a body and checks it.
    pub(crate) async fn fetch(&self, reference: &ResultRef) -> Result<Staged, Error> {
        let sha256 = self.address(reference)?;
        let key = key(&sha256);
        let named = |fault| named(fault, &self.place(), Some(&reference.uri));
        let found = self.client.get(&key).await.map_err(named)?;
        let pieces = found.into_stream().map_err(io::Error::other);
        let mut reader = StreamReader::new(Box::pin(pieces));
        let staged = stage(&self.scratch, &mut reader, WhenFull::Refuse).await;
        let staged = staged.map_err(|error| self.broken(error))?;
        if staged.sha256 == sha256 {
            return Ok(staged);
        }
        Err(self.corrupt(reference))
    }

    /// Returns the hash of the body, if it is in this bucket.
    fn address(&self, reference: &ResultRef) -> Result<String, Error> {
        let elsewhere = reference.meta.location.get("bucket");
        let elsewhere = elsewhere.and_then(Value::as_str);
        match elsewhere.filter(|bucket| *bucket != self.bucket) {
            None => address(reference),
            Some(bucket) => Err(Error::NotConfigured {
                store: format!("{}, bucket {bucket}", self.kind.name()),
                remedy: format!("this process uses bucket `{}`", self.bucket),
            }),
        }
    }

    fn stored(&self, sha256: &str, bytes: u64) -> Stored {
        let word = if self.kind == Kind::Gcs {
            "object"
        } else {
            "key"
        };
        let place = [("bucket", self.bucket.clone()), (word, name(sha256))];
        let place = place.map(|(name, value)| (name.to_owned(), Value::String(value)));
        Stored {
            sha256: sha256.to_owned(),
            bytes,
            store: self.kind.name(),
            compression: None,
            location: Map::from_iter(place),
        }
    }

    fn unsent(&self, unsent: Unsent) -> Error {
        match unsent {
            Unsent::Fault(fault) => named(fault, &self.place(), None),
            Unsent::Lost(fault) => Error::Unavailable {
                file: self.place().into(),
                source: io::Error::other(fault),
            },
            Unsent::Source(error) => Error::Interrupted(error),
        }
    }

    /// An interrupted download is an error of the bucket, not of the source.
    fn broken(&self, error: Error) -> Error {
        match error {
            Error::Interrupted(source) => Error::Unavailable {
                file: self.place().into(),
                source,
            },
            error => error,
        }
    }

    fn corrupt(&self, reference: &ResultRef) -> Error {
        Error::Corrupt {
            uri: reference.uri.clone(),
            file: self.place().into(),
        }
    }
}

fn name(sha256: &str) -> String {
    format!("{PREFIX}/{sha256}")
}

fn key(sha256: &str) -> Path {
    Path::from(name(sha256))
}

#[async_trait]
impl Bodies for Objects {
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        let staged = match body {
            Source::Bytes(bytes) => {
                let hash = sha256(&bytes);
                let count = bytes.len() as u64;
                let sent = whole(&*self.client, &key(&hash), bytes, Attributes::new()).await;
                sent.map_err(|unsent| self.unsent(unsent))?;
                return Ok(self.stored(&hash, count));
            }
            Source::Stream(reader) => stage(&self.scratch, reader, WhenFull::Wait).await?,
        };
        self.put_staged(&staged).await
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let address = self.address(reference)?;
        let named = |fault| named(fault, &self.place(), Some(&reference.uri));
        let found = self.client.get(&key(&address)).await.map_err(named)?;
        let bytes = found.meta.size.min(reference.meta.bytes);
        let mut hashing = Hashing::of(bytes);
        let mut body = BytesMut::with_capacity(usize::try_from(bytes).unwrap_or(0));
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.try_next().await.map_err(named)? {
            body.extend_from_slice(&piece);
            hashing.take(piece);
        }
        if hashing.end().await? == address {
            return Ok(body.freeze());
        }
        Err(self.corrupt(reference))
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
        self.address(reference)?;
        match self.client.delete(&key(&address)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(fault) => Err(named(fault, &self.place(), None)),
        }
    }
}
