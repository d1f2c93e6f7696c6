//! Decides by the beginning of a body whether compression pays off.

use tokio::io::AsyncReadExt as _;

use super::pack::compressing_reader;
use crate::storage_options::{Codec, Compression};

/// Smaller bodies are not compressed.
const BODY_BYTES_MIN: usize = 4 * 1024;
/// Number of bytes that are compressed as a test.
const SAMPLE_BYTES: usize = 64 * 1024;

/// Returns the codec for a body with this beginning.
pub(crate) async fn choose_codec(compression: Compression, head: &[u8]) -> Option<Codec> {
    match compression {
        Compression::Uncompressed => None,
        Compression::With(codec) => Some(codec),
        Compression::Auto => is_worth_compressing(head).await.then_some(Codec::Zstd),
    }
}

/// Whether compression saves at least 10 percent.
async fn is_worth_compressing(head: &[u8]) -> bool {
    if head.len() < BODY_BYTES_MIN {
        return false;
    }
    let block = &head[..head.len().min(SAMPLE_BYTES)];
    let mut packed = Vec::with_capacity(block.len());
    let packing = compressing_reader(Codec::Zstd, block).read_to_end(&mut packed).await;
    packing.is_ok_and(|count| count <= block.len() - block.len() / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::noise_bytes;

    #[tokio::test]
    async fn auto_compresses_what_shrinks_and_is_large_enough() {
        let auto = async |body: &[u8]| choose_codec(Compression::Auto, body).await;
        assert_eq!(auto(&[b'x'; BODY_BYTES_MIN]).await, Some(Codec::Zstd));
        assert_eq!(auto(&[b'x'; BODY_BYTES_MIN - 1]).await, None);
        assert_eq!(auto(&noise_bytes(SAMPLE_BYTES)).await, None);
    }
}
