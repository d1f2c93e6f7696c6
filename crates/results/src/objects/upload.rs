//! Uploads a body: in one request while small, otherwise in parts that become visible together.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Attributes, ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, WriteMultipart};

use crate::ByteStream;

/// Size of every part except the last; smaller bodies are sent in one request.
pub(super) const PART_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of parts in flight.
const PARTS_AT_ONCE: usize = 3;

/// Why an upload failed.
pub(super) enum UploadError {
    /// The bucket returned an error.
    Rejected(object_store::Error),
    /// The bucket does not know the upload any more.
    UploadLost(object_store::Error),
    /// The body could not be read.
    SourceUnreadable(std::io::Error),
}

impl From<object_store::Error> for UploadError {
    fn from(error: object_store::Error) -> Self {
        Self::Rejected(error)
    }
}

/// Uploads a body from memory; returns its `ETag`.
pub(super) async fn upload_bytes(
    client: &dyn ObjectStore,
    key: &Path,
    body: Bytes,
    attributes: Attributes,
) -> Result<Option<String>, UploadError> {
    if body.len() <= PART_BYTES {
        let options = PutOptions {
            attributes,
            ..PutOptions::default()
        };
        let put = client.put_opts(key, body.into(), options).await?;
        return Ok(put.e_tag);
    }
    let offsets = (0..body.len()).step_by(PART_BYTES);
    let chunks = offsets.map(|offset| Ok(body.slice(offset..body.len().min(offset + PART_BYTES))));
    let chunks: ByteStream = Box::pin(futures_util::stream::iter(chunks.collect::<Vec<_>>()));
    upload_parts(client, key, chunks, attributes).await
}

/// Uploads a body in parts; aborts the upload if the source fails.
pub(super) async fn upload_parts(
    client: &dyn ObjectStore,
    key: &Path,
    mut chunks: ByteStream,
    attributes: Attributes,
) -> Result<Option<String>, UploadError> {
    let options = PutMultipartOptions {
        attributes,
        ..PutMultipartOptions::default()
    };
    let upload = client.put_multipart_opts(key, options).await?;
    let mut writer = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
    let mut bytes = 0;
    let failure = loop {
        match chunks.try_next().await {
            Ok(Some(chunk)) => {
                bytes += chunk.len() as u64;
                writer.put(chunk);
            }
            Ok(None) => break None,
            Err(error) => break Some(UploadError::SourceUnreadable(error)),
        }
        if let Err(error) = writer.wait_for_capacity(PARTS_AT_ONCE).await {
            break Some(UploadError::Rejected(error));
        }
    };
    let Some(failure) = failure else {
        return match writer.finish().await {
            Ok(put) => Ok(put.e_tag),
            Err(error) => check_completed(client, key, bytes, error).await,
        };
    };
    if let Err(error) = writer.abort().await {
        tracing::debug!(%error, "failed to abort upload; a lifecycle rule of the bucket must delete its parts");
    }
    Err(failure)
}

/// If the upload is unknown, it may have completed and only the response was lost.
async fn check_completed(
    client: &dyn ObjectStore,
    key: &Path,
    bytes: u64,
    error: object_store::Error,
) -> Result<Option<String>, UploadError> {
    if !matches!(error, object_store::Error::NotFound { .. }) {
        return Err(error.into());
    }
    match client.head(key).await {
        Ok(object) if object.size == bytes => Ok(object.e_tag),
        _ => Err(UploadError::UploadLost(error)),
    }
}
