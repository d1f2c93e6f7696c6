//! Arrays, rows and ranges.

use tokio_postgres::types::{Kind, Type};

use super::reader::{ByteReader, MalformedValue};
use super::value::{to_text, write_json};

const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;

/// Reads the sizes of an array's dimensions; its elements follow in the reader.
fn dimensions(reader: &mut ByteReader<'_>) -> Result<Vec<usize>, MalformedValue> {
    let count = reader.read_count()?;
    let _has_nulls = reader.i32()?;
    let _element = reader.u32()?;
    let mut sizes = Vec::new();
    for _ in 0..count {
        sizes.push(reader.read_count()?);
        let _first = reader.i32()?;
    }
    Ok(sizes)
}

/// An array as a JSON list, nested once per dimension.
pub(super) fn array_json(inner: &Type, raw: &[u8], out: &mut Vec<u8>) -> Result<(), MalformedValue> {
    let mut reader = ByteReader(raw);
    let sizes = dimensions(&mut reader)?;
    if sizes.is_empty() {
        out.extend_from_slice(b"[]");
        return Ok(());
    }
    write_list(inner, &sizes, &mut reader, out)
}

fn write_list(
    inner: &Type,
    sizes: &[usize],
    reader: &mut ByteReader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), MalformedValue> {
    let (size, deeper) = sizes.split_first().ok_or(MalformedValue)?;
    out.push(b'[');
    for index in 0..*size {
        if index > 0 {
            out.push(b',');
        }
        if deeper.is_empty() {
            write_json(inner, reader.read_sized()?, out)?;
        } else {
            write_list(inner, deeper, reader, out)?;
        }
    }
    out.push(b']');
    Ok(())
}

/// An array in the server's text format.
pub(super) fn array_text(inner: &Type, raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let sizes = dimensions(&mut reader)?;
    if sizes.is_empty() {
        return Ok("{}".to_owned());
    }
    braced_text(inner, &sizes, &mut reader)
}

fn braced_text(inner: &Type, sizes: &[usize], reader: &mut ByteReader<'_>) -> Result<String, MalformedValue> {
    let (size, deeper) = sizes.split_first().ok_or(MalformedValue)?;
    let mut items = Vec::new();
    for _ in 0..*size {
        if !deeper.is_empty() {
            items.push(braced_text(inner, deeper, reader)?);
            continue;
        }
        items.push(match reader.read_sized()? {
            None => "NULL".to_owned(),
            Some(item) => {
                let item = to_text(inner, item)?;
                let is_plain = !item.is_empty()
                    && !item.eq_ignore_ascii_case("null")
                    && !item.contains(['{', '}', ',', '"', '\\'])
                    && !item.contains(char::is_whitespace);
                if is_plain { item } else { escape_text(&item) }
            }
        });
    }
    Ok(format!("{{{}}}", items.join(",")))
}

fn escape_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A row in the server's text format. A row of an anonymous type names the built-in type of each field.
pub(super) fn row_text(type_: &Type, raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let count = reader.read_count()?;
    let mut fields = Vec::new();
    for index in 0..count {
        let oid = reader.u32()?;
        let type_ = match type_.kind() {
            Kind::Composite(fields) => fields.get(index).map(|field| field.type_().clone()),
            _ => Type::from_oid(oid),
        };
        let type_ = type_.unwrap_or(Type::UNKNOWN);
        fields.push(match reader.read_sized()? {
            None => String::new(),
            Some(field) => quote_part(&to_text(&type_, field)?),
        });
    }
    Ok(format!("({})", fields.join(",")))
}

/// An element of a row or a range, quoted if necessary.
fn quote_part(text: &str) -> String {
    let is_plain =
        !text.is_empty() && !text.contains(['(', ')', '[', ']', ',', '"', '\\']) && !text.contains(char::is_whitespace);
    if is_plain {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""))
}

/// A range in the server's text format.
pub(super) fn range_text(inner: &Type, raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let flags = reader.u8()?;
    if flags & EMPTY != 0 {
        return Ok("empty".to_owned());
    }
    let mut bound = |infinite: u8| {
        if flags & infinite != 0 {
            return Ok(String::new());
        }
        let bound = reader.read_sized()?.ok_or(MalformedValue)?;
        to_text(inner, bound).map(|text| quote_part(&text))
    };
    let (lower, upper) = (bound(LOWER_INFINITE)?, bound(UPPER_INFINITE)?);
    let open = if flags & LOWER_INCLUSIVE == 0 { '(' } else { '[' };
    let close = if flags & UPPER_INCLUSIVE == 0 { ')' } else { ']' };
    Ok(format!("{open}{lower},{upper}{close}"))
}

/// A multirange in the server's text format.
pub(super) fn ranges_text(inner: &Type, raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let count = reader.read_count()?;
    let mut ranges = Vec::new();
    for _ in 0..count {
        ranges.push(range_text(inner, reader.read_sized()?.ok_or(MalformedValue)?)?);
    }
    Ok(format!("{{{}}}", ranges.join(",")))
}
