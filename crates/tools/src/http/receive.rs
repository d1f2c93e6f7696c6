//! Receives a response body: a small one into memory, a large one into an unnamed file, checking JSON and UTF-8 on the
//! way.

use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use model::outcome::{ErrorKind, TaskError};
use reqwest::Response;
use results::{NotJson, Scanner, SpaceWatch, SpoolFile};
use tokio::fs::File;

use crate::call::{not_kept, storage, timed_out};
use crate::http::client::sort;
use crate::scratch;

/// Size limits for a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// Maximum number of bytes kept in memory.
    pub(crate) held_bytes_max: usize,
    /// What to do with a larger body.
    pub(crate) more: More,
    /// Maximum time between two chunks; after it the read times out.
    pub(crate) read: Option<Duration>,
    /// Directory for spooled bodies.
    pub(crate) scratch_dir: &'a Path,
    /// Records whether a write had to wait for disk space.
    pub(crate) space: &'a SpaceWatch,
}

/// What to do with a body that exceeds the memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    /// Fail the call.
    Refuse,
    /// Stop reading; keep the beginning.
    LeaveOut,
    /// Spool the body to a file, up to this size.
    Spool(u64),
}

/// A received body.
pub(crate) enum Body {
    Held(Bytes),
    Spooled(Spool),
}

/// Body in a file.
pub(crate) struct Spool {
    file: SpoolFile,
    bytes: u64,
    json: Result<Scanner, NotJson>,
    utf8: Utf8,
}

/// Incremental UTF-8 check.
#[derive(Default)]
struct Utf8 {
    /// The first bytes of a character whose remaining bytes have not arrived.
    begun: Vec<u8>,
    is_broken: bool,
}

/// Reads a decompressed body within its limits.
pub(crate) async fn receive(mut response: Response, bounds: Bounds<'_>) -> Result<Body, TaskError> {
    let mut held = BytesMut::new();
    while let Some(chunk) = next(&mut response, bounds.read).await? {
        if held.len() + chunk.len() <= bounds.held_bytes_max {
            held.extend_from_slice(&chunk);
            continue;
        }
        match bounds.more {
            More::Refuse => return Err(too_large(bounds.held_bytes_max as u64)),
            More::LeaveOut => {
                let room = bounds.held_bytes_max - held.len();
                held.extend_from_slice(&chunk[..room]);
                break;
            }
            More::Spool(bytes_max) => {
                let mut spool = Spool::begin(bounds.scratch_dir, bounds.space)?;
                spool.take(held.freeze(), bytes_max).await?;
                spool.take(chunk, bytes_max).await?;
                while let Some(chunk) = next(&mut response, bounds.read).await? {
                    spool.take(chunk, bytes_max).await?;
                }
                return Ok(Body::Spooled(spool));
            }
        }
    }
    Ok(Body::Held(held.freeze()))
}

/// Reads a body into memory.
pub(crate) async fn read(response: Response, bytes_max: usize) -> Result<Bytes, TaskError> {
    let bounds = Bounds {
        held_bytes_max: bytes_max,
        more: More::Refuse,
        read: None,
        scratch_dir: Path::new(""),
        space: &SpaceWatch::default(),
    };
    match receive(response, bounds).await? {
        Body::Held(body) => Ok(body),
        Body::Spooled(_) => unreachable!("a larger body was rejected"),
    }
}

async fn next(response: &mut Response, read: Option<Duration>) -> Result<Option<Bytes>, TaskError> {
    let next = response.chunk();
    let chunk = match read {
        None => next.await,
        Some(limit) => tokio::time::timeout(limit, next)
            .await
            .map_err(|_| timed_out(limit).with("phase", "read"))?,
    };
    chunk.map_err(|error| sort(&error))
}

impl Spool {
    /// Creates an unnamed file in `dir`.
    pub(crate) fn begin(dir: &Path, space: &SpaceWatch) -> Result<Self, TaskError> {
        let file = scratch::unnamed(dir).map_err(|error| storage(&error))?;
        Ok(Self {
            file: SpoolFile::new(file, dir).watched(space),
            bytes: 0,
            // The body will be nested one level deep, under `data`.
            json: Ok(Scanner::nested(1)),
            utf8: Utf8::default(),
        })
    }

    /// Appends bytes, up to a total of `bytes_max`. Waits for space if the disk is full.
    pub(crate) async fn take(&mut self, bytes: Bytes, bytes_max: u64) -> Result<(), TaskError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > bytes_max {
            return Err(too_large(bytes_max));
        }
        if let Ok(scanner) = &mut self.json
            && let Err(broken) = scanner.feed(&bytes)
        {
            self.json = Err(broken);
        }
        self.utf8.take(&bytes);
        let written = self.file.append(bytes).await;
        written.map_err(|error| not_kept(&error))
    }

    /// Checks whether the whole body is JSON.
    pub(crate) fn json(&self) -> Result<(), NotJson> {
        self.json.as_ref().map_err(|broken| *broken)?.finish()
    }

    /// Whether the whole body is UTF-8.
    pub(crate) fn is_utf8(&self) -> bool {
        !self.utf8.is_broken && self.utf8.begun.is_empty()
    }

    /// Returns the file, positioned at its start.
    pub(crate) fn into_file(self) -> Result<File, TaskError> {
        let file = self.file.into_file();
        file.map(File::from_std).map_err(|error| not_kept(&error))
    }
}

impl Utf8 {
    fn take(&mut self, bytes: &[u8]) {
        if self.is_broken {
            return;
        }
        let mut rest = bytes;
        while !self.begun.is_empty() && !rest.is_empty() {
            self.begun.push(rest[0]);
            rest = &rest[1..];
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) if error.error_len().is_some() => self.is_broken = true,
                Err(_) => {}
            }
            if self.is_broken {
                return;
            }
        }
        if let Err(error) = std::str::from_utf8(rest) {
            self.is_broken = error.error_len().is_some();
            self.begun = rest[error.valid_up_to()..].to_vec();
        }
    }
}

fn too_large(bytes_max: u64) -> TaskError {
    let message = format!("response body exceeds the limit of {bytes_max} bytes");
    TaskError::new(ErrorKind::Schema, "HTTP_BODY_TOO_LARGE", message)
}
