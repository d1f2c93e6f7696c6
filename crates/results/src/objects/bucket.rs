//! A bucket for direct access by key: get, put, list, delete, sign. It does not use hashes.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{
    Attribute, Attributes, Error as ObjectStoreError, GetOptions, GetRange, ObjectMeta, ObjectStore,
    ObjectStoreExt as _,
};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use super::open;
use super::upload::{PART_BYTES, UploadError, upload_bytes, upload_parts};
use crate::config::{GcsIdentity, S3Config};
use crate::{BodySource, ByteStream, Error};

/// Number of bytes to read from a stream at once during an upload.
const READ_BYTES: usize = 256 * 1024;

/// A bucket of S3 or Google Cloud Storage.
#[derive(Clone)]
pub struct Bucket {
    client: Arc<dyn ObjectStore>,
    signer: Arc<dyn Signer>,
    /// Prefix of its addresses: `s3://name/`.
    prefix: String,
}

/// Summary of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSummary {
    /// Address.
    pub uri: String,
    /// Size in bytes.
    pub bytes: u64,
    /// `ETag` of the content.
    pub etag: Option<String>,
    /// Time of the last write, in RFC 3339.
    pub modified: Option<String>,
    /// Content type.
    pub content_type: Option<String>,
}

/// An object that is read in chunks.
pub struct ObjectStream {
    /// Summary of the object.
    pub summary: ObjectSummary,
    /// Range that is read.
    pub range: Range<u64>,
    /// Chunks of the range.
    pub chunks: ByteStream,
}

/// A page of objects, sorted by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPage {
    /// Objects.
    pub objects: Vec<ObjectSummary>,
    /// Whether more objects follow.
    pub has_more: bool,
}

/// Why a request to a bucket failed. Never contains a credential.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The object or the bucket does not exist.
    #[error("`{uri}` not found")]
    NotFound {
        /// Address.
        uri: String,
    },
    /// The credential lacks permission.
    #[error("access denied: this credential cannot access `{uri}`")]
    PermissionDenied {
        /// Address.
        uri: String,
    },
    /// The request is invalid.
    #[error("invalid request for `{uri}`: {problem}")]
    InvalidRequest {
        /// Address.
        uri: String,
        /// Cause.
        problem: String,
    },
    /// The bucket did not respond, or responded that it is unavailable.
    #[error("cannot access `{uri}`: {problem}")]
    Unavailable {
        /// Address.
        uri: String,
        /// Cause.
        problem: String,
    },
    /// The source of the upload failed.
    #[error("cannot read the data to upload")]
    SourceUnreadable(#[source] io::Error),
}

impl Bucket {
    /// Opens an S3 bucket with an HTTP client that restricts network access; sends no request yet.
    pub fn s3(config: &S3Config, silence_max: Duration, client: reqwest::Client) -> Result<Self, Error> {
        let connector = Some(open::FixedConnector(client));
        let client = Arc::new(open::s3_client(config, silence_max, connector)?);
        Ok(Self {
            client: client.clone(),
            signer: client,
            prefix: format!("s3://{}/", config.bucket),
        })
    }

    /// Opens a Google Cloud Storage bucket with an HTTP client that restricts network access; sends no request yet.
    pub fn gcs(
        bucket: &str,
        endpoint: Option<&str>,
        identity: &GcsIdentity,
        silence_max: Duration,
        client: reqwest::Client,
    ) -> Result<Self, Error> {
        let connector = Some(open::FixedConnector(client));
        let client = open::gcs_client_as(bucket, endpoint, identity, silence_max, connector)?;
        let client = Arc::new(client);
        Ok(Self {
            client: client.clone(),
            signer: client,
            prefix: format!("gs://{bucket}/"),
        })
    }

    /// Returns the address of a key.
    pub fn uri(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Returns the summary of an object.
    pub async fn head(&self, key: &str) -> Result<ObjectSummary, BucketError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let path = self.path(key)?;
        let response = self.client.get_opts(&path, options).await;
        let response = response.map_err(|error| self.bucket_error(error, key))?;
        let content_type = content_type(&response.attributes);
        Ok(ObjectSummary {
            content_type,
            ..self.to_summary(&response.meta)
        })
    }

    /// Reads an object or a range of it in chunks.
    pub async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ObjectStream, BucketError> {
        let options = GetOptions {
            range: range.map(|range| match range.end {
                u64::MAX => GetRange::Offset(range.start),
                _ => GetRange::Bounded(range),
            }),
            ..GetOptions::default()
        };
        let path = self.path(key)?;
        let response = self.client.get_opts(&path, options).await;
        let response = response.map_err(|error| self.bucket_error(error, key))?;
        let summary = ObjectSummary {
            content_type: content_type(&response.attributes),
            ..self.to_summary(&response.meta)
        };
        Ok(ObjectStream {
            summary,
            range: response.range.clone(),
            chunks: Box::pin(response.into_stream().map_err(io::Error::other)),
        })
    }

