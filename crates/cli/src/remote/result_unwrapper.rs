//! Extracts a result from a streamed API response.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::stream::try_unfold;
use results::ByteStream;
use wire::HttpResponse;

/// Text before the result. A step name cannot contain it, because its quotes are escaped.
const RESULT_PREFIX: &[u8] = b",\"result\":";

/// A streamed response, and the bytes that were not passed on yet.
struct ResultUnwrapper {
    response: HttpResponse,
    buffer: BytesMut,
    has_started: bool,
}

/// Returns the result inside `{"execution_id": …, "step": …, "result": …}`.
pub(super) fn unwrap_result(response: HttpResponse) -> ByteStream {
    let coming = ResultUnwrapper {
        response,
        buffer: BytesMut::new(),
        has_started: false,
    };
    Box::pin(try_unfold(coming, |mut coming| async move {
        let piece = coming.next_chunk().await?;
        Ok(piece.map(|piece| (piece, coming)))
    }))
}

impl ResultUnwrapper {
    /// Returns the next chunk: all received bytes except the last, which may be the closing brace of the response.
    async fn next_chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let chunk = self.response.chunk().await.map_err(io::Error::other)?;
            let Some(chunk) = chunk else {
                return self.check_end();
            };
            self.buffer.extend_from_slice(&chunk);
            if !self.has_started && !self.skip_prefix() {
                continue;
            }
            if self.buffer.len() > 1 {
                let ready = self.buffer.split_to(self.buffer.len() - 1);
                return Ok(Some(ready.freeze()));
            }
        }
    }

    /// Drops the text before the result, if it was received completely.
    fn skip_prefix(&mut self) -> bool {
        let mut windows = self.buffer.windows(RESULT_PREFIX.len());
        let Some(start) = windows.position(|window| window == RESULT_PREFIX) else {
            return false;
        };
        let _ = self.buffer.split_to(start + RESULT_PREFIX.len());
        self.has_started = true;
        true
    }

    fn check_end(&self) -> io::Result<Option<Bytes>> {
        if self.has_started && &self.buffer[..] == b"}" {
            return Ok(None);
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
