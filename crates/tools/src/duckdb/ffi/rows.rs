//! Result of a statement: its columns, and its rows in chunks.

use std::sync::Arc;

use serde_json::Value;

use super::connection::Connection;
use super::engine::text;
use super::symbols::{Handle, RawResult};
use super::types::Type;
use super::view::View;
use crate::duckdb::failure::Fault;

/// Kind of a statement's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No result.
    Nothing,
    /// Number of changed rows.
    Changes,
    /// Rows.
    Rows,
}

/// Result of a statement, read once from its start.
pub(crate) struct Rows<'c> {
    connection: &'c Connection,
    raw: RawResult,
    names: Vec<String>,
    types: Arc<[Type]>,
}

/// A chunk of rows.
pub(crate) struct Chunk<'r> {
    connection: &'r Connection,
    handle: Handle,
    types: Arc<[Type]>,
}

impl<'c> Rows<'c> {
    /// Wraps a raw result.
    pub(super) fn new(connection: &'c Connection, raw: RawResult) -> Self {
        Self {
            connection,
            raw,
            names: Vec::new(),
            types: Arc::new([]),
        }
    }

    /// Reads the columns of the result.
    pub(super) fn described(mut self) -> Result<Self, Fault> {
        let api = self.connection.api();
        // SAFETY: the result is alive, here and below; it owns the names, and the caller owns the types.
        let count = unsafe { (api.column_count)(&raw mut self.raw) };
        let mut types = Vec::new();
        for at in 0..count {
            // SAFETY: the index is below the count.
            let name = unsafe { text((api.column_name)(&raw mut self.raw, at)) };
            // SAFETY: as above; the handle is owned here.
            let made = unsafe { Type::take(api, (api.column_logical_type)(&raw mut self.raw, at)) };
            if let Some(what) = made.unreadable() {
                return Err(Fault::unreadable(&name, what));
            }
            self.names.push(name);
            types.push(made);
        }
        self.types = types.into();
        Ok(self)
    }

    /// Column names, as the statement defines them.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Kind of the result.
    pub(crate) fn answer(&self) -> Answer {
        // SAFETY: the result is alive.
        match unsafe { (self.connection.api().result_return_type)(self.raw) } {
            1 => Answer::Changes,
            2 => Answer::Nothing,
            _ => Answer::Rows,
        }
    }

    /// Returns the next chunk; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Chunk<'c>>, Fault> {
        // SAFETY: the result is alive; the chunk is owned here.
        let handle = unsafe { (self.connection.api().fetch_chunk)(self.raw) };
        if !handle.is_null() {
            return Ok(Some(Chunk {
                connection: self.connection,
                handle,
                types: self.types.clone(),
            }));
        }
        let fault = self.fault();
        if fault.is_empty() {
            return Ok(None);
        }
        Err(fault)
    }

    pub(super) fn fault(&self) -> Fault {
        let mut raw = self.raw;
        // SAFETY: the result is alive and owns its text.
        Fault::new(unsafe { text((self.connection.api().result_error)(&raw mut raw)) })
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // SAFETY: chunks own their data, so the result is no longer used.
        unsafe { (self.connection.api().destroy_result)(&raw mut self.raw) };
    }
}

impl Chunk<'_> {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the chunk is alive.
        let count = unsafe { (self.connection.api().data_chunk_get_size)(self.handle) };
        usize::try_from(count).expect("the rows of a chunk fit into memory")
    }

    /// Iterates over the rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<Value>> {
        let api = self.connection.api();
        let views = self.types.iter().zip(0_u64..).map(|(of, at)| {
            // SAFETY: the chunk is alive and has a vector of this type for each column.
            unsafe { View::new(api, (api.data_chunk_get_vector)(self.handle, at), of) }
        });
        let views: Vec<View<'_>> = views.collect();
        (0..self.len()).map(move |row| {
            // SAFETY: the row is below the chunk's length, and the chunk outlives the views.
            let values = views.iter().map(|view| unsafe { view.value(row) });
            values.collect()
        })
    }
}

impl Drop for Chunk<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle, and the rows borrow it.
        unsafe { (self.connection.api().destroy_data_chunk)(&raw mut self.handle) };
    }
}
