//! Conversions between table rows and values.

use model::event::{Event, EventHead};
use postgres::QueryError;
use tokio_postgres::Row;

pub(super) use crate::columns::to_i64;
use crate::columns::{Columns, FromColumns};
use crate::damage::LogRowReader;
use crate::error::BoxError;
use crate::rows::OwnerId;

/// Converts to a 32-bit integer of the database, like [`to_i64`].
pub(super) fn to_i32<T: TryInto<i32>>(value: T) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

impl Columns for Row {
    type Error = QueryError;

    fn flag(&self, column: usize) -> Result<bool, QueryError> {
        Ok(self.try_get(column)?)
    }

    fn count(&self, column: usize) -> Result<u32, QueryError> {
        let value: i32 = self.try_get(column)?;
        u32::try_from(value).map_err(|error| Self::invalid_column_error(column, error))
    }

    fn integer(&self, column: usize) -> Result<i64, QueryError> {
        Ok(self.try_get(column)?)
    }

    fn optional_integer(&self, column: usize) -> Result<Option<i64>, QueryError> {
        Ok(self.try_get(column)?)
    }

    fn unsigned(&self, column: usize) -> Result<u64, QueryError> {
        let value = self.integer(column)?;
        u64::try_from(value).map_err(|error| Self::invalid_column_error(column, error))
    }

    fn text(&self, column: usize) -> Result<&str, QueryError> {
        Ok(self.try_get(column)?)
    }

    fn optional_text(&self, column: usize) -> Result<Option<&str>, QueryError> {
        Ok(self.try_get(column)?)
    }

    fn bytes(&self, column: usize) -> Result<Vec<u8>, QueryError> {
        Ok(self.try_get(column)?)
    }

    fn invalid_column_error(_: usize, error: impl Into<BoxError>) -> QueryError {
        QueryError::BadRow(error.into())
    }
}

/// Reads a row.
pub(super) fn read_row<T: FromColumns>(row: &Row) -> Result<T, QueryError> {
    T::from_columns(row)
}

pub(super) fn owner_id(text: &str) -> OwnerId {
    OwnerId(text.into())
}

/// Reads each row.
pub(super) fn read_all<T>(rows: &[Row], read: impl FnMut(&Row) -> Result<T, QueryError>) -> Result<Vec<T>, QueryError> {
    rows.iter().map(read).collect()
}

/// Reads `seq_first, body` of a row of the log.
pub(super) fn read_events(reading: &mut LogRowReader, row: &Row) -> Result<Vec<Event>, QueryError> {
    read_selected_events(reading, row, |_| true)
}

/// Reads some events of `seq_first, body` of a row of the log.
pub(super) fn read_selected_events(
    reading: &mut LogRowReader,
    row: &Row,
    is_selected: impl FnMut(EventHead<'_>) -> bool,
) -> Result<Vec<Event>, QueryError> {
    let events = reading.read_row(row.seq(0)?, row.text(1)?, is_selected);
    events.map_err(|damage| QueryError::BadRow(damage.into()))
}
