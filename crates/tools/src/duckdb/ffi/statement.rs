//! Statements: taken out of a text, prepared, bound, run.

use std::ffi::c_char;

use serde_json::Value;

use super::connection::Connection;
use super::engine::{c_text, text};
use super::rows::Rows;
use super::symbols::{Handle, RawResult};
use crate::duckdb::failure::Fault;

/// So often a short statement is tried that is interrupted.
const INSIST_MAX: usize = 100;

/// The statements of a text. One of an author's may be several of the library's, as a `PIVOT` is.
struct Extracted<'c> {
    connection: &'c Connection,
    handle: Handle,
    count: u64,
}

/// A statement that is ready to run.
struct Prepared<'c> {
    connection: &'c Connection,
    handle: Handle,
}

impl Connection {
    /// Runs a text with its parameters; the answer is that of its last statement, whose rows come as they are asked for.
    pub(crate) fn run(&self, sql: &str, params: &[Value]) -> Result<Rows<'_>, Fault> {
        let extracted = Extracted::new(self, sql)?;
        let mut last = None;
        for at in 0..extracted.count {
            // The rows before must be given up: a connection streams one result at a time.
            drop(last.take());
            let prepared = extracted.prepare(at)?;
            prepared.bind(params)?;
            last = Some(prepared.run()?);
        }
        last.ok_or_else(|| Fault::new("Parser Error: there is no statement".to_owned()))
    }

    /// Runs a text whose answer does not matter.
    pub(crate) fn execute(&self, sql: &str) -> Result<(), Fault> {
        self.drain(sql, &[])
    }

    /// The same with parameters.
    pub(crate) fn drain(&self, sql: &str, params: &[Value]) -> Result<(), Fault> {
        let mut rows = self.run(sql, params)?;
        while rows.next()?.is_some() {}
        Ok(())
    }
}

impl Connection {
    /// The same for what must be done although the call is told to stop, again and again.
    pub(crate) fn insist(&self, sql: &str) -> Result<(), Fault> {
        let mut done = self.execute(sql);
        for _ in 1..INSIST_MAX {
            if !done.as_ref().is_err_and(Fault::is_interrupt) {
                break;
            }
            done = self.execute(sql);
        }
        done
    }
}

impl<'c> Extracted<'c> {
    fn new(connection: &'c Connection, sql: &str) -> Result<Self, Fault> {
        let sql = c_text(sql.as_bytes())?;
        let api = connection.api();
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the connection is open, and both pointers lead to values that outlive the call.
        let count =
            unsafe { (api.extract_statements)(connection.handle, sql.as_ptr(), &raw mut handle) };
        let extracted = Self {
            connection,
            handle,
            count,
        };
        if count == 0 {
            // SAFETY: the handle was just made; its text belongs to it.
            let message = unsafe { text((api.extract_statements_error)(extracted.handle)) };
            if !message.is_empty() {
                return Err(Fault::new(message));
            }
        }
        Ok(extracted)
    }

    fn prepare(&self, at: u64) -> Result<Prepared<'c>, Fault> {
        let api = self.connection.api();
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: both handles are alive, and the number is below their count.
        let state = unsafe {
            (api.prepare_extracted_statement)(
                self.connection.handle,
                self.handle,
                at,
                &raw mut handle,
            )
        };
        let prepared = Prepared {
            connection: self.connection,
            handle,
        };
        if state != 0 {
            return Err(prepared.fault());
        }
        Ok(prepared)
    }
}

impl Drop for Extracted<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is this value's own.
        unsafe { (self.connection.api().destroy_extracted)(&raw mut self.handle) };
    }
}

impl<'c> Prepared<'c> {
    /// Binds the parameters that the statement has.
    fn bind(&self, params: &[Value]) -> Result<(), Fault> {
        // SAFETY: the statement is alive.
        let wanted = unsafe { (self.connection.api().nparams)(self.handle) };
        for (value, number) in params.iter().zip(1..=wanted) {
            self.bind_one(number, value)?;
        }
        Ok(())
    }

    fn bind_one(&self, number: u64, value: &Value) -> Result<(), Fault> {
        let api = self.connection.api();
        let handle = self.handle;
        let as_text = |text: &str| {
            let (pointer, length) = (text.as_ptr().cast::<c_char>(), text.len() as u64);
            // SAFETY: the statement is alive, and the text is copied before the call returns.
            unsafe { (api.bind_varchar_length)(handle, number, pointer, length) }
        };
        let state = match value {
            // SAFETY: the statement is alive; the same for the three below.
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
            return Err(self.fault());
        }
        Ok(())
    }

    fn run(&self) -> Result<Rows<'c>, Fault> {
        let mut raw = RawResult::EMPTY;
        // SAFETY: the statement is alive; the result is owned by what is made of it here, also when it is an error.
        let state = unsafe {
            (self.connection.api().execute_prepared_streaming)(self.handle, &raw mut raw)
        };
        let rows = Rows::new(self.connection, raw);
        if state != 0 {
            return Err(rows.fault());
        }
        rows.described()
    }

    fn fault(&self) -> Fault {
        // SAFETY: the statement is alive, also one that could not be prepared; its text belongs to it.
        Fault::new(unsafe { text((self.connection.api().prepare_error)(self.handle)) })
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is this value's own; a result of it has what it needs itself.
        unsafe { (self.connection.api().destroy_prepare)(&raw mut self.handle) };
    }
}
