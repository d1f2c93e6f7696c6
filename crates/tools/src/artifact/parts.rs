//! Reads stored results: whole if they fit into memory, or some rows of a list.

use std::ops::Range;

use language::template::{BodyPath, find_path};
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::IN_MEMORY_BYTES_MAX;
use model::result_ref::PathSegment;
use serde_json::{Value, json};

use crate::call::{Call, ResultAccess, read_error};

/// Rows that `slice` requests: `[a, b]`, `"a..b"` or `"a:b"`, without `b`.
pub(super) fn parse_slice(call: &Call) -> Result<Option<Range<u64>>, TaskError> {
    let Some(value) = call.field("slice") else {
        return Ok(None);
    };
    let invalid = || call.wrong_type_error("slice", "two numbers: [0, 100] or \"0..100\"", value);
    let ends: Option<Vec<u64>> = match value {
        Value::Array(ends) => ends.iter().map(Value::as_u64).collect(),
        Value::String(text) => {
            let parts = text.split_once("..").or_else(|| text.split_once(':'));
            let (from, to) = parts.ok_or_else(invalid)?;
            let number = |text: &str, or: u64| match text.trim() {
                "" => Some(or),
                text => text.parse().ok(),
            };
            [number(from, 0), number(to, u64::MAX)].into_iter().collect()
        }
        _ => None,
    };
    match ends.as_deref() {
        Some([from, to]) if from <= to => Ok(Some(*from..*to)),
        _ => Err(invalid()),
    }
}

/// Loads the value that a task refers to.
pub(super) async fn load_value(access: &ResultAccess, body_path: &BodyPath) -> Result<Value, TaskError> {
    let reference = &body_path.reference;
    if reference.meta.bytes > IN_MEMORY_BYTES_MAX {
        let message = format!(
            "stored result `{}` ({} bytes) is too large to load into memory; read some rows with `slice`, or read `_file` in a program",
            reference.uri, reference.meta.bytes
        );
        return Err(
            TaskError::new(ErrorKind::Storage, "BODY_TOO_LARGE", message).with_detail("ref", reference.uri.as_str())
        );
    }
    let bytes = access.body_store.get(reference).await;
    let bytes = bytes.map_err(|error| read_error(&error, reference))?;
    let value = results::decode_body(reference, &bytes);
    Ok(find_path(&value, &body_path.paths).cloned().unwrap_or_default())
}

/// Loads some rows of a list inside a stored result without loading all of it.
pub(super) async fn load_rows(
    access: &ResultAccess,
    body_path: &BodyPath,
    rows: Range<u64>,
) -> Result<Value, TaskError> {
    let reference = &body_path.reference;
    let failed = |error: results::Error| read_error(&error, reference);
    let paths = list_paths(&body_path.paths);
    let located = results::locate_value(&*access.body_store, reference, &paths)
        .await
        .map_err(failed)?;
    let offsets = located.and_then(|located| located.list).ok_or_else(not_a_list_error)?;
    let requested = rows.start..rows.end.min(offsets.total);
    let mut data = Vec::new();
    let mut next = requested.start;
    let mut remaining_bytes = usize::try_from(IN_MEMORY_BYTES_MAX).unwrap_or(usize::MAX);
    while next < requested.end {
        let part = results::read_elements(
            &*access.body_store,
            reference,
            &offsets,
            next..requested.end,
            remaining_bytes,
        )
        .await;
        let part = part.map_err(failed)?;
        next += part.len() as u64;
        remaining_bytes = remaining_bytes.saturating_sub(part.iter().map(|row| row.to_string().len()).sum());
        data.extend(part);
        if remaining_bytes == 0 && next < requested.end {
            let message = format!(
                "rows {}..{} exceed the limit of {IN_MEMORY_BYTES_MAX} bytes; request fewer",
                requested.start, requested.end
            );
            return Err(TaskError::new(ErrorKind::Storage, "BODY_TOO_LARGE", message));
        }
    }
    Ok(json!({"data": data, "from": requested.start, "to": next.max(requested.start), "total": offsets.total}))
}

/// Some rows of a list in memory.
pub(super) fn slice_list(value: &Value, rows: Range<u64>) -> Result<Value, TaskError> {
    let list = find_path(value, &list_paths(&[Vec::new()]))
        .and_then(Value::as_array)
        .ok_or_else(not_a_list_error)?;
    let index = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(list.len());
    let (from, to) = (index(rows.start), index(rows.end));
    Ok(json!({"data": list[from..to], "from": from, "to": to, "total": list.len()}))
}

/// If the value is not a list, looks for one in `data` or `rows`.
fn list_paths(paths: &[Vec<PathSegment>]) -> Vec<Vec<PathSegment>> {
    let key = |name: &str| PathSegment::Key(name.to_owned());
    let suffixes = [
        vec![key("rows")],
        vec![key("data"), key("rows")],
        vec![key("data")],
        Vec::new(),
    ];
    let mut all = Vec::new();
    for suffix in &suffixes {
        all.extend(paths.iter().map(|path| [path.as_slice(), suffix].concat()));
    }
    all
}

fn not_a_list_error() -> TaskError {
    let message = "`slice` requires a list; set `ref` to one, for example \"{{ fetch.data.items }}\"";
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "slice")
}
