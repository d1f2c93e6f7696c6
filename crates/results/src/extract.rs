//! What is lifted out of a body so that guards, state and people need not load it.

use model::playbook::Select;
use model::result_ref::Preview;
use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use crate::Error;

/// At most so many fields are lifted out where nothing was selected.
const FIELDS_MAX: usize = 32;

/// Text up to this many characters is lifted out where nothing was selected.
const TEXT_CHARS_MAX: usize = 500;

/// Lifted out whatever else is.
pub(crate) const ALWAYS: [&str; 2] = ["status", "row_count"];

/// The selected values, or the top-level scalars where nothing was selected.
pub fn extract(body: &Value, select: &[Select]) -> Result<Map<String, Value>, Error> {
    let mut fields = if select.is_empty() {
        scalars(body)
    } else {
        selected(body, select)?
    };
    for name in ALWAYS {
        if let Some(value) = body.get(name).filter(|value| is_small(value))
            && !fields.contains_key(name)
        {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Ok(fields)
}

fn selected(body: &Value, select: &[Select]) -> Result<Map<String, Value>, Error> {
    let mut fields = Map::new();
    for wanted in select {
        let path = JsonPath::parse(&wanted.path).map_err(|error| Error::Select {
            path: wanted.path.clone(),
            problem: error.to_string(),
        })?;
        let found = path.query(body).all();
        let value = match found.as_slice() {
            [] => Value::Null,
            [one] => (*one).clone(),
            many => many.iter().map(|value| (*value).clone()).collect(),
        };
        fields.insert(wanted.name.to_string(), value);
    }
    Ok(fields)
}

/// Room is left for what is always lifted out.
fn scalars(body: &Value) -> Map<String, Value> {
    let Value::Object(body) = body else {
        return Map::new();
    };
    let due = ALWAYS
        .iter()
        .filter(|name| body.contains_key(**name))
        .count();
    let is_due = |name: &str| ALWAYS.contains(&name);
    let mut room = FIELDS_MAX - due;
    let mut fields = Map::new();
    for (name, value) in body.iter().filter(|(_, value)| is_small(value)) {
        if is_due(name) {
            fields.insert(name.clone(), value.clone());
        } else if room > 0 {
            room -= 1;
            fields.insert(name.clone(), value.clone());
        }
    }
    fields
}

fn is_small(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().nth(TEXT_CHARS_MAX).is_none(),
        Value::Array(_) | Value::Object(_) => false,
        _ => true,
    }
}

/// The beginning of a body whose JSON text has `body_bytes` bytes, in at most `bytes_max` bytes of JSON text.
pub fn preview(body: &Value, body_bytes: usize, bytes_max: usize) -> Preview {
    if body_bytes <= bytes_max {
        return Preview {
            truncated: false,
            bytes: body_bytes as u64,
            sample: body.clone(),
        };
    }
    let mut room = bytes_max;
    let sample = cut(body, &mut room).unwrap_or(Value::Null);
    Preview {
        truncated: true,
        bytes: (bytes_max - room) as u64,
        sample,
    }
}

/// As much of the value as fits into `room` bytes of JSON; none if not even its brackets do.
fn cut(value: &Value, room: &mut usize) -> Option<Value> {
    match value {
        Value::Array(items) => {
            take(room, 2)?;
            let mut kept = Vec::new();
            for item in items {
                let before = *room;
                let Some(item) = take(room, 1).and_then(|()| cut(item, room)) else {
                    *room = before;
                    break;
                };
                kept.push(item);
            }
            Some(Value::Array(kept))
        }
        Value::Object(fields) => {
            take(room, 2)?;
            let mut kept = Map::new();
            for (name, value) in fields {
                let before = *room;
                let name_bytes = text_bytes(name) + 2;
                let Some(value) = take(room, name_bytes).and_then(|()| cut(value, room)) else {
                    *room = before;
                    break;
                };
                kept.insert(name.clone(), value);
            }
            Some(Value::Object(kept))
        }
        Value::String(text) => cut_text(text, room),
        scalar => {
            take(room, scalar.to_string().len())?;
            Some(scalar.clone())
        }
    }
}

fn cut_text(text: &str, room: &mut usize) -> Option<Value> {
    take(room, 2)?;
    let mut kept = String::new();
    for character in text.chars() {
        let bytes = text_bytes(character.encode_utf8(&mut [0; 4])) - 2;
        if take(room, bytes).is_none() {
            break;
        }
        kept.push(character);
    }
    Some(Value::String(kept))
}

fn take(room: &mut usize, bytes: usize) -> Option<()> {
    *room = room.checked_sub(bytes)?;
    Some(())
}

/// The length of a text as JSON, with its quotes.
fn text_bytes(text: &str) -> usize {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        text.len() + 2
    } else {
        Value::from(text).to_string().len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn by_default_top_level_scalars_are_lifted_out() {
        let body = json!({"n": 1, "s": "x", "long": "y".repeat(501), "list": [1], "status": "done", "none": null});
        let fields = extract(&body, &[]).unwrap();
        let expected = json!({"n": 1, "s": "x", "status": "done", "none": null});
        assert_eq!(Value::Object(fields), expected);
    }

    #[test]
    fn status_and_row_count_are_there_however_many_fields_there_are() {
        let mut body = Map::new();
        for n in 0..100 {
            body.insert(format!("f{n}"), n.into());
        }
        body.insert("row_count".to_owned(), 7.into());
        let fields = extract(&Value::Object(body), &[]).unwrap();
        assert_eq!(fields.len(), FIELDS_MAX);
        assert_eq!(fields["row_count"], 7);
    }

    #[test]
    fn selected_paths_are_found_and_missing_ones_are_null() {
        let select = |path: &str, name: &str| Select {
            path: path.to_owned(),
            name: name.into(),
        };
        let body =
            json!({"paging": {"hasMore": true}, "ids": [{"id": 1}, {"id": 2}], "row_count": 2});
        let wanted = [
            select("$.paging.hasMore", "has_more"),
            select("$.ids[*].id", "ids"),
            select("$.paging.page", "page"),
        ];
        let fields = extract(&body, &wanted).unwrap();
        let expected = json!({"has_more": true, "ids": [1, 2], "page": null, "row_count": 2});
        assert_eq!(Value::Object(fields), expected);
        let error = extract(&body, &[select("$..[", "x")]).unwrap_err();
        assert_eq!(error.code(), "SELECT_INVALID");
    }

    #[test]
    fn a_preview_fits_its_room_and_says_that_it_is_cut() {
        let rows: Vec<Value> = (0..1000)
            .map(|n| json!({"id": n, "text": "a\"ü\n"}))
            .collect();
        let body = Value::Array(rows);
        let preview = preview(&body, body.to_string().len(), 200);
        assert!(preview.truncated);
        let sample = preview.sample.to_string();
        assert!(sample.len() <= 200, "{} bytes", sample.len());
        assert!(preview.sample.as_array().unwrap().len() >= 4, "{sample}");
    }

    #[test]
    fn a_small_body_is_its_own_preview() {
        let body = json!([1, 2]);
        let preview = preview(&body, 5, 200);
        assert_eq!((preview.truncated, preview.sample), (false, body));
    }
}
