//! Fields and previews that a reference contains, so that conditions, state and users need not load the body.

use model::playbook::{InvalidPathError, ResultControl, Selection};
use model::result_ref::{ENVELOPE_WORDS, KEY_BYTES_MAX, KEYS_MAX, Preview};
use serde_json::{Map, Value};

use crate::Error;

/// Maximum number of extracted fields if nothing is selected.
const FIELDS_MAX: usize = 32;

/// Maximum length of an extracted string in characters, if nothing is selected.
const TEXT_CHARS_MAX: usize = 500;

/// Fields that are always extracted.
pub(crate) const ALWAYS_EXTRACTED: [&str; 2] = ["status", "row_count"];

/// Extracts the values that a task selects from a result in memory.
pub fn select_fields(result: &Value, control: &ResultControl) -> Result<Selection, Error> {
    let selected = control.select_from(result);
    selected.map_err(|InvalidPathError { path, problem }| Error::InvalidSelect { path, problem })
}

/// Returns the selected values, or the top-level scalars if nothing is selected.
pub fn extract_fields(body: &Value, control: &ResultControl) -> Result<Map<String, Value>, Error> {
    let mut fields = if control.select.is_empty() {
        top_level_scalars(body)
    } else {
        select_fields(body, control)?.fields
    };
    for name in ALWAYS_EXTRACTED {
        if let Some(value) = body.get(name).filter(|value| is_small(value))
            && !fields.contains_key(name)
        {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Ok(fields)
}

/// Returns the top-level scalars; reserves space for the fields in `ALWAYS_EXTRACTED`.
fn top_level_scalars(body: &Value) -> Map<String, Value> {
    let Value::Object(body) = body else {
        return Map::new();
    };
    let reserved = ALWAYS_EXTRACTED.iter().filter(|name| body.contains_key(**name)).count();
    let is_reserved = |name: &str| ALWAYS_EXTRACTED.contains(&name);
    let mut fields_left = FIELDS_MAX - reserved;
    let mut fields = Map::new();
    for (name, value) in body.iter().filter(|(_, value)| is_small(value)) {
        if is_reserved(name) {
            fields.insert(name.clone(), value.clone());
        } else if fields_left > 0 {
            fields_left -= 1;
            fields.insert(name.clone(), value.clone());
        }
    }
    fields
}

/// Returns the top-level keys that a reference lists in addition to the extracted ones, the envelope's words first.
pub(crate) fn listed_keys<'k>(
    keys: impl Iterator<Item = &'k str> + Clone,
    extracted: &Map<String, Value>,
) -> Vec<String> {
    let keys = keys.filter(|key| key.len() <= KEY_BYTES_MAX && !extracted.contains_key(*key));
    let is_word = |key: &&str| ENVELOPE_WORDS.contains(key);
    let words = keys.clone().filter(is_word);
    let other_keys = keys.filter(|key| !is_word(key));
    let first_keys = words.chain(other_keys).take(KEYS_MAX);
    first_keys.map(str::to_owned).collect()
}

fn is_small(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().nth(TEXT_CHARS_MAX).is_none(),
        Value::Array(_) | Value::Object(_) => false,
        _ => true,
    }
}

/// Returns the beginning of a body whose JSON text has `body_bytes` bytes, in at most `bytes_max` bytes of JSON text.
pub fn build_preview(body: &Value, body_bytes: usize, bytes_max: usize) -> Preview {
    if body_bytes <= bytes_max {
        return Preview {
            truncated: false,
            bytes: body_bytes as u64,
            sample: body.clone(),
        };
    }
    let mut bytes_left = bytes_max;
    let sample = truncate_value(body, &mut bytes_left).unwrap_or(Value::Null);
    Preview {
        truncated: true,
        bytes: (bytes_max - bytes_left) as u64,
        sample,
    }
}

/// Returns as much of the value as fits into `bytes_left` bytes of JSON; `None` if its brackets do not fit.
fn truncate_value(value: &Value, bytes_left: &mut usize) -> Option<Value> {
    match value {
        Value::Array(items) => {
            reserve_bytes(bytes_left, 2)?;
            let mut collected = Vec::new();
            for item in items {
                let before = *bytes_left;
                let Some(item) = reserve_bytes(bytes_left, 1).and_then(|()| truncate_value(item, bytes_left)) else {
                    *bytes_left = before;
                    break;
                };
                collected.push(item);
            }
            Some(Value::Array(collected))
        }
        Value::Object(fields) => {
            reserve_bytes(bytes_left, 2)?;
            let mut collected = Map::new();
            for (name, value) in fields {
                let before = *bytes_left;
                let name_bytes = json_text_bytes(name) + 2;
                let Some(value) =
                    reserve_bytes(bytes_left, name_bytes).and_then(|()| truncate_value(value, bytes_left))
                else {
                    *bytes_left = before;
                    break;
                };
                collected.insert(name.clone(), value);
            }
            Some(Value::Object(collected))
        }
        Value::String(text) => truncate_text(text, bytes_left),
        scalar => {
            reserve_bytes(bytes_left, scalar.to_string().len())?;
            Some(scalar.clone())
        }
    }
}

