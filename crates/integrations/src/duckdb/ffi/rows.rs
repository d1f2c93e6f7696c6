//! Result of a statement: its columns, and its rows in chunks.

use std::sync::Arc;

use serde_json::Value;

use super::connection::DuckdbConnection;
use super::engine::copy_c_text;
use super::symbols::{Handle, RawResult};
use super::types::DuckdbType;
use super::view::VectorView;
use crate::duckdb::failure::DuckdbError;

/// Kind of a statement's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// No result.
    Nothing,
    /// Number of changed rows.
    Changes,
    /// Rows.
    Rows,
}

/// Result of a statement, read once from its start.
pub(crate) struct DuckdbRows<'c> {
    connection: &'c DuckdbConnection,
    raw: RawResult,
    names: Vec<String>,
    types: Arc<[DuckdbType]>,
}

/// A chunk of rows.
pub(crate) struct RowChunk<'r> {
    connection: &'r DuckdbConnection,
    handle: Handle,
    types: Arc<[DuckdbType]>,
}

impl<'c> DuckdbRows<'c> {
    /// Wraps a raw result.
    pub(super) fn new(connection: &'c DuckdbConnection, raw: RawResult) -> Self {
        Self {
            connection,
            raw,
            names: Vec::new(),
            types: Arc::new([]),
        }
    }

    /// Reads the columns of the result.
    pub(super) fn with_columns(mut self) -> Result<Self, DuckdbError> {
        let api = self.connection.api();
        // SAFETY: the result is alive, here and below; it owns the names, and the caller owns the types.
        let count = unsafe { (api.column_count)(&raw mut self.raw) };
        let mut types = Vec::new();
        for index in 0..count {
            // SAFETY: the index is below the count.
            let name = unsafe { copy_c_text((api.column_name)(&raw mut self.raw, index)) };
            // SAFETY: as above; the handle is owned here.
            let column_type =
                unsafe { DuckdbType::from_owned_handle(api, (api.column_logical_type)(&raw mut self.raw, index)) };
            if let Some(type_id) = column_type.unreadable_id() {
                return Err(DuckdbError::unreadable_column(&name, type_id));
            }
            self.names.push(name);
            types.push(column_type);
        }
        self.types = types.into();
        Ok(self)
    }

    /// Column names, as the statement defines them.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Kind of the result.
    pub(crate) fn answer_kind(&self) -> AnswerKind {
        // SAFETY: the result is alive.
        match unsafe { (self.connection.api().result_return_type)(self.raw) } {
            1 => AnswerKind::Changes,
            2 => AnswerKind::Nothing,
            _ => AnswerKind::Rows,
        }
    }

    /// Returns the next chunk; `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<RowChunk<'c>>, DuckdbError> {
        // SAFETY: the result is alive; the chunk is owned here.
        let handle = unsafe { (self.connection.api().fetch_chunk)(self.raw) };
        if !handle.is_null() {
            return Ok(Some(RowChunk {
                connection: self.connection,
                handle,
                types: self.types.clone(),
            }));
        }
        let fault = self.error();
        if fault.is_empty() {
            return Ok(None);
        }
        Err(fault)
    }

    pub(super) fn error(&self) -> DuckdbError {
        let mut raw = self.raw;
        // SAFETY: the result is alive and owns its text.
        DuckdbError::new(unsafe { copy_c_text((self.connection.api().result_error)(&raw mut raw)) })
    }
}

impl Drop for DuckdbRows<'_> {
    fn drop(&mut self) {
        // SAFETY: chunks own their data, so the result is no longer used.
        unsafe { (self.connection.api().destroy_result)(&raw mut self.raw) };
    }
}

impl RowChunk<'_> {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the chunk is alive.
        let count = unsafe { (self.connection.api().data_chunk_get_size)(self.handle) };
        usize::try_from(count).expect("the rows of a chunk fit into memory")
    }

    /// Iterates over the rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<Value>> {
        let api = self.connection.api();
        let views = self.types.iter().zip(0_u64..).map(|(column_type, index)| {
            // SAFETY: the chunk is alive and has a vector of this type for each column.
            unsafe { VectorView::new(api, (api.data_chunk_get_vector)(self.handle, index), column_type) }
        });
        let views: Vec<VectorView<'_>> = views.collect();
        (0..self.len()).map(move |row| {
            // SAFETY: the row is below the chunk's length, and the chunk outlives the views.
            let values = views.iter().map(|view| unsafe { view.value(row) });
            values.collect()
        })
    }
}

impl Drop for RowChunk<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle, and the rows borrow it.
        unsafe { (self.connection.api().destroy_data_chunk)(&raw mut self.handle) };
    }
}
