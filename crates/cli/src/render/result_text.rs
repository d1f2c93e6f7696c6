//! Prints results: a small result is parsed and formatted, a large one is streamed unchanged.

use bytes::Bytes;
use futures_util::StreamExt as _;
use results::ByteStream;
use serde_json::{Map, Value};

use crate::args::OutputFormat;
use crate::cli_error::{CliError, Exit};
use crate::output::Output;
use crate::render::value;

/// Maximum size of a result that is formatted; larger ones are streamed.
pub(crate) const FORMATTED_BYTES_MAX: usize = 1024 * 1024;

/// Maximum size of the part of a large result that is printed to a terminal.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// A parsed result, or the start of a large one and the stream of its remaining bytes.
pub(crate) enum ResultText {
    /// A complete, parsed result.
    Whole(Value),
    /// A result over [`FORMATTED_BYTES_MAX`].
    Large(Vec<u8>, ByteStream),
}

/// Reads a result up to [`FORMATTED_BYTES_MAX`]; a missing result is null.
pub(crate) async fn read_result_text(chunks: Option<ByteStream>) -> Result<ResultText, CliError> {
    let Some(mut pieces) = chunks else {
        return Ok(ResultText::Whole(Value::Null));
    };
    let mut text = Vec::new();
    while let Some(piece) = next_chunk(&mut pieces).await? {
        text.extend_from_slice(&piece);
        if text.len() > FORMATTED_BYTES_MAX {
            return Ok(ResultText::Large(text, pieces));
        }
    }
    Ok(ResultText::Whole(parse_value(&text)))
}

/// Parses JSON; text that is not JSON becomes a string.
pub(crate) fn parse_value(text: &[u8]) -> Value {
    let read = serde_json::from_slice(text);
    read.unwrap_or_else(|_| Value::String(String::from_utf8_lossy(text).into_owned()))
}

/// Reads the next chunk of a result.
pub(crate) async fn next_chunk(chunks: &mut ByteStream) -> Result<Option<Bytes>, CliError> {
    let piece = chunks.next().await.transpose();
    piece.map_err(|error| {
        let message = format!("cannot read the complete result: {error}");
        CliError::new(Exit::Unreachable, "RESULT_BROKEN_OFF", message)
            .help("try again; see where the result is stored with `noetl result --list`")
    })
}

/// Writes the start of a result, then streams its remaining bytes.
pub(crate) async fn write_result(out: &Output, text: &[u8], mut tail: ByteStream) -> Result<(), CliError> {
    out.write_bytes(text);
    while let Some(piece) = next_chunk(&mut tail).await? {
        out.write_bytes(&piece);
    }
    Ok(())
}

/// Prints the start of a large result to a terminal, and the command that prints all of it.
pub(crate) fn print_head(out: &Output, text: &[u8], id: &str) {
    let excerpt = String::from_utf8_lossy(&text[..SHOWN_BYTES_MAX.min(text.len())]);
    out.print_data(excerpt.trim_end_matches(char::REPLACEMENT_CHARACTER));
    out.info(&format!(
        "truncated after 64 KiB; print the complete result with `noetl result {id} -o json`"
    ));
}

/// Prints the result of a run as text.
pub(crate) async fn print_plain(out: &Output, result: Option<ByteStream>, id: &str) -> Result<(), CliError> {
    match read_result_text(result).await? {
        ResultText::Whole(Value::Null) => {}
        ResultText::Whole(result) => out.print_data(&value::to_plain_text(&result)),
        ResultText::Large(text, _) if out.stdout.columns.is_some() => {
            print_head(out, &text, id);
        }
        // A string is printed without quotes, so it must be read completely first.
        ResultText::Large(mut text, mut stream) if text.starts_with(b"\"") => {
            while let Some(piece) = next_chunk(&mut stream).await? {
                text.extend_from_slice(&piece);
            }
            out.print_data(&value::to_plain_text(&parse_value(&text)));
        }
        ResultText::Large(text, stream) => {
            write_result(out, &text, stream).await?;
            out.write_bytes(b"\n");
        }
    }
    Ok(())
}

/// Prints a report that contains this result.
pub(crate) async fn print_report(
    out: &Output,
    mut report: Map<String, Value>,
    result: Option<ByteStream>,
) -> Result<(), CliError> {
    match read_result_text(result).await? {
        ResultText::Whole(result) => {
            report.insert("result".to_owned(), result);
            out.print_json(&report);
        }
        ResultText::Large(text, stream) => {
            let (before, behind) = split_report(&report, out.format);
            out.write_bytes(before.as_bytes());
            write_result(out, &text, stream).await?;
            out.write_bytes(behind.as_bytes());
        }
    }
    Ok(())
}

/// Returns the JSON text of a report before and after the value of `result`.
fn split_report(report: &Map<String, Value>, format: OutputFormat) -> (String, String) {
    let is_line = format == OutputFormat::Ndjson;
    let (indent, colon) = if is_line { ("", ":") } else { ("\n  ", ": ") };
    let mut parts = [String::from("{"), String::new()];
    let mut is_behind = false;
    for (index, (key, value)) in report.iter().enumerate() {
        let part = &mut parts[usize::from(is_behind)];
        if index > 0 {
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
            part.push_str(&value::to_pretty_json(value).replace('\n', indent));
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
    fn a_large_result_is_printed_like_a_small_one() {
        let Value::Object(report) = json!({"a": {"b": [1, "x\ny"]}, "result": 7, "z": null}) else {
            unreachable!("it is an object");
        };
        for (format, expected) in [
            (OutputFormat::Json, serde_json::to_string_pretty(&report).unwrap()),
            (OutputFormat::Ndjson, serde_json::to_string(&report).unwrap()),
        ] {
            let (before, behind) = split_report(&report, format);
            assert_eq!(format!("{before}7{behind}"), expected + "\n");
        }
    }
}
