//! Quotes a stream of text as a JSON string.

use std::io;

use ::results::ByteStream;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

/// Text that is being quoted.
struct JsonQuoter {
    text: ByteStream,
    /// The first bytes of a character that is split between two chunks.
    partial_char: Vec<u8>,
    stage: QuoteStage,
}

enum QuoteStage {
    Opening,
    Text,
    Done,
}

/// The bytes as a JSON string; invalid UTF-8 becomes the replacement character.
pub(super) fn quote_stream(text: ByteStream) -> ByteStream {
    let quoting = JsonQuoter {
        text,
        partial_char: Vec::new(),
        stage: QuoteStage::Opening,
    };
    Box::pin(stream::try_unfold(quoting, |mut quoting| async move {
        let piece = quoting.next_chunk().await?;
        Ok(piece.map(|piece| (piece, quoting)))
    }))
}

impl JsonQuoter {
    async fn next_chunk(&mut self) -> io::Result<Option<Bytes>> {
        match self.stage {
            QuoteStage::Opening => {
                self.stage = QuoteStage::Text;
                Ok(Some(Bytes::from_static(b"\"")))
            }
            QuoteStage::Done => Ok(None),
            QuoteStage::Text => {
                let next = self.text.next().await.transpose()?;
                let is_last = next.is_none();
                let mut bytes = std::mem::take(&mut self.partial_char);
                bytes.extend_from_slice(&next.unwrap_or_default());
                let mut escaped = self.escape(&bytes, is_last);
                if is_last {
                    self.stage = QuoteStage::Done;
                    escaped.push('"');
                }
                Ok(Some(escaped.into()))
            }
        }
    }

    /// The escaped text. An incomplete character at the end waits for the next chunk, unless this is the last one.
    fn escape(&mut self, mut bytes: &[u8], is_last: bool) -> String {
        let mut text = String::new();
        loop {
            let error = match std::str::from_utf8(bytes) {
                Ok(valid) => {
                    text.push_str(valid);
                    break;
                }
                Err(error) => error,
            };
            let (valid, invalid) = bytes.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            match error.error_len() {
                None if !is_last => {
                    self.partial_char = invalid.to_vec();
                    break;
                }
                length => {
                    text.push(char::REPLACEMENT_CHARACTER);
                    bytes = &invalid[length.unwrap_or(invalid.len())..];
                }
            }
        }
        let quoted = serde_json::Value::String(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_text_in_chunks_is_quoted_like_the_whole_text() {
        let text = "a \"quoted\" line\nü 漢 \u{1F600} end".as_bytes();
        let broken = [text, b"\xff\xe6\xbc", b"x\xe6"].concat();
        for size in 1..9 {
            let pieces = broken.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece)));
            let pieces: Vec<io::Result<Bytes>> = pieces.collect();
            let mut out = Vec::new();
            let mut quoted = quote_stream(Box::pin(stream::iter(pieces)));
            while let Some(piece) = quoted.next().await {
                out.extend_from_slice(&piece.unwrap());
            }
            let read: String = serde_json::from_slice(&out).unwrap();
            assert_eq!(read, String::from_utf8_lossy(&broken), "{size}");
        }
    }
}
