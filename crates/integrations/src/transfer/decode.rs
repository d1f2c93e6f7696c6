//! Decodes bytes to rows: CSV, JSON lines, and the elements of a JSON list.

use std::sync::Arc;

use futures_util::StreamExt as _;
use model::outcome::{ErrorKind, TaskError};
use results::ByteStream;
use serde_json::{Map, Value};

use super::flow::{RowSender, TransferRow, row_error};
use super::options::FileFormat;

/// Maximum size of a row.
const ROW_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Number of first rows whose keys become the columns of JSON rows.
const SAMPLE_ROWS: usize = 1_000;

/// Reads a whole source.
pub(super) async fn decode_rows(
    mut chunks: ByteStream,
    format: FileFormat,
    path: Option<&str>,
    sender: &mut RowSender,
) -> Result<(), TaskError> {
    let mut reader = match format {
        FileFormat::Csv => RowDecoder::Csv(CsvDecoder::default()),
        _ => RowDecoder::Json(JsonDecoder::new(format == FileFormat::Json)),
    };
    let mut rows = DecodedRows::default();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| source_read_error(&error))?;
        reader.feed(&chunk, &mut rows)?;
        rows.send_rows(sender, false).await?;
    }
    reader.finish(path, &mut rows)?;
    rows.send_rows(sender, true).await
}

enum RowDecoder {
    Csv(CsvDecoder),
    Json(JsonDecoder),
}

impl RowDecoder {
    fn feed(&mut self, bytes: &[u8], rows: &mut DecodedRows) -> Result<(), TaskError> {
        match self {
            Self::Csv(csv) => csv.feed(bytes, rows),
            Self::Json(json) => json.feed(bytes, rows),
        }
    }

    fn finish(&mut self, path: Option<&str>, rows: &mut DecodedRows) -> Result<(), TaskError> {
        match self {
            Self::Csv(csv) => csv.finish(rows),
            Self::Json(json) => json.finish(path, rows),
        }
    }
}

/// Decoded rows on their way to the target.
#[derive(Default)]
struct DecodedRows {
    columns: Option<Arc<[String]>>,
    rows: Vec<TransferRow>,
    maps: Vec<Value>,
    count: u64,
}

impl DecodedRows {
    async fn send_rows(&mut self, sender: &mut RowSender, is_last: bool) -> Result<(), TaskError> {
        if let (Some(columns), false) = (&self.columns, sender.has_columns()) {
            sender.set_columns(columns.to_vec());
        }
        for row in std::mem::take(&mut self.rows) {
            if sender.push(row) {
                sender.send().await?;
            }
        }
        if !sender.has_columns() && (self.maps.len() >= SAMPLE_ROWS || is_last) {
            sender.set_columns(collect_keys(&self.maps));
        }
        if !sender.has_columns() {
            return Ok(());
        }
        for map in std::mem::take(&mut self.maps) {
            self.count += 1;
            let row = to_row(map, sender.columns(), self.count)?;
            if sender.push(row) {
                sender.send().await?;
            }
        }
        Ok(())
    }
}

/// Keys of all rows, in order of appearance.
fn collect_keys(maps: &[Value]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for map in maps {
        for key in map.as_object().into_iter().flat_map(Map::keys) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    }
    keys
}

fn to_row(value: Value, columns: &[String], number: u64) -> Result<TransferRow, TaskError> {
    let Value::Object(mut map) = value else {
        return Err(row_error(number, "it is not an object"));
    };
    let row = columns
        .iter()
        .map(|column| map.shift_remove(column).unwrap_or_default());
    let row = row.collect();
    match map.keys().next() {
        None => Ok(row),
        Some(key) => Err(row_error(
            number,
            &format!("its key `{key}` does not occur in the first {SAMPLE_ROWS} rows"),
        )),
    }
}

/// CSV as in RFC 4180; an empty unquoted field is null.
#[derive(Default)]
struct CsvDecoder {
    field: Vec<u8>,
    is_quoted: bool,
    is_in_quotes: bool,
    /// A quote was read inside quotes: the end, or the first of two.
    is_after_quote: bool,
    record: Vec<Value>,
    count: u64,
}

impl CsvDecoder {
    fn feed(&mut self, bytes: &[u8], rows: &mut DecodedRows) -> Result<(), TaskError> {
        for byte in bytes {
            self.read_byte(*byte, rows)?;
        }
        if self.field.len() > ROW_BYTES_MAX {
            return Err(row_error(
                self.count,
                "a field exceeds 64 MiB; a closing quote may be missing",
            ));
        }
        Ok(())
    }

