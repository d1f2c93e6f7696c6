//! Receives a response body: a small one into memory, a large one into an unnamed file, checking JSON and UTF-8 on the
//! way.

use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use model::outcome::{ErrorKind, TaskError};
use reqwest::Response;
use results::{JsonScanError, JsonScanner, SpaceWatch, SpoolFile};
use tokio::fs::File;

use crate::call::{scratch_error, store_error, timeout_error};
use crate::http::client::classify_error;
use crate::http::envelope::BodyEncoding;
use crate::scratch_files;

/// Size limits for a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits<'a> {
    /// Maximum number of bytes kept in memory.
    pub(crate) memory_bytes_max: usize,
    /// What to do with a larger body.
    pub(crate) oversize_policy: OversizePolicy,
    /// Maximum time between two chunks; after it the read times out.
    pub(crate) read_timeout: Option<Duration>,
    /// Directory for spooled bodies.
    pub(crate) scratch_dir: &'a Path,
    /// Records whether a write had to wait for disk space.
    pub(crate) space_watch: &'a SpaceWatch,
}

/// What to do with a body that exceeds the memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OversizePolicy {
    /// Fail the call.
    Refuse,
    /// Stop reading; keep the beginning.
    Truncate,
    /// Spool the body to a file, up to this size.
    Spool(u64),
}

/// A received body.
pub(crate) enum ReceivedBody {
    InMemory(Bytes),
    Spooled(SpooledBody),
}

/// Body in a file.
pub struct SpooledBody {
    file: SpoolFile,
    bytes: u64,
    json_scan: Result<JsonScanner, JsonScanError>,
    utf8: Utf8Check,
}

/// Incremental UTF-8 check.
#[derive(Default)]
struct Utf8Check {
    /// The first bytes of a character whose remaining bytes have not arrived.
    partial_character: Vec<u8>,
    is_invalid: bool,
}

/// Reads a decompressed body within its limits.
pub(crate) async fn receive_body(mut response: Response, limits: BodyLimits<'_>) -> Result<ReceivedBody, TaskError> {
    let mut buffer = BytesMut::new();
    while let Some(chunk) = next_chunk(&mut response, limits.read_timeout).await? {
        if buffer.len() + chunk.len() <= limits.memory_bytes_max {
            buffer.extend_from_slice(&chunk);
            continue;
        }
        match limits.oversize_policy {
            OversizePolicy::Refuse => {
                return Err(response_too_large_error(limits.memory_bytes_max as u64));
            }
            OversizePolicy::Truncate => {
                let available = limits.memory_bytes_max - buffer.len();
                buffer.extend_from_slice(&chunk[..available]);
                break;
            }
            OversizePolicy::Spool(bytes_max) => {
                let mut spool = SpooledBody::create(limits.scratch_dir, limits.space_watch)?;
                spool.append(buffer.freeze(), bytes_max).await?;
                spool.append(chunk, bytes_max).await?;
                while let Some(chunk) = next_chunk(&mut response, limits.read_timeout).await? {
                    spool.append(chunk, bytes_max).await?;
                }
                return Ok(ReceivedBody::Spooled(spool));
            }
        }
    }
    Ok(ReceivedBody::InMemory(buffer.freeze()))
}

/// Reads a body into memory.
pub(crate) async fn read_bytes(response: Response, bytes_max: usize) -> Result<Bytes, TaskError> {
    let limits = BodyLimits {
        memory_bytes_max: bytes_max,
        oversize_policy: OversizePolicy::Refuse,
        read_timeout: None,
        scratch_dir: Path::new(""),
        space_watch: &SpaceWatch::default(),
    };
    match receive_body(response, limits).await? {
        ReceivedBody::InMemory(body) => Ok(body),
        ReceivedBody::Spooled(_) => unreachable!("a larger body was rejected"),
    }
}

async fn next_chunk(response: &mut Response, read: Option<Duration>) -> Result<Option<Bytes>, TaskError> {
    let next = response.chunk();
    let chunk = match read {
        None => next.await,
        Some(limit) => tokio::time::timeout(limit, next)
            .await
            .map_err(|_| timeout_error(limit).with_detail("phase", "read"))?,
    };
    chunk.map_err(|error| classify_error(&error))
}

impl SpooledBody {
    /// Creates an unnamed file in `dir`.
    pub fn create(dir: &Path, space: &SpaceWatch) -> Result<Self, TaskError> {
        let file = scratch_files::create_unnamed_file(dir).map_err(|error| scratch_error(&error))?;
        Ok(Self {
            file: SpoolFile::new(file, dir).with_watch(space),
            bytes: 0,
            // The body will be nested one level deep, under `data`.
            json_scan: Ok(JsonScanner::with_depth(1)),
            utf8: Utf8Check::default(),
        })
    }

    /// Appends bytes, up to a total of `bytes_max`. Waits for space if the disk is full.
    pub async fn append(&mut self, bytes: Bytes, bytes_max: u64) -> Result<(), TaskError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > bytes_max {
            return Err(response_too_large_error(bytes_max));
        }
        if let Ok(scanner) = &mut self.json_scan
            && let Err(broken) = scanner.feed(&bytes)
        {
            self.json_scan = Err(broken);
        }
        self.utf8.feed(&bytes);
        let written = self.file.append(bytes).await;
        written.map_err(|error| store_error(&error))
    }

    /// Checks whether the whole body is JSON.
    pub fn check_json(&self) -> Result<(), JsonScanError> {
        self.json_scan.as_ref().map_err(|broken| *broken)?.finish()
    }

    /// Whether the whole body is UTF-8.
    pub fn is_utf8(&self) -> bool {
        !self.utf8.is_invalid && self.utf8.partial_character.is_empty()
    }

    /// Encoding by content: JSON, else text if it is UTF-8, else base64.
    pub fn detect_encoding(&self) -> BodyEncoding {
        if self.check_json().is_ok() {
            BodyEncoding::Json
        } else if self.is_utf8() {
            BodyEncoding::Text
        } else {
            BodyEncoding::Base64
        }
    }

    /// Returns the file, positioned at its start.
    pub fn into_file(self) -> Result<File, TaskError> {
        let file = self.file.into_file();
        file.map(File::from_std).map_err(|error| store_error(&error))
    }
}

impl Utf8Check {
    fn feed(&mut self, bytes: &[u8]) {
        if self.is_invalid {
            return;
        }
        let mut tail = bytes;
        while !self.partial_character.is_empty() && !tail.is_empty() {
            self.partial_character.push(tail[0]);
            tail = &tail[1..];
            match std::str::from_utf8(&self.partial_character) {
                Ok(_) => self.partial_character.clear(),
                Err(error) if error.error_len().is_some() => self.is_invalid = true,
                Err(_) => {}
            }
            if self.is_invalid {
                return;
            }
        }
        if let Err(error) = std::str::from_utf8(tail) {
            self.is_invalid = error.error_len().is_some();
            self.partial_character = tail[error.valid_up_to()..].to_vec();
        }
    }
}

fn response_too_large_error(bytes_max: u64) -> TaskError {
    let message = format!("response body exceeds the limit of {bytes_max} bytes");
    TaskError::new(ErrorKind::Schema, "HTTP_BODY_TOO_LARGE", message)
}
