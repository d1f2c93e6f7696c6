//! Reads the bytes of a value in order.

use std::error::Error;

use tokio_postgres::types::{FromSql, Type};

/// Bytes that do not match the type of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server sent a malformed value")]
pub(crate) struct MalformedValue;

/// Bytes of a value of any type.
pub(crate) struct RawBytes<'a>(pub(crate) &'a [u8]);

impl<'a> FromSql<'a> for RawBytes<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Reads bytes from the left.
#[derive(Clone, Copy)]
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], MalformedValue> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(MalformedValue)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedValue> {
        let (head, tail) = self.0.split_first_chunk().ok_or(MalformedValue)?;
        self.0 = tail;
        Ok(*head)
    }

    /// Reads a length and that many bytes; a negative length is NULL.
    pub(super) fn read_sized(&mut self) -> Result<Option<&'a [u8]>, MalformedValue> {
        let length = self.i32()?;
        match usize::try_from(length) {
            Err(_) => Ok(None),
            Ok(length) => self.take(length).map(Some),
        }
    }

    /// Reads a number of elements.
    pub(super) fn read_count(&mut self) -> Result<usize, MalformedValue> {
        usize::try_from(self.i32()?).map_err(|_| MalformedValue)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One method per number type, which reads a number in network byte order.
macro_rules! number_readers {
    ($($number:ident)*) => {
        impl ByteReader<'_> {
            $(pub(super) fn $number(&mut self) -> Result<$number, MalformedValue> {
                self.array().map($number::from_be_bytes)
            })*
        }
    };
}

number_readers! { u8 i16 u16 i32 u32 i64 u64 f32 f64 }

/// Bytes as text.
pub(super) fn utf8(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}
