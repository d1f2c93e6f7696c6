//! Sending a body: in one request while small, else in parts of which nothing is seen before the last.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{
    Attributes, ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, WriteMultipart,
};

use crate::Pieces;

/// The size of every part but the last; a body up to this size is one request.
pub(super) const PART_BYTES: usize = 8 * 1024 * 1024;
/// So many parts are on their way at once.
const PARTS_AT_ONCE: usize = 3;

/// Why a body was not sent.
pub(super) enum Unsent {
    /// The bucket refused.
    Fault(object_store::Error),
    /// The bucket has forgotten what was sent.
    Lost(object_store::Error),
    /// The body could not be read.
    Source(std::io::Error),
}

impl From<object_store::Error> for Unsent {
    fn from(fault: object_store::Error) -> Self {
        Self::Fault(fault)
    }
}

/// Sends a body that is in memory; the bucket's tag of it comes back.
pub(super) async fn whole(
    client: &dyn ObjectStore,
    key: &Path,
    body: Bytes,
    attributes: Attributes,
) -> Result<Option<String>, Unsent> {
    if body.len() <= PART_BYTES {
        let options = PutOptions {
            attributes,
            ..PutOptions::default()
        };
        let put = client.put_opts(key, body.into(), options).await?;
        return Ok(put.e_tag);
    }
    let begin = (0..body.len()).step_by(PART_BYTES);
    let pieces = begin.map(|at| Ok(body.slice(at..body.len().min(at + PART_BYTES))));
    let pieces: Pieces = Box::pin(futures_util::stream::iter(pieces.collect::<Vec<_>>()));
    parts(client, key, pieces, attributes).await
}

/// Sends a body in parts; those of a body that broke off are taken back.
pub(super) async fn parts(
    client: &dyn ObjectStore,
    key: &Path,
    mut pieces: Pieces,
    attributes: Attributes,
) -> Result<Option<String>, Unsent> {
    let options = PutMultipartOptions {
        attributes,
        ..PutMultipartOptions::default()
    };
    let upload = client.put_multipart_opts(key, options).await?;
    let mut writer = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
    let mut bytes = 0;
    let broken = loop {
        match pieces.try_next().await {
            Ok(Some(piece)) => {
                bytes += piece.len() as u64;
                writer.put(piece);
            }
            Ok(None) => break None,
            Err(error) => break Some(Unsent::Source(error)),
        }
        if let Err(fault) = writer.wait_for_capacity(PARTS_AT_ONCE).await {
            break Some(Unsent::Fault(fault));
        }
    };
    let Some(broken) = broken else {
        return match writer.finish().await {
            Ok(put) => Ok(put.e_tag),
            Err(fault) => finished(client, key, bytes, fault).await,
        };
    };
    if let Err(error) = writer.abort().await {
        tracing::debug!(%error, "parts of a body are left for the bucket's lifecycle rule");
    }
    Err(broken)
}

/// An upload that is not known any more may be one whose last answer was lost.
async fn finished(
    client: &dyn ObjectStore,
    key: &Path,
    bytes: u64,
    fault: object_store::Error,
) -> Result<Option<String>, Unsent> {
    if !matches!(fault, object_store::Error::NotFound { .. }) {
        return Err(fault.into());
    }
    match client.head(key).await {
        Ok(found) if found.size == bytes => Ok(found.e_tag),
        _ => Err(Unsent::Lost(fault)),
    }
}