    fn read_byte(&mut self, byte: u8, rows: &mut DecodedRows) -> Result<(), TaskError> {
        if self.is_after_quote {
            self.is_after_quote = false;
            if byte == b'"' {
                self.field.push(b'"');
                return Ok(());
            }
            self.is_in_quotes = false;
        }
        match byte {
            b'"' if self.is_in_quotes => self.is_after_quote = true,
            _ if self.is_in_quotes => self.field.push(byte),
            b'"' if self.field.is_empty() => (self.is_in_quotes, self.is_quoted) = (true, true),
            b',' => self.end_field()?,
            b'\n' => self.end_record(rows)?,
            other => self.field.push(other),
        }
        Ok(())
    }

    fn end_field(&mut self) -> Result<(), TaskError> {
        let mut bytes = std::mem::take(&mut self.field);
        let was_quoted = std::mem::take(&mut self.is_quoted);
        if self.count == 0 && self.record.is_empty() && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        let text = String::from_utf8(bytes).map_err(|_| row_error(self.count, "it is not valid UTF-8"))?;
        let is_null = text.is_empty() && !was_quoted;
        self.record
            .push(if is_null { Value::Null } else { Value::String(text) });
        Ok(())
    }

    fn end_record(&mut self, rows: &mut DecodedRows) -> Result<(), TaskError> {
        if self.field.last() == Some(&b'\r') {
            self.field.pop();
        }
        let is_blank = self.record.is_empty() && self.field.is_empty() && !self.is_quoted;
        if is_blank {
            return Ok(());
        }
        self.end_field()?;
        let record = std::mem::take(&mut self.record);
        let Some(columns) = &rows.columns else {
            let names = record.iter().map(|name| name.as_str().unwrap_or_default().to_owned());
            rows.columns = Some(names.collect());
            return Ok(());
        };
        self.count += 1;
        if record.len() != columns.len() {
            let problem = format!("it has {} fields, but the header has {}", record.len(), columns.len());
            return Err(row_error(self.count, &problem));
        }
        rows.rows.push(record);
        Ok(())
    }

    fn finish(&mut self, rows: &mut DecodedRows) -> Result<(), TaskError> {
        if self.is_in_quotes && !self.is_after_quote {
            return Err(row_error(self.count + 1, "a closing quote is missing"));
        }
        self.end_record(rows)
    }
}

/// Splits JSON text into values: the elements of a list, or one per line.
#[expect(clippy::struct_excessive_bools, reason = "each is part of the scanner's state")]
struct JsonDecoder {
    /// Whether the text is one document whose list elements are the rows.
    is_document: bool,
    opening_byte: Option<u8>,
    value: Vec<u8>,
    depth: u32,
    is_in_text: bool,
    is_escaped: bool,
    count: u64,
    is_ended: bool,
}

impl JsonDecoder {
    fn new(is_document: bool) -> Self {
        Self {
            is_document,
            opening_byte: None,
            value: Vec::new(),
            depth: 0,
            is_in_text: false,
            is_escaped: false,
            count: 0,
            is_ended: false,
        }
    }

    fn feed(&mut self, bytes: &[u8], rows: &mut DecodedRows) -> Result<(), TaskError> {
        for byte in bytes {
            if self.opening_byte.is_none() {
                if byte.is_ascii_whitespace() {
                    continue;
                }
                self.opening_byte = Some(*byte);
                if self.is_document && *byte == b'[' {
                    continue;
                }
            }
            match (self.is_document, self.opening_byte) {
                (true, Some(b'[')) => self.read_element_byte(*byte, rows)?,
                (false, _) if *byte == b'\n' => self.end_value(rows)?,
                _ => self.value.push(*byte),
            }
        }
        if self.value.len() > ROW_BYTES_MAX {
            let message =
                "a JSON value exceeds 64 MiB; only lists and lines (`format: ndjson`) are read piece by piece";
            return Err(TaskError::new(ErrorKind::Parse, "TRANSFER_FORMAT", message));
        }
        Ok(())
    }

