//! Encodings: JSON, YAML, base64, hashes.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::{Kwargs, Value as Native, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::Value;
use sha2::Digest as _;

use crate::template::convert;
use crate::template::operators::{self, print};
use crate::template::session;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter(
        "tojson",
        |value: &Native, indent: Option<usize>, kwargs: Kwargs| {
            let text = json(value, indent, &kwargs)?;
            Ok::<_, Error>(Native::from_safe_string(html_safe(&text)))
        },
    );
    env.add_filter(
        "to_json",
        |value: &Native, indent: Option<usize>, kwargs: Kwargs| {
            json(value, indent, &kwargs).map(Native::from_safe_string)
        },
    );
    env.add_filter("fromjson", from_json);
    env.add_filter("from_json", from_json);
    env.add_filter("to_yaml", to_yaml);
    env.add_filter("b64encode", |value: &Native| {
        print(value).map(|text| STANDARD.encode(text))
    });
    env.add_filter("b64decode", b64decode);
    env.add_filter("hash", hash);
    env.add_filter("urlencode", urlencode);
}

/// JSON as Python writes it: a space after each comma and colon.
fn json(value: &Native, indent: Option<usize>, kwargs: &Kwargs) -> Result<String, Error> {
    let indent = indent.or(kwargs.get("indent")?);
    kwargs.assert_all_used()?;
    let value = convert::to_json(value)?;
    let mut text = String::new();
    write_json(&value, indent, 0, &mut text)?;
    Ok(text)
}

fn write_json(
    value: &Value,
    indent: Option<usize>,
    depth: usize,
    text: &mut String,
) -> Result<(), Error> {
    let line = |text: &mut String, depth: usize| {
        let margin = indent.map_or(0, |width| width.saturating_mul(depth));
        session::charge(margin + 2)?;
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
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push_str(": ");
                write_json(item, indent, depth + 1, text)?;
            }
            line(text, depth)?;
            text.push('}');
        }
        scalar => {
            let scalar = scalar.to_string();
            session::charge(scalar.len())?;
            text.push_str(&scalar);
        }
    }
    Ok(())
}

/// Escapes what would end a script or an attribute, as Jinja2 does.
fn html_safe(text: &str) -> String {
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\'', "\\u0027")
}

fn from_json(text: &str) -> Result<Native, Error> {
    session::charge(text.len())?;
    let value: Value = serde_json::from_str(text).map_err(|error| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("this is not JSON: {error}"),
        )
    })?;
    Ok(convert::to_native(&value))
}

/// YAML in block style; a scalar is quoted wherever a reader could take it for something else.
fn to_yaml(value: &Native) -> Result<String, Error> {
    let value = convert::to_json(value)?;
    let mut text = String::new();
    write_yaml(&value, 0, &mut text)?;
    Ok(text)
}

fn write_yaml(value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
    let entries: Vec<(String, &Value)> = match value {
        Value::Array(items) if !items.is_empty() => {
            items.iter().map(|item| ("-".to_owned(), item)).collect()
        }
        Value::Object(map) if !map.is_empty() => map
            .iter()
            .map(|(key, item)| (format!("{}:", plain(&Value::from(key.as_str()))), item))
            .collect(),
        scalar => {
            text.push_str(&plain(scalar));
            text.push('\n');
            return session::charge(text.len());
        }
    };
    for (lead, item) in entries {
        session::charge(depth * 2 + lead.len() + 2)?;
        text.extend(std::iter::repeat_n(' ', depth * 2));
        text.push_str(&lead);
        let nested = matches!(item, Value::Array(items) if !items.is_empty())
            || matches!(item, Value::Object(map) if !map.is_empty());
        if nested {
            text.push('\n');
            write_yaml(item, depth + 1, text)?;
        } else {
            text.push(' ');
            text.push_str(&plain(item));
            text.push('\n');
        }
    }
    Ok(())
}

/// A scalar as YAML: bare only where no reader could take it for something else.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if is_bare(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_bare(text: &str) -> bool {
    const WORDS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

fn b64decode(text: &str) -> Result<String, Error> {
    let invalid = || Error::new(ErrorKind::InvalidOperation, "this is not base64 of text");
    let bytes = STANDARD.decode(text.trim()).map_err(|_| invalid())?;
    String::from_utf8(bytes).map_err(|_| invalid())
}

/// A path's text keeps its slashes; a map is a query, with pluses for spaces.
fn urlencode(value: &Native) -> Result<String, Error> {
    if value.kind() != ValueKind::Map {
        return Ok(percent(&print(value)?, b"/", "%20"));
    }
    let mut pairs = Vec::new();
    for key in operators::items(value)? {
        let item = print(&value.get_item(&key)?)?;
        pairs.push(format!(
            "{}={}",
            percent(&print(&key)?, b"", "+"),
            percent(&item, b"", "+")
        ));
    }
    Ok(pairs.join("&"))
}

fn percent(text: &str, safe: &[u8], space: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push_str(space),
            b'_' | b'.' | b'-' | b'~' => encoded.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() || safe.contains(&byte) => {
                encoded.push(char::from(byte));
            }
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

fn hash(value: &Native, algorithm: Option<&str>) -> Result<String, Error> {
    let text = print(value)?;
    match algorithm.unwrap_or("sha256") {
        "sha256" => Ok(hex::encode(sha2::Sha256::digest(text))),
        "sha512" => Ok(hex::encode(sha2::Sha512::digest(text))),
        "sha224" => Ok(hex::encode(sha2::Sha224::digest(text))),
        "sha384" => Ok(hex::encode(sha2::Sha384::digest(text))),
        other => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("hash does not know `{other}`; use sha224, sha256, sha384 or sha512"),
        )),
    }
}
