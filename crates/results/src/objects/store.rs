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

use super::error::into_store_error;
use super::open;
use super::upload::{UploadError, upload_bytes, upload_parts};
use crate::bodies::body_name;
use crate::config::{GcsConfig, S3Config};
use crate::disk_space::FullDiskPolicy;
use crate::staged_body::{StagedBody, StagedContent, stage_body};
use crate::storage_options::StoreKind;
use crate::stream_hasher::StreamHasher;
use crate::{BodySource, BodyStore, BodyStream, Error, StoredBody, sha256};

/// Prefix of all keys.
const KEY_PREFIX: &str = "bodies";

/// Bodies in a bucket.
#[derive(Clone)]
pub(crate) struct BucketBodyStore {
    client: Arc<dyn ObjectStore>,
    kind: StoreKind,
    bucket: String,
    scratch: PathBuf,
}

impl BucketBodyStore {
    /// Opens bodies in an S3 bucket; sends no request yet.
    pub(crate) fn s3(config: &S3Config, silence_max: Duration, scratch: PathBuf) -> Result<Self, Error> {
        Ok(Self {
            client: Arc::new(open::s3_client(config, silence_max, None)?),
            kind: StoreKind::S3,
            bucket: config.bucket.clone(),
            scratch,
        })
    }

    /// Opens bodies in a Google Cloud Storage bucket; sends no request yet.
    pub(crate) fn gcs(config: &GcsConfig, silence_max: Duration, scratch: PathBuf) -> Result<Self, Error> {
        Ok(Self {
            client: Arc::new(open::gcs_client(config, silence_max)?),
            kind: StoreKind::Gcs,
            bucket: config.bucket.clone(),
            scratch,
        })
    }

    /// Location for display.
    pub(crate) fn location(&self) -> String {
        let scheme = if self.kind == StoreKind::Gcs { "gs" } else { "s3" };
        format!("{scheme}://{}/{KEY_PREFIX}", self.bucket)
    }

    /// Stores a body whose hash is known.
    pub(crate) async fn put_staged(&self, staged: &StagedBody) -> Result<StoredBody, Error> {
        let key = object_key(&staged.sha256);
        let sent = match &staged.content {
            StagedContent::Memory(bytes) => upload_bytes(&*self.client, &key, bytes.clone(), Attributes::new()).await,
            StagedContent::File(_) => {
                let chunks = staged.chunks(0..staged.bytes)?;
                upload_parts(&*self.client, &key, chunks, Attributes::new()).await
            }
        };
        sent.map_err(|error| self.upload_error(error))?;
        Ok(self.to_stored_body(&staged.sha256, staged.bytes))
    }

    /// Downloads a body and checks it.
    pub(crate) async fn fetch(&self, reference: &ResultRef) -> Result<StagedBody, Error> {
        let sha256 = self.hash_in_bucket(reference)?;
        let key = object_key(&sha256);
        let to_error = |cause| into_store_error(cause, &self.location(), Some(&reference.uri));
        let object = self.client.get(&key).await.map_err(to_error)?;
        let chunks = object.into_stream().map_err(io::Error::other);
        let mut reader = StreamReader::new(Box::pin(chunks));
        let staged = stage_body(&self.scratch, &mut reader, FullDiskPolicy::Refuse).await;
        let staged = staged.map_err(|error| self.download_error(error))?;
        if staged.sha256 == sha256 {
            return Ok(staged);
        }
        Err(self.corrupt_error(reference))
    }

    /// Returns the hash of the body, if it is in this bucket.
    fn hash_in_bucket(&self, reference: &ResultRef) -> Result<String, Error> {
        let bucket = reference.meta.location.get("bucket");
        let bucket = bucket.and_then(Value::as_str);
        match bucket.filter(|bucket| *bucket != self.bucket) {
            None => body_name(reference),
            Some(bucket) => Err(Error::NotConfigured {
                store: format!("{}, bucket {bucket}", self.kind.name()),
                remedy: format!("this process uses bucket `{}`", self.bucket),
            }),
        }
    }

    fn to_stored_body(&self, sha256: &str, bytes: u64) -> StoredBody {
        let key_name = if self.kind == StoreKind::Gcs { "object" } else { "key" };
        let fields = [("bucket", self.bucket.clone()), (key_name, object_name(sha256))];
        let fields = fields.map(|(name, value)| (name.to_owned(), Value::String(value)));
        StoredBody {
            sha256: sha256.to_owned(),
            bytes,
            store: self.kind.name(),
            compression: None,
            location: Map::from_iter(fields),
        }
    }

    fn upload_error(&self, error: UploadError) -> Error {
        match error {
            UploadError::Rejected(cause) => into_store_error(cause, &self.location(), None),
            UploadError::UploadLost(cause) => Error::Unavailable {
                file: self.location().into(),
                source: io::Error::other(cause),
            },
            UploadError::SourceUnreadable(error) => Error::Interrupted(error),
        }
    }

    /// An interrupted download is an error of the bucket, not of the source.
    fn download_error(&self, error: Error) -> Error {
        match error {
            Error::Interrupted(source) => Error::Unavailable {
                file: self.location().into(),
                source,
            },
            error => error,
        }
    }

    fn corrupt_error(&self, reference: &ResultRef) -> Error {
        Error::Corrupt {
            uri: reference.uri.clone(),
            file: self.location().into(),
        }
    }
}

fn object_name(sha256: &str) -> String {
    format!("{KEY_PREFIX}/{sha256}")
}

fn object_key(sha256: &str) -> Path {
    Path::from(object_name(sha256))
}

#[async_trait]
impl BodyStore for BucketBodyStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        let staged = match body {
            BodySource::Bytes(bytes) => {
                let hash = sha256(&bytes);
                let count = bytes.len() as u64;
                let sent = upload_bytes(&*self.client, &object_key(&hash), bytes, Attributes::new()).await;
                sent.map_err(|error| self.upload_error(error))?;
                return Ok(self.to_stored_body(&hash, count));
            }
            BodySource::Stream(reader) => stage_body(&self.scratch, reader, FullDiskPolicy::Wait).await?,
        };
        self.put_staged(&staged).await
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let sha256 = self.hash_in_bucket(reference)?;
        let to_error = |error| into_store_error(error, &self.location(), Some(&reference.uri));
        let object = self.client.get(&object_key(&sha256)).await.map_err(to_error)?;
        let bytes = object.meta.size.min(reference.meta.bytes);
        let mut hasher = StreamHasher::for_size(bytes);
        let mut body = BytesMut::with_capacity(usize::try_from(bytes).unwrap_or(0));
        let mut chunks = object.into_stream();
        while let Some(chunk) = chunks.try_next().await.map_err(to_error)? {
            body.extend_from_slice(&chunk);
            hasher.update(chunk);
        }
        if hasher.finish().await? == sha256 {
            return Ok(body.freeze());
        }
        Err(self.corrupt_error(reference))
    }

    async fn read(&self, reference: &ResultRef, range: Option<Range<u64>>) -> Result<BodyStream, Error> {
        self.fetch(reference).await?.read(range)
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let Ok(sha256) = body_name(reference) else {
            return Ok(());
        };
        self.hash_in_bucket(reference)?;
        match self.client.delete(&object_key(&sha256)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(into_store_error(error, &self.location(), None)),
        }
    }
}
