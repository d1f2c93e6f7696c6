//! Encodes rows: CSV, JSON lines, a JSON list, and the text format of Postgres `COPY`.

use serde_json::Value;
use tools::plain_text;

use super::flow::RowBatch;
use super::options::FileFormat;

/// Writes chunks in a format.
pub(super) struct RowEncoder {
    format: FileFormat,
    count: u64,
    has_header: bool,
}

impl RowEncoder {
    pub(super) fn new(format: FileFormat) -> Self {
        Self {
            format,
            count: 0,
            has_header: false,
        }
    }

    /// Writes a chunk.
    pub(super) fn write(&mut self, batch: &RowBatch, out: &mut Vec<u8>) {
        if self.format == FileFormat::Csv && !self.has_header && !batch.columns.is_empty() {
            let names = batch.columns.iter().map(|name| Value::from(name.as_str()));
            write_csv(&names.collect::<Vec<_>>(), out);
            self.has_header = true;
        }
        for row in &batch.rows {
            match self.format {
                FileFormat::Csv => write_csv(row, out),
                FileFormat::Json | FileFormat::Ndjson | FileFormat::Parquet => {
                    let is_list = self.format == FileFormat::Json;
                    out.extend_from_slice(match (is_list, self.count) {
                        (true, 0) => b"[",
                        (true, _) => b",\n",
                        (false, _) => b"",
                    });
                    write_object(&batch.columns, row, out);
                    if !is_list {
                        out.push(b'\n');
                    }
                }
            }
            self.count += 1;
        }
    }

    /// Writes the end of the document.
    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        if self.format == FileFormat::Json {
            out.extend_from_slice(if self.count == 0 { b"[]\n" } else { b"]\n" });
        }
    }
}

fn write_object(columns: &[String], row: &[Value], out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in columns.iter().zip(row).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
        out.push(b':');
        out.extend_from_slice(value.to_string().as_bytes());
    }
    out.push(b'}');
}

fn write_csv(row: &[Value], out: &mut Vec<u8>) {
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if value.is_null() {
            continue;
        }
        let text = plain_text(value);
        let needs_quotes = text.is_empty() || text.contains(['"', ',', '\n', '\r']);
        if needs_quotes {
            out.extend_from_slice(format!("\"{}\"", text.replace('"', "\"\"")).as_bytes());
        } else {
            out.extend_from_slice(text.as_bytes());
        }
    }
    out.push(b'\n');
}

/// Writes a `COPY` field: null, or text with special characters escaped.
pub(super) fn write_copy_field(text: Option<&str>, out: &mut Vec<u8>) {
    let Some(text) = text else {
        out.extend_from_slice(b"\\N");
        return;
    };
    for byte in text.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => out.push(other),
        }
    }
}

/// Fields of a `COPY` line.
pub(super) fn parse_copy_line(line: &[u8]) -> Vec<Option<String>> {
    line.split(|byte| *byte == b'\t').map(parse_copy_value).collect()
}

fn parse_copy_value(field: &[u8]) -> Option<String> {
    if field == b"\\N" {
        return None;
    }
    if !field.contains(&b'\\') {
        return Some(String::from_utf8_lossy(field).into_owned());
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut escaped = false;
    for byte in field {
        match (escaped, byte) {
            (false, b'\\') => escaped = true,
            (false, byte) => bytes.push(*byte),
            (true, byte) => {
                escaped = false;
                bytes.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'f' => 12,
                    b'v' => 11,
                    other => *other,
                });
            }
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_output_can_be_read_again() {
        for text in ["", "a\tb\nc\r\\N", "\\", "é\u{8}"] {
            let mut out = Vec::new();
            write_copy_field(Some(text), &mut out);
            assert_eq!(parse_copy_line(&out), [Some(text.to_owned())]);
        }
        let mut out = Vec::new();
        write_copy_field(None, &mut out);
        assert_eq!(parse_copy_line(&out), [None]);
    }
}
