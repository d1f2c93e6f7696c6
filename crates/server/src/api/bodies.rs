//! Bodies: stores and returns them for workers without a body store of their own, as streams.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body as RequestBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::TryStreamExt;
use model::result_ref::ResultRef;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::io::StreamReader;
use wire::api::StoreBodyResponse;

use crate::api::access::{Authorized, Work};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::JsonBody;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json, range};
use crate::error::Error;

/// Maximum size of a body.
const BODY_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Store a body. It is durable when the response arrives.
#[utoipa::path(put, path = "/api/bodies", tag = "workers",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "the location of the body", body = StoreBodyResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn put(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    body: RequestBody,
) -> ApiResult<StoreBodyResponse> {
    let chunks = body.into_data_stream().map_err(io::Error::other);
    let mut reader = SizeLimitedReader {
        reader: StreamReader::new(chunks),
        remaining_bytes: BODY_BYTES_MAX,
        is_exceeded: false,
    };
    let source = ::results::BodySource::Stream(&mut reader);
    let stored = api.server.shared.bodies.put(source).await;
    if reader.is_exceeded {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let detail = format!("body exceeds {BODY_BYTES_MAX} bytes");
        return Err(
            ApiError::new(status, "BODY_TOO_LARGE", detail).with_remedy("return the result of the task in parts")
        );
    }
    let stored = stored.map_err(Error::from)?;
    Ok(Json(StoreBodyResponse {
        sha256: stored.sha256,
        bytes: stored.bytes,
        store: stored.store.to_owned(),
        location: stored.location,
    }))
}

/// A reader that fails when the size limit is exceeded, so that nothing is stored.
struct SizeLimitedReader<R> {
    reader: R,
    remaining_bytes: u64,
    is_exceeded: bool,
}

impl<R: AsyncRead + Unpin> AsyncRead for SizeLimitedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        let read = (buffer.filled().len() - before) as u64;
        let Some(left) = self.remaining_bytes.checked_sub(read) else {
            self.is_exceeded = true;
            // A read that fails must not return bytes.
            buffer.set_filled(before);
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        };
        self.remaining_bytes = left;
        Poll::Ready(Ok(()))
    }
}

/// Read a body by its reference, or the part that the `Range` header requests.
#[utoipa::path(post, path = "/api/bodies/read", tag = "workers", request_body(content = Object),
    responses((status = 200, description = "the bytes of the body", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "the requested bytes", content_type = "application/octet-stream", body = Vec<u8>),
        ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn read(
    State(api): State<ApiState>,
    _caller: Authorized<Work>,
    headers: HeaderMap,
    JsonBody(reference): JsonBody<ResultRef>,
) -> Result<Response, ApiError> {
    let range = range::parse_range_header(&headers, reference.meta.bytes)?;
    let is_part = range.is_some();
    let body = api.server.shared.bodies.read(&reference, range).await;
    let body = body.map_err(Error::from)?;
    Ok(range::body_response(body, "application/octet-stream", is_part))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_that_just_fits_passes_and_one_that_does_not_breaks_off() {
        for (remaining_bytes, is_exceeded) in [(5, false), (4, true)] {
            let mut bounded = SizeLimitedReader {
                reader: &b"hello"[..],
                remaining_bytes,
                is_exceeded: false,
            };
            let read = bounded.read_to_end(&mut Vec::new()).await;
            assert_eq!((read.is_err(), bounded.is_exceeded), (is_exceeded, is_exceeded));
        }
    }
}
