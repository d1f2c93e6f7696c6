//! Buffers the rows of a command as JSON text: in memory while they are small, then in an unnamed file.

use std::path::PathBuf;

use model::outcome::{ErrorKind, Outcome, TaskError};
use results::{ResultWriter, SpoolFile};
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};

use crate::call::{Call, scratch_error, store_error, stored_outcome};
use crate::scratch_files;

/// Bytes to collect before writing to the file.
const FLUSH_BYTES: usize = 256 * 1024;
/// Size of the buffer between the file and the result store.
const PIPE_BYTES: usize = 256 * 1024;
/// Memory limit for rows that cannot be streamed to a store.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Disk limit for rows that can be streamed.
const SPOOLED_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Buffer for the rows of all statements.
pub(super) struct RowSpool {
    /// Bytes that are not in the file yet.
    pending: Vec<u8>,
    file: Option<SpoolFile>,
    buffered_bytes_max: usize,
    is_streaming: bool,
    dir: PathBuf,
}

/// Result of one statement.
#[derive(Debug)]
pub(super) struct StatementAnswer {
    pub(super) columns: Vec<String>,
    pub(super) row_count: u64,
    pub(super) affected_rows: u64,
    /// Position of its rows in the buffer.
    pub(super) start: u64,
    pub(super) end: u64,
}

impl RowSpool {
    pub(super) fn new(call: &Call, dir: PathBuf) -> Self {
        let is_streaming = call.result_writer.as_ref().is_some_and(ResultWriter::can_stream);
        Self {
            pending: Vec::new(),
            file: None,
            buffered_bytes_max: if is_streaming {
                call.inline_bytes_max
            } else {
                BUFFERED_BYTES_MAX
            },
            is_streaming,
            dir,
        }
    }

    /// Number of bytes so far.
    pub(super) fn position(&self) -> u64 {
        self.file.as_ref().map_or(0, SpoolFile::bytes) + self.pending.len() as u64
    }

    /// Buffer to write a row to.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Moves rows to the file if the memory limit is reached.
    pub(super) async fn flush_if_full(&mut self) -> Result<(), TaskError> {
        let bytes_max = if self.file.is_some() {
            FLUSH_BYTES
        } else {
            self.buffered_bytes_max
        };
        if self.pending.len() <= bytes_max {
            return Ok(());
        }
        if !self.is_streaming {
            return Err(rows_too_large_error(BUFFERED_BYTES_MAX as u64));
        }
        if self.position() > SPOOLED_BYTES_MAX {
            return Err(rows_too_large_error(SPOOLED_BYTES_MAX));
        }
        self.flush().await
    }

    /// Writes the buffered bytes to the file; waits for space if the disk is full.
    async fn flush(&mut self) -> Result<(), TaskError> {
        if self.file.is_none() {
            let file = scratch_files::create_unnamed_file(&self.dir).map_err(|error| scratch_error(&error))?;
            self.file = Some(SpoolFile::new(file, &self.dir));
        }
        let file = self.file.as_mut().expect("the file was created above");
        let pending = std::mem::take(&mut self.pending);
        let written = file.append(pending.into()).await;
        written.map_err(|error| store_error(&error))
    }

    /// Outcome of the whole command: inline, or a reference to a stored result.
    pub(super) async fn into_outcome(
        mut self,
        answers: &[StatementAnswer],
        writer: Option<&ResultWriter>,
    ) -> Result<Outcome, TaskError> {
        let Some(writer) = writer.filter(|_| self.file.is_some()) else {
            let mut text = Vec::new();
            write_result(answers, &mut RowSource::Memory(&self.pending), &mut text)
                .await
                .map_err(|error| scratch_error(&error))?;
            let result: Value = serde_json::from_slice(&text).map_err(|error| unreadable_error(&error))?;
            return Ok(Outcome::ok(result));
        };
        self.flush().await?;
        let file = self.file.expect("the file exists, as checked above");
        let file = file.into_file().map(File::from_std);
        let mut file = file.map_err(|error| store_error(&error))?;
        let (mut text, out) = tokio::io::duplex(PIPE_BYTES);
        // The reading end is dropped when storing ends, so that the writer does not block forever.
        let keeping = async move { writer.write(&mut text).await };
        let (written, stored) = tokio::join!(write_all(answers, &mut file, out), keeping);
        match (written, stored) {
            (_, Ok(reference)) => Ok(stored_outcome(reference)),
            (Err(error), Err(_)) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(scratch_error(&error)),
            (_, Err(error)) => Err(store_error(&error)),
        }
    }
}

/// Where rows are read from.
enum RowSource<'a> {
    Memory(&'a [u8]),
    File(&'a mut File),
}

async fn write_all(answers: &[StatementAnswer], file: &mut File, mut out: DuplexStream) -> std::io::Result<()> {
    write_result(answers, &mut RowSource::File(file), &mut out).await?;
    out.shutdown().await
}

/// Writes the result: the last statement with rows, then every statement.
async fn write_result(
    answers: &[StatementAnswer],
    source: &mut RowSource<'_>,
    out: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let last = answers.iter().rev().find(|answer| !answer.columns.is_empty());
    let affected: u64 = answers.iter().map(|answer| answer.affected_rows).sum();
    out.write_all(b"{").await?;
    if let Some(last) = last.or(answers.last()) {
        write_answer(last, affected, source, out).await?;
    }
    for (index, answer) in answers.iter().enumerate() {
        out.write_all(format!(",\"command_{index}\":{{").as_bytes()).await?;
        write_answer(answer, answer.affected_rows, source, out).await?;
        out.write_all(b"}").await?;
    }
    out.write_all(b"}").await
}

async fn write_answer(
    answer: &StatementAnswer,
    affected_rows: u64,
    source: &mut RowSource<'_>,
    out: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let (columns, count) = (json!(answer.columns), answer.row_count);
    let head = format!("\"columns\":{columns},\"row_count\":{count},\"affected_rows\":{affected_rows},\"rows\":[");
    out.write_all(head.as_bytes()).await?;
    match source {
        RowSource::Memory(text) => {
            let range = to_index(answer.start)..to_index(answer.end);
            out.write_all(&text[range]).await?;
        }
        RowSource::File(file) => {
            file.seek(std::io::SeekFrom::Start(answer.start)).await?;
            let mut rows = file.take(answer.end - answer.start);
            tokio::io::copy(&mut rows, out).await?;
        }
    }
    out.write_all(b"]").await
}

fn to_index(position: u64) -> usize {
    usize::try_from(position).expect("a position in memory fits usize")
}

fn rows_too_large_error(bytes_max: u64) -> TaskError {
    let message = format!("rows exceed the limit of {bytes_max} bytes; select fewer rows or columns");
    TaskError::new(ErrorKind::Schema, "LIMIT_RESULT", message)
}

fn unreadable_error(error: &serde_json::Error) -> TaskError {
    let message = format!("cannot convert the rows to JSON: {error}; cast the column to text");
    TaskError::new(ErrorKind::Schema, "PG_RESULT", message)
}
