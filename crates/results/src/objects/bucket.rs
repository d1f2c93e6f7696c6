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
    Attribute, Attributes, Error as Fault, GetOptions, GetRange, ObjectMeta, ObjectStore,
    ObjectStoreExt as _,
};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use super::open;
use super::upload::{PART_BYTES, Unsent, parts, whole};
use crate::config::{GcsIdentity, S3Config};
use crate::{Error, Pieces, Source};

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
pub struct Found {
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
pub struct Opened {
    /// Summary of the object.
    pub found: Found,
    /// Range that is read.
    pub range: Range<u64>,
    /// Chunks of the range.
    pub pieces: Pieces,
}

/// A page of objects, sorted by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Objects.
    pub objects: Vec<Found>,
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
    Denied {
        /// Address.
        uri: String,
    },
    /// The request is invalid.
    #[error("invalid request for `{uri}`: {problem}")]
    Invalid {
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
    Source(#[source] io::Error),
}

impl Bucket {
    /// Opens an S3 bucket with an HTTP client that restricts network access; sends no request yet.
    pub fn s3(
        config: &S3Config,
        silence_max: Duration,
        client: reqwest::Client,
    ) -> Result<Self, Error> {
        let through = Some(open::Through(client));
        let client = Arc::new(open::s3(config, silence_max, through)?);
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
        let through = Some(open::Through(client));
        let client = open::gcs_as(bucket, endpoint, identity, silence_max, through)?;
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
    pub async fn head(&self, key: &str) -> Result<Found, BucketError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let path = self.path(key)?;
        let got = self.client.get_opts(&path, options).await;
        let got = got.map_err(|fault| self.named(fault, key))?;
        let content_type = content_type(&got.attributes);
        Ok(Found {
            content_type,
            ..self.found(&got.meta)
        })
    }

    /// Reads an object or a range of it in chunks.
    pub async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<Opened, BucketError> {
        let options = GetOptions {
            range: range.map(|range| match range.end {
                u64::MAX => GetRange::Offset(range.start),
                _ => GetRange::Bounded(range),
            }),
            ..GetOptions::default()
        };
        let path = self.path(key)?;
        let got = self.client.get_opts(&path, options).await;
        let got = got.map_err(|fault| self.named(fault, key))?;
        let found = Found {
            content_type: content_type(&got.attributes),
            ..self.found(&got.meta)
        };
        Ok(Opened {
            found,
            range: got.range.clone(),
            pieces: Box::pin(got.into_stream().map_err(io::Error::other)),
        })
    }

    /// Writes an object; it becomes visible when it is complete.
    pub async fn put(
        &self,
        key: &str,
        body: Source<'_>,
        content_type: Option<&str>,
    ) -> Result<Found, BucketError> {
        let path = self.path(key)?;
        let mut attributes = Attributes::new();
        if let Some(content_type) = content_type {
            attributes.insert(Attribute::ContentType, content_type.to_owned().into());
        }
        let client = &*self.client;
        let (sent, bytes) = match body {
            Source::Bytes(bytes) => {
                let count = bytes.len() as u64;
                (whole(client, &path, bytes, attributes).await, count)
            }
            Source::Stream(reader) => {
                let mut head = Vec::new();
                let mut begin = (&mut *reader).take(PART_BYTES as u64 + 1);
                let read = begin.read_to_end(&mut head).await;
                read.map_err(BucketError::Source)?;
                let count = head.len() as u64;
                if head.len() <= PART_BYTES {
                    (whole(client, &path, head.into(), attributes).await, count)
                } else {
                    let (pieces, rest) = counted(head, reader);
                    // The reader is borrowed, so it is read here, concurrently with the upload.
                    let sending = parts(client, &path, pieces, attributes);
                    let (sent, read) = tokio::join!(sending, rest);
                    (sent, count + read)
                }
            }
        };
        let etag = sent.map_err(|unsent| self.unsent(unsent, key))?;
        Ok(Found {
            uri: self.uri(key),
            bytes,
            etag,
            modified: None,
            content_type: content_type.map(str::to_owned),
        })
    }

    /// Lists at most `limit` objects whose keys start with `prefix` and follow `after`.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listed, BucketError> {
        // Buckets list by whole path segments; the prefix may end inside one.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = self.path(folder)?;
        let folder = (!folder.as_ref().is_empty()).then_some(&folder);
        let stream = match after {
            Some(after) => self.client.list_with_offset(folder, &self.path(after)?),
            None => self.client.list(folder),
        };
        let begins = |found: &ObjectMeta| {
            let begins = found.location.as_ref().starts_with(prefix);
            async move { begins }
        };
        let found = stream.try_filter(begins).take(limit + 1);
        let found: Result<Vec<ObjectMeta>, Fault> = found.try_collect().await;
        let mut found = found.map_err(|fault| self.named(fault, prefix))?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        Ok(Listed {
            objects: found.iter().map(|meta| self.found(meta)).collect(),
            has_more,
        })
    }

    /// Deletes an object; returns whether it existed, as far as the bucket reports it.
    pub async fn delete(&self, key: &str) -> Result<bool, BucketError> {
        match self.client.delete(&self.path(key)?).await {
            Ok(()) => Ok(true),
            Err(Fault::NotFound { .. }) => Ok(false),
            Err(fault) => Err(self.named(fault, key)),
        }
    }

    /// Returns a URL that allows anyone to get or put an object for a limited time.
    pub async fn presign(
        &self,
        key: &str,
        is_put: bool,
        valid: Duration,
    ) -> Result<String, BucketError> {
        let method = if is_put {
            reqwest::Method::PUT
        } else {
            reqwest::Method::GET
        };
        let signed = self
            .signer
            .signed_url(method, &self.path(key)?, valid)
            .await;
        let signed = signed.map_err(|fault| self.named(fault, key))?;
        Ok(signed.to_string())
    }

    fn path(&self, key: &str) -> Result<Path, BucketError> {
        Path::parse(key).map_err(|error| BucketError::Invalid {
            uri: self.uri(key),
            problem: error.to_string(),
        })
    }

    fn found(&self, meta: &ObjectMeta) -> Found {
        Found {
            uri: self.uri(meta.location.as_ref()),
            bytes: meta.size,
            etag: meta.e_tag.clone(),
            modified: Some(meta.last_modified.to_rfc3339()),
            content_type: None,
        }
    }

    fn unsent(&self, unsent: Unsent, key: &str) -> BucketError {
        match unsent {
            Unsent::Fault(fault) => self.named(fault, key),
            Unsent::Lost(fault) => BucketError::Unavailable {
                uri: self.uri(key),
                problem: fault.to_string(),
            },
            Unsent::Source(error) => BucketError::Source(error),
        }
    }

    fn named(&self, fault: Fault, key: &str) -> BucketError {
        let uri = self.uri(key);
        match fault {
            Fault::NotFound { .. } => BucketError::NotFound { uri },
            // The message of the bucket may repeat the token, so it is dropped.
            Fault::PermissionDenied { .. } | Fault::Unauthenticated { .. } => {
                BucketError::Denied { uri }
            }
            fault @ (Fault::InvalidPath { .. }
            | Fault::NotSupported { .. }
            | Fault::NotImplemented { .. }
            | Fault::Precondition { .. }
            | Fault::AlreadyExists { .. }) => BucketError::Invalid {
                uri,
                problem: fault.to_string(),
            },
            fault => BucketError::Unavailable {
                uri,
                problem: fault.to_string(),
            },
        }
    }
}

fn content_type(attributes: &Attributes) -> Option<String> {
    let found = attributes.get(&Attribute::ContentType)?;
    Some(found.as_ref().to_owned())
}

/// Splits a stream into chunks for the upload and a future that reads the rest and counts its bytes.
fn counted(
    head: Vec<u8>,
    reader: &mut (dyn tokio::io::AsyncRead + Send + Unpin),
) -> (Pieces, impl Future<Output = u64> + '_) {
    let (send, receive) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(2);
    let rest = stream::unfold(receive, async |mut receive| {
        let piece = receive.recv().await?;
        Some((piece, receive))
    });
    let pieces: Pieces = Box::pin(stream::iter([Ok(Bytes::from(head))]).chain(rest));
    let reading = async move {
        let mut count = 0;
        let mut read = ReaderStream::with_capacity(reader, READ_BYTES);
        while let Some(piece) = read.next().await {
            count += piece.as_ref().map_or(0, |piece| piece.len() as u64);
            // A closed channel means that the upload has failed.
            if send.send(piece).await.is_err() {
                break;
            }
        }
        count
    };
    (pieces, reading)
}
