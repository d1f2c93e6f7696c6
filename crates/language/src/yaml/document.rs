//! Parses bytes into documents, after checks of size, encoding and number of marks.

use model::source::{SourceText, Span};
use saphyr_parser::{Marker, Parser, ScanError};

use crate::diagnostic::Diagnostic;
use crate::yaml::align::{span_at, to_u32};
use crate::yaml::build::{Builder, too_deep_error};
use crate::yaml::node::Node;

/// Larger files are rejected before parsing.
pub(crate) const SOURCE_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of commas, colons and brackets. They are counted first, because the scanner buffers a whole flow
/// collection.
const MARKS_MAX: usize = 120_000;

/// The content of a file.
pub(crate) struct YamlDocuments {
    /// Its text, without a byte order mark.
    pub(crate) source: SourceText,
    /// The documents before the first syntax error, in order.
    pub(crate) roots: Vec<Node>,
    /// YAML errors.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Parses all documents of a file.
pub(crate) fn parse_documents(name: &str, bytes: &[u8]) -> YamlDocuments {
    match decode(bytes) {
        Ok(text) => parse_text(SourceText {
            name: name.into(),
            text: text.into(),
        }),
        Err((code, message)) => rejected_documents(name, code, message),
    }
}

fn decode(bytes: &[u8]) -> Result<&str, (&'static str, String)> {
    if bytes.len() > SOURCE_BYTES_MAX {
        let message = format!(
            "the file has {} bytes; the limit for a playbook is {SOURCE_BYTES_MAX}",
            bytes.len()
        );
        return Err(("E0001", message));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("byte {} is not valid UTF-8", error.valid_up_to());
        ("E0002", message)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_mark = |byte: &u8| matches!(byte, b',' | b':' | b'[' | b'{');
    if text.bytes().filter(|byte| is_mark(byte)).count() > MARKS_MAX {
        let message = format!("the file has more than {MARKS_MAX} commas, colons and brackets");
        return Err(("E0005", message));
    }
    match text.find('\0') {
        Some(offset) => Err(("E0002", format!("byte {offset} is a NUL character"))),
        None => Ok(text),
    }
}

/// Returns no documents, and the error for which the file was rejected before parsing.
fn rejected_documents(name: &str, code: &'static str, message: String) -> YamlDocuments {
    let source = SourceText {
        name: name.into(),
        text: "".into(),
    };
    let span = Span {
        line: 1,
        column: 1,
        ..Span::default()
    };
    YamlDocuments {
        diagnostics: vec![Diagnostic::new(code, message, span, &source)],
        roots: Vec::new(),
        source,
    }
}

fn parse_text(source: SourceText) -> YamlDocuments {
    let offsets = ByteOffsets::from_text(&source.text);
    let mut builder = Builder::new(source.clone());
    for event in Parser::new_from_str(&source.text) {
        let result = match event {
            Ok((event, span)) => builder.apply_event(event, offsets.span_between(span.start, span.end)),
            Err(error) => Err(Box::new(syntax_error(&error, &offsets, &source))),
        };
        if let Err(fatal) = result {
            builder.diagnostics.push(*fatal);
            break;
        }
    }
    YamlDocuments {
        roots: builder.roots,
        diagnostics: builder.diagnostics,
        source,
    }
}

/// Converts the library's character offsets to byte offsets.
struct ByteOffsets {
    /// The byte offset of each character; empty if all characters have one byte.
    bytes: Vec<u32>,
    length: usize,
}

impl ByteOffsets {
    fn from_text(text: &str) -> Self {
        let bytes = if text.is_ascii() {
            Vec::new()
        } else {
            text.char_indices().map(|(offset, _)| to_u32(offset)).collect()
        };
        Self {
            bytes,
            length: text.len(),
        }
    }

    fn byte_at(&self, index: usize) -> u32 {
        let byte = if self.bytes.is_empty() {
            to_u32(index)
        } else {
            let end = to_u32(self.length);
            self.bytes.get(index).copied().unwrap_or(end)
        };
        byte.min(to_u32(self.length))
    }

    fn span_between(&self, start: Marker, end: Marker) -> Span {
        Span {
            line: to_u32(start.line()),
            column: to_u32(start.col() + 1),
            start: self.byte_at(start.index()),
            end: self.byte_at(end.index()),
        }
    }
}

fn syntax_error(error: &ScanError, offsets: &ByteOffsets, source: &SourceText) -> Diagnostic {
    let offset = offsets.byte_at(error.marker().index()) as usize;
    let span = span_at(&source.text, offset, offset + 1);
    // The scanner reads ahead of the events and has its own limit on nested brackets.
    if error.info().contains("recursion limit") {
        return too_deep_error(span, source);
    }
    let diagnostic =
        Diagnostic::new("E0003", format!("invalid YAML: {}", error.info()), span, source).with_label("here");
    match unquoted_template(&source.text, offset) {
        Some(line) => diagnostic.with_help(format!(
            "line {line} has a value that begins with `{{{{`: quote the template, `\"{{{{ … }}}}\"`"
        )),
        None => diagnostic.with_help(syntax_advice(error.info())),
    }
}

/// Returns the line at or just before `offset` whose value starts with unquoted braces.
fn unquoted_template(text: &str, offset: usize) -> Option<usize> {
    let line_index = text.get(..offset)?.matches('\n').count();
    let lines = text.lines().enumerate().skip(line_index.saturating_sub(1)).take(2);
    let suspects = lines.filter(|(_, line)| {
        let value = line.split_once(": ").map_or(*line, |(_, value)| value);
        let value = value.trim_start().trim_start_matches("- ").trim_start();
        value.starts_with("{{") || value.starts_with("{%")
    });
    suspects.last().map(|(index, _)| index + 1)
}

fn syntax_advice(info: &str) -> &'static str {
    if info.contains("tab") {
        "indent with spaces"
    } else if info.contains("anchor") {
        "define the anchor with `&name` before `*name` uses it"
    } else {
        "check the indentation and the quotes of this line and the one before; text that contains `: ` or ` #`, or begins with `@`, `` ` ``, `%`, `*`, `&` or `!` needs quotes"
    }
}
