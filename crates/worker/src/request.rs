//! What `task.started` shows of a call: what is asked of whom, with `***` in place of secrets.
//!
//! Enters: a rendered call. Leaves: the keys that describe the request, masked first and cut then. Calls without such keys
//! (`noop`, `python`) have none, and their events stay as small as they were.

use model::raw::Raw;
use model::template::Piece;
use serde_json::{Map, Value, json};

use crate::render::Ready;
use crate::run::Pipeline;
use crate::secrets::strip_value;

/// The keys that describe a request.
const KEYS: [&str; 10] = [
    "method", "url", "endpoint", "params", "command", "commands", "cmds", "query", "action", "uri",
];

/// A longer text is cut.
const TEXT_BYTES_MAX: usize = 512;

/// A larger request is replaced by its size.
const REQUEST_BYTES_MAX: usize = 2 * 1024;

impl Pipeline<'_> {
    /// The request that a call makes; none where nothing about it is recorded.
    pub(crate) fn rendered_request(&self, ready: &Ready) -> Option<Raw> {
        let entries = KEYS
            .iter()
            .filter_map(|key| Some((*key, shown(ready, key)?)));
        let entries: Map<String, Value> = entries
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        if entries.is_empty() {
            return None;
        }
        let mut request = Value::Object(entries);
        for masks in self.call_masks.iter().chain(&self.hand.masks()) {
            masks.value(&mut request);
        }
        strip_value(&mut request);
        cut(&mut request);
        let raw = Raw::of(&request);
        let bytes = raw.text().len();
        Some(if bytes <= REQUEST_BYTES_MAX {
            raw
        } else {
            Raw::of(&json!({"truncated": true, "bytes": bytes}))
        })
    }
}

/// What may be shown of a key.
fn shown(ready: &Ready, key: &str) -> Option<Value> {
    let lists = ready.shown.pieces.get(key);
    if let Some(lists) = lists.or_else(|| ready.pieces.get(key)) {
        let texts: Vec<Value> = lists.iter().map(|list| text(list).into()).collect();
        return Some(match <[Value; 1]>::try_from(texts) {
            Ok([text]) => text,
            Err(texts) => texts.into(),
        });
    }
    let field = ready.shown.fields.get(key);
    let field = field.or_else(|| ready.fields.get(key))?;
    (!field.is_null()).then(|| field.clone())
}

/// A command with its values where they stand.
fn text(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text)
        | Piece::Raw(text)
        | Piece::Value(Value::String(text))
        | Piece::Ident(Value::String(text)) => text.clone(),
        Piece::Value(value) | Piece::Ident(value) => value.to_string(),
    });
    texts.collect()
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > TEXT_BYTES_MAX => {
            let is_end = |at: &usize| text.is_char_boundary(*at);
            let end = (0..=TEXT_BYTES_MAX).rev().find(is_end).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        Value::Array(items) => items.iter_mut().for_each(cut),
        Value::Object(map) => map.values_mut().for_each(cut),
        _ => {}
    }
}
