//! Appends many rows to a table.

use std::ffi::c_char;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::connection::DuckdbConnection;
use super::engine::{copy_c_text, to_c_string};
use super::symbols::Handle;
use super::types::DuckdbType;
use crate::duckdb::failure::DuckdbError;

/// Appends rows to a table in the transaction of its connection.
pub(crate) struct Appender<'c> {
    connection: &'c DuckdbConnection,
    handle: Handle,
    types: Vec<DuckdbType>,
}

impl<'c> Appender<'c> {
    /// Creates an appender for these columns of a table; other columns get their defaults.
    pub(crate) fn new(
        connection: &'c DuckdbConnection,
        schema: Option<&str>,
        table: &str,
        columns: &[String],
    ) -> Result<Self, DuckdbError> {
        let api = connection.api();
        let schema = schema.map(|name| to_c_string(name.as_bytes())).transpose()?;
        let schema = schema.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        let table = to_c_string(table.as_bytes())?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the connection is open, and the texts outlive the call.
        let state = unsafe {
            let none = std::ptr::null();
            (api.appender_create_ext)(connection.handle, none, schema, table.as_ptr(), &raw mut handle)
        };
        let mut appender = Self {
            connection,
            handle,
            types: Vec::new(),
        };
        appender.check_state(state)?;
        for column in columns {
            let name = to_c_string(column.as_bytes())?;
            // SAFETY: the appender is alive, and the text outlives the call.
            appender.check_state(unsafe { (api.appender_add_column)(handle, name.as_ptr()) })?;
        }
        // SAFETY: the appender is alive; each type handle is owned here.
        appender.types = unsafe {
            let count = (api.appender_column_count)(handle);
            let types =
                (0..count).map(|index| DuckdbType::from_owned_handle(api, (api.appender_column_type)(handle, index)));
            types.collect()
        };
        Ok(appender)
    }

    /// Appends a row: one value per column.
    pub(crate) fn append_row(&mut self, values: &[Value]) -> Result<(), DuckdbError> {
        for (index, value) in values.iter().enumerate() {
            let state = self.append_value(value, self.types.get(index));
            self.check_state(state)?;
        }
        // SAFETY: the appender is alive.
        self.check_state(unsafe { (self.connection.api().appender_end_row)(self.handle) })
    }

    /// Writes the remaining rows; only then all rows are in the table.
    pub(crate) fn finish(self) -> Result<(), DuckdbError> {
        // SAFETY: the appender is alive, and `drop` destroys it.
        self.check_state(unsafe { (self.connection.api().appender_close)(self.handle) })
    }

    fn append_value(&self, value: &Value, type_: Option<&DuckdbType>) -> u32 {
        let (api, handle) = (self.connection.api(), self.handle);
        let as_text = |text: &str| {
            let (pointer, length) = (text.as_ptr().cast::<c_char>(), text.len() as u64);
            // SAFETY: the appender is alive, and the text is copied before the call returns.
            unsafe { (api.append_varchar_length)(handle, pointer, length) }
        };
        match value {
            // SAFETY: the appender is alive; the same holds below.
            Value::Null => unsafe { (api.append_null)(handle) },
            // SAFETY: as above.
            Value::Bool(flag) => unsafe { (api.append_bool)(handle, *flag) },
            Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                // SAFETY: as above.
                (Some(n), ..) => unsafe { (api.append_int64)(handle, n) },
                // SAFETY: as above.
                (_, Some(n), _) => unsafe { (api.append_uint64)(handle, n) },
                // SAFETY: as above.
                (.., Some(n)) => unsafe { (api.append_double)(handle, n) },
                _ => as_text(&n.to_string()),
            },
            Value::String(text) if type_ == Some(&DuckdbType::Blob) => {
                match STANDARD.decode(text) {
                    // SAFETY: as above; the bytes are copied before the call returns.
                    Ok(bytes) => unsafe { (api.append_blob)(handle, bytes.as_ptr().cast(), bytes.len() as u64) },
                    Err(_) => as_text(text),
                }
            }
            Value::String(text) if type_ == Some(&DuckdbType::Interval) => self.append_cast(text),
            Value::String(text) => as_text(text),
            Value::Array(_) | Value::Object(_) => as_text(&value.to_string()),
        }
    }

    /// Appends a value that the library casts from text; its text append supports fewer types.
    fn append_cast(&self, text: &str) -> u32 {
        let api = self.connection.api();
        // SAFETY: the text is copied before the first call returns, and the value is owned here until it is destroyed.
        unsafe {
            let pointer = text.as_ptr().cast::<c_char>();
            let mut value = (api.create_varchar_length)(pointer, text.len() as u64);
            let state = (api.append_value)(self.handle, value);
            (api.destroy_value)(&raw mut value);
            state
        }
    }

    fn check_state(&self, state: u32) -> Result<(), DuckdbError> {
        if state == 0 {
            return Ok(());
        }
        // SAFETY: the appender handle is valid, even if its creation failed; the text belongs to it.
        Err(DuckdbError::new(unsafe {
            copy_c_text((self.connection.api().appender_error)(self.handle))
        }))
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle.
        unsafe { (self.connection.api().appender_destroy)(&raw mut self.handle) };
    }
}
