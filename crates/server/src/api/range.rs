//! Parts of a body: parses the `Range` header and builds the partial response.

use std::ops::Range;

use ::results::BodyStream;
use axum::body::Body;
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::api::error::ApiError;

/// The requested range of a body of this size. A header of another form is ignored, as RFC 9110 requires.
pub(crate) fn parse_range_header(headers: &HeaderMap, bytes: u64) -> Result<Option<Range<u64>>, ApiError> {
    let header = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let Some(range) = header.and_then(|text| parse_range(text, bytes)) else {
        return Ok(None);
    };
    if range.start >= bytes || range.is_empty() {
        let detail = format!("the body has {bytes} bytes");
        let status = StatusCode::RANGE_NOT_SATISFIABLE;
        return Err(ApiError::new(status, "RANGE_NOT_SATISFIABLE", detail)
            .with_remedy("request bytes within the body, or omit `Range`"));
    }
    Ok(Some(range))
}

/// Parses `bytes=5-9`, `bytes=5-` and `bytes=-5`; rejects multiple ranges.
fn parse_range(text: &str, bytes: u64) -> Option<Range<u64>> {
    let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        let count: u64 = last.parse().ok()?;
        return Some(bytes.saturating_sub(count)..bytes);
    }
    let first: u64 = first.parse().ok()?;
    let end = if last.is_empty() {
        bytes
    } else {
        last.parse::<u64>().ok()?.saturating_add(1)
    };
    (first < end || last.is_empty()).then_some(first..end)
}

/// The response: the whole body or the requested part, streamed.
pub(crate) fn body_response(reading: BodyStream, content_type: &str, is_part: bool) -> Response {
    let Range { start, end } = reading.range;
    let head = [
        (CONTENT_TYPE, content_type.to_owned()),
        (CONTENT_LENGTH, (end - start).to_string()),
        (ACCEPT_RANGES, "bytes".to_owned()),
    ];
    let body = Body::from_stream(reading.chunks);
    if !is_part {
        return (head, body).into_response();
    }
    let last = end.saturating_sub(1);
    let range = format!("bytes {start}-{last}/{}", reading.bytes);
    let range = [(CONTENT_RANGE, range)];
    (StatusCode::PARTIAL_CONTENT, range, head, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_wanted(text: &'static str) -> Result<Option<Range<u64>>, ApiError> {
        let value = axum::http::HeaderValue::from_static(text);
        parse_range_header(&HeaderMap::from_iter([(RANGE, value)]), 20)
    }

    #[test]
    fn each_form_of_a_range_is_understood() {
        assert_eq!(parse_wanted("bytes=5-9").unwrap(), Some(5..10));
        assert_eq!(parse_wanted("bytes=5-").unwrap(), Some(5..20));
        assert_eq!(parse_wanted("bytes=-5").unwrap(), Some(15..20));
        assert_eq!(parse_wanted("bytes=-50").unwrap(), Some(0..20));
        assert_eq!(parse_wanted("bytes=19-400").unwrap(), Some(19..401));
    }

    #[test]
    fn what_is_no_range_is_as_good_as_none() {
        for text in ["lines=1-2", "bytes=9-5", "bytes=1-2,4-5", "bytes=x-"] {
            assert_eq!(parse_wanted(text).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn a_range_outside_is_refused() {
        for text in ["bytes=20-", "bytes=20-30", "bytes=-0"] {
            assert!(parse_wanted(text).is_err(), "{text}");
        }
    }
}