fn truncate_text(text: &str, bytes_left: &mut usize) -> Option<Value> {
    reserve_bytes(bytes_left, 2)?;
    let mut truncated = String::new();
    for character in text.chars() {
        let bytes = json_text_bytes(character.encode_utf8(&mut [0; 4])) - 2;
        if reserve_bytes(bytes_left, bytes).is_none() {
            break;
        }
        truncated.push(character);
    }
    Some(Value::String(truncated))
}

fn reserve_bytes(bytes_left: &mut usize, bytes: usize) -> Option<()> {
    *bytes_left = bytes_left.checked_sub(bytes)?;
    Some(())
}

/// Length of a text as JSON, including its quotes.
fn json_text_bytes(text: &str) -> usize {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        text.len() + 2
    } else {
        Value::from(text).to_string().len()
    }
}

#[cfg(test)]
mod tests {
    use model::playbook::SelectEntry;
    use serde_json::json;

    use super::*;

    #[test]
    fn by_default_top_level_scalars_are_lifted_out() {
        let body = json!({"n": 1, "s": "x", "long": "y".repeat(501), "list": [1], "status": "done", "none": null});
        let fields = extract_fields(&body, &ResultControl::default()).unwrap();
        let expected = json!({"n": 1, "s": "x", "status": "done", "none": null});
        assert_eq!(Value::Object(fields), expected);
    }

    #[test]
    fn status_and_row_count_are_extracted_however_many_fields_there_are() {
        let mut body = Map::new();
        for n in 0..100 {
            body.insert(format!("f{n}"), n.into());
        }
        body.insert("row_count".to_owned(), 7.into());
        let fields = extract_fields(&Value::Object(body), &ResultControl::default()).unwrap();
        assert_eq!(fields.len(), FIELDS_MAX);
        assert_eq!(fields["row_count"], 7);
    }

    #[test]
    fn the_row_count_is_extracted_in_addition_to_the_selection() {
        let select = |path: &str| ResultControl {
            select: vec![SelectEntry {
                path: path.to_owned(),
                name: "x".into(),
            }],
            ..ResultControl::default()
        };
        let body = json!({"a": 1, "row_count": 2});
        let fields = extract_fields(&body, &select("$.b")).unwrap();
        assert_eq!(Value::Object(fields), json!({"x": null, "row_count": 2}));
        let error = extract_fields(&body, &select("$..[")).unwrap_err();
        assert_eq!(error.code(), "SELECT_INVALID");
    }

    #[test]
    fn the_keys_of_the_envelope_are_listed_first() {
        let mut body = Map::new();
        for n in 0..100 {
            body.insert(format!("list{n}"), json!([n]));
        }
        body.insert("error".to_owned(), json!({"why": 1}));
        body.insert("small".to_owned(), json!(1));
        let extracted = extract_fields(&Value::Object(body.clone()), &ResultControl::default()).unwrap();
        let keys = listed_keys(body.keys().map(String::as_str), &extracted);
        assert_eq!((keys.len(), keys[0].as_str()), (KEYS_MAX, "error"));
        assert!(!keys.contains(&"small".to_owned()), "{keys:?}");
    }

    #[test]
    fn a_preview_fits_its_limit_and_is_marked_as_truncated() {
        let rows: Vec<Value> = (0..1000).map(|n| json!({"id": n, "text": "a\"ü\n"})).collect();
        let body = Value::Array(rows);
        let preview = build_preview(&body, body.to_string().len(), 200);
        assert!(preview.truncated);
        let sample = preview.sample.to_string();
        assert!(sample.len() <= 200, "{} bytes", sample.len());
        assert!(preview.sample.as_array().unwrap().len() >= 4, "{sample}");
    }

    #[test]
    fn a_small_body_is_its_own_preview() {
        let body = json!([1, 2]);
        let preview = build_preview(&body, 5, 200);
        assert_eq!((preview.truncated, preview.sample), (false, body));
    }
}
