//! SHA-256 of a body that arrives in chunks. A large body is hashed on another thread while more chunks arrive.

use std::sync::mpsc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::Error;

/// Smaller bodies are hashed faster than another thread wakes up.
const THREADED_BYTES_MIN: u64 = 512 * 1024;

/// Number of bytes to send to the thread at once: waking it for every chunk would take as long as hashing it.
const BATCH_BYTES: usize = 256 * 1024;

/// A streaming hash.
pub(crate) enum StreamHasher {
    Inline(Sha256),
    Threaded(HasherThread),
}

/// A hash on another thread. The thread ends when the sender is dropped, even if the hash is not needed any more.
pub(crate) struct HasherThread {
    batch: Vec<Bytes>,
    bytes: usize,
    sender: mpsc::Sender<Vec<Bytes>>,
    hash: JoinHandle<Sha256>,
}

impl StreamHasher {
    /// Starts the hash of a body of about this size.
    pub(crate) fn for_size(bytes: u64) -> Self {
        if bytes < THREADED_BYTES_MIN {
            return Self::Inline(Sha256::new());
        }
        let (sender, chunks) = mpsc::channel::<Vec<Bytes>>();
        let run = move || {
            let mut hash = Sha256::new();
            for chunk in chunks.into_iter().flatten() {
                hash.update(&chunk);
            }
            hash
        };
        Self::Threaded(HasherThread {
            batch: Vec::new(),
            bytes: 0,
            sender,
            hash: spawn_blocking(run),
        })
    }

    pub(crate) fn update(&mut self, chunk: Bytes) {
        match self {
            Self::Inline(hash) => hash.update(&chunk),
            Self::Threaded(thread) => {
                thread.bytes += chunk.len();
                thread.batch.push(chunk);
                if thread.bytes >= BATCH_BYTES {
                    thread.send_batch();
                }
            }
        }
    }

    /// Returns the hash of all chunks, in hex.
    pub(crate) async fn finish(self) -> Result<String, Error> {
        let hash = match self {
            Self::Inline(hash) => hash,
            Self::Threaded(mut thread) => {
                thread.send_batch();
                drop(thread.sender);
                let hash = thread.hash.await;
                hash.map_err(|error| Error::Interrupted(std::io::Error::other(error)))?
            }
        };
        Ok(hex::encode(hash.finalize()))
    }
}

impl HasherThread {
    fn send_batch(&mut self) {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.sender
            .send(batch)
            .expect("the thread receives until the sender is dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_has_the_same_hash_wherever_it_is_made() {
        let chunks: Vec<Bytes> = (0..40_u8).map(|n| vec![n; 20_000].into()).collect();
        let expected = crate::sha256(&chunks.concat());
        for bytes in [THREADED_BYTES_MIN - 1, THREADED_BYTES_MIN] {
            let mut hashing = StreamHasher::for_size(bytes);
            for chunk in &chunks {
                hashing.update(chunk.clone());
            }
            assert_eq!(hashing.finish().await.unwrap(), expected);
        }
    }
}
