//! A body on its way from a server, piece by piece.

use std::ops::Range;

use reqwest::Response;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE};

use crate::client::CallError;

/// Bytes that a server sends.
#[derive(Debug)]
pub struct Download {
    answer: Response,
    /// The size of the whole.
    pub bytes: u64,
    /// What of it is sent.
    pub range: Range<u64>,
}

impl Download {
    pub(crate) fn new(answer: Response) -> Result<Self, CallError> {
        let header = |name| {
            let value = answer.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let found = match header(CONTENT_RANGE) {
            Some(text) => parse(&text),
            None => header(CONTENT_LENGTH)
                .and_then(|text| text.parse().ok())
                .map(|bytes| (0..bytes, bytes)),
        };
        let Some((range, bytes)) = found else {
            let source = "the answer does not say how many bytes it has";
            return Err(CallError::Answer(source.into()));
        };
        Ok(Self {
            answer,
            bytes,
            range,
        })
    }

    /// The next piece; none at the end.
    pub async fn piece(&mut self) -> Result<Option<bytes::Bytes>, CallError> {
        let piece = self.answer.chunk().await;
        piece.map_err(|error| CallError::Answer(Box::new(error)))
    }
}

/// Reads `bytes 5-9/20`.
fn parse(text: &str) -> Option<(Range<u64>, u64)> {
    let (range, bytes) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((first..last.checked_add(1)?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_is_read_or_refused() {
        assert_eq!(parse("bytes 5-9/20"), Some((5..10, 20)));
        for text in ["bytes */20", "bytes 5-9", "5-9/20", "bytes 5-9/x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
