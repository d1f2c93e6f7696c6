//! What flows: chunks of rows, from whoever reads to whoever writes, a few at a time.

use std::sync::{Arc, Mutex, PoisonError};

use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::call::cancelled;
use crate::sql::memory_bytes;

/// A row: a value for each column.
pub(super) type Row = Vec<Value>;

/// So many chunks are on their way at once.
const CHUNKS_MAX: usize = 2;

/// A chunk of about so many bytes is full, however few its rows are.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Some rows.
pub(super) struct Batch {
    pub(super) columns: Arc<[String]>,
    pub(super) rows: Vec<Row>,
    /// Which columns hold JSON as its text; none unless said.
    json_texts: Arc<[bool]>,
    /// Whether nothing follows: a flow that ends without saying so was broken off.
    is_last: bool,
}

/// Where chunks go in.
pub(super) struct Outlet {
    send: mpsc::Sender<Result<Batch, TaskError>>,
    columns: Arc<[String]>,
    json_texts: Arc<[bool]>,
    keeps_json_text: bool,
    rows: Vec<Row>,
    bytes: usize,
    chunk_size: usize,
}

/// Where chunks come out, under the target's names.
pub(super) struct Inlet {
    receive: mpsc::Receiver<Result<Batch, TaskError>>,
    mapping: Option<Map<String, Value>>,
    picked: Option<(Arc<[String]>, Vec<usize>)>,
    is_over: bool,
    pub(super) totals: Totals,
}

/// What went over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) rows: u64,
    pub(super) chunks: u64,
    pub(super) columns: Vec<String>,
}

/// What is told when the call is to stop.
#[derive(Clone, Default)]
pub(super) struct Stops(Arc<Mutex<Vec<Stop>>>);

/// Stops one side.
type Stop = Box<dyn Fn() + Send>;

impl Stops {
    pub(super) fn add(&self, stop: impl Fn() + Send + 'static) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Box::new(stop));
    }

    pub(super) fn stop(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|stop| stop());
    }
}

/// A way for chunks of this many rows, or of fewer large ones.
pub(super) fn flow(chunk_size: usize, mapping: Option<Map<String, Value>>) -> (Outlet, Inlet) {
    let (send, receive) = mpsc::channel(CHUNKS_MAX);
    let outlet = Outlet {
        send,
        columns: Arc::new([]),
        json_texts: Arc::new([]),
        keeps_json_text: false,
        rows: Vec::new(),
        bytes: 0,
        chunk_size,
    };
    let inlet = Inlet {
        receive,
        mapping,
        picked: None,
        is_over: false,
        totals: Totals::default(),
    };
    (outlet, inlet)
}

impl Batch {
    /// Whether a column holds JSON as its text.
    pub(super) fn is_json_text(&self, column: usize) -> bool {
        self.json_texts.get(column).copied().unwrap_or_default()
    }
}

impl Outlet {
    /// Says what the columns are; before the first row.
    pub(super) fn begin(&mut self, columns: Vec<String>) {
        self.columns = columns.into();
    }

    /// Lets JSON go over as its text, where whoever writes can take it so: values lose a null, and digits.
    pub(super) fn keep_json_text(&mut self) {
        self.keeps_json_text = true;
    }

    pub(super) fn keeps_json_text(&self) -> bool {
        self.keeps_json_text
    }

    /// Says which columns hold JSON as its text; before the first row.
    pub(super) fn set_json_texts(&mut self, columns: Vec<bool>) {
        self.json_texts = columns.into();
    }

    pub(super) fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    pub(super) fn columns(&self) -> &Arc<[String]> {
        &self.columns
    }

    /// Takes a row; whether a chunk is full.
    pub(super) fn push(&mut self, row: Row) -> bool {
        self.bytes += row.iter().map(memory_bytes).sum::<usize>();
        self.rows.push(row);
        self.rows.len() >= self.chunk_size || self.bytes >= CHUNK_BYTES
    }

    fn batch(&mut self, is_last: bool) -> Batch {
        self.bytes = 0;
        Batch {
            is_last,
            columns: self.columns.clone(),
            json_texts: self.json_texts.clone(),
            rows: std::mem::take(&mut self.rows),
        }
    }

    /// Hands a chunk on.
    pub(super) async fn send(&mut self) -> Result<(), TaskError> {
        let batch = self.batch(false);
        self.send.send(Ok(batch)).await.map_err(|_| cancelled())
    }

