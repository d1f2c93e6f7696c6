//! Encodings: JSON, YAML, base64, hashes.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::{Kwargs, Value as Native, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize;
use serde_json::Value;
use sha2::Digest as _;

use super::text::substitute;
use crate::template::budget::{self, ITEM_BYTES, MAP_BYTES};
use crate::template::convert;
use crate::template::operators::{self, to_text};
use crate::template::session;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("tojson", |value: &Native, indent: Option<usize>, kwargs: Kwargs| {
        let text = json(value, indent, &kwargs)?;
        html_safe(&text).map(Native::from_safe_string)
    });
    env.add_filter("to_json", |value: &Native, indent: Option<usize>, kwargs: Kwargs| {
        json(value, indent, &kwargs).map(Native::from_safe_string)
    });
    env.add_filter("fromjson", from_json);
    env.add_filter("from_json", from_json);
    env.add_filter("to_yaml", to_yaml);
    env.add_filter("b64encode", |value: &Native| {
        let text = to_text(value)?;
        session::check_room(text.len())?;
        Ok::<_, Error>(STANDARD.encode(&*text))
    });
    env.add_filter("b64decode", b64decode);
    env.add_filter("hash", hash);
    env.add_filter("urlencode", urlencode);
}

/// JSON as Python formats it: a space after each comma and colon.
fn json(value: &Native, indent: Option<usize>, kwargs: &Kwargs) -> Result<String, Error> {
    let indent = indent.or(kwargs.get("indent")?);
    kwargs.assert_all_used()?;
    let value = convert::to_json(value)?;
    let mut text = String::new();
    write_json(&value, indent, 0, &mut text)?;
    Ok(text)
}

fn write_json(value: &Value, indent: Option<usize>, depth: usize, text: &mut String) -> Result<(), Error> {
    let line = |text: &mut String, depth: usize| {
        let margin = indent.map_or(0, |width| width.saturating_mul(depth));
        session::charge_allocation(margin.saturating_add(2))?;
        if indent.is_some() {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', margin));
        }
        Ok::<(), Error>(())
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value {
        Value::Array(items) if !items.is_empty() => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { comma } else { "" });
                line(text, depth + 1)?;
                write_json(item, indent, depth + 1, text)?;
            }
            line(text, depth)?;
            text.push(']');
        }
        Value::Object(map) if !map.is_empty() => {
            text.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                text.push_str(if index > 0 { comma } else { "" });
                line(text, depth + 1)?;
                push_scalar(key, text)?;
                text.push_str(": ");
                write_json(item, indent, depth + 1, text)?;
            }
            line(text, depth)?;
            text.push('}');
        }
        scalar => push_scalar(scalar, text)?,
    }
    Ok(())
}

/// Writes a scalar as JSON and charges it while it is written.
fn push_scalar(scalar: &impl Serialize, text: &mut String) -> Result<(), Error> {
    let mut written = BoundedBytes(Vec::new());
    serde_json::to_writer(&mut written, scalar).map_err(|_| budget::limit_error("a value's text is too long"))?;
    text.push_str(&String::from_utf8_lossy(&written.0));
    Ok(())
}

/// A buffer that stops growing at the budget.
struct BoundedBytes(Vec<u8>);

impl io::Write for BoundedBytes {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        session::charge_allocation(part.len()).map_err(io::Error::other)?;
        self.0.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes characters that would end a script or an attribute, as Jinja2 does.
fn html_safe(text: &str) -> Result<String, Error> {
    substitute(text, |c| match c {
        '<' => Some("\\u003c"),
        '>' => Some("\\u003e"),
        '&' => Some("\\u0026"),
        '\'' => Some("\\u0027"),
        _ => None,
    })
}

fn from_json(text: &str) -> Result<Native, Error> {
    charge_parsed(text)?;
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("this is not JSON: {error}")))?;
    Ok(convert::to_native(&value))
}

/// Charges the values in a JSON text: two bytes can be a list item, and seven a map entry.
fn charge_parsed(text: &str) -> Result<(), Error> {
    let (mut bytes, mut is_quoted, mut is_escaped) = (text.len(), false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b',' => bytes += ITEM_BYTES / 2,
            b'[' => bytes += ITEM_BYTES,
            b'{' => bytes += MAP_BYTES,
            _ => {}
        }
    }
    session::charge_allocation(bytes)
}

