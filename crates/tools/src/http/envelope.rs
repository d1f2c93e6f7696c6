//! Writes the result of a call as JSON around a body that is never loaded whole.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::outcome::TaskError;
use model::result_ref::ResultRef;
use results::ResultWriter;
use serde_json::{Map, Value};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::call::{scratch_error, store_error};
use crate::http::receive::SpooledBody;

/// Bytes read at a time: a multiple of three, so that the base64 of the chunks joins without padding.
const READ_BYTES: usize = 192 * 1024;

/// Size of the buffer between the reader of the body and the result store.
const PIPE_BYTES: usize = 256 * 1024;

/// Encoding of the body in the JSON result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEncoding {
    /// Unchanged, because it is JSON.
    Json,
    /// A string; invalid UTF-8 is replaced.
    Text,
    /// A string with one character per byte.
    Latin1,
    /// A base64 string.
    Base64,
}

/// Fields before and after `data`.
pub struct EnvelopeFields {
    pub before: Map<String, Value>,
    pub after: Map<String, Value>,
}

/// Stores the result with a body from a file.
pub async fn store_envelope(
    fields: EnvelopeFields,
    encoding: BodyEncoding,
    spool: SpooledBody,
    writer: &ResultWriter,
) -> Result<ResultRef, TaskError> {
    let body = spool.into_file()?;
    let (mut text, out) = tokio::io::duplex(PIPE_BYTES);
    // The reading end is dropped when storing ends, so that the writer does not block forever.
    let keeping = async move { writer.write(&mut text).await };
    let (written, stored) = tokio::join!(write_envelope(fields, encoding, body, out), keeping);
    match (written, stored) {
        (_, Ok(reference)) => Ok(reference),
        (Err(error), Err(_)) if error.kind() != io::ErrorKind::BrokenPipe => Err(scratch_error(&error)),
        (_, Err(error)) => Err(store_error(&error)),
    }
}

/// Writes the whole JSON result.
async fn write_envelope(
    fields: EnvelopeFields,
    encoding: BodyEncoding,
    body: File,
    mut out: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let before = Value::Object(fields.before).to_string();
    let after = Value::Object(fields.after).to_string();
    let open = before.strip_suffix('}').unwrap_or(&before);
    let tail = after.strip_prefix('{').unwrap_or(&after);
    let quote = if encoding == BodyEncoding::Json { "" } else { "\"" };
    out.write_all(format!("{open},\"data\":{quote}").as_bytes()).await?;
    write_body(encoding, body, &mut out).await?;
    let comma = if tail == "}" { "" } else { "," };
    out.write_all(format!("{quote}{comma}{tail}").as_bytes()).await?;
    out.shutdown().await
}

async fn write_body(encoding: BodyEncoding, mut body: File, out: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut chunk = Vec::with_capacity(READ_BYTES);
    let mut is_first = true;
    loop {
        let available = (READ_BYTES - chunk.len()) as u64;
        let read = (&mut body).take(available).read_to_end(&mut chunk).await?;
        let is_last = read == 0;
        let used = match encoding {
            BodyEncoding::Json => {
                out.write_all(&chunk).await?;
                chunk.len()
            }
            BodyEncoding::Base64 => {
                out.write_all(STANDARD.encode(&chunk).as_bytes()).await?;
                chunk.len()
            }
            BodyEncoding::Latin1 => {
                let text: String = chunk.iter().map(|byte| char::from(*byte)).collect();
                out.write_all(&escape_json(&text)).await?;
                chunk.len()
            }
            BodyEncoding::Text => {
                let mark: &[u8] = if is_first { b"\xef\xbb\xbf" } else { b"" };
                let skipped = if chunk.starts_with(mark) { mark.len() } else { 0 };
                let (text, used) = decode_lossy(&chunk[skipped..], is_last);
                out.write_all(&escape_json(&text)).await?;
                skipped + used
            }
        };
        chunk.drain(..used);
        is_first = false;
        if is_last {
            return Ok(());
        }
    }
}

/// Decodes bytes to text and returns how many were used; an incomplete character at the end waits for the next chunk.
fn decode_lossy(bytes: &[u8], is_last: bool) -> (String, usize) {
    let mut text = String::with_capacity(bytes.len());
    let mut used = 0;
    for part in bytes.utf8_chunks() {
        text.push_str(part.valid());
        used += part.valid().len();
        let broken = part.invalid();
        let is_incomplete = std::str::from_utf8(broken).is_err_and(|error| error.error_len().is_none());
        if is_incomplete && !is_last && used + broken.len() == bytes.len() {
            break;
        }
        if !broken.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            used += broken.len();
        }
    }
    (text, used)
}

/// Escapes text for a JSON string, without the quotes.
fn escape_json(text: &str) -> Vec<u8> {
    let mut quoted = Value::from(text).to_string().into_bytes();
    quoted.pop();
    quoted.drain(..1);
    quoted
}
