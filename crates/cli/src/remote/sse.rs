//! Parser for server-sent events: takes bytes as they arrive, returns complete messages.

/// One message of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SseMessage {
    /// Event type; empty if the message has none.
    pub(super) event: String,
    /// Data lines, joined.
    pub(super) data: String,
}

/// Incremental parser.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    buffer: Vec<u8>,
    event: String,
    data: String,
}

impl SseParser {
    /// Adds bytes and returns the messages that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<SseMessage> {
        self.buffer.extend_from_slice(bytes);
        let mut messages = Vec::new();
        let buffer = std::mem::take(&mut self.buffer);
        let mut remaining = &buffer[..];
        while let Some(end) = remaining.iter().position(|byte| *byte == b'\n') {
            let line = remaining[..end].strip_suffix(b"\r").unwrap_or(&remaining[..end]);
            messages.extend(self.parse_line(&String::from_utf8_lossy(line)));
            remaining = &remaining[end + 1..];
        }
        self.buffer = remaining.to_vec();
        messages
    }

    fn parse_line(&mut self, line: &str) -> Option<SseMessage> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let data = std::mem::take(&mut self.data);
            let is_message = !(event.is_empty() && data.is_empty());
            return is_message.then_some(SseMessage { event, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // The data also contains the ID of an event; comments are keep-alives.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_complete_however_the_bytes_are_split() {
        let text =
            ": warm\n\nid: 1\nevent: a\ndata: {\"x\": 1}\n\nevent: end\r\ndata: {}\r\n\r\ndata: é\ndata: two\n\n";
        let message = |event: &str, data: &str| SseMessage {
            event: event.to_owned(),
            data: data.to_owned(),
        };
        let expected = [message("a", "{\"x\": 1}"), message("end", "{}"), message("", "é\ntwo")];
        for size in [1, 2, 7, text.len()] {
            let mut stream = SseParser::default();
            let chunks = text.as_bytes().chunks(size);
            let messages: Vec<SseMessage> = chunks.flat_map(|chunk| stream.push(chunk)).collect();
            assert_eq!(messages, expected, "chunks of {size} bytes");
        }
    }

    #[test]
    fn an_incomplete_message_is_not_returned() {
        let mut stream = SseParser::default();
        assert_eq!(stream.push(b"event: a\ndata: 1\n"), []);
    }
}
