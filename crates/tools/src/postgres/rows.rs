//! The rows of a command as JSON text: held while they are small, in a file without a name once they are not.

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

/// What is collected before it is written to the file.
const PIECE_BYTES: usize = 256 * 1024;
/// What is between the file and the store of bodies.
const PIPE_BYTES: usize = 256 * 1024;
/// Rows that cannot pass into a store may take so much memory.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Rows that can may take so much of the disk.
const SPOOLED_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Takes the rows of one statement after the other.
pub(super) struct Spool {
    /// What is not yet in the file.
    held: Vec<u8>,
    file: Option<SpoolFile>,
    held_bytes_max: usize,
    is_streaming: bool,
    dir: PathBuf,
}

/// What one statement answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) columns: Vec<String>,
    pub(super) row_count: u64,
    pub(super) affected_rows: u64,
    /// Where its rows are in the spool.
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

    /// How many bytes came so far.
    pub(super) fn position(&self) -> u64 {
        self.file.as_ref().map_or(0, SpoolFile::bytes) + self.held.len() as u64
    }

    /// Where a row is written to.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    /// Makes room after a row.
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

    /// Moves what is held to the file; where the disk is full, this waits for space.
    async fn write_out(&mut self) -> Result<(), TaskError> {
        if self.file.is_none() {
            let file = scratch::unnamed(&self.dir).map_err(|error| storage(&error))?;
            self.file = Some(SpoolFile::new(file, &self.dir));
        }
        let file = self.file.as_mut().expect("the rows have a file");
        let held = std::mem::take(&mut self.held);
        let written = file.append(held.into()).await;
        written.map_err(|error| not_kept(&error))
    }

    /// The outcome of the whole command: held, or by reference to a body that is durable.
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
        let file = self.file.expect("the rows are in a file");
        let file = file.into_file().map(File::from_std);
        let mut file = file.map_err(|error| not_kept(&error))?;
        let (mut text, out) = tokio::io::duplex(PIPE_BYTES);
        // The text is dropped with the keeping, so that a writer nobody reads does not wait for ever.
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

/// Writes the result: what the last statement with rows answered, then what each did.
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
    usize::try_from(at).expect("what is held can be counted")
}

fn too_large(bytes_max: u64) -> TaskError {
    let message = format!("the rows are larger than {bytes_max} bytes; select less");
    TaskError::new(ErrorKind::Schema, "LIMIT_RESULT", message)
}

fn unreadable(error: &serde_json::Error) -> TaskError {
    let message = format!("the rows cannot be read as JSON: {error}; cast the column to text");
    TaskError::new(ErrorKind::Schema, "PG_RESULT", message)
}
