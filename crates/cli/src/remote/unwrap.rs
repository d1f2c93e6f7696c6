//! Extracts a result from a streamed API response.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::stream::try_unfold;
use results::Pieces;
use wire::Answer;

/// Text before the result. A step name cannot contain it, because its quotes are escaped.
const BEFORE: &[u8] = b",\"result\":";

/// A streamed response, and the bytes that were not passed on yet.
struct Coming {
    answer: Answer,
    held: BytesMut,
    has_begun: bool,
}

/// Returns the result inside `{"execution_id": …, "step": …, "result": …}`.
pub(super) fn unwrapped(answer: Answer) -> Pieces {
    let coming = Coming {
        answer,
        held: BytesMut::new(),
        has_begun: false,
    };
    Box::pin(try_unfold(coming, |mut coming| async move {
        let piece = coming.piece().await?;
        Ok(piece.map(|piece| (piece, coming)))
    }))
}

impl Coming {
    /// Returns the next chunk: all received bytes except the last, which may be the closing brace of the response.
    async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let chunk = self.answer.chunk().await.map_err(io::Error::other)?;
            let Some(chunk) = chunk else {
                return self.end();
            };
            self.held.extend_from_slice(&chunk);
            if !self.has_begun && !self.begin() {
                continue;
            }
            if self.held.len() > 1 {
                let ready = self.held.split_to(self.held.len() - 1);
                return Ok(Some(ready.freeze()));
            }
        }
    }

    /// Drops the text before the result, if it was received completely.
    fn begin(&mut self) -> bool {
        let mut windows = self.held.windows(BEFORE.len());
        let Some(place) = windows.position(|window| window == BEFORE) else {
            return false;
        };
        let _ = self.held.split_to(place + BEFORE.len());
        self.has_begun = true;
        true
    }

    fn end(&self) -> io::Result<Option<Bytes>> {
        if self.has_begun && &self.held[..] == b"}" {
            return Ok(None);
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
