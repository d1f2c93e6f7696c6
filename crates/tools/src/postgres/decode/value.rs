//! Writes one value, as JSON in a row and as text inside another value.

use serde_json::Value;
use tokio_postgres::types::{Kind, Type};

use super::reader::{ByteReader, MalformedValue, utf8};
use super::time::TimestampStyle;
use super::{nested, number, shape, time};

/// Writes a value as JSON.
pub(crate) fn write_json(type_: &Type, raw: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), MalformedValue> {
    let Some(raw) = raw else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    match type_.kind() {
        Kind::Domain(inner) => return write_json(inner, Some(raw), out),
        Kind::Array(inner) => return nested::array_json(inner, raw, out),
        _ => {}
    }
    match *type_ {
        Type::BOOL => write_value(out, to_bool(raw)),
        Type::INT2 => write_value(out, ByteReader(raw).i16()?),
        Type::INT4 => write_value(out, ByteReader(raw).i32()?),
        Type::INT8 => write_value(out, ByteReader(raw).i64()?),
        Type::OID | Type::XID | Type::CID | Type::REGCLASS | Type::REGTYPE | Type::REGPROC => {
            write_value(out, ByteReader(raw).u32()?);
        }
        Type::FLOAT4 => {
            // Use the shortest four-byte digits: 0.1, not 0.10000000149011612.
            let real = ByteReader(raw).f32()?;
            write_real(out, real.to_string().parse().unwrap_or(f64::from(real)));
        }
        Type::FLOAT8 => write_real(out, ByteReader(raw).f64()?),
        Type::NUMERIC => {
            let text = number::numeric(raw)?;
            match number::lossless_number(&text) {
                Some(number) => out.extend_from_slice(number.as_bytes()),
                None => write_value(out, text),
            }
        }
        Type::JSON => out.extend_from_slice(raw),
        // The first byte is the format version.
        Type::JSONB => out.extend_from_slice(raw.get(1..).ok_or(MalformedValue)?),
        Type::TIMESTAMP => write_value(out, time::timestamp(raw, "", TimestampStyle::Iso)?),
        Type::TIMESTAMPTZ => write_value(out, time::timestamp(raw, "+00:00", TimestampStyle::Iso)?),
        Type::VOID => out.extend_from_slice(b"null"),
        _ if type_.name() == "vector" => {
            out.extend_from_slice(vector_text(raw)?.as_bytes());
        }
        _ => write_value(out, to_text(type_, raw)?),
    }
    Ok(())
}

/// A value in the server's text format.
pub(super) fn to_text(type_: &Type, raw: &[u8]) -> Result<String, MalformedValue> {
    match type_.kind() {
        Kind::Domain(inner) => return to_text(inner, raw),
        Kind::Array(inner) => return nested::array_text(inner, raw),
        Kind::Composite(_) => return nested::row_text(type_, raw),
        Kind::Range(inner) => return nested::range_text(inner, raw),
        Kind::Multirange(inner) => {
            // The inner type of a multirange is its range type or the type of the bounds.
            return match inner.kind() {
                Kind::Range(bound) => nested::ranges_text(bound, raw),
                _ => nested::ranges_text(inner, raw),
            };
        }
        Kind::Enum(_) => return Ok(utf8(raw)),
        _ => {}
    }
    simple_text(type_, raw)
}

fn simple_text(type_: &Type, raw: &[u8]) -> Result<String, MalformedValue> {
    match *type_ {
        Type::BOOL => Ok(if to_bool(raw) { "t" } else { "f" }.to_owned()),
        Type::INT2 => Ok(ByteReader(raw).i16()?.to_string()),
        Type::INT4 => Ok(ByteReader(raw).i32()?.to_string()),
        Type::INT8 => Ok(ByteReader(raw).i64()?.to_string()),
        Type::OID | Type::XID | Type::CID | Type::REGCLASS | Type::REGTYPE | Type::REGPROC => {
            Ok(ByteReader(raw).u32()?.to_string())
        }
        Type::XID8 => Ok(ByteReader(raw).u64()?.to_string()),
        Type::FLOAT4 => Ok(number::small_real_text(ByteReader(raw).f32()?)),
        Type::FLOAT8 => Ok(number::real_text(ByteReader(raw).f64()?)),
        Type::NUMERIC => number::numeric(raw),
        Type::MONEY => shape::money(raw),
        Type::BYTEA => Ok(format!("\\x{}", hex::encode(raw))),
        Type::UUID => shape::uuid(raw),
        Type::DATE => time::date(raw),
        Type::TIME => time::time(raw),
        Type::TIMETZ => time::time_with_zone(raw),
        Type::TIMESTAMP => time::timestamp(raw, "", TimestampStyle::Server),
        Type::TIMESTAMPTZ => time::timestamp(raw, "+00", TimestampStyle::Server),
        Type::INTERVAL => time::interval(raw),
        Type::JSONB | Type::JSONPATH => Ok(utf8(raw.get(1..).ok_or(MalformedValue)?)),
        Type::INET | Type::CIDR => shape::inet(raw),
        Type::MACADDR | Type::MACADDR8 => Ok(shape::mac(raw)),
        Type::BIT | Type::VARBIT => shape::bits(raw),
        Type::PG_LSN => shape::lsn(raw),
        Type::TID => shape::tid(raw),
        Type::TS_VECTOR => shape::tsvector_text(raw),
        Type::RECORD => nested::row_text(type_, raw),
        Type::TEXT
        | Type::VARCHAR
        | Type::BPCHAR
        | Type::NAME
        | Type::CHAR
        | Type::UNKNOWN
        | Type::JSON
        | Type::XML
        | Type::CSTRING
        | Type::REFCURSOR => Ok(utf8(raw)),
        _ => text_by_type_name(type_.name(), raw),
    }
}

/// Types whose OIDs differ between databases. Unknown types become text if they are printable, else hexadecimal.
fn text_by_type_name(name: &str, raw: &[u8]) -> Result<String, MalformedValue> {
    match name {
        "point" | "lseg" | "box" | "line" | "circle" | "path" | "polygon" => shape::geometry(name, raw),
        "hstore" => shape::hstore_text(raw),
        "vector" => vector_text(raw),
        "ltree" | "lquery" | "ltxtquery" => Ok(utf8(raw.get(1..).ok_or(MalformedValue)?)),
        "geometry" | "geography" => Ok(hex::encode(raw).to_ascii_uppercase()),
        _ => Ok(match std::str::from_utf8(raw) {
            Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => text.to_owned(),
            _ => format!("\\x{}", hex::encode(raw)),
        }),
    }
}

/// A pgvector value, in the format that JSON and the server share.
fn vector_text(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let count = reader.u16()?;
    let _unused = reader.u16()?;
    let reals = (0..count).map(|_| reader.f32().map(|real| real.to_string()));
    let reals = reals.collect::<Result<Vec<_>, _>>()?;
    if !reader.is_empty() {
        return Err(MalformedValue);
    }
    Ok(format!("[{}]", reals.join(",")))
}

fn to_bool(raw: &[u8]) -> bool {
    raw.first().is_some_and(|byte| *byte != 0)
}

/// A double; NaN and infinities become strings.
fn write_real(out: &mut Vec<u8>, real: f64) {
    match number::special_text(real) {
        Some(text) => write_value(out, text),
        None => write_value(out, real),
    }
}

fn write_value(out: &mut Vec<u8>, value: impl Into<Value>) {
    out.extend_from_slice(value.into().to_string().as_bytes());
}
