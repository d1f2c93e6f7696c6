//! Files and objects: rows are encoded as they arrive; the target becomes visible when it is complete.

use std::path::{Path, PathBuf};

use model::outcome::{ErrorKind, TaskError};
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tools::objects::{ObjectContent, ObjectLocation, open_object, put_content};
use tools::{create_named_file, scratch_error};

use super::encode::RowEncoder;
use super::flow::{RowReceiver, TransferTotals};
use super::options::FileFormat;

/// Size of the buffer between encoder and upload.
const PIPE_BYTES: usize = 256 * 1024;

/// Writes all chunks to a file or an object.
pub(super) async fn write_file(
    location: &ObjectLocation,
    format: FileFormat,
    mut receiver: RowReceiver,
) -> Result<TransferTotals, TaskError> {
    let (read, pipe) = tokio::io::duplex(PIPE_BYTES);
    let (send, ended) = tokio::sync::oneshot::channel();
    let body = CompleteReader {
        pipe: read,
        completion: Some(ended),
    };
    let content = ObjectContent::Stream(Box::new(body), Some(content_type(format)));
    let sending = put_content(location, content, None);
    let encoding = async {
        let encoded = encode_rows(pipe, format, &mut receiver).await;
        // The upload must know whether the stream is complete.
        let _ = send.send(encoded.is_ok());
        encoded
    };
    let (stored, encoded) = tokio::join!(sending, encoding);
    match (encoded, stored) {
        (Err(error), _) if error.code != "TRANSFER_TARGET" => Err(error),
        (_, Err(error)) | (Err(error), Ok(_)) => Err(error),
        (Ok(()), Ok(_)) => Ok(receiver.totals),
    }
}

async fn encode_rows(mut pipe: DuplexStream, format: FileFormat, receiver: &mut RowReceiver) -> Result<(), TaskError> {
    let pipe_error = |error: std::io::Error| {
        TaskError::new(
            ErrorKind::Storage,
            "TRANSFER_TARGET",
            format!("cannot write to the target: {error}"),
        )
    };
    let mut writer = RowEncoder::new(format);
    let mut out = Vec::new();
    while let Some(batch) = receiver.next().await? {
        out.clear();
        writer.write(&batch, &mut out);
        pipe.write_all(&out).await.map_err(pipe_error)?;
    }
    out.clear();
    writer.finish(&mut out);
    pipe.write_all(&out).await.map_err(pipe_error)?;
    pipe.shutdown().await.map_err(pipe_error)
}

/// A reader that ends with an error unless the stream was completed.
struct CompleteReader {
    pipe: DuplexStream,
    completion: Option<tokio::sync::oneshot::Receiver<bool>>,
}

impl tokio::io::AsyncRead for CompleteReader {
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
        let Some(ended) = &mut this.completion else {
            return Poll::Ready(Ok(()));
        };
        let is_whole = ready!(std::pin::Pin::new(ended).poll(context)).unwrap_or(false);
        this.completion = None;
        Poll::Ready(if is_whole {
            Ok(())
        } else {
            Err(std::io::ErrorKind::UnexpectedEof.into())
        })
    }
}

fn content_type(format: FileFormat) -> &'static str {
    match format {
        FileFormat::Csv => "text/csv; charset=utf-8",
        FileFormat::Ndjson => "application/x-ndjson",
        FileFormat::Json => "application/json",
        FileFormat::Parquet => "application/vnd.apache.parquet",
    }
}

/// Local file with the content of a location: the file itself, or a temporary copy that the guard deletes.
pub(super) async fn fetch_file(
    location: &ObjectLocation,
    scratch: &Path,
) -> Result<(PathBuf, Option<tempfile::TempPath>), TaskError> {
    if let ObjectLocation::File(file) = location {
        return Ok((file.clone(), None));
    }
    let opened = open_object(location, None).await?;
    let draft = create_temp_path(scratch)?;
    let copied = async {
        let mut reader = tokio_util::io::StreamReader::new(opened.chunks);
        let mut out = tokio::fs::File::create(&draft).await?;
        tokio::io::copy(&mut reader, &mut out).await?;
        out.flush().await
    };
    copied.await.map_err(|error| scratch_error(&error))?;
    Ok((draft.to_path_buf(), Some(draft)))
}

/// Copies a local file to its location.
pub(super) async fn send_file(file: &Path, location: &ObjectLocation, format: FileFormat) -> Result<(), TaskError> {
    let opened = tokio::fs::File::open(file)
        .await
        .map_err(|error| scratch_error(&error))?;
    let content = ObjectContent::Stream(Box::new(opened), Some(content_type(format)));
    put_content(location, content, None).await.map(drop)
}

/// Path of a temporary file that the guard deletes.
pub(super) fn create_temp_path(dir: &Path) -> Result<tempfile::TempPath, TaskError> {
    let file = create_named_file(dir, "transfer-").map_err(|error| scratch_error(&error))?;
    Ok(file.into_temp_path())
}