    /// Writes an object; it becomes visible when it is complete.
    pub async fn put(
        &self,
        key: &str,
        body: BodySource<'_>,
        content_type: Option<&str>,
    ) -> Result<ObjectSummary, BucketError> {
        let path = self.path(key)?;
        let mut attributes = Attributes::new();
        if let Some(content_type) = content_type {
            attributes.insert(Attribute::ContentType, content_type.to_owned().into());
        }
        let client = &*self.client;
        let (sent, bytes) = match body {
            BodySource::Bytes(bytes) => {
                let count = bytes.len() as u64;
                (upload_bytes(client, &path, bytes, attributes).await, count)
            }
            BodySource::Stream(reader) => {
                let mut head = Vec::new();
                let mut limited = (&mut *reader).take(PART_BYTES as u64 + 1);
                let read = limited.read_to_end(&mut head).await;
                read.map_err(BucketError::SourceUnreadable)?;
                let count = head.len() as u64;
                if head.len() <= PART_BYTES {
                    (upload_bytes(client, &path, head.into(), attributes).await, count)
                } else {
                    let (chunks, reading) = counted_stream(head, reader);
                    // The reader is borrowed, so it is read here, concurrently with the upload.
                    let sending = upload_parts(client, &path, chunks, attributes);
                    let (sent, read) = tokio::join!(sending, reading);
                    (sent, count + read)
                }
            }
        };
        let etag = sent.map_err(|error| self.upload_error(error, key))?;
        Ok(ObjectSummary {
            uri: self.uri(key),
            bytes,
            etag,
            modified: None,
            content_type: content_type.map(str::to_owned),
        })
    }

    /// Lists at most `limit` objects whose keys start with `prefix` and follow `after`.
    pub async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<ObjectPage, BucketError> {
        // Buckets list by whole path segments; the prefix may end inside one.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = self.path(folder)?;
        let folder = (!folder.as_ref().is_empty()).then_some(&folder);
        let stream = match after {
            Some(after) => self.client.list_with_offset(folder, &self.path(after)?),
            None => self.client.list(folder),
        };
        let has_prefix = |object: &ObjectMeta| {
            let has_prefix = object.location.as_ref().starts_with(prefix);
            async move { has_prefix }
        };
        let objects = stream.try_filter(has_prefix).take(limit + 1);
        let objects: Result<Vec<ObjectMeta>, ObjectStoreError> = objects.try_collect().await;
        let mut objects = objects.map_err(|error| self.bucket_error(error, prefix))?;
        let has_more = objects.len() > limit;
        objects.truncate(limit);
        Ok(ObjectPage {
            objects: objects.iter().map(|meta| self.to_summary(meta)).collect(),
            has_more,
        })
    }

    /// Deletes an object; returns whether it existed, as far as the bucket reports it.
    pub async fn delete(&self, key: &str) -> Result<bool, BucketError> {
        match self.client.delete(&self.path(key)?).await {
            Ok(()) => Ok(true),
            Err(ObjectStoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.bucket_error(error, key)),
        }
    }

    /// Returns a URL that allows anyone to get or put an object for a limited time.
    pub async fn presign(&self, key: &str, is_put: bool, valid: Duration) -> Result<String, BucketError> {
        let method = if is_put {
            reqwest::Method::PUT
        } else {
            reqwest::Method::GET
        };
        let signed = self.signer.signed_url(method, &self.path(key)?, valid).await;
        let signed = signed.map_err(|error| self.bucket_error(error, key))?;
        Ok(signed.to_string())
    }

    fn path(&self, key: &str) -> Result<Path, BucketError> {
        Path::parse(key).map_err(|error| BucketError::InvalidRequest {
            uri: self.uri(key),
            problem: error.to_string(),
        })
    }

    fn to_summary(&self, meta: &ObjectMeta) -> ObjectSummary {
        ObjectSummary {
            uri: self.uri(meta.location.as_ref()),
            bytes: meta.size,
            etag: meta.e_tag.clone(),
            modified: Some(meta.last_modified.to_rfc3339()),
            content_type: None,
        }
    }

    fn upload_error(&self, error: UploadError, key: &str) -> BucketError {
        match error {
            UploadError::Rejected(cause) => self.bucket_error(cause, key),
            UploadError::UploadLost(cause) => BucketError::Unavailable {
                uri: self.uri(key),
                problem: cause.to_string(),
            },
            UploadError::SourceUnreadable(error) => BucketError::SourceUnreadable(error),
        }
    }

    fn bucket_error(&self, error: ObjectStoreError, key: &str) -> BucketError {
        let uri = self.uri(key);
        match error {
            ObjectStoreError::NotFound { .. } => BucketError::NotFound { uri },
            // The message of the bucket may repeat the token, so it is dropped.
            ObjectStoreError::PermissionDenied { .. } | ObjectStoreError::Unauthenticated { .. } => {
                BucketError::PermissionDenied { uri }
            }
            error @ (ObjectStoreError::InvalidPath { .. }
            | ObjectStoreError::NotSupported { .. }
            | ObjectStoreError::NotImplemented { .. }
            | ObjectStoreError::Precondition { .. }
            | ObjectStoreError::AlreadyExists { .. }) => BucketError::InvalidRequest {
                uri,
                problem: error.to_string(),
            },
            error => BucketError::Unavailable {
                uri,
                problem: error.to_string(),
            },
        }
    }
}

fn content_type(attributes: &Attributes) -> Option<String> {
    let value = attributes.get(&Attribute::ContentType)?;
    Some(value.as_ref().to_owned())
}

/// Returns the chunks of a body whose `head` was read, and a future that reads its other bytes and counts them.
fn counted_stream(
    head: Vec<u8>,
    reader: &mut (dyn tokio::io::AsyncRead + Send + Unpin),
) -> (ByteStream, impl Future<Output = u64> + '_) {
    let (send, receive) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(2);
    let tail = stream::unfold(receive, async |mut receive| {
        let chunk = receive.recv().await?;
        Some((chunk, receive))
    });
    let chunks: ByteStream = Box::pin(stream::iter([Ok(Bytes::from(head))]).chain(tail));
    let reading = async move {
        let mut count = 0;
        let mut read = ReaderStream::with_capacity(reader, READ_BYTES);
        while let Some(chunk) = read.next().await {
            count += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
            // A closed channel means that the upload has failed.
            if send.send(chunk).await.is_err() {
                break;
            }
        }
        count
    };
    (chunks, reading)
}
