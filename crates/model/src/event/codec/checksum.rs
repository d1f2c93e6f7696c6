//! The checksum of an append. It covers the text and the row's position in its log, so that it detects flipped bits and
//! rows that were moved.

use crate::event::codec::read::CodecError;
use crate::id::{ExecutionId, Seq};

/// The text before the checksum, which is the last field of a row.
pub(super) const CHECKSUM_KEY: &str = ",\"y\":";

/// The checksum of the text before [`CHECKSUM_KEY`].
pub(super) fn checksum(execution: ExecutionId, seq_first: Seq, text: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&execution.0.to_le_bytes());
    crc.update(&seq_first.0.to_le_bytes());
    crc.update(text);
    crc.finalize()
}

/// Compares a row with its checksum. Rows of older versions have no checksum and end with the list of events.
pub(super) fn verify_checksum(execution: ExecutionId, seq_first: Seq, body: &str) -> Result<(), CodecError> {
    if body.ends_with("]}") {
        return Ok(());
    }
    let (text, suffix) = body.rsplit_once(CHECKSUM_KEY).ok_or(CodecError::ChecksumMismatch)?;
    let stored_checksum = suffix.strip_suffix('}').and_then(|number| number.parse().ok());
    if stored_checksum == Some(checksum(execution, seq_first, text.as_bytes())) {
        Ok(())
    } else {
        Err(CodecError::ChecksumMismatch)
    }
}
