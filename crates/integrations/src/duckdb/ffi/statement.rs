//! Statements: extracted from a text, prepared, bound and run.

use std::ffi::c_char;

use serde_json::Value;

use super::connection::DuckdbConnection;
use super::engine::{copy_c_text, to_c_string};
use super::rows::DuckdbRows;
use super::symbols::{Handle, RawResult};
use crate::duckdb::failure::DuckdbError;

/// Maximum attempts of a short statement that is interrupted.
const INTERRUPT_RETRIES_MAX: usize = 100;

/// Statements of a text. One statement in a playbook can be several in the library, for example `PIVOT`.
struct ExtractedStatements<'c> {
    connection: &'c DuckdbConnection,
    handle: Handle,
    count: u64,
}

/// A prepared statement.
struct PreparedStatement<'c> {
    connection: &'c DuckdbConnection,
    handle: Handle,
}

impl DuckdbConnection {
    /// Runs a text with its parameters and returns the result of its last statement, whose rows are streamed.
    pub(crate) fn query(&self, sql: &str, params: &[Value]) -> Result<DuckdbRows<'_>, DuckdbError> {
        let extracted = ExtractedStatements::new(self, sql)?;
        let mut last = None;
        for index in 0..extracted.count {
            // Drop the previous rows: a connection streams one result at a time.
            drop(last.take());
            let prepared = extracted.prepare(index)?;
            prepared.bind(params)?;
            last = Some(prepared.run()?);
        }
        last.ok_or_else(|| DuckdbError::new("Parser Error: no statement found".to_owned()))
    }

    /// Runs a text and ignores its result.
    pub(crate) fn execute(&self, sql: &str) -> Result<(), DuckdbError> {
        self.execute_with_params(sql, &[])
    }

    /// Like [`execute`](Self::execute), with parameters.
    pub(crate) fn execute_with_params(&self, sql: &str, params: &[Value]) -> Result<(), DuckdbError> {
        let mut rows = self.query(sql, params)?;
        while rows.next_chunk()?.is_some() {}
        Ok(())
    }
}

impl DuckdbConnection {
    /// Like [`execute`](Self::execute), but retries if the statement is interrupted, for cleanup in a cancelled call.
    pub(crate) fn execute_despite_interrupt(&self, sql: &str) -> Result<(), DuckdbError> {
        let mut done = self.execute(sql);
        for _ in 1..INTERRUPT_RETRIES_MAX {
            if !done.as_ref().is_err_and(DuckdbError::is_interrupt) {
                break;
            }
            done = self.execute(sql);
        }
        done
    }
}

impl<'c> ExtractedStatements<'c> {
    fn new(connection: &'c DuckdbConnection, sql: &str) -> Result<Self, DuckdbError> {
        let sql = to_c_string(sql.as_bytes())?;
        let api = connection.api();
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the connection is open, and both pointers are to values that outlive the call.
        let count = unsafe { (api.extract_statements)(connection.handle, sql.as_ptr(), &raw mut handle) };
        let extracted = Self {
            connection,
            handle,
            count,
        };
        if count == 0 {
            // SAFETY: the handle was just created and owns its text.
            let message = unsafe { copy_c_text((api.extract_statements_error)(extracted.handle)) };
            if !message.is_empty() {
                return Err(DuckdbError::new(message));
            }
        }
        Ok(extracted)
    }

    fn prepare(&self, index: u64) -> Result<PreparedStatement<'c>, DuckdbError> {
        let api = self.connection.api();
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: both handles are alive, and the index is below their count.
        let state =
            unsafe { (api.prepare_extracted_statement)(self.connection.handle, self.handle, index, &raw mut handle) };
        let prepared = PreparedStatement {
            connection: self.connection,
            handle,
        };
        if state != 0 {
            return Err(prepared.error());
        }
        Ok(prepared)
    }
}

impl Drop for ExtractedStatements<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle.
        unsafe { (self.connection.api().destroy_extracted)(&raw mut self.handle) };
    }
}

impl<'c> PreparedStatement<'c> {
    /// Binds the parameters of the statement.
    fn bind(&self, params: &[Value]) -> Result<(), DuckdbError> {
        // SAFETY: the statement is alive.
        let param_count = unsafe { (self.connection.api().nparams)(self.handle) };
        for (value, number) in params.iter().zip(1..=param_count) {
            self.bind_one(number, value)?;
        }
        Ok(())
    }

    fn bind_one(&self, number: u64, value: &Value) -> Result<(), DuckdbError> {
        let api = self.connection.api();
        let handle = self.handle;
        let as_text = |text: &str| {
            let (pointer, length) = (text.as_ptr().cast::<c_char>(), text.len() as u64);
            // SAFETY: the statement is alive, and the text is copied before the call returns.
            unsafe { (api.bind_varchar_length)(handle, number, pointer, length) }
        };
        let state = match value {
            // SAFETY: the statement is alive; the same holds for the three below.
            Value::Null => unsafe { (api.bind_null)(handle, number) },
            // SAFETY: as above.
            Value::Bool(flag) => unsafe { (api.bind_boolean)(handle, number, *flag) },
            Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                // SAFETY: as above.
                (Some(n), ..) => unsafe { (api.bind_int64)(handle, number, n) },
                // SAFETY: as above.
                (_, Some(n), _) => unsafe { (api.bind_uint64)(handle, number, n) },
                // SAFETY: as above.
                (.., Some(n)) => unsafe { (api.bind_double)(handle, number, n) },
                _ => as_text(&n.to_string()),
            },
            Value::String(text) => as_text(text),
            Value::Array(_) | Value::Object(_) => as_text(&value.to_string()),
        };
        if state != 0 {
            return Err(self.error());
        }
        Ok(())
    }

    fn run(&self) -> Result<DuckdbRows<'c>, DuckdbError> {
        let mut raw = RawResult::EMPTY;
        // SAFETY: the statement is alive; `Rows` owns the result, even if it is an error.
        let state = unsafe { (self.connection.api().execute_prepared_streaming)(self.handle, &raw mut raw) };
        let rows = DuckdbRows::new(self.connection, raw);
        if state != 0 {
            return Err(rows.error());
        }
        rows.with_columns()
    }

    fn error(&self) -> DuckdbError {
        // SAFETY: the statement handle is valid, even if preparing failed; it owns its text.
        DuckdbError::new(unsafe { copy_c_text((self.connection.api().prepare_error)(self.handle)) })
    }
}

impl Drop for PreparedStatement<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle; a result does not depend on it.
        unsafe { (self.connection.api().destroy_prepare)(&raw mut self.handle) };
    }
}
