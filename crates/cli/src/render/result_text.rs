//! Prints results: a small result is parsed and formatted, a large one is streamed unchanged.

use bytes::Bytes;
use futures_util::StreamExt as _;
use results::Pieces;
use serde_json::{Map, Value};

use crate::args::Format;
use crate::out::Out;
use crate::problem::{Exit, Problem};
use crate::render::value;

/// Maximum size of a result that is formatted; larger ones are streamed.
pub(crate) const LAID_OUT_MAX: usize = 1024 * 1024;

/// Maximum size of the part of a large result that is printed to a terminal.
const SHOWN_MAX: usize = 64 * 1024;

/// A parsed result, or the start of a large one and the stream of its remaining bytes.
pub(crate) enum ResultText {
    /// A complete, parsed result.
    Whole(Value),
    /// A result over [`LAID_OUT_MAX`].
    Large(Vec<u8>, Pieces),
}

/// Reads a result up to [`LAID_OUT_MAX`]; a missing result is null.
pub(crate) async fn begin(pieces: Option<Pieces>) -> Result<ResultText, Problem> {
    let Some(mut pieces) = pieces else {
        return Ok(ResultText::Whole(Value::Null));
    };
    let mut text = Vec::new();
    while let Some(piece) = next(&mut pieces).await? {
        text.extend_from_slice(&piece);
        if text.len() > LAID_OUT_MAX {
            return Ok(ResultText::Large(text, pieces));
        }
    }
    Ok(ResultText::Whole(read(&text)))
}

/// Parses JSON; text that is not JSON becomes a string.
pub(crate) fn read(text: &[u8]) -> Value {
    let read = serde_json::from_slice(text);
    read.unwrap_or_else(|_| Value::String(String::from_utf8_lossy(text).into_owned()))
}

/// Reads the next chunk of a result.
pub(crate) async fn next(pieces: &mut Pieces) -> Result<Option<Bytes>, Problem> {
    let piece = pieces.next().await.transpose();
    piece.map_err(|error| {
        let message = format!("cannot read the complete result: {error}");
        Problem::new(Exit::Unreachable, "RESULT_BROKEN_OFF", message)
            .help("try again; see where the result is stored with `noetl result --list`")
    })
}

/// Writes the start of a result, then streams its remaining bytes.
pub(crate) async fn pass_on(out: &Out, text: &[u8], mut rest: Pieces) -> Result<(), Problem> {
    out.bytes(text);
    while let Some(piece) = next(&mut rest).await? {
        out.bytes(&piece);
    }
    Ok(())
}

/// Prints the start of a large result to a terminal, and the command that prints all of it.
pub(crate) fn show_beginning(out: &Out, text: &[u8], id: &str) {
    let shown = String::from_utf8_lossy(&text[..SHOWN_MAX.min(text.len())]);
    out.data(shown.trim_end_matches(char::REPLACEMENT_CHARACTER));
    out.note(&format!(
        "truncated after 64 KiB; print the complete result with `noetl result {id} -o json`"
    ));
}

/// Prints the result of a run as text.
pub(crate) async fn print_plain(
    out: &Out,
    result: Option<Pieces>,
    id: &str,
) -> Result<(), Problem> {
    match begin(result).await? {
        ResultText::Whole(Value::Null) => {}
        ResultText::Whole(result) => out.data(&value::plain(&result)),
        ResultText::Large(text, _) if out.stdout.columns.is_some() => {
            show_beginning(out, &text, id);
        }
        // A string is printed without quotes, so it must be read completely first.
        ResultText::Large(mut text, mut rest) if text.starts_with(b"\"") => {
            while let Some(piece) = next(&mut rest).await? {
                text.extend_from_slice(&piece);
            }
            out.data(&value::plain(&read(&text)));
        }
        ResultText::Large(text, rest) => {
            pass_on(out, &text, rest).await?;
            out.bytes(b"\n");
        }
    }
    Ok(())
}

/// Prints a report that contains this result.
pub(crate) async fn print_report(
    out: &Out,
    mut report: Map<String, Value>,
    result: Option<Pieces>,
) -> Result<(), Problem> {
    match begin(result).await? {
        ResultText::Whole(result) => {
            report.insert("result".to_owned(), result);
            out.json(&report);
        }
        ResultText::Large(text, rest) => {
            let (before, behind) = around_result(&report, out.format);
            out.bytes(before.as_bytes());
            pass_on(out, &text, rest).await?;
            out.bytes(behind.as_bytes());
        }
    }
    Ok(())
}

/// Returns the JSON text of a report before and after the value of `result`.
fn around_result(report: &Map<String, Value>, format: Format) -> (String, String) {
    let is_line = format == Format::Ndjson;
    let (indent, colon) = if is_line { ("", ":") } else { ("\n  ", ": ") };
    let mut parts = [String::from("{"), String::new()];
    let mut is_behind = false;
    for (place, (key, value)) in report.iter().enumerate() {
        let part = &mut parts[usize::from(is_behind)];
        if place > 0 {
            part.push(',');
        }
        part.push_str(indent);
        part.push_str(&Value::from(key.as_str()).to_string());
        part.push_str(colon);
        if key == "result" {
            is_behind = true;
        } else if is_line {
            part.push_str(&value.to_string());
        } else {
            part.push_str(&value::pretty(value).replace('\n', indent));
        }
    }
    let [before, mut behind] = parts;
    behind.push_str(if is_line { "}\n" } else { "\n}\n" });
    (before, behind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_result_stands_where_a_small_one_would() {
        let Value::Object(report) = json!({"a": {"b": [1, "x\ny"]}, "result": 7, "z": null}) else {
            unreachable!("it is an object");
        };
        for (format, whole) in [
            (Format::Json, serde_json::to_string_pretty(&report).unwrap()),
            (Format::Ndjson, serde_json::to_string(&report).unwrap()),
        ] {
            let (before, behind) = around_result(&report, format);
            assert_eq!(format!("{before}7{behind}"), whole + "\n");
        }
    }
}
