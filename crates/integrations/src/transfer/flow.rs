//! Channel for chunks of rows from the source to the target.

use std::sync::{Arc, Mutex, PoisonError};

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tools::cancelled_error;
use tools::sql::memory_bytes;

/// A row: one value per column.
pub(super) type TransferRow = Vec<Value>;

/// Maximum number of chunks in the channel.
const QUEUED_CHUNKS_MAX: usize = 2;

/// Approximate size at which a chunk is full, regardless of its number of rows.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// A chunk of rows.
pub(super) struct RowBatch {
    pub(super) columns: Arc<[String]>,
    pub(super) rows: Vec<TransferRow>,
    /// Columns that hold JSON as text; empty by default.
    json_texts: Arc<[bool]>,
    /// Whether this is the last chunk; a channel that closes without one was interrupted.
    is_last: bool,
}

/// Sending end of the channel.
pub(super) struct RowSender {
    sender: mpsc::Sender<Result<RowBatch, TaskError>>,
    columns: Arc<[String]>,
    json_texts: Arc<[bool]>,
    may_keep_json_text: bool,
    rows: Vec<TransferRow>,
    bytes: usize,
    chunk_size: usize,
}

/// Receiving end of the channel; its rows have the target's columns.
pub(super) struct RowReceiver {
    receiver: mpsc::Receiver<Result<RowBatch, TaskError>>,
    mapping: Option<Map<String, Value>>,
    picked_columns: Option<(Arc<[String]>, Vec<usize>)>,
    is_ended: bool,
    pub(super) totals: TransferTotals,
}

/// Number of transferred rows and chunks, and the columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TransferTotals {
    pub(super) rows: u64,
    pub(super) chunks: u64,
    pub(super) columns: Vec<String>,
}

/// Callbacks that cancel the work of both sides.
#[derive(Clone, Default)]
pub(super) struct StopCallbacks(Arc<Mutex<Vec<StopCallback>>>);

/// Cancels one side.
type StopCallback = Box<dyn Fn() + Send>;

impl StopCallbacks {
    pub(super) fn add(&self, stop: impl Fn() + Send + 'static) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Box::new(stop));
    }

    pub(super) fn stop(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|stop| stop());
    }
}

/// Creates a channel for chunks of this many rows, or fewer if they are large.
pub(super) fn row_channel(chunk_size: usize, mapping: Option<Map<String, Value>>) -> (RowSender, RowReceiver) {
    let (send, receive) = mpsc::channel(QUEUED_CHUNKS_MAX);
    let sender = RowSender {
        sender: send,
        columns: Arc::new([]),
        json_texts: Arc::new([]),
        may_keep_json_text: false,
        rows: Vec::new(),
        bytes: 0,
        chunk_size,
    };
    let receiver = RowReceiver {
        receiver: receive,
        mapping,
        picked_columns: None,
        is_ended: false,
        totals: TransferTotals::default(),
    };
    (sender, receiver)
}

impl RowBatch {
    /// Whether a column holds JSON as text.
    pub(super) fn is_json_text(&self, column: usize) -> bool {
        self.json_texts.get(column).copied().unwrap_or_default()
    }
}

impl RowSender {
    /// Sets the columns, before the first row.
    pub(super) fn set_columns(&mut self, columns: Vec<String>) {
        self.columns = columns.into();
    }

    /// Transfers JSON as text if the target accepts it; parsing it would lose JSON nulls and digits.
    pub(super) fn allow_json_text(&mut self) {
        self.may_keep_json_text = true;
    }

    pub(super) fn may_keep_json_text(&self) -> bool {
        self.may_keep_json_text
    }

    /// Sets which columns hold JSON as text, before the first row.
    pub(super) fn set_json_texts(&mut self, columns: Vec<bool>) {
        self.json_texts = columns.into();
    }

    pub(super) fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    pub(super) fn columns(&self) -> &Arc<[String]> {
        &self.columns
    }

    /// Adds a row; returns whether the chunk is full.
    pub(super) fn push(&mut self, row: TransferRow) -> bool {
        self.bytes += row.iter().map(memory_bytes).sum::<usize>();
        self.rows.push(row);
        self.rows.len() >= self.chunk_size || self.bytes >= CHUNK_BYTES
    }

    fn take_batch(&mut self, is_last: bool) -> RowBatch {
        self.bytes = 0;
        RowBatch {
            is_last,
            columns: self.columns.clone(),
            json_texts: self.json_texts.clone(),
            rows: std::mem::take(&mut self.rows),
        }
    }

    /// Sends a chunk.
    pub(super) async fn send(&mut self) -> Result<(), TaskError> {
        let batch = self.take_batch(false);
        self.sender.send(Ok(batch)).await.map_err(|_| cancelled_error())
    }

