//! Maps a byte range of a scalar's value to its span in the document.
//!
//! Folding, indentation and escapes change white space and the spelling of characters, but not the order of visible
//! characters: the n-th visible character of the value is the n-th visible character of the document text.

use std::ops::Range;

use model::source::Span;

use crate::yaml::node::{Node, ScalarQuoting};

impl Node {
    /// Returns the span in the document `text` of the bytes `range` of this scalar's value.
    pub(crate) fn locate(&self, text: &str, range: &Range<usize>) -> Span {
        let Some(scalar) = self.as_text() else {
            return self.span;
        };
        let value = &*scalar.text;
        let count_visible = |end: usize| {
            let end = (0..=end.min(value.len()))
                .rev()
                .find(|offset| value.is_char_boundary(*offset))
                .unwrap_or(0);
            let prefix = &value[..end];
            prefix.chars().filter(|c| !c.is_whitespace()).count()
        };
        let first = count_visible(range.start);
        let last = count_visible(range.end).max(first + 1);
        let (Some(start), Some(end)) = (
            self.source_offset(text, scalar.quoting, first, false),
            self.source_offset(text, scalar.quoting, last - 1, true),
        ) else {
            return self.span;
        };
        span_at(text, start, end)
    }

    /// Returns the byte offset at which the visible character number `number` starts, or ends if `end` is set.
    fn source_offset(&self, text: &str, quoting: ScalarQuoting, number: usize, end: bool) -> Option<usize> {
        let bounds = self.span.start as usize..self.span.end as usize;
        let body = text.get(bounds)?;
        let skipped = match quoting {
            ScalarQuoting::Plain | ScalarQuoting::Block => 0,
            ScalarQuoting::SingleQuoted | ScalarQuoting::DoubleQuoted => 1,
        };
        let mut remaining = body.get(skipped..)?;
        let mut count = 0;
        while let Some(first) = remaining.chars().next() {
            let (width, visible) = match (quoting, first) {
                (ScalarQuoting::DoubleQuoted, '\\') => escape_length(remaining),
                (ScalarQuoting::SingleQuoted, '\'') => (2, true),
                _ => (first.len_utf8(), !first.is_whitespace()),
            };
            let offset = self.span.start as usize + body.len() - remaining.len();
            if visible && count == number {
                return Some(if end { offset + width } else { offset });
            }
            count += usize::from(visible);
            remaining = remaining.get(width..)?;
        }
        None
    }
}

/// Returns the length of an escape and whether it encodes a visible character.
fn escape_length(remaining: &str) -> (usize, bool) {
    match remaining.as_bytes().get(1) {
        Some(b'x') => (4, true),
        Some(b'u') => (6, true),
        Some(b'U') => (10, true),
        Some(b'n' | b't' | b'r' | b' ' | b'\t' | b'\n' | b'v' | b'f' | b'N' | b'_' | b'L' | b'P') => (2, false),
        _ => (2, true),
    }
}

/// Returns the span of a scalar's own text, after its anchor, its tag and the header of a block.
pub(crate) fn without_properties(text: &str, span: Span, quoting: ScalarQuoting) -> Span {
    let scalar = text.get(span.start as usize..span.end as usize);
    let scalar = scalar.unwrap_or_default();
    let mut remaining = scalar;
    while remaining.starts_with(['&', '!']) {
        let end = remaining.find(char::is_whitespace).unwrap_or(remaining.len());
        remaining = remaining[end..].trim_start();
    }
    if quoting == ScalarQuoting::Block {
        let header = remaining.find('\n').map_or(remaining.len(), |offset| offset + 1);
        remaining = remaining[header..].trim_start();
    }
    let skipped = &scalar[..scalar.len() - remaining.len()];
    let column = match skipped.rsplit_once('\n') {
        Some((_, last)) => to_u32(last.chars().count() + 1),
        None => span.column + to_u32(skipped.chars().count()),
    };
    Span {
        line: span.line + to_u32(skipped.matches('\n').count()),
        column,
        start: span.start + to_u32(skipped.len()),
        end: span.end,
    }
}

/// Returns the span of the bytes `start..end`.
pub(crate) fn span_at(text: &str, start: usize, end: usize) -> Span {
    let before = text.get(..start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |offset| offset + 1);
    Span {
        line: to_u32(before.bytes().filter(|byte| *byte == b'\n').count() + 1),
        column: to_u32(before[line_start..].chars().count() + 1),
        start: to_u32(start),
        end: to_u32(end),
    }
}

/// Converts an offset; documents have at most 1 MiB, so every offset fits.
pub(crate) fn to_u32(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use model::source::Span;

    use crate::yaml::parse_documents;

    /// Returns the position in the text of `word`, found in the value of the first key.
    fn find(text: &str, value: &str) -> (u32, u32, String) {
        let read = parse_documents("test.yaml", text.as_bytes());
        let node = &read.roots[0].as_map().unwrap()[0].value;
        let offset = node.as_str().unwrap().find(value).unwrap();
        let Span {
            line,
            column,
            start,
            end,
        } = node.locate(&read.source.text, &(offset..offset + value.len()));
        let excerpt = &read.source.text[start as usize..end as usize];
        (line, column, excerpt.to_owned())
    }

    #[test]
    fn positions_are_mapped_to_the_source_in_every_scalar_style() {
        for (text, line, column) in [
            ("k: some word here\n", 1, 9),
            ("k: some\n  more word here\n", 2, 8),
            ("k: 'it''s a word'\n", 1, 13),
            ("k: \"a\\n\\\"b\\\" \\u00e9 word\"\n", 1, 21),
            ("k: |\n  one\n\n    two word\n", 4, 9),
            ("k: >-\n  one\n  two\n\n  word\n", 5, 3),
            ("k: !raw |\n\n  a word\n", 3, 5),
            ("k: &name 'a word'\n", 1, 13),
            ("k: \u{e9}\u{e9} word\n", 1, 7),
            ("k: |\r\n  one\r\n  word\r\n", 3, 3),
        ] {
            assert_eq!(find(text, "word"), (line, column, "word".to_owned()), "{text}");
        }
    }

    #[test]
    fn a_value_that_is_no_text_is_its_own_place() {
        let read = parse_documents("test.yaml", b"k: 12");
        let node = &read.roots[0].as_map().unwrap()[0].value;
        assert_eq!(node.locate("k: 12", &(0..1)), node.span);
    }
}
