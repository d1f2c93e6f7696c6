//! Network addresses, geometric types, bits and other small types, in the server's text format.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::number::real_text;
use super::reader::{ByteReader, MalformedValue, utf8};

const IPV4: u8 = 2;

pub(super) fn inet(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let (family, bits, is_network) = (reader.u8()?, reader.u8()?, reader.u8()? != 0);
    let length = usize::from(reader.u8()?);
    let address = reader.take(length)?;
    let (text, whole) = if family == IPV4 {
        let octets: [u8; 4] = address.try_into().map_err(|_| MalformedValue)?;
        (Ipv4Addr::from(octets).to_string(), 32)
    } else {
        let octets: [u8; 16] = address.try_into().map_err(|_| MalformedValue)?;
        (Ipv6Addr::from(octets).to_string(), 128)
    };
    if bits == whole && !is_network {
        return Ok(text);
    }
    Ok(format!("{text}/{bits}"))
}

pub(super) fn mac(raw: &[u8]) -> String {
    let parts: Vec<String> = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.join(":")
}

pub(super) fn bits(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let count = reader.read_count()?;
    let bits = reader
        .0
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1));
    Ok(bits.take(count).map(|bit| if bit == 1 { '1' } else { '0' }).collect())
}

pub(super) fn uuid(raw: &[u8]) -> Result<String, MalformedValue> {
    let raw: [u8; 16] = raw.try_into().map_err(|_| MalformedValue)?;
    let part = |range: std::ops::Range<usize>| hex::encode(&raw[range]);
    let parts = [part(0..4), part(4..6), part(6..8), part(8..10), part(10..16)];
    Ok(parts.join("-"))
}

/// Money in hundredths, without a currency symbol.
pub(super) fn money(raw: &[u8]) -> Result<String, MalformedValue> {
    let cents = ByteReader(raw).i64()?;
    let sign = if cents < 0 { "-" } else { "" };
    let size = cents.unsigned_abs();
    Ok(format!("{sign}{}.{:02}", size / 100, size % 100))
}

pub(super) fn lsn(raw: &[u8]) -> Result<String, MalformedValue> {
    let at = ByteReader(raw).u64()?;
    Ok(format!("{:X}/{:X}", at >> 32, at & 0xFFFF_FFFF))
}

pub(super) fn tid(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    Ok(format!("({},{})", reader.u32()?, reader.u16()?))
}

/// A geometric value, by the name of its type.
pub(super) fn geometry(name: &str, raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    match name {
        "point" => point(&mut reader),
        "lseg" => Ok(format!("[{},{}]", point(&mut reader)?, point(&mut reader)?)),
        "box" => Ok(format!("{},{}", point(&mut reader)?, point(&mut reader)?)),
        "line" => Ok(format!(
            "{{{},{},{}}}",
            real_text(reader.f64()?),
            real_text(reader.f64()?),
            real_text(reader.f64()?)
        )),
        "circle" => Ok(format!("<{},{}>", point(&mut reader)?, real_text(reader.f64()?))),
        "path" => {
            let is_closed = reader.u8()? != 0;
            let points = points(&mut reader)?;
            Ok(if is_closed {
                format!("({points})")
            } else {
                format!("[{points}]")
            })
        }
        _ => Ok(format!("({})", points(&mut reader)?)),
    }
}

fn point(reader: &mut ByteReader<'_>) -> Result<String, MalformedValue> {
    Ok(format!("({},{})", real_text(reader.f64()?), real_text(reader.f64()?)))
}

fn points(reader: &mut ByteReader<'_>) -> Result<String, MalformedValue> {
    let count = reader.read_count()?;
    let points = (0..count).map(|_| point(reader)).collect::<Result<Vec<_>, _>>()?;
    Ok(points.join(","))
}

/// A `tsvector`, as `'cat':3 'dog':1,7A`.
pub(super) fn tsvector_text(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let count = reader.read_count()?;
    let mut lexemes = Vec::new();
    for _ in 0..count {
        let length = reader.0.iter().position(|byte| *byte == 0).ok_or(MalformedValue)?;
        let lexeme = utf8(reader.take(length)?);
        reader.take(1)?;
        let positions = reader.u16()?;
        let positions = (0..positions).map(|_| {
            let position = reader.u16()?;
            let weight = ["", "C", "B", "A"][usize::from(position >> 14)];
            Ok(format!("{}{weight}", position & 0x3FFF))
        });
        let positions = positions.collect::<Result<Vec<_>, _>>()?.join(",");
        let colon = if positions.is_empty() { "" } else { ":" };
        let lexeme = lexeme.replace('\\', "\\\\").replace('\'', "''");
        lexemes.push(format!("'{lexeme}'{colon}{positions}"));
    }
    Ok(lexemes.join(" "))
}

/// An `hstore`, as `"a"=>"1", "b"=>NULL`.
pub(super) fn hstore_text(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let count = reader.read_count()?;
    let quoted = |text: &[u8]| {
        let text = utf8(text);
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    };
    let mut pairs = Vec::new();
    for _ in 0..count {
        let key = reader.read_sized()?.map(quoted).unwrap_or_default();
        let value = reader.read_sized()?.map_or("NULL".to_owned(), quoted);
        pairs.push(format!("{key}=>{value}"));
    }
    Ok(pairs.join(", "))
}
