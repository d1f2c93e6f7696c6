//! Splits streamed JSON text of a list into its elements.

/// Incremental splitter; a value that is not a list is its only element.
#[derive(Debug, Default)]
pub(crate) struct JsonElements {
    buffer: Vec<u8>,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    is_list: Option<bool>,
}

impl JsonElements {
    /// Adds a chunk and returns the elements that it completes.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Vec<Vec<u8>> {
        let mut complete = Vec::new();
        for byte in chunk {
            complete.extend(self.push_byte(*byte));
        }
        complete
    }

    /// Returns the remaining text at the end of the stream.
    pub(crate) fn finish(self) -> Option<Vec<u8>> {
        let is_blank = self.buffer.iter().all(u8::is_ascii_whitespace);
        (!is_blank).then_some(self.buffer)
    }

    fn push_byte(&mut self, byte: u8) -> Option<Vec<u8>> {
        if self.is_list.is_none() && !byte.is_ascii_whitespace() {
            self.is_list = Some(byte == b'[');
        }
        if self.in_text {
            self.in_text = self.is_escaped || byte != b'"';
            self.is_escaped = !self.is_escaped && byte == b'\\';
            self.buffer.push(byte);
            return None;
        }
        let list = usize::from(self.is_list == Some(true));
        match byte {
            b'"' => self.in_text = true,
            b'[' | b'{' => {
                self.depth += 1;
                if self.depth == list {
                    return None;
                }
            }
            b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth < list {
                    return self.take_element();
                }
            }
            b',' if self.depth == list && list == 1 => return self.take_element(),
            _ => {}
        }
        self.buffer.push(byte);
        None
    }

    fn take_element(&mut self) -> Option<Vec<u8>> {
        let partial = std::mem::take(&mut self.buffer);
        let is_blank = partial.iter().all(u8::is_ascii_whitespace);
        (!is_blank).then_some(partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(text: &str, by: usize) -> Vec<String> {
        let mut elements = JsonElements::default();
        let mut parsed: Vec<Vec<u8>> = Vec::new();
        for piece in text.as_bytes().chunks(by) {
            parsed.extend(elements.push(piece));
        }
        parsed.extend(elements.finish());
        let texts = parsed.into_iter().map(String::from_utf8);
        texts.map(Result::unwrap).collect()
    }

    #[test]
    fn a_list_is_split_at_any_chunk_boundary() {
        let text = r#"[{"a": [1, 2]},"x,\"]y",[],3]"#;
        let expected = [r#"{"a": [1, 2]}"#, r#""x,\"]y""#, "[]", "3"];
        for by in 1..text.len() {
            assert_eq!(elements(text, by), expected, "by {by}");
        }
        assert!(elements("[ ]", 1).is_empty());
    }

    #[test]
    fn a_value_that_is_not_a_list_is_one_element() {
        assert_eq!(elements(r#"{"a": [1, 2]}"#, 2), [r#"{"a": [1, 2]}"#]);
        assert_eq!(elements("7", 1), ["7"]);
    }
}
