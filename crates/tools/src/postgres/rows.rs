//! Buffers the rows of a command as JSON text: in memory while they are small, then in an unnamed file.

use std::path::PathBuf;

use model::outcome::{ErrorKind, Outcome, Success, TaskError};
use results::{Keeper, SpoolFile};
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::io::{
    AsyncReadExt as _, AsyncSeekExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream,
};

use crate::call::{Call, not_kept, storage};
use crate::scratch;

/// Bytes to collect before writing to the file.
const PIECE_BYTES: usize = 256 * 1024;
/// Size of the buffer between the file and the result store.
const PIPE_BYTES: usize = 256 * 1024;
/// Memory limit for rows that cannot be streamed to a store.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Disk limit for rows that can be streamed.
const SPOOLED_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Buffer for the rows of all statements.
pub(super) struct Spool {
    /// Bytes that are not in the file yet.
    held: Vec<u8>,
    file: Option<SpoolFile>,
    held_bytes_max: usize,
    is_streaming: bool,
    dir: PathBuf,
}

/// Result of one statement.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) columns: Vec<String>,
    pub(super) row_count: u64,
    pub(super) affected_rows: u64,
    /// Position of its rows in the buffer.
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Spool {
    pub(super) fn new(call: &Call, dir: PathBuf) -> Self {
        let is_streaming = call.keeper.as_ref().is_some_and(Keeper::can_stream);
        Self {
            held: Vec::new(),
            file: None,
            held_bytes_max: if is_streaming {
                call.inline_bytes_max
            } else {
                HELD_BYTES_MAX
            },
            is_streaming,
            dir,
        }
    }

    /// Number of bytes so far.
    pub(super) fn position(&self) -> u64 {
        self.file.as_ref().map_or(0, SpoolFile::bytes) + self.held.len() as u64
    }

    /// Buffer to write a row to.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    /// Moves rows to the file if the memory limit is reached.
    pub(super) async fn settle(&mut self) -> Result<(), TaskError> {
        let room = if self.file.is_some() {
            PIECE_BYTES
        } else {
            self.held_bytes_max
        };
        if self.held.len() <= room {
            return Ok(());
        }
        if !self.is_streaming {
            return Err(too_large(HELD_BYTES_MAX as u64));
        }
        if self.position() > SPOOLED_BYTES_MAX {
            return Err(too_large(SPOOLED_BYTES_MAX));
        }
        self.write_out().await
    }

    /// Writes the buffered bytes to the file; waits for space if the disk is full.
    async fn write_out(&mut self) -> Result<(), TaskError> {
        if self.file.is_none() {
            let file = scratch::unnamed(&self.dir).map_err(|error| storage(&error))?;
            self.file = Some(SpoolFile::new(file, &self.dir));
        }
        let file = self.file.as_mut().expect("the file was created above");
        let held = std::mem::take(&mut self.held);
        let written = file.append(held.into()).await;
        written.map_err(|error| not_kept(&error))
    }

    /// Outcome of the whole command: inline, or a reference to a stored result.
    pub(super) async fn outcome(
        mut self,
        answers: &[Answer],
        keeper: Option<&Keeper>,
    ) -> Result<Outcome, TaskError> {
        let Some(keeper) = keeper.filter(|_| self.file.is_some()) else {
            let mut text = Vec::new();
            write(answers, &mut Source::Held(&self.held), &mut text)
                .await
                .map_err(|error| storage(&error))?;
            let result: Value =
                serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
            return Ok(Outcome::ok(result));
        };
        self.write_out().await?;
        let file = self.file.expect("the file exists, as checked above");
        let file = file.into_file().map(File::from_std);
        let mut file = file.map_err(|error| not_kept(&error))?;
        let (mut text, out) = tokio::io::duplex(PIPE_BYTES);
        // The reading end is dropped when storing ends, so that the writer does not block forever.
        let keeping = async move { keeper.keep(&mut text).await };
        let (written, kept) = tokio::join!(write_all(answers, &mut file, out), keeping);
        match (written, kept) {
            (_, Ok(reference)) => Ok(Outcome::Ok(Success {
                reference: Some(Box::new(reference)),
                ..Success::default()
            })),
            (Err(error), Err(_)) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(storage(&error))
            }
            (_, Err(error)) => Err(not_kept(&error)),
        }
    }
}

/// Where rows are read from.
enum Source<'a> {
    Held(&'a [u8]),
    File(&'a mut File),
}

async fn write_all(
    answers: &[Answer],
    file: &mut File,
    mut out: DuplexStream,
) -> std::io::Result<()> {
    write(answers, &mut Source::File(file), &mut out).await?;
    out.shutdown().await
}

/// Writes the result: the last statement with rows, then every statement.
async fn write(
    answers: &[Answer],
    source: &mut Source<'_>,
    out: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let last = answers
        .iter()
        .rev()
        .find(|answer| !answer.columns.is_empty());
    let affected: u64 = answers.iter().map(|answer| answer.affected_rows).sum();
    out.write_all(b"{").await?;
    if let Some(last) = last.or(answers.last()) {
        write_answer(last, affected, source, out).await?;
    }
    for (index, answer) in answers.iter().enumerate() {
        out.write_all(format!(",\"command_{index}\":{{").as_bytes())
            .await?;
        write_answer(answer, answer.affected_rows, source, out).await?;
        out.write_all(b"}").await?;
    }
    out.write_all(b"}").await
}

async fn write_answer(
    answer: &Answer,
    affected_rows: u64,
    source: &mut Source<'_>,
    out: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let (columns, count) = (json!(answer.columns), answer.row_count);
    let head = format!(
        "\"columns\":{columns},\"row_count\":{count},\"affected_rows\":{affected_rows},\"rows\":["
    );
    out.write_all(head.as_bytes()).await?;
    match source {
        Source::Held(text) => {
            let range = index(answer.start)..index(answer.end);
            out.write_all(&text[range]).await?;
        }
        Source::File(file) => {
            file.seek(std::io::SeekFrom::Start(answer.start)).await?;
            let mut rows = file.take(answer.end - answer.start);
            tokio::io::copy(&mut rows, out).await?;
        }
    }
    out.write_all(b"]").await
}

fn index(at: u64) -> usize {
    usize::try_from(at).expect("a position in memory fits usize")
}

fn too_large(bytes_max: u64) -> TaskError {
    let message =
        format!("rows exceed the limit of {bytes_max} bytes; select fewer rows or columns");
    TaskError::new(ErrorKind::Schema, "LIMIT_RESULT", message)
}

fn unreadable(error: &serde_json::Error) -> TaskError {
    let message = format!("cannot convert the rows to JSON: {error}; cast the column to text");
    TaskError::new(ErrorKind::Schema, "PG_RESULT", message)
}
