//! Forms in which a secret can appear: plain, escaped, percent-encoded, in hex, and in base64 at every alignment.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use language::playbook::credentials;
use serde_json::Value;

/// Shorter texts are too common to be masked.
pub(super) const SECRET_BYTES_MIN: usize = 6;

/// Longer derived texts are not searched for in encoded forms.
const ENCODED_BYTES_MAX: usize = 4 * 1024;

/// Shorter lines of a derived text are likely the author's own text.
const DERIVED_LINE_BYTES_MIN: usize = 16;

/// Characters that encoders leave unescaped in a part of a URL: unreserved characters only, Python, browser scripts,
/// and URLs that were parsed and serialized again (query, path, userinfo).
const UNESCAPED_IN_URLS: &[&str] = &[
    "-_.~",
    "-_.~/",
    "-_.~!'()*",
    "-_.~!'()*;/?:@&=+$,#",
    "-_.~!()*;/?:@&=+$,%[]\\^`{|}",
    "-_.~!'()*;/:@&=+$,%[]\\|",
    "-_.~!'()*&+$,%",
];

/// Collects the texts in a credential that must be masked.
pub(super) fn collect_secret_texts(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => add_text_and_parts(text, texts),
        Value::Number(number) => add_text(&number.to_string(), texts),
        Value::Array(items) => items.iter().for_each(|item| collect_secret_texts(item, texts)),
        Value::Object(map) => {
            for (key, value) in map {
                let is_public = credentials::is_public_field(key);
                if !is_public || value.is_object() {
                    collect_secret_texts(value, texts);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn add_text(text: &str, texts: &mut BTreeSet<String>) {
    if text.len() >= SECRET_BYTES_MIN {
        texts.insert(text.to_owned());
    }
}

/// Adds a text, its lines, the password of a URL, and the values of a JSON text: each can appear alone.
fn add_text_and_parts(text: &str, texts: &mut BTreeSet<String>) {
    add_text(text, texts);
    if text.contains('\n') {
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.starts_with("-----")) {
            add_text(line, texts);
        }
    }
    if let Some(password) = url_password(text) {
        add_text(password, texts);
        add_text(&percent_decode(password), texts);
    }
    let is_json = text.trim_start().starts_with('{');
    if is_json && let Ok(inner @ Value::Object(_)) = serde_json::from_str(text) {
        collect_secret_texts(&inner, texts);
    }
}

/// Returns the password in a URL's userinfo.
fn url_password(text: &str) -> Option<&str> {
    let (_, authority) = text.split_once("://")?;
    let authority = authority.split(['/', '?', '#']).next()?;
    let (userinfo, _) = authority.rsplit_once('@')?;
    Some(userinfo.split_once(':')?.1)
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while position < bytes.len() {
        let code = bytes
            .get(position + 1..position + 3)
            .filter(|_| bytes[position] == b'%');
        if let Some(byte) = code.and_then(|code| hex::decode(code).ok()) {
            out.extend(byte);
            position += 3;
        } else {
            out.push(bytes[position]);
            position += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Adds every form of a text.
pub(super) fn add_forms(text: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let bytes = text.as_bytes();
    forms.insert(bytes.to_vec());
    forms.insert(escape_json(text).into_bytes());
    forms.insert(escape_ascii_json(text).into_bytes());
    let lower = hex::encode(bytes);
    forms.insert(lower.to_ascii_uppercase().into_bytes());
    forms.insert(lower.into_bytes());
    for unescaped in UNESCAPED_IN_URLS {
        for space in ["%20", "+"] {
            for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
                forms.insert(percent_encode(bytes, unescaped, space, digits).into_bytes());
            }
        }
    }
    for encoded in [
        STANDARD.encode(bytes),
        STANDARD_NO_PAD.encode(bytes),
        URL_SAFE.encode(bytes),
        URL_SAFE_NO_PAD.encode(bytes),
    ] {
        forms.insert(encoded.into_bytes());
    }
    for shift in 0..3 {
        forms.extend(base64_inner_forms(bytes, shift));
    }
}

/// Adds the forms of a text that a template derived from a secret. Long texts are added only plain and as JSON; long
/// lines are added too.
pub(super) fn add_derived_forms(text: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let mut parts = vec![text];
    if text.contains('\n') {
        let lines = text.lines().map(str::trim);
        parts.extend(lines.filter(|line| line.len() >= DERIVED_LINE_BYTES_MIN));
    }
    for part in parts {
        if part.len() <= ENCODED_BYTES_MAX {
            add_forms(part, forms);
        } else {
            forms.insert(part.as_bytes().to_vec());
            forms.insert(escape_json(part).into_bytes());
        }
    }
}

/// Returns the base64 characters of a text inside a longer encoded text, if the text starts `shift` bytes after a
/// group.
fn base64_inner_forms(bytes: &[u8], shift: usize) -> Vec<Vec<u8>> {
    let shifted = [&[0; 2][..shift], bytes].concat();
    let from = (shift * 8).div_ceil(6);
    let to = shifted.len() * 8 / 6;
    let inner = |encoded: String| encoded.as_bytes()[from..to].to_vec();
    let encodings = [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)];
    let is_long = |form: &Vec<u8>| form.len() >= SECRET_BYTES_MIN;
    encodings.into_iter().map(inner).filter(is_long).collect()
}

fn percent_encode(bytes: &[u8], unescaped: &str, space: &str, digits: &[u8; 16]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' ' => out.push_str(space),
            byte if byte.is_ascii_alphanumeric() || unescaped.as_bytes().contains(byte) => {
                out.push(char::from(*byte));
            }
            other => {
                let digit = |half: u8| char::from(digits[usize::from(half)]);
                out.extend(['%', digit(other >> 4), digit(other & 15)]);
            }
        }
    }
    out
}

/// Returns the text as it is inside a JSON string.
fn escape_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns the text as it is inside a JSON string of ASCII characters only, as Python writes it.
fn escape_ascii_json(text: &str) -> String {
    let mut out = String::new();
    for c in escape_json(text).chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret_texts(value: &Value) -> Vec<String> {
        let mut texts = BTreeSet::new();
        collect_secret_texts(value, &mut texts);
        texts.into_iter().collect()
    }

    #[test]
    fn addresses_and_user_names_are_not_secrets() {
        let value = json!({"type": "postgres", "db_host": "db.example.com", "db_user": "postgres",
            "db_password": "canary-1", "port": 543_210, "pin": 123_456, "short": "abc"});
        assert_eq!(secret_texts(&value), ["123456", "canary-1"]);
    }

    #[test]
    fn lines_and_fields_of_a_secret_are_secrets() {
        let url = json!({"dsn": "postgres://me:can%40ry@db/x"});
        let texts = secret_texts(&url);
        assert!(texts.contains(&"can%40ry".to_owned()) && texts.contains(&"can@ry".to_owned()));
        let pem = json!({"private_key": "-----BEGIN KEY-----\nMIIcanary\nsecond-line\n-----END KEY-----\n"});
        let texts = secret_texts(&pem);
        assert!(texts.contains(&"MIIcanary".to_owned()) && texts.contains(&"second-line".to_owned()));
        assert!(!texts.iter().any(|text| text == "-----BEGIN KEY-----"));
        let account = json!({"account_json": "{\"project_id\": \"project\", \"private_key\": \"canary\"}"});
        assert!(secret_texts(&account).contains(&"canary".to_owned()));
    }

    #[test]
    fn a_text_is_detected_in_base64_at_any_offset() {
        let secret = "canary-s3cret";
        let mut texts = BTreeSet::new();
        add_forms(secret, &mut texts);
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "z", "zz"] {
                let encoded = STANDARD.encode(format!("{before}{secret}{after}"));
                let is_contained = |form: &Vec<u8>| encoded.contains(std::str::from_utf8(form).unwrap());
                assert!(texts.iter().any(is_contained), "{before} {after}");
            }
        }
    }

    #[test]
    fn escapes_are_masked_in_upper_and_lower_case() {
        let mut texts = BTreeSet::new();
        add_forms("pä ss/word\"", &mut texts);
        for form in [
            "p%C3%A4%20ss%2Fword%22",
            "p%c3%a4%20ss%2fword%22",
            "p%C3%A4+ss%2Fword%22",
            "pä ss/word\\\"",
            "p\\u00e4 ss/word\\\"",
            "70c3a42073732f776f726422",
        ] {
            assert!(texts.contains(form.as_bytes()), "{form}");
        }
    }
}