    /// The same from a thread of its own.
    pub(super) fn send_blocking(&mut self) -> Result<(), TaskError> {
        let batch = self.batch(false);
        self.send.blocking_send(Ok(batch)).map_err(|_| cancelled())
    }

    /// Ends with what is left, or with why there is no more.
    pub(super) async fn end(mut self, done: Result<(), TaskError>) {
        let last = done.map(|()| self.batch(true));
        // Nobody listening means that the writing has failed already.
        let _ = self.send.send(last).await;
    }

    /// The same from a thread of its own.
    pub(super) fn end_blocking(mut self, done: Result<(), TaskError>) {
        let last = done.map(|()| self.batch(true));
        let _ = self.send.blocking_send(last);
    }
}

impl Inlet {
    /// The next chunk; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Batch>, TaskError> {
        let next = self.receive.recv().await;
        self.take(next)
    }

    /// The same on a thread of its own.
    pub(super) fn next_blocking(&mut self) -> Result<Option<Batch>, TaskError> {
        let next = self.receive.blocking_recv();
        self.take(next)
    }

    fn take(&mut self, next: Option<Result<Batch, TaskError>>) -> Result<Option<Batch>, TaskError> {
        let mut batch = match next {
            Some(batch) => batch?,
            None if self.is_over => return Ok(None),
            None => {
                let message = "whoever read the source is gone before its end";
                return Err(TaskError::new(ErrorKind::Unknown, "TRANSFER_LOST", message));
            }
        };
        self.is_over = batch.is_last;
        if self.picked.is_none() && !batch.columns.is_empty() {
            self.picked = Some(pick(&batch.columns, self.mapping.as_ref())?);
        }
        let Some((columns, places)) = &self.picked else {
            return Ok(Some(batch));
        };
        if self.mapping.is_some() {
            for row in &mut batch.rows {
                let mut old = std::mem::take(row);
                let value = |at: &usize| old.get_mut(*at).map(std::mem::take).unwrap_or_default();
                *row = places.iter().map(value).collect();
            }
        }
        let is_text = |at: &usize| batch.json_texts.get(*at).copied().unwrap_or_default();
        batch.json_texts = places.iter().map(is_text).collect();
        batch.columns = columns.clone();
        if !batch.rows.is_empty() {
            self.totals.rows += batch.rows.len() as u64;
            self.totals.chunks += 1;
        }
        self.totals.columns = columns.to_vec();
        Ok(Some(batch))
    }
}

/// The target's columns, and where each is in a row of the source.
fn pick(
    columns: &[String],
    mapping: Option<&Map<String, Value>>,
) -> Result<(Arc<[String]>, Vec<usize>), TaskError> {
    let Some(mapping) = mapping else {
        return Ok((columns.into(), (0..columns.len()).collect()));
    };
    let mut names = Vec::new();
    let mut places = Vec::new();
    for (name, from) in mapping {
        let from = from.as_str().unwrap_or_default();
        let place = columns.iter().position(|column| column == from);
        let Some(place) = place else {
            let message = format!(
                "`mapping.{name}` takes the column `{from}`, which the source does not have; it has {}",
                columns.join(", ")
            );
            return Err(TaskError::new(
                ErrorKind::Schema,
                "TRANSFER_COLUMN",
                message,
            ));
        };
        // A column that is taken twice would be empty the second time.
        if places.contains(&place) {
            let message = format!("`mapping` takes the column `{from}` twice");
            return Err(TaskError::new(
                ErrorKind::Schema,
                "TRANSFER_COLUMN",
                message,
            ));
        }
        names.push(name.clone());
        places.push(place);
    }
    Ok((names.into(), places))
}

/// The error of a row that cannot go over.
pub(super) fn broken_row(row: u64, problem: &str) -> TaskError {
    let message = format!("row {row} cannot go over: {problem}");
    TaskError::new(ErrorKind::Parse, "TRANSFER_ROW", message).with("row", row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_full_by_its_rows_or_by_its_bytes() {
        let (mut outlet, _inlet) = flow(3, None);
        assert!(!outlet.push(vec![1.into()]));
        assert!(!outlet.push(vec![2.into()]));
        assert!(outlet.push(vec![3.into()]));
        assert_eq!(outlet.batch(false).rows.len(), 3);
        let large = "x".repeat(CHUNK_BYTES / 2);
        assert!(!outlet.push(vec![large.clone().into()]));
        assert!(outlet.push(vec![large.into()]));
        assert_eq!(outlet.batch(true).rows.len(), 2);
        assert!(!outlet.push(vec![4.into()]));
    }
}
