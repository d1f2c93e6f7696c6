//! A response body that is downloaded in chunks.

use std::ops::Range;

use reqwest::Response;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE};

use crate::client::CallError;

/// Download of a body or of a range of it.
#[derive(Debug)]
pub struct Download {
    response: Response,
    /// Size of the whole body.
    pub bytes: u64,
    /// Range that the server sends.
    pub range: Range<u64>,
}

impl Download {
    pub(crate) fn new(response: Response) -> Result<Self, CallError> {
        let header = |name| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let content_range = match header(CONTENT_RANGE) {
            Some(text) => parse_content_range(&text),
            None => header(CONTENT_LENGTH)
                .and_then(|text| text.parse().ok())
                .map(|bytes| (0..bytes, bytes)),
        };
        let Some((range, bytes)) = content_range else {
            let source = "the response has no content length";
            return Err(CallError::InvalidResponse(source.into()));
        };
        Ok(Self { response, bytes, range })
    }

    /// Returns the next chunk; `None` at the end.
    pub async fn next_chunk(&mut self) -> Result<Option<bytes::Bytes>, CallError> {
        let chunk = self.response.chunk().await;
        chunk.map_err(|error| CallError::InvalidResponse(Box::new(error)))
    }
}

/// Parses a `Content-Range` such as `bytes 5-9/20`.
fn parse_content_range(text: &str) -> Option<(Range<u64>, u64)> {
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
        assert_eq!(parse_content_range("bytes 5-9/20"), Some((5..10, 20)));
        for text in ["bytes */20", "bytes 5-9", "5-9/20", "bytes 5-9/x"] {
            assert_eq!(parse_content_range(text), None, "{text}");
        }
    }
}