    /// Like [`send`](Self::send), from a blocking thread.
    pub(super) fn send_blocking(&mut self) -> Result<(), TaskError> {
        let batch = self.take_batch(false);
        self.sender.blocking_send(Ok(batch)).map_err(|_| cancelled_error())
    }

    /// Sends the last chunk, or the error that ended the source.
    pub(super) async fn finish(mut self, result: Result<(), TaskError>) {
        let last = result.map(|()| self.take_batch(true));
        // If the receiver is gone, the target has already failed.
        let _ = self.sender.send(last).await;
    }

    /// Like [`finish`](Self::finish), from a blocking thread.
    pub(super) fn finish_blocking(mut self, result: Result<(), TaskError>) {
        let last = result.map(|()| self.take_batch(true));
        let _ = self.sender.blocking_send(last);
    }
}

impl RowReceiver {
    /// Returns the next chunk; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<RowBatch>, TaskError> {
        let next = self.receiver.recv().await;
        self.accept_batch(next)
    }

    /// Like [`next`](Self::next), from a blocking thread.
    pub(super) fn next_blocking(&mut self) -> Result<Option<RowBatch>, TaskError> {
        let next = self.receiver.blocking_recv();
        self.accept_batch(next)
    }

    fn accept_batch(&mut self, next: Option<Result<RowBatch, TaskError>>) -> Result<Option<RowBatch>, TaskError> {
        let mut batch = match next {
            Some(batch) => batch?,
            None if self.is_ended => return Ok(None),
            None => {
                let message = "the reader of the source ended before the last chunk";
                return Err(TaskError::new(ErrorKind::Unknown, "TRANSFER_LOST", message));
            }
        };
        self.is_ended = batch.is_last;
        if self.picked_columns.is_none() && !batch.columns.is_empty() {
            self.picked_columns = Some(pick_columns(&batch.columns, self.mapping.as_ref())?);
        }
        let Some((columns, indices)) = &self.picked_columns else {
            return Ok(Some(batch));
        };
        if self.mapping.is_some() {
            for row in &mut batch.rows {
                let mut old = std::mem::take(row);
                let value = |index: &usize| old.get_mut(*index).map(std::mem::take).unwrap_or_default();
                *row = indices.iter().map(value).collect();
            }
        }
        let is_text = |index: &usize| batch.json_texts.get(*index).copied().unwrap_or_default();
        batch.json_texts = indices.iter().map(is_text).collect();
        batch.columns = columns.clone();
        if !batch.rows.is_empty() {
            self.totals.rows += batch.rows.len() as u64;
            self.totals.chunks += 1;
        }
        self.totals.columns = columns.to_vec();
        Ok(Some(batch))
    }
}

/// Columns of the target, and the index of each in a row of the source.
fn pick_columns(
    columns: &[String],
    mapping: Option<&Map<String, Value>>,
) -> Result<(Arc<[String]>, Vec<usize>), TaskError> {
    let Some(mapping) = mapping else {
        return Ok((columns.into(), (0..columns.len()).collect()));
    };
    let mut names = Vec::new();
    let mut indices = Vec::new();
    for (name, from) in mapping {
        let from = from.as_str().unwrap_or_default();
        let index = columns.iter().position(|column| column == from);
        let Some(index) = index else {
            let message = format!(
                "`mapping.{name}` refers to the column `{from}`, which the source does not have; its columns are {}",
                columns.join(", ")
            );
            return Err(TaskError::new(ErrorKind::Schema, "TRANSFER_COLUMN", message));
        };
        // Values are moved out of the row, so a column can be used only once.
        if indices.contains(&index) {
            let message = format!("`mapping` uses the column `{from}` twice");
            return Err(TaskError::new(ErrorKind::Schema, "TRANSFER_COLUMN", message));
        }
        names.push(name.clone());
        indices.push(index);
    }
    Ok((names.into(), indices))
}

/// Error of a row that cannot be transferred.
pub(super) fn row_error(row: u64, problem: &str) -> TaskError {
    let message = format!("cannot transfer row {row}: {problem}");
    TaskError::new(ErrorKind::Parse, "TRANSFER_ROW", message).with_detail("row", row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_full_by_its_rows_or_by_its_bytes() {
        let (mut sender, _receiver) = row_channel(3, None);
        assert!(!sender.push(vec![1.into()]));
        assert!(!sender.push(vec![2.into()]));
        assert!(sender.push(vec![3.into()]));
        assert_eq!(sender.take_batch(false).rows.len(), 3);
        let large = "x".repeat(CHUNK_BYTES / 2);
        assert!(!sender.push(vec![large.clone().into()]));
        assert!(sender.push(vec![large.into()]));
        assert_eq!(sender.take_batch(true).rows.len(), 2);
        assert!(!sender.push(vec![4.into()]));
    }
}
