//! A bucket as whoever asks for its objects by name sees it: get, put, list, delete, sign. No hashes, no bodies.

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

/// What is read from a stream at a time while it is sent.
const READ_BYTES: usize = 256 * 1024;

/// A bucket of S3 or Google Cloud Storage.
#[derive(Clone)]
pub struct Bucket {
    client: Arc<dyn ObjectStore>,
    signer: Arc<dyn Signer>,
    /// What its addresses begin with: `s3://name/`.
    prefix: String,
}

/// An object, as its bucket knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its address.
    pub uri: String,
    /// Its size.
    pub bytes: u64,
    /// The bucket's tag of its content.
    pub etag: Option<String>,
    /// When it was written, in RFC 3339.
    pub modified: Option<String>,
    /// What it is said to be.
    pub content_type: Option<String>,
}

/// An object on its way out.
pub struct Opened {
    /// What it is.
    pub found: Found,
    /// What of it is read.
    pub range: Range<u64>,
    /// What is read.
    pub pieces: Pieces,
}

/// Some objects of a bucket, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The objects.
    pub objects: Vec<Found>,
    /// Whether there are more after the last one.
    pub has_more: bool,
}

/// Why a bucket did not do as it was asked. It never says a credential.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// There is no such object, or no such bucket.
    #[error("`{uri}` is not there")]
    NotFound {
        /// The address.
        uri: String,
    },
    /// Whoever asks may not.
    #[error("`{uri}` is refused to whoever this credential belongs to")]
    Denied {
        /// The address.
        uri: String,
    },
    /// It cannot be asked for in this way.
    #[error("`{uri}` cannot be asked for: {problem}")]
    Invalid {
        /// The address.
        uri: String,
        /// What is wrong.
        problem: String,
    },
    /// The bucket did not answer, or said that it cannot now.
    #[error("`{uri}` cannot be reached: {problem}")]
    Unavailable {
        /// The address.
        uri: String,
        /// What was said.
        problem: String,
    },
    /// What was to be written could not be read.
    #[error("what was to be written broke off")]
    Source(#[source] io::Error),
}

impl Bucket {
    /// A bucket of S3, asked through a client that decides what may be reached; nothing is asked yet.
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

    /// A bucket of Google Cloud Storage, asked through a client that decides what may be reached; nothing is asked yet.
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

    /// The address of a key.
    pub fn uri(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// What the bucket knows of an object.
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

    /// An object, or a part of it, piece by piece.
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

    /// Writes an object; it is seen when all of it is there.
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
                    // The reader is not the task's own, so it is read here, beside the sending.
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

    /// At most `limit` objects whose keys begin so, after a key.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listed, BucketError> {
        // A bucket lists by whole segments; what is asked for may end within one.
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

    /// Removes an object; whether there was one, as far as the bucket says.
    pub async fn delete(&self, key: &str) -> Result<bool, BucketError> {
        match self.client.delete(&self.path(key)?).await {
            Ok(()) => Ok(true),
            Err(Fault::NotFound { .. }) => Ok(false),
            Err(fault) => Err(self.named(fault, key)),
        }
    }

    /// A URL under which anybody may get or put an object for a while.
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
            // What a bucket says of a signature may repeat the token that was sent.
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

/// A stream that was begun as pieces, and the reading of its rest, which counts.
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
            // Nobody listening means that the sending has failed.
            if send.send(piece).await.is_err() {
                break;
            }
        }
        count
    };
    (pieces, reading)
}
