//! Files and objects: rows are encoded as they arrive; the target becomes visible when it is complete.

use std::path::{Path, PathBuf};

use model::outcome::{ErrorKind, TaskError};
use tokio::io::{AsyncWriteExt as _, DuplexStream};

use super::encode::Writer;
use super::flow::{Inlet, Totals};
use super::plan::Format;
use crate::call::storage;
use crate::objects::{Content, Place, open, put};
use crate::scratch;

/// Size of the buffer between encoder and upload.
const PIPE_BYTES: usize = 256 * 1024;

/// Writes all chunks to a file or an object.
pub(super) async fn write(
    place: &Place,
    format: Format,
    mut inlet: Inlet,
) -> Result<Totals, TaskError> {
    let (read, pipe) = tokio::io::duplex(PIPE_BYTES);
    let (send, ended) = tokio::sync::oneshot::channel();
    let body = Whole {
        pipe: read,
        ended: Some(ended),
    };
    let content = Content::Stream(Box::new(body), Some(content_type(format)));
    let sending = put(place, content, None);
    let encoding = async {
        let encoded = encode(pipe, format, &mut inlet).await;
        // The upload must know whether the stream is complete.
        let _ = send.send(encoded.is_ok());
        encoded
    };
    let (stored, encoded) = tokio::join!(sending, encoding);
    match (encoded, stored) {
        (Err(error), _) if error.code != "TRANSFER_TARGET" => Err(error),
        (_, Err(error)) | (Err(error), Ok(_)) => Err(error),
        (Ok(()), Ok(_)) => Ok(inlet.totals),
    }
}

async fn encode(
    mut pipe: DuplexStream,
    format: Format,
    inlet: &mut Inlet,
) -> Result<(), TaskError> {
    let gone = |error: std::io::Error| {
        TaskError::new(
            ErrorKind::Storage,
            "TRANSFER_TARGET",
            format!("cannot write to the target: {error}"),
        )
    };
    let mut writer = Writer::new(format);
    let mut out = Vec::new();
    while let Some(batch) = inlet.next().await? {
        out.clear();
        writer.write(&batch, &mut out);
        pipe.write_all(&out).await.map_err(gone)?;
    }
    out.clear();
    writer.finish(&mut out);
    pipe.write_all(&out).await.map_err(gone)?;
    pipe.shutdown().await.map_err(gone)
}

/// A reader that ends with an error unless the stream was completed.
struct Whole {
    pipe: DuplexStream,
    ended: Option<tokio::sync::oneshot::Receiver<bool>>,
}

impl tokio::io::AsyncRead for Whole {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        use std::task::{Poll, ready};
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(std::pin::Pin::new(&mut this.pipe).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            return Poll::Ready(Ok(()));
        }
        let Some(ended) = &mut this.ended else {
            return Poll::Ready(Ok(()));
        };
        let is_whole = ready!(std::pin::Pin::new(ended).poll(context)).unwrap_or(false);
        this.ended = None;
        Poll::Ready(if is_whole {
            Ok(())
        } else {
            Err(std::io::ErrorKind::UnexpectedEof.into())
        })
    }
}

fn content_type(format: Format) -> &'static str {
    match format {
        Format::Csv => "text/csv; charset=utf-8",
        Format::Ndjson => "application/x-ndjson",
        Format::Json => "application/json",
        Format::Parquet => "application/vnd.apache.parquet",
    }
}

/// Local file with the content of a location: the file itself, or a temporary copy that the guard deletes.
pub(super) async fn fetched(
    place: &Place,
    scratch: &Path,
) -> Result<(PathBuf, Option<tempfile::TempPath>), TaskError> {
    if let Place::File(file) = place {
        return Ok((file.clone(), None));
    }
    let opened = open(place, None).await?;
    let draft = draft(scratch)?;
    let copied = async {
        let mut reader = tokio_util::io::StreamReader::new(opened.pieces);
        let mut out = tokio::fs::File::create(&draft).await?;
        tokio::io::copy(&mut reader, &mut out).await?;
        out.flush().await
    };
    copied.await.map_err(|error| storage(&error))?;
    Ok((draft.to_path_buf(), Some(draft)))
}

/// Copies a local file to its location.
pub(super) async fn sent(file: &Path, place: &Place, format: Format) -> Result<(), TaskError> {
    let opened = tokio::fs::File::open(file)
        .await
        .map_err(|error| storage(&error))?;
    let content = Content::Stream(Box::new(opened), Some(content_type(format)));
    put(place, content, None).await.map(drop)
}

/// Path of a temporary file that the guard deletes.
pub(super) fn draft(dir: &Path) -> Result<tempfile::TempPath, TaskError> {
    let made = scratch::named(dir, "transfer-").map_err(|error| storage(&error))?;
    Ok(made.into_temp_path())
}
