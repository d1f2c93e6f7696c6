//! Arrays, rows and ranges.

use tokio_postgres::types::{Kind, Type};

use super::reader::{Broken, Reader};
use super::value::{text, write};

const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;

/// Reads the sizes of an array's dimensions; its elements follow in the reader.
fn dimensions(raw: &mut Reader<'_>) -> Result<Vec<usize>, Broken> {
    let count = raw.count()?;
    let _has_nulls = raw.i32()?;
    let _element = raw.u32()?;
    let mut sizes = Vec::new();
    for _ in 0..count {
        sizes.push(raw.count()?);
        let _first = raw.i32()?;
    }
    Ok(sizes)
}

/// An array as a JSON list, nested once per dimension.
pub(super) fn array_json(inner: &Type, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
    let mut raw = Reader(raw);
    let sizes = dimensions(&mut raw)?;
    if sizes.is_empty() {
        out.extend_from_slice(b"[]");
        return Ok(());
    }
    list(inner, &sizes, &mut raw, out)
}

fn list(
    inner: &Type,
    sizes: &[usize],
    raw: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Broken> {
    let (size, deeper) = sizes.split_first().ok_or(Broken)?;
    out.push(b'[');
    for at in 0..*size {
        if at > 0 {
            out.push(b',');
        }
        if deeper.is_empty() {
            write(inner, raw.sized()?, out)?;
        } else {
            list(inner, deeper, raw, out)?;
        }
    }
    out.push(b']');
    Ok(())
}

/// An array in the server's text format.
pub(super) fn array_text(inner: &Type, raw: &[u8]) -> Result<String, Broken> {
    let mut raw = Reader(raw);
    let sizes = dimensions(&mut raw)?;
    if sizes.is_empty() {
        return Ok("{}".to_owned());
    }
    braces(inner, &sizes, &mut raw)
}

fn braces(inner: &Type, sizes: &[usize], raw: &mut Reader<'_>) -> Result<String, Broken> {
    let (size, deeper) = sizes.split_first().ok_or(Broken)?;
    let mut items = Vec::new();
    for _ in 0..*size {
        if !deeper.is_empty() {
            items.push(braces(inner, deeper, raw)?);
            continue;
        }
        items.push(match raw.sized()? {
            None => "NULL".to_owned(),
            Some(item) => {
                let item = text(inner, item)?;
                let is_plain = !item.is_empty()
                    && !item.eq_ignore_ascii_case("null")
                    && !item.contains(['{', '}', ',', '"', '\\'])
                    && !item.contains(char::is_whitespace);
                if is_plain { item } else { escaped(&item) }
            }
        });
    }
    Ok(format!("{{{}}}", items.join(",")))
}

fn escaped(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A row in the server's text format. A row of an anonymous type names the built-in type of each field.
pub(super) fn row_text(type_: &Type, raw: &[u8]) -> Result<String, Broken> {
    let mut raw = Reader(raw);
    let count = raw.count()?;
    let mut fields = Vec::new();
    for at in 0..count {
        let oid = raw.u32()?;
        let known = match type_.kind() {
            Kind::Composite(fields) => fields.get(at).map(|field| field.type_().clone()),
            _ => Type::from_oid(oid),
        };
        let known = known.unwrap_or(Type::UNKNOWN);
        fields.push(match raw.sized()? {
            None => String::new(),
            Some(field) => quoted(&text(&known, field)?),
        });
    }
    Ok(format!("({})", fields.join(",")))
}

/// An element of a row or a range, quoted if necessary.
fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty()
        && !text.contains(['(', ')', '[', ']', ',', '"', '\\'])
        && !text.contains(char::is_whitespace);
    if is_plain {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""))
}

/// A range in the server's text format.
pub(super) fn range_text(inner: &Type, raw: &[u8]) -> Result<String, Broken> {
    let mut raw = Reader(raw);
    let flags = raw.u8()?;
    if flags & EMPTY != 0 {
        return Ok("empty".to_owned());
    }
    let mut bound = |infinite: u8| {
        if flags & infinite != 0 {
            return Ok(String::new());
        }
        let bound = raw.sized()?.ok_or(Broken)?;
        text(inner, bound).map(|text| quoted(&text))
    };
    let (lower, upper) = (bound(LOWER_INFINITE)?, bound(UPPER_INFINITE)?);
    let open = if flags & LOWER_INCLUSIVE == 0 {
        '('
    } else {
        '['
    };
    let close = if flags & UPPER_INCLUSIVE == 0 {
        ')'
    } else {
        ']'
    };
    Ok(format!("{open}{lower},{upper}{close}"))
}

/// A multirange in the server's text format.
pub(super) fn ranges_text(inner: &Type, raw: &[u8]) -> Result<String, Broken> {
    let mut raw = Reader(raw);
    let count = raw.count()?;
    let mut ranges = Vec::new();
    for _ in 0..count {
        ranges.push(range_text(inner, raw.sized()?.ok_or(Broken)?)?);
    }
    Ok(format!("{{{}}}", ranges.join(",")))
}