    fn read_element_byte(&mut self, byte: u8, rows: &mut DecodedRows) -> Result<(), TaskError> {
        if self.is_ended {
            return Ok(());
        }
        if self.is_in_text {
            self.value.push(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_text = false,
                _ => {}
            }
            return Ok(());
        }
        match byte {
            b',' if self.depth == 0 => return self.end_value(rows),
            b']' if self.depth == 0 => {
                self.is_ended = true;
                return self.end_value(rows);
            }
            b'"' => self.is_in_text = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.value.push(byte);
        Ok(())
    }

    fn end_value(&mut self, rows: &mut DecodedRows) -> Result<(), TaskError> {
        let bytes = std::mem::take(&mut self.value);
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        self.count += 1;
        let value = serde_json::from_slice(&bytes);
        rows.maps
            .push(value.map_err(|error| row_error(self.count, &format!("it is not valid JSON: {error}")))?);
        Ok(())
    }

    fn finish(&mut self, path: Option<&str>, rows: &mut DecodedRows) -> Result<(), TaskError> {
        if !self.is_document {
            return self.end_value(rows);
        }
        match self.opening_byte {
            None => Ok(()),
            Some(b'[') if self.is_ended => Ok(()),
            Some(b'[') => Err(row_error(self.count + 1, "the closing bracket of the list is missing")),
            Some(_) => {
                let value: Value = serde_json::from_slice(&self.value).map_err(|error| {
                    TaskError::new(
                        ErrorKind::Parse,
                        "TRANSFER_FORMAT",
                        format!("the source is not valid JSON: {error}"),
                    )
                })?;
                rows.maps = find_list(&value, path)?;
                Ok(())
            }
        }
    }
}

/// Finds the list inside a document.
fn find_list(value: &Value, path: Option<&str>) -> Result<Vec<Value>, TaskError> {
    let value = match path {
        Some(path) => {
            let parts = path.trim_start_matches("$.").split('.');
            parts.into_iter().try_fold(value, |at, part| at.get(part))
        }
        None => ["rows", "data", "items", "results"]
            .iter()
            .find_map(|key| value.get(*key).filter(|v| v.is_array())),
    };
    if let Some(Value::Array(items)) = value {
        Ok(items.clone())
    } else {
        let message = "the source is not a list of rows; set `path` to the list, for example `data.items`";
        Err(TaskError::new(ErrorKind::Parse, "TRANSFER_FORMAT", message))
    }
}

fn source_read_error(error: &std::io::Error) -> TaskError {
    let message = format!("reading the source failed: {error}");
    TaskError::new(ErrorKind::Connection, "TRANSFER_SOURCE", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decode_csv(text: &str) -> Result<Vec<TransferRow>, TaskError> {
        let (mut csv, mut rows) = (CsvDecoder::default(), DecodedRows::default());
        for byte in text.as_bytes().chunks(1) {
            csv.feed(byte, &mut rows)?;
        }
        csv.finish(&mut rows)?;
        Ok(rows.rows)
    }

    #[test]
    fn quotes_line_ends_and_empty_fields_are_read_as_written() {
        let rows = decode_csv("\u{feff}a,b\r\n1,\"x \"\"y\"\"\n,z\"\r\n,\"\"\n\n3,é").unwrap();
        assert_eq!(
            rows,
            [
                vec![json!("1"), json!("x \"y\"\n,z")],
                vec![json!(null), json!("")],
                vec![json!("3"), json!("é")]
            ]
        );
        assert_eq!(decode_csv("a,b\n1\n").unwrap_err().code, "TRANSFER_ROW");
        assert_eq!(decode_csv("a\n\"open\n").unwrap_err().code, "TRANSFER_ROW");
    }

    #[test]
    fn a_list_is_read_element_by_element_and_lines_one_by_one() {
        let read = |text: &str, is_document| {
            let (mut json, mut rows) = (JsonDecoder::new(is_document), DecodedRows::default());
            for byte in text.as_bytes().chunks(1) {
                json.feed(byte, &mut rows)?;
            }
            json.finish(None, &mut rows)?;
            Ok::<_, TaskError>(rows.maps)
        };
        let list = r#" [{"a": "],\"["}, {"a": [1, {"b": 2}]} ] "#;
        assert_eq!(
            read(list, true).unwrap(),
            [json!({"a": "],\"["}), json!({"a": [1, {"b": 2}]})]
        );
        assert_eq!(read("{\"a\":1}\n\n{\"a\":2}", false).unwrap().len(), 2);
        assert_eq!(read(r#"{"data": [{"a": 1}]}"#, true).unwrap(), [json!({"a": 1})]);
        assert_eq!(read("[{\"a\":1}", true).unwrap_err().code, "TRANSFER_ROW");
        assert_eq!(read("{\"a\":1}\nnonsense\n", false).unwrap_err().code, "TRANSFER_ROW");
    }
}