/// YAML in block style; a scalar is quoted if a parser could read it as another type.
fn to_yaml(value: &Native) -> Result<String, Error> {
    let value = convert::to_json(value)?;
    let mut text = String::new();
    write_yaml(&value, 0, &mut text)?;
    Ok(text)
}

fn write_yaml(value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                session::charge_allocation(depth * 2 + 3)?;
                text.extend(std::iter::repeat_n(' ', depth * 2));
                text.push('-');
                write_yaml_item(item, depth, text)?;
            }
            Ok(())
        }
        Value::Object(map) if !map.is_empty() => {
            for (key, item) in map {
                session::charge_allocation(depth * 2 + 3)?;
                text.extend(std::iter::repeat_n(' ', depth * 2));
                push_plain_text(key, text)?;
                text.push(':');
                write_yaml_item(item, depth, text)?;
            }
            Ok(())
        }
        scalar => {
            push_plain(scalar, text)?;
            text.push('\n');
            Ok(())
        }
    }
}

/// Writes the value after a dash or a key: a scalar on the same line, anything else on the next lines.
fn write_yaml_item(item: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
    let nested = matches!(item, Value::Array(items) if !items.is_empty())
        || matches!(item, Value::Object(map) if !map.is_empty());
    text.push(if nested { '\n' } else { ' ' });
    write_yaml(item, depth + 1, text)
}

/// Writes a scalar as YAML.
fn push_plain(value: &Value, text: &mut String) -> Result<(), Error> {
    match value {
        Value::String(scalar) => push_plain_text(scalar, text),
        other => push_scalar(other, text),
    }
}

/// Writes a text as YAML, unquoted only if every parser reads it as text.
fn push_plain_text(scalar: &str, text: &mut String) -> Result<(), Error> {
    if !is_bare(scalar) {
        return push_scalar(&scalar, text);
    }
    session::charge_allocation(scalar.len())?;
    text.push_str(scalar);
    Ok(())
}

fn is_bare(text: &str) -> bool {
    const WORDS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

fn b64decode(text: &str) -> Result<String, Error> {
    session::check_room(text.len() / 4 * 3)?;
    let invalid = || Error::new(ErrorKind::InvalidOperation, "this is not base64 of text");
    let bytes = STANDARD.decode(text.trim()).map_err(|_| invalid())?;
    String::from_utf8(bytes).map_err(|_| invalid())
}

/// `urlencode`: a text keeps its slashes; a map becomes a query, with pluses for spaces.
fn urlencode(value: &Native) -> Result<String, Error> {
    if value.kind() != ValueKind::Map {
        let mut encoded = String::new();
        push_percent(&to_text(value)?, b"/", "%20", &mut encoded)?;
        return Ok(encoded);
    }
    let mut query = String::new();
    for (index, key) in operators::items(value)?.iter().enumerate() {
        if index > 0 {
            query.push('&');
        }
        push_percent(&to_text(key)?, b"", "+", &mut query)?;
        query.push('=');
        push_percent(&to_text(&value.get_item(key)?)?, b"", "+", &mut query)?;
    }
    Ok(query)
}

/// Percent-encodes a text. The length is computed first.
fn push_percent(text: &str, safe: &[u8], space: &str, encoded: &mut String) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) || safe.contains(&byte);
    let plain = text.bytes().filter(|byte| is_plain(*byte)).count();
    let bytes = plain + (text.len() - plain) * 3;
    session::check_room(encoded.len().saturating_add(bytes))?;
    encoded.reserve(bytes);
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push_str(space),
            byte if is_plain(byte) => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(())
}

fn hash(value: &Native, algorithm: Option<&str>) -> Result<String, Error> {
    let text = to_text(value)?;
    match algorithm.unwrap_or("sha256") {
        "sha256" => Ok(hex::encode(sha2::Sha256::digest(text.as_bytes()))),
        "sha512" => Ok(hex::encode(sha2::Sha512::digest(text.as_bytes()))),
        "sha224" => Ok(hex::encode(sha2::Sha224::digest(text.as_bytes()))),
        "sha384" => Ok(hex::encode(sha2::Sha384::digest(text.as_bytes()))),
        other => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("hash does not know `{other}`; use sha224, sha256, sha384 or sha512"),
        )),
    }
}
