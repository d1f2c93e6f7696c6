//! Builds `request` and `approval` of `task.started`: what a call sends to which target, and what a person decides, with
//! `***` in place of secrets.
//!
//! Input: a rendered call. Output: the keys that describe the request, masked and then truncated, or the approval,
//! masked. Calls without such keys (`noop`, `python`) have no `request`.

use language::playbook::Task;
use language::template::Piece;
use model::outcome::TaskError;
use model::raw::RawJson;
use serde_json::{Map, Value, json};

use crate::pipeline_run::PipelineRun;
use crate::render::RenderedCall;
use crate::secrets::strip_value;

/// Keys that describe a request.
const KEYS: [&str; 10] = [
    "method", "url", "endpoint", "params", "command", "commands", "cmds", "query", "action", "uri",
];

/// Longer texts are truncated.
const TEXT_BYTES_MAX: usize = 512;

/// Larger requests are replaced by their size.
const REQUEST_BYTES_MAX: usize = 2 * 1024;

impl PipelineRun<'_> {
    /// Returns the request of a call; `None` if the call has none of the keys.
    pub(crate) fn rendered_request(&self, rendered_call: &RenderedCall) -> Option<RawJson> {
        let entries = KEYS
            .iter()
            .filter_map(|key| Some((*key, masked_value(rendered_call, key)?)));
        let entries: Map<String, Value> = entries.map(|(key, value)| (key.to_owned(), value)).collect();
        if entries.is_empty() {
            return None;
        }
        let mut request = Value::Object(entries);
        self.mask_recorded_value(&mut request);
        truncate_texts(&mut request);
        let raw = RawJson::from_serializable(&request);
        let bytes = raw.text().len();
        Some(if bytes <= REQUEST_BYTES_MAX {
            raw
        } else {
            RawJson::from_serializable(&json!({"truncated": true, "bytes": bytes}))
        })
    }

    /// Returns the approval that a `wait` task requests; an error if it is too large or not well-formed.
    pub(crate) fn rendered_approval(
        &self,
        task: &Task,
        rendered_call: &RenderedCall,
    ) -> Result<Option<RawJson>, Box<TaskError>> {
        let Some(mut approval) = masked_value(rendered_call, "approval") else {
            return Ok(None);
        };
        self.mask_recorded_value(&mut approval);
        pipeline::parse_approval(task, approval).map(Some)
    }

    fn mask_recorded_value(&self, value: &mut Value) {
        for masker in self.call_masker.iter().chain(&self.context.masker()) {
            masker.mask_value(value);
        }
        strip_value(value);
    }
}

/// Returns the value of a key without secrets.
fn masked_value(rendered_call: &RenderedCall, key: &str) -> Option<Value> {
    let lists = rendered_call.masked_parts.pieces.get(key);
    if let Some(lists) = lists.or_else(|| rendered_call.pieces.get(key)) {
        let texts: Vec<Value> = lists.iter().map(|list| join_pieces(list).into()).collect();
        return Some(match <[Value; 1]>::try_from(texts) {
            Ok([text]) => text,
            Err(texts) => texts.into(),
        });
    }
    let field = rendered_call.masked_parts.fields.get(key);
    let field = field.or_else(|| rendered_call.fields.get(key))?;
    (!field.is_null()).then(|| field.clone())
}

/// Returns the text of a command with its values filled in.
fn join_pieces(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text)
        | Piece::Raw(text)
        | Piece::Value(Value::String(text))
        | Piece::Ident(Value::String(text)) => text.clone(),
        Piece::Value(value) | Piece::Ident(value) => value.to_string(),
    });
    texts.collect()
}

fn truncate_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > TEXT_BYTES_MAX => {
            let is_end = |at: &usize| text.is_char_boundary(*at);
            let end = (0..=TEXT_BYTES_MAX).rev().find(is_end).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        Value::Array(items) => items.iter_mut().for_each(truncate_texts),
        Value::Object(map) => map.values_mut().for_each(truncate_texts),
        _ => {}
    }
}
